//! Results of validations in files: those made on this computer, and those that ship with opcost.
//!
//! A file is for one core, one processor and one version of counting. A core with changed figures counts as another core.

use crate::plan::Validation;
use opcost_record::emulation::COUNTING_VERSION;
use opcost_record::gauge::Cpu;
use opcost_sys::xdg;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The version of the files' form.
const SCHEMA: u32 = 1;
/// The results that ship: made by `opcost doctor --validate` when the cores that ship last changed.
const SHIPPED: [&str; 1] = [include_str!("zen4.toml")];

/// A validation with the conditions for which it is valid.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    schema: u32,
    /// The core's name.
    pub core: String,
    /// Identifies the core by its figures.
    pub fingerprint: String,
    /// The version of counting.
    pub counting: u32,
    /// The time of the validation, seconds since 1970.
    pub made_unix_s: u64,
    /// The result.
    pub validation: Validation,
}

impl Kept {
    /// Creates the result of a new validation.
    pub fn new(core: &str, fingerprint: &str, made_unix_s: u64, validation: Validation) -> Kept {
        Kept {
            schema: SCHEMA,
            core: core.into(),
            fingerprint: fingerprint.into(),
            counting: COUNTING_VERSION,
            made_unix_s,
            validation,
        }
    }

    /// Reads a file's text; `None` if it has another form.
    pub fn parse(text: &str) -> Option<Kept> {
        toml::from_str(text).ok().filter(|kept: &Kept| kept.schema == SCHEMA)
    }

    /// The text of a file.
    pub fn format(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    fn is_of(&self, fingerprint: &str) -> bool {
        self.fingerprint == fingerprint && self.counting == COUNTING_VERSION
    }
}

/// The folder of this user's validations; `None` if the environment names no home, or if another user owns the folder.
pub fn folder() -> Option<PathBuf> {
    xdg::cache_folder().ok().map(|cache| cache.join("validations"))
}

/// Stores a validation in a folder, replacing an earlier one of the same core, processor and version.
///
/// # Errors
/// The system's error.
pub fn keep(folder: &Path, kept: &Kept, cpu: &Cpu) -> io::Result<PathBuf> {
    let Cpu { vendor, family, model, .. } = cpu;
    let plain: String = vendor.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let name = format!("{}-{}-{plain}-{family}-{model}.toml", kept.fingerprint, kept.counting);
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    // Written under another name first, so that a reader finds either the old or the new file.
    let new = path.with_extension("new");
    fs::write(&new, kept.format())?;
    fs::rename(&new, &path)?;
    Ok(path)
}

/// The known errors of a core: the latest validation on this computer, or else the one that ships.
pub fn find(fingerprint: &str) -> Option<Validation> {
    find_in(folder().as_deref(), fingerprint)
}

fn find_in(folder: Option<&Path>, fingerprint: &str) -> Option<Validation> {
    let entries = folder.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let texts = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let own = texts.filter_map(|text| Kept::parse(&text)).filter(|kept| kept.is_of(fingerprint));
    let last = own.max_by_key(|kept| kept.made_unix_s);
    let shipped =
        || SHIPPED.iter().filter_map(|text| Kept::parse(text)).find(|it| it.is_of(fingerprint));
    last.or_else(shipped).map(|kept| kept.validation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Accuracy;
    use opcost_core_model::Core;

    fn validation(kernels: usize) -> Validation {
        let high = Accuracy { error_median: 0.0625, error_p90: 0.25, kernels };
        Validation {
            validated_on: "a \"quoted\" processor".into(),
            kernels,
            decides_from_ratio: f64::MAX,
            high: Some(high),
            medium: None,
            low: None,
        }
    }

    fn cpu(model: u32) -> Cpu {
        Cpu { vendor: "Genuine/Intel".into(), family: 6, model, ..Cpu::default() }
    }

    #[test]
    fn the_newest_of_the_core_is_found_and_no_other() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("validations");
        let find = |fingerprint: &str| find_in(Some(&folder), fingerprint);
        assert_eq!(find("aa"), None, "there is no folder");
        for (fingerprint, made, model, kernels) in
            [("aa", 5, 1, 10), ("aa", 7, 2, 20), ("aa", 6, 3, 30), ("bb", 9, 1, 40)]
        {
            let kept = Kept::new("made", fingerprint, made, validation(kernels));
            let path = keep(&folder, &kept, &cpu(model)).unwrap();
            assert_eq!(path.parent(), Some(folder.as_path()), "{}", path.display());
        }
        assert_eq!(find("aa"), Some(validation(20)));
        assert_eq!(find("cc"), None);
        // A second validation on the same processor replaces the earlier file.
        keep(&folder, &Kept::new("made", "aa", 8, validation(50)), &cpu(1)).unwrap();
        assert_eq!(find("aa"), Some(validation(50)));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
    }

    #[test]
    fn what_is_damaged_or_of_another_version_is_no_validation() {
        let temporary = tempfile::tempdir().unwrap();
        let kept = Kept::new("made", "aa", 1, validation(1));
        assert_eq!(Kept::parse(&kept.format()), Some(kept.clone()));
        for (name, text) in [
            ("other.toml", kept.format().replace("schema = 1", "schema = 2")),
            ("cut.toml", kept.format().replace("kernels = 1", "")),
            ("old.toml", Kept { counting: COUNTING_VERSION - 1, ..kept.clone() }.format()),
        ] {
            fs::write(temporary.path().join(name), text).unwrap();
        }
        assert_eq!(find_in(Some(temporary.path()), "aa"), None);
        assert_eq!(find_in(None, "aa"), None);
    }

    #[test]
    fn what_ships_is_of_a_core_that_ships() {
        for text in SHIPPED {
            let kept = Kept::parse(text).expect("a file that ships cannot be read");
            let core = Core::shipped(&kept.core).expect("no such core ships");
            let again = "run `opcost doctor --validate --core NAME` again on a quiet machine and copy the file that it names";
            assert_eq!(core.fingerprint(), kept.fingerprint, "{} changed: {again}", kept.core);
            assert_eq!(kept.counting, COUNTING_VERSION, "opcost counts otherwise: {again}");
            assert_eq!(find_in(None, &kept.fingerprint), Some(kept.validation));
        }
    }
}
