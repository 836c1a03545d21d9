//! The registry of copy routines: one row for each, with the CPU feature that it needs.

#[cfg(target_arch = "x86_64")]
use super::x86_64;
use crate::error::WorkError;
use std::ffi::c_void;

/// Copies `bytes` bytes from `from` to `to` and returns `to`; the two ranges must not overlap. The type equals memcpy's, so the C
/// library's memcpy can be one of the routines.
pub(super) type Copy =
    unsafe extern "C" fn(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;

/// One way to copy.
pub(super) struct Routine {
    /// The value of the parameter `path`.
    pub(super) name: &'static str,
    pub(super) copy: Copy,
    needs: Option<Feature>,
}

/// A feature that not every CPU of the architecture has.
struct Feature {
    name: &'static str,
    /// Whether the CPU has the feature and the operating system saves its registers.
    present: fn() -> bool,
}

/// A table of routines, the accepted values of `path`, and the text that explains them.
macro_rules! registry {
    ($first:literal, $first_copy:expr, $first_needs:expr, $first_help:literal;
     $($name:literal, $copy:expr, $needs:expr, $help:literal;)*) => {
        /// Every routine, in the order in which lists show them.
        pub(super) static ROUTINES: &[Routine] = &[
            Routine { name: $first, copy: $first_copy, needs: $first_needs },
            $(Routine { name: $name, copy: $copy, needs: $needs },)*
        ];
        /// The names of all routines.
        pub(super) const NAMES: &str = concat!($first $(, "|", $name)*);
        /// A description of each routine.
        pub(super) const HELP: &str = concat!(
            "the routine that copies; --in-process exchanges it. ",
            $first, ": ", $first_help $(, "; ", $name, ": ", $help)*
        );
    };
}

#[cfg(target_arch = "x86_64")]
const AVX2: Option<Feature> =
    Some(Feature { name: "avx2", present: || std::is_x86_feature_detected!("avx2") });
#[cfg(target_arch = "x86_64")]
const AVX512: Option<Feature> =
    Some(Feature { name: "avx512f", present: || std::is_x86_feature_detected!("avx512f") });

#[cfg(target_arch = "x86_64")]
registry! {
    "libc", libc::memcpy, None, "memcpy of the C library";
    "rep-movsb", x86_64::rep_movsb, None, "one string instruction";
    "rep-movsq", x86_64::rep_movsq, None,
        "two string instructions, for whole words and for the tail, which may be empty";
    "rep-movsq-branch", x86_64::rep_movsq_branch, None, "the same, an empty tail passed over";
    "unrolled-4", x86_64::unrolled_4, None, "4 words a turn";
    "unrolled-8", x86_64::unrolled_8, None, "8 words a turn";
    "sse2", x86_64::sse2, None, "64 bytes a turn in 16-byte registers";
    "sse2-prefetch", x86_64::sse2_prefetch, None, "the same, 512 bytes fetched ahead";
    "avx2", x86_64::avx2, AVX2, "128 bytes a turn in 32-byte registers";
    "avx512", x86_64::avx512, AVX512, "256 bytes a turn in 64-byte registers";
    "non-temporal", x86_64::non_temporal, None, "64 bytes a turn, stored past the caches";
}

#[cfg(not(target_arch = "x86_64"))]
registry! {
    "libc", libc::memcpy, None, "memcpy of the C library";
}

/// Returns the routine of that name, if this CPU can execute it.
///
/// # Errors
/// [`WorkError::Feature`]: the CPU lacks the named feature; [`WorkError::NoPath`]: no routine has this name.
pub(super) fn find(name: &str) -> Result<&'static Routine, WorkError> {
    let Some(routine) = ROUTINES.iter().find(|routine| routine.name == name) else {
        return Err(WorkError::NoPath { path: name.into(), known: NAMES });
    };
    match &routine.needs {
        Some(feature) if !(feature.present)() => {
            Err(WorkError::Feature { path: routine.name, feature: feature.name })
        }
        _ => Ok(routine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_named_with_its_routine() {
        let error = WorkError::Feature { path: "avx512", feature: "avx512f" }.to_string();
        assert!(error.contains("path=avx512 needs the CPU feature avx512f"), "{error}");
        let error = find("rep-movsx").map(|routine| routine.name).unwrap_err().to_string();
        assert!(error.contains("'rep-movsx'") && error.contains("libc"), "{error}");
    }

    #[test]
    fn every_routine_is_offered_and_explained_once() {
        let names: Vec<&str> = NAMES.split('|').collect();
        assert_eq!(names, ROUTINES.iter().map(|routine| routine.name).collect::<Vec<_>>());
        for name in &names {
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
            assert!(HELP.contains(&format!(" {name}: ")), "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_routine_copies_exactly(
            bytes in 0..1500usize, from in 0..80usize, to in 0..80usize, seed: u64
        ) {
            let mut random = crate::random::Random::seeded(seed);
            let source: Vec<u8> = (0..2000).map(|_| random.draw() as u8).collect();
            for routine in ROUTINES {
                if find(routine.name).is_err() {
                    continue;
                }
                let mut copied = vec![0xa5; 2000];
                // SAFETY: each range is inside its own vector.
                let returned = unsafe {
                    (routine.copy)(
                        copied.as_mut_ptr().add(to).cast(),
                        source.as_ptr().add(from).cast(),
                        bytes,
                    )
                };
                let mut expected = vec![0xa5; 2000];
                expected[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
                proptest::prop_assert_eq!(returned as usize, copied.as_ptr() as usize + to);
                proptest::prop_assert!(copied == expected, "{}: {} bytes", routine.name, bytes);
            }
        }
    }
}
