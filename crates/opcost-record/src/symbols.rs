//! The symbols by which the emulator's plugin attributes cost; opcost writes them for the plugin.
//!
//! Kernel functions are address ranges. A program's functions are ranges of its file, since the
//! address of the mapped file is not known beforehand. The plugin recognises a page of code by its
//! contents ([`page_hash`]), which are the contents of the file's page except for the bytes that the
//! program itself changes while it runs ([`FileSymbols::sites`]).

use crate::Function;
use crate::message::{Contents, Format, hash, message};
use crate::profile::functions;
use serde::{Deserialize, Serialize};

/// The format.
static FORMAT: Format = Format {
    letter: b's',
    name: "the list of symbols",
    peer: "plugin",
    empty: "the list of symbols is empty",
    cut_short: "",
    bytes_max: 1 << 30,
    deflated: false,
};

/// The size of a page of code, bytes.
pub const PAGE_BYTES: usize = 4096;

/// A kernel address that means more to the plugin than its cost.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Landmark {
    /// Entry of a system call.
    SystemCall,
    /// Entry of an exception whose instruction did not retire: page fault, divide error, …
    Fault,
    /// Entry of an exception whose instruction did retire: breakpoint, single step.
    Trap,
    /// Entry of an interrupt.
    Interrupt,
    /// Entry of the function that exchanges the stacks of two tasks (`__switch_to_asm`).
    Switch,
    /// Entry of a new task (`ret_from_fork_asm`).
    Fork,
    /// The next user code is a signal handler (`signal_setup_done`).
    Signal,
    /// The next user code is the code that a signal interrupted (`rt_sigreturn`).
    SignalReturn,
    /// The next user code is a new program (`start_thread`).
    Exec,
    /// The running task shall make room for another task soon (`resched_curr`).
    Due,
    /// Entry of a function that makes room (`schedule`, `preempt_schedule`).
    Yield,
    /// Entry of the function that chooses the next task (`__schedule`); nothing is due behind it.
    Schedule,
    /// Entry of a function that the way back to user mode calls after a switch (`__rseq_handle_notify_resume`).
    Resume,
    /// Entry of a function that only counts: `do_mem_abort` of arm64, whose faults and system calls enter at one place.
    Count,
}

impl Landmark {
    /// Every landmark with its word.
    pub const NAMES: [(Landmark, &'static str); 14] = [
        (Landmark::SystemCall, "system-call"),
        (Landmark::Fault, "fault"),
        (Landmark::Trap, "trap"),
        (Landmark::Interrupt, "interrupt"),
        (Landmark::Switch, "switch"),
        (Landmark::Fork, "fork"),
        (Landmark::Signal, "signal"),
        (Landmark::SignalReturn, "signal-return"),
        (Landmark::Exec, "exec"),
        (Landmark::Due, "due"),
        (Landmark::Yield, "yield"),
        (Landmark::Schedule, "schedule"),
        (Landmark::Resume, "resume"),
        (Landmark::Count, "count"),
    ];
}

/// A part of an address space or a file that belongs to one function.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Range {
    /// First address or offset, bytes.
    pub start: u64,
    /// The first address or offset behind the range.
    pub end: u64,
    /// Index into [`Symbols::functions`].
    pub function: u32,
}

/// A kernel address with a meaning.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LandmarkAt {
    /// The address.
    pub address: u64,
    /// The address's meaning.
    pub landmark: Landmark,
    /// The metric that counts how often the address is reached, if one does.
    pub metric: Option<String>,
}

/// The place of code in a file and in memory.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Load {
    /// First file offset, bytes.
    pub start: u64,
    /// The file offset behind the last byte.
    pub end: u64,
    /// The virtual address that the linker gave the first byte.
    pub address: u64,
}

/// The code of a program or library.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct FileSymbols {
    /// The link addresses of code, by file offset, ascending, disjoint.
    pub loads: Vec<Load>,
    /// Functions by file offset, ascending, disjoint.
    pub parts: Vec<Range>,
    /// Pages of code: their file offset and the [`page_hash`] of the contents, sites [`blanked`].
    pub pages: Vec<(u64, u64)>,
    /// Instructions that the program changes while it runs: ranges of file offsets with an exclusive
    /// end; ascending, disjoint.
    pub sites: Vec<(u64, u64)>,
}

/// Code that the kernel replaces when it boots on a CPU with certain features or faults.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Alternative {
    /// The address in the machine's memory.
    pub address: u64,
    /// The code in the kernel's image.
    pub code: Vec<u8>,
}

/// The functions and landmarks that the plugin gets.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Symbols {
    /// Functions, by number.
    #[serde(with = "functions")]
    pub functions: Vec<Function>,
    /// Kernel functions by address, ascending, disjoint.
    pub kernel: Vec<Range>,
    /// Kernel addresses with a meaning.
    pub landmarks: Vec<LandmarkAt>,
    /// Programs and libraries.
    pub files: Vec<FileSymbols>,
    /// Code that the kernel may have replaced.
    pub alternatives: Vec<Alternative>,
}

/// Hashes a page's contents.
///
/// `page`: [`PAGE_BYTES`] bytes; a shorter page counts as filled up with zeros.
pub fn page_hash(page: &[u8]) -> u64 {
    hash(page, PAGE_BYTES / 8)
}

/// Returns the parts of sites in a page, as offsets in the page.
///
/// `sites`: ascending, disjoint ([`FileSymbols::sites`]); `offset`: the page's place in the file.
pub fn sites_in_page(sites: &[(u64, u64)], offset: u64) -> Vec<(usize, usize)> {
    let end = offset + PAGE_BYTES as u64;
    let first = sites.partition_point(|(_, behind)| *behind <= offset);
    sites[first..]
        .iter()
        .take_while(|(start, _)| *start < end)
        .map(|(start, behind)| {
            ((start.max(&offset) - offset) as usize, (behind.min(&end) - offset) as usize)
        })
        .collect()
}

