//! The table of kernels, which the C files fill at link time.

use opcost_record::gauge::KernelName;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

/// Bits of `needs`, as in `kernels/gauge.h`.
const NEEDS_L3: u64 = 1;
const NEEDS_V3: u64 = 2;

/// Bytes of the far area: a part that kernels read, and a part behind it that evicts the first from the last cache.
const FAR_BYTES: usize = (1 << 20) * 64;
const BEHIND_BYTES: usize = 48 << 20;

/// A row of the table, as in `kernels/gauge.h`.
#[repr(C)]
struct Row {
    class: *const c_char,
    name: *const c_char,
    build: *const c_char,
    needs: u64,
    run: extern "C" fn(u64) -> u64,
}

unsafe extern "C" {
    // The linker names the ends of a section whose name is an identifier (ld, "Orphan Sections").
    static __start_gauge_kernels: Row;
    static __stop_gauge_kernels: Row;
    fn gauge_prepare(far: *mut u64);
    fn gauge_refresh(repetition: u64);
    fn gauge_warm_l3();
}

/// A kernel that can run. Kernels exist only once all data is prepared.
pub(crate) struct Kernel {
    pub(crate) name: KernelName,
    needs: u64,
    run: extern "C" fn(u64) -> u64,
}

impl Kernel {
    /// The instruction set that the kernel needs beyond x86-64-v2, if this CPU lacks it.
    pub(crate) fn lacks(&self) -> Option<&'static str> {
        (self.needs & NEEDS_V3 != 0 && !has_v3()).then_some("x86-64-v3")
    }

    /// Puts caches and registers into the state that the kernel expects; not timed.
    pub(crate) fn before(&self) {
        clear_uppers();
        if self.needs & NEEDS_L3 != 0 {
            warm_l3();
        }
    }

    /// Runs the kernel once. Returns its checksum, which depends only on the round.
    #[inline(always)]
    pub(crate) fn run(&self, round: u64) -> u64 {
        (self.run)(round)
    }
}

/// Whether this CPU has the instructions of x86-64-v3 that kernels use.
pub(crate) fn has_v3() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("movbe")
}

/// Clears the upper halves of vector registers. While they hold another kernel's values, each SSE instruction merges them and waits
/// for them, which turns independent work into a chain (AMD 57647, "XMM Register Merge Optimization"; Intel 248966, "Mixing AVX
/// Code with SSE Code").
pub(crate) fn clear_uppers() {
    if is_x86_feature_detected!("avx") {
        // SAFETY: the CPU has the instruction; all vector registers are named as changed.
        unsafe {
            std::arch::asm!(
                "vzeroupper",
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nomem, nostack, preserves_flags)
            );
        }
    }
}

/// Reads the L3 area, so that its first half is in L3 only.
pub(crate) fn warm_l3() {
    // SAFETY: reads an array of its own.
    unsafe { gauge_warm_l3() };
}

/// Prepares the data and returns all kernels, file by file within each build.
pub(crate) fn kernels() -> &'static [Kernel] {
    static KERNELS: OnceLock<Vec<Kernel>> = OnceLock::new();
    KERNELS.get_or_init(|| {
        // Large pages would hide the cost of small pages, and a guest may have no large pages.
        // SAFETY: PR_SET_THP_DISABLE takes four integers (prctl(2)).
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        let far = vec![0_u64; (FAR_BYTES + BEHIND_BYTES) / 8 + 512].leak();
        for page in far.chunks_mut(512) {
            // A page never written is the kernel's shared page of zeros, which is always in L1.
            // SAFETY: a word of a slice that this function owns.
            unsafe { std::ptr::write_volatile(&mut page[0], 0) };
        }
        let at = far.as_ptr().align_offset(4096);
        // SAFETY: the area is never freed and is larger than the GAUGE_FAR_LINES lines that kernels use behind an aligned begin; no
        // kernel runs meanwhile, since `get_or_init` lets one thread in.
        unsafe { gauge_prepare(far.as_mut_ptr().add(at)) };
        // SAFETY: the section is an array of rows, which C wrote with the same layout, between the two symbols.
        let rows = unsafe {
            let (start, stop) = (&raw const __start_gauge_kernels, &raw const __stop_gauge_kernels);
            std::slice::from_raw_parts(start, stop.offset_from(start) as usize)
        };
        rows.iter().map(kernel).collect()
    })
}

fn kernel(row: &Row) -> Kernel {
    let text = |text: *const c_char| {
        // SAFETY: each is a literal of C, so it ends with a zero byte and lives as long as the program.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Kernel {
        name: KernelName { class: text(row.class), kernel: text(row.name), build: text(row.build) },
        needs: row.needs,
        run: row.run,
    }
}

