//! The `--disk` argument: its text, and its form in a plan.

use super::error::DiskError;
use super::file_system::{FILE_SYSTEMS, FileSystem};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The smallest size, MiB: a journal has at least 1024 blocks (mke2fs(8), -J).
const SIZE_MIB_MIN: u32 = 16;

/// A disk of a guest.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DiskSpec {
    /// The name of the file system.
    pub file_system: String,
    /// Mount options, separated by commas; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// The size, MiB.
    pub size_mib: u32,
}

impl DiskSpec {
    /// Parses `FILESYSTEM[,OPTION…]:SIZE`, for example `ext4,data=journal:64M`.
    ///
    /// # Errors
    /// Usage errors: a malformed argument, an unknown file system, a wrong size.
    pub fn parse(text: &str) -> Result<DiskSpec, DiskError> {
        let malformed = |what: String| DiskError::Spec { text: text.to_string(), what };
        let example = "write for example ext4:64M or ext4,data=journal:64M";
        let Some((words, size)) = text.rsplit_once(':') else {
            return Err(malformed(format!("it has no size; {example}")));
        };
        let (name, options) = words.split_once(',').unwrap_or((words, ""));
        if FileSystem::find(name).is_none() {
            let names: Vec<&str> = FILE_SYSTEMS.iter().map(|row| row.name).collect();
            return Err(malformed(format!(
                "no file system '{name}' can be made here; there are {}",
                names.join(", ")
            )));
        }
        let is_option = |option: &str| {
            !option.is_empty() && option.chars().all(|c| c.is_ascii_graphic() && c != ':')
        };
        if words.contains(',') && !options.split(',').all(is_option) {
            return Err(malformed(format!("'{options}' are no mount options; {example}")));
        }
        let (digits, scale) = match size.strip_suffix('G') {
            Some(digits) => (digits, 1 << 10),
            None => (size.strip_suffix('M').unwrap_or_default(), 1),
        };
        let size_mib = digits.parse().ok().and_then(|size: u32| size.checked_mul(scale));
        let size_mib = size_mib
            .ok_or_else(|| malformed(format!("'{size}' is no size in M or G; {example}")))?;
        if size_mib < SIZE_MIB_MIN {
            return Err(malformed(format!("the least is {SIZE_MIB_MIN}M")));
        }
        Ok(DiskSpec { file_system: name.into(), options: options.into(), size_mib })
    }

    /// The size, KiB.
    pub fn size_kib(&self) -> u64 {
        u64::from(self.size_mib) << 10
    }

    /// Checks that the disk takes at most half of a machine's memory: the kernel keeps a second
    /// copy of data that was read and written.
    ///
    /// # Errors
    /// [`DiskError::Memory`].
    pub fn check_memory(&self, memory_mib: u32) -> Result<(), DiskError> {
        if self.size_mib <= memory_mib / 2 {
            return Ok(());
        }
        Err(DiskError::Memory {
            spec: self.clone(),
            memory_mib,
            least_mib: self.size_mib.saturating_mul(2),
        })
    }
}

impl fmt::Display for DiskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file_system)?;
        if !self.options.is_empty() {
            write!(f, ",{}", self.options)?;
        }
        write!(f, ":{}M", self.size_mib)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_written() {
        let disk = |file_system: &str, options: &str, size_mib| DiskSpec {
            file_system: file_system.into(),
            options: options.into(),
            size_mib,
        };
        for (text, expected, written) in [
            ("ext4:64M", disk("ext4", "", 64), "ext4:64M"),
            ("ext2:1G", disk("ext2", "", 1024), "ext2:1024M"),
            (
                "ext4,data=journal,noatime:16M",
                disk("ext4", "data=journal,noatime", 16),
                "ext4,data=journal,noatime:16M",
            ),
        ] {
            let read = DiskSpec::parse(text).unwrap();
            assert_eq!((&read, read.to_string().as_str()), (&expected, written));
            assert_eq!(DiskSpec::parse(written).unwrap(), read);
            let json = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<DiskSpec>(&json).unwrap(), read);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        for (text, what) in [
            ("ext4", "it has no size; write for example ext4:64M"),
            ("", "it has no size"),
            ("ext5:64M", "no file system 'ext5' can be made here; there are ext4, ext3, ext2"),
            (":64M", "no file system '' can be made here; there are ext4, ext3, ext2"),
            ("xfs:64M", "there are ext4, ext3, ext2"),
            ("ext4:64", "'64' is no size in M or G"),
            ("ext4:M", "'M' is no size"),
            ("ext4:-1M", "'-1M' is no size"),
            ("ext4:9999999999G", "is no size"),
            ("ext4:8M", "the least is 16M"),
            ("ext4,:64M", "'' are no mount options"),
            ("ext4,a b:64M", "'a b' are no mount options"),
            ("ext4,a,,b:64M", "'a,,b' are no mount options"),
            ("ext4,a\n:64M", "are no mount options"),
        ] {
            let error = DiskSpec::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--disk {text}: ")), "{error}");
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_disk_takes_half_of_the_memory_at_most() {
        let disk = DiskSpec::parse("ext4:257M").unwrap();
        assert_eq!(disk.check_memory(514), Ok(()));
        assert_eq!(
            disk.check_memory(512).unwrap_err().to_string(),
            "a disk of 257 MiB is more than half of the machine's 512 MiB, which have to hold it \
             and what the kernel keeps of it: make it smaller, or give --memory-mib 514"
        );
    }
}