/// Returns a page with zeros in place of its sites.
///
/// `page`: [`PAGE_BYTES`] bytes or fewer; `sites`: from [`sites_in_page`].
pub fn blanked(page: &[u8], sites: &[(usize, usize)]) -> Vec<u8> {
    let mut blank = page.to_vec();
    for (start, behind) in sites {
        let behind = *behind.min(&blank.len());
        blank[*start.min(&behind)..behind].fill(0);
    }
    blank
}

impl Contents for Symbols {
    fn check(&self) -> Result<(), &'static str> {
        let ascend = |ranges: &[Range]| {
            if ranges.iter().any(|range| range.function as usize >= self.functions.len()) {
                return Err("no such function");
            }
            let right = ranges.iter().all(|range| range.start < range.end)
                && ranges.is_sorted_by(|one, next| one.end <= next.start);
            if right { Ok(()) } else { Err("ranges must ascend") }
        };
        ascend(&self.kernel)?;
        for FileSymbols { parts, sites, .. } in &self.files {
            ascend(parts)?;
            let right = sites.iter().all(|(start, end)| start < end)
                && sites.is_sorted_by(|one, next| one.1 <= next.0);
            if !right {
                return Err("sites must ascend");
            }
        }
        Ok(())
    }
}

message!(Symbols, FORMAT);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::message::tests::{check_message, contradiction};

    pub(crate) fn sample() -> Symbols {
        let source = Some("list.c".into());
        Symbols {
            functions: vec![
                Function::new("asm_exc_page_fault", "[kernel]"),
                Function {
                    source,
                    ..Function::new("<T as core::fmt::Debug>::fmt", "/bin/with space")
                },
                Function {
                    mangled: Some("_ZN2ns3runEi".into()),
                    ..Function::new("ns::run(int)", "/bin/with space")
                },
            ],
            kernel: vec![Range { start: 0xffff_ffff_81a0_0b40, end: u64::MAX, function: 0 }],
            landmarks: vec![
                LandmarkAt {
                    address: 0xffff_ffff_81a0_0b40,
                    landmark: Landmark::Fault,
                    metric: Some("page-faults".into()),
                },
                LandmarkAt { address: 1, landmark: Landmark::Switch, metric: None },
            ],
            files: vec![
                FileSymbols::default(),
                FileSymbols {
                    loads: vec![Load { start: 0x1000, end: 0x21a5, address: 0x40_1000 }],
                    parts: vec![Range { start: 0x1040, end: 0x1180, function: 1 }],
                    pages: vec![(0x1000, 7)],
                    sites: vec![(0x1062, 0x1067), (0x1100, 0x1105)],
                },
            ],
            alternatives: vec![Alternative { address: 0x4020_0040, code: vec![31, 32, 3, 213] }],
        }
    }

    #[test]
    fn symbols_are_read_whole_or_not_at_all() {
        check_message(&FORMAT, &sample());
        let read = Symbols::decode(&sample().encode()).unwrap();
        // Functions are equal whatever their mangled names.
        let mangled: Vec<_> = read.functions.iter().map(|one| one.mangled.as_deref()).collect();
        assert_eq!(mangled, [None, None, Some("_ZN2ns3runEi")]);
    }

    #[test]
    fn symbols_that_contradict_themselves_are_refused() {
        let fault = |change: &dyn Fn(&mut Symbols)| {
            let mut symbols = sample();
            change(&mut symbols);
            contradiction(&FORMAT, &symbols)
        };
        assert_eq!(fault(&|it| it.kernel[0].function = 3), "no such function");
        assert_eq!(fault(&|it| it.kernel[0].end = it.kernel[0].start), "ranges must ascend");
        assert_eq!(fault(&|it| it.kernel = [it.kernel[0]; 2].to_vec()), "ranges must ascend");
        assert_eq!(fault(&|it| it.files[1].parts[0].function = 3), "no such function");
        assert_eq!(fault(&|it| it.files[1].sites[0].1 = 0x1101), "sites must ascend");
    }

    #[test]
    fn landmarks_are_at_their_places() {
        for (place, (landmark, _)) in Landmark::NAMES.iter().enumerate() {
            assert_eq!(*landmark as usize, place);
        }
    }

    #[test]
    fn what_a_program_changes_itself_is_blanked_where_it_lies_in_a_page() {
        let sites = [(0xfe, 0x103), (0xffe, 0x1003), (0x2000, 0x2005)];
        assert_eq!(sites_in_page(&sites, 0), [(0xfe, 0x103), (0xffe, 0x1000)]);
        assert_eq!(sites_in_page(&sites, 0x1000), [(0, 3)]);
        assert_eq!(sites_in_page(&sites, 0x3000), []);
        assert_eq!(blanked(&[1; 8], &[(0, 3), (6, 4096)]), [0, 0, 0, 1, 1, 1, 0, 0]);
        assert_eq!(blanked(&[1; 4], &[(7, 9)]), [1; 4], "behind the end of the file");
    }

    #[test]
    fn pages_hash_by_contents_and_place() {
        let mut page = vec![0; PAGE_BYTES];
        assert_eq!(page_hash(&page), page_hash(&[]));
        page[9] = 1;
        let nine = page_hash(&page);
        assert_eq!(nine, page_hash(&page[..12]));
        page.swap(9, 17);
        assert_ne!(nine, page_hash(&page));
    }
}