/// Makes the random data of a repetition, whose rounds are `2 * repetition` and `2 * repetition + 1`.
pub(crate) fn refresh(repetition: u64) {
    // SAFETY: writes arrays of its own; kernels run on this thread.
    unsafe { gauge_refresh(repetition) };
}

/// The rounds whose checksums are known: the rounds of a marked run.
pub(crate) const ROUNDS: [u64; 2] = [0, 1];

/// The sums of the checksums of [`ROUNDS`], by the kernel's name, from `kernels/checksums.txt`.
pub(crate) fn expected() -> BTreeMap<&'static str, u64> {
    include_str!("../kernels/checksums.txt")
        .lines()
        .filter_map(|line| {
            let (name, sum) = line.split_once(' ')?;
            Some((name, u64::from_str_radix(sum, 16).ok()?))
        })
        .collect()
}

/// A kernel that computed a wrong sum.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("kernel {kernel} computed {found:016x}, and should {}; {why}", expected.map_or("be listed in checksums.txt".into(), |sum| format!("compute {sum:016x}")))]
pub(crate) struct Wrong {
    kernel: String,
    expected: Option<u64>,
    found: u64,
    why: &'static str,
}

/// Checks the sum that a kernel computed.
///
/// # Errors
/// The sum differs from that of all builds.
pub(crate) fn check(
    name: &KernelName,
    found: u64,
    expected: &BTreeMap<&str, u64>,
) -> Result<(), Wrong> {
    let sum = expected.get(name.kernel.as_str()).copied();
    if sum == Some(found) {
        return Ok(());
    }
    let why = "the compiler or the machine is at fault: build opcost again, and report it if that does not help";
    Err(Wrong { kernel: name.region(), expected: sum, found, why })
}

/// Serialises tests: kernels and loops share their scratch memory.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// GAUGE_CHECKSUMS=write refreshes the file of checksums.
    #[test]
    fn every_build_of_a_kernel_computes_the_same() {
        let _alone = alone();
        let mut sums = BTreeMap::new();
        for kernel in kernels().iter().filter(|kernel| kernel.lacks().is_none()) {
            let found =
                ROUNDS.iter().fold(0_u64, |sum, round| sum.wrapping_add(kernel.run(*round)));
            let known = *sums.entry(kernel.name.kernel.clone()).or_insert(found);
            assert_eq!(known, found, "{} differs from another build", kernel.name.region());
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/checksums.txt");
        if std::env::var_os("GAUGE_CHECKSUMS").is_some() {
            let lines = sums.iter().map(|(name, sum)| format!("{name} {sum:016x}\n"));
            std::fs::write(path, lines.collect::<String>()).unwrap();
            return;
        }
        for kernel in kernels() {
            let Some(found) = sums.get(&kernel.name.kernel) else { continue };
            assert_eq!(check(&kernel.name, *found, &expected()), Ok(()));
        }
    }

    #[test]
    fn a_wrong_checksum_names_the_kernel_and_both_sums() {
        let kernel = &kernels()[0];
        let known = expected()[kernel.name.kernel.as_str()];
        let error = check(&kernel.name, known ^ 1, &expected()).unwrap_err().to_string();
        assert!(error.contains(&kernel.name.region()), "{error}");
        assert!(error.contains(&format!("{known:016x}")), "{error}");
        let unknown = KernelName { kernel: "none".into(), ..kernel.name.clone() };
        assert!(check(&unknown, 1, &expected()).unwrap_err().to_string().contains("checksums.txt"));
    }

    #[test]
    fn there_are_many_kernels_in_many_classes_and_each_has_one_name() {
        let names: BTreeSet<_> = kernels().iter().map(|it| &it.name.kernel).collect();
        let classes: BTreeSet<_> = kernels().iter().map(|it| &it.name.class).collect();
        assert!(names.len() >= 100, "{} kernels", names.len());
        assert!(classes.len() >= 15, "{classes:?}");
        let all: BTreeSet<_> = kernels().iter().map(|it| &it.name).collect();
        assert_eq!(all.len(), kernels().len(), "two kernels have one name");
        assert!(expected().keys().all(|name| names.iter().any(|it| it == name)), "an old checksum");
    }

    #[test]
    fn rounds_after_the_first_depend_on_nothing_before() {
        let _alone = alone();
        // A far kernel continues where it stopped; its sum does not depend on that place.
        for kernel in kernels().iter().filter(|kernel| kernel.lacks().is_none()) {
            let first = kernel.run(7);
            kernel.run(3);
            assert_eq!(kernel.run(7), first, "{}", kernel.name.region());
        }
    }
}
