//! Where and when samples were taken, and whether code of this computer can be the code that was sampled.
//!
//! A build id settles that. Without one, a path alone names files on every computer, so opcost takes a file only if nothing speaks
//! against it.

use crate::space::{CodeFile, CodeKind};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// Where and when samples were taken, as far as the recording says; by default here and now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Origin {
    /// The computer's name.
    pub host: Option<String>,
    /// The kernel's version.
    pub kernel_release: Option<String>,
    /// The time when the recording was complete.
    pub recorded_at: Option<SystemTime>,
    /// Whether the user vouches for the files.
    pub trusted: bool,
}

impl Origin {
    /// Whether the code of a file that is here now may not be the code that was sampled: no build id confirms it, and it is another
    /// computer's, another kernel's, or has changed since.
    pub(crate) fn doubts(&self, file: &CodeFile) -> bool {
        if self.trusted || file.build_id.is_some() {
            return false;
        }
        let other = |recorded: &Option<String>, place: &str| {
            let here = fs::read_to_string(place).ok();
            recorded.as_deref().zip(here.as_deref()).is_some_and(|(one, two)| one != two.trim())
        };
        let other_host = || other(&self.host, "/proc/sys/kernel/hostname");
        match file.kind {
            CodeKind::Unmapped => false,
            CodeKind::Kernel | CodeKind::Vdso => {
                other_host() || other(&self.kernel_release, "/proc/sys/kernel/osrelease")
            }
            CodeKind::Anonymous { .. } => other_host(),
            CodeKind::File => other_host() || self.has_changed(file),
        }
    }

    /// Whether a file has changed since the recording, or another one took its path.
    fn has_changed(&self, file: &CodeFile) -> bool {
        let Some(recorded_at) = self.recorded_at else { return false };
        let Ok(found) = fs::metadata(OsStr::from_bytes(&file.path)) else { return false };
        // Packages bring their files' times of modification along; the time of change is the kernel's.
        let time = |seconds: i64, ns: i64| {
            let time = Duration::new(seconds.try_into().ok()?, ns.try_into().ok()?);
            SystemTime::UNIX_EPOCH.checked_add(time)
        };
        let modified = time(found.mtime(), found.mtime_nsec());
        let changed = time(found.ctime(), found.ctime_nsec());
        modified.max(changed).is_some_and(|latest| latest > recorded_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(kind: CodeKind, path: &str) -> CodeFile {
        CodeFile { kind, path: path.into(), build_id: None }
    }

    #[test]
    fn code_of_another_computer_or_time_is_doubted_unless_a_build_id_settles_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work");
        fs::write(&path, "program").unwrap();
        let program = file(CodeKind::File, path.to_str().unwrap());
        let kernel = file(CodeKind::Kernel, "[kernel]");
        let here = |name: &str| Some(fs::read_to_string(name).unwrap().trim().to_string());
        let host = here("/proc/sys/kernel/hostname");
        let kernel_release = here("/proc/sys/kernel/osrelease");
        let later = SystemTime::now() + Duration::from_secs(60);
        let same = Origin { host, kernel_release, recorded_at: Some(later), trusted: false };
        for origin in [&Origin::default(), &same] {
            assert!(!origin.doubts(&program) && !origin.doubts(&kernel), "{origin:?}");
        }
        let other_host = Origin { host: Some("elsewhere.invalid".into()), ..same.clone() };
        assert!(other_host.doubts(&program) && other_host.doubts(&kernel));
        assert!(other_host.doubts(&file(CodeKind::Anonymous { pid: 1 }, "//anon")));
        let other_kernel = Origin { kernel_release: Some("2.6.9".into()), ..same.clone() };
        assert!(!other_kernel.doubts(&program) && other_kernel.doubts(&kernel));
        let before = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        let earlier = Origin { recorded_at: before, ..same };
        assert!(earlier.doubts(&program) && !earlier.doubts(&kernel));
        for origin in [other_host, earlier] {
            let trusted = Origin { trusted: true, ..origin.clone() };
            assert!(!trusted.doubts(&program) && !trusted.doubts(&kernel));
            assert!(!origin.doubts(&CodeFile { build_id: Some(vec![1]), ..program.clone() }));
        }
    }
}
