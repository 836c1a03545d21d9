//! The symbols by which the emulator's plugin attributes cost; opcost writes them for the plugin.
//!
//! Kernel functions are address ranges. A program's functions are ranges of its file, since the
//! address of the mapped file is not known beforehand. The plugin recognises a page of code by its
//! contents ([`page_hash`]), which are the contents of the file's page except for the bytes that the
//! program itself changes while it runs ([`FileSymbols::sites`]).
//!
//! ```text
//! opcost-symbols 6
//! function asm_exc_page_fault<tab>[kernel]
//! function main<tab>/bin/true
//! function helper<tab>/bin/true<tab>list.c
//! function ns::run(int)<tab>/bin/true<tab><tab>_ZN2ns3runEi
//! range ffffffff81a00b40 ffffffff81a00b70 0
//! landmark ffffffff81a00b40 fault page-faults
//! file
//! load 1000 21a5 401000
//! part 1040 1180 1
//! site 1062 1067
//! page 1000 8c5e1d0a44f2b7c9
//! end 9
//! ```

use crate::Function;
use crate::framing::{Format, TextError, hexadecimal, words};

/// The format.
pub static FORMAT: Format = Format {
    header: "opcost-symbols 6",
    name: "the list of symbols",
    peer: "plugin",
    empty: "the list of symbols is empty",
    cut_short: "",
    counted: true,
};

/// The size of a page of code, bytes.
pub const PAGE_BYTES: usize = 4096;

/// A kernel address that means more to the plugin than its cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Range {
    /// First address or offset, bytes.
    pub start: u64,
    /// The first address or offset behind the range.
    pub end: u64,
    /// Index into [`Symbols::functions`].
    pub function: u32,
}

/// A kernel address with a meaning.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LandmarkAt {
    /// The address.
    pub address: u64,
    /// The address's meaning.
    pub landmark: Landmark,
    /// The metric that counts how often the address is reached, if one does.
    pub metric: Option<String>,
}

/// The place of code in a file and in memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Load {
    /// First file offset, bytes.
    pub start: u64,
    /// The file offset behind the last byte.
    pub end: u64,
    /// The virtual address that the linker gave the first byte.
    pub address: u64,
}

/// The code of a program or library.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
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

/// The functions and landmarks that the plugin gets.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Symbols {
    /// Functions, by number.
    pub functions: Vec<Function>,
    /// Kernel functions by address, ascending, disjoint.
    pub kernel: Vec<Range>,
    /// Kernel addresses with a meaning.
    pub landmarks: Vec<LandmarkAt>,
    /// Programs and libraries.
    pub files: Vec<FileSymbols>,
}

/// Hashes a page's contents: 64-bit FNV-1a over words of eight bytes, least byte first.
///
/// `page`: [`PAGE_BYTES`] bytes; a shorter page counts as filled up with zeros.
pub fn page_hash(page: &[u8]) -> u64 {
    const PRIME: u64 = 0x100_0000_01b3;
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut take = |word: u64| {
        hash = (hash ^ word).wrapping_mul(PRIME);
        // The upper half must affect the lower half: multiplication alone only carries upwards.
        hash ^= hash >> 32;
    };
    let mut words = 0;
    for chunk in page.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        take(u64::from_le_bytes(word));
        words += 1;
    }
    for _ in words..PAGE_BYTES / 8 {
        take(0);
    }
    hash
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

impl Symbols {
    /// Writes the symbols as text.
    pub fn format(&self) -> String {
        let mut lines = Vec::new();
        for function in &self.functions {
            lines.push(format!("function {}", function.format()));
        }
        for Range { start, end, function } in &self.kernel {
            lines.push(format!("range {start:x} {end:x} {function}"));
        }
        for LandmarkAt { address, landmark, metric } in &self.landmarks {
            let word = Landmark::NAMES[*landmark as usize].1;
            let metric = metric.as_deref().map_or(String::new(), |metric| format!(" {metric}"));
            lines.push(format!("landmark {address:x} {word}{metric}"));
        }
        for file in &self.files {
            lines.push("file".into());
            for Load { start, end, address } in &file.loads {
                lines.push(format!("load {start:x} {end:x} {address:x}"));
            }
            for Range { start, end, function } in &file.parts {
                lines.push(format!("part {start:x} {end:x} {function}"));
            }
            for (start, behind) in &file.sites {
                lines.push(format!("site {start:x} {behind:x}"));
            }
            for (offset, hash) in &file.pages {
                lines.push(format!("page {offset:x} {hash:x}"));
            }
        }
        FORMAT.write(&lines)
    }

    /// Reads what [`format`](Self::format) wrote.
    ///
    /// # Errors
    /// [`TextError`] names the first fault.
    pub fn parse(text: &str) -> Result<Symbols, TextError> {
        let mut symbols = Symbols::default();
        FORMAT.read(text, |line| symbols.read_item(line))?;
        Ok(symbols)
    }

    fn read_item(&mut self, line: &str) -> Result<(), &'static str> {
        let (word, rest) = words(line);
        let fields: Vec<&str> = rest.split(' ').collect();
        let known = self.functions.len();
        let file = self.files.last_mut().ok_or("no file yet");
        match (word, fields.as_slice()) {
            ("function", _) => {
                self.functions.push(Function::parse(rest).ok_or("a function has no module")?);
            }
            ("range", fields) => {
                let range = range(fields, self.kernel.last(), known)?;
                self.kernel.push(range);
            }
            ("landmark", [address, word, metric @ ..]) => {
                let found = Landmark::NAMES.iter().find(|(_, name)| name == word);
                let (landmark, _) = found.ok_or("unknown landmark")?;
                self.landmarks.push(LandmarkAt {
                    address: hexadecimal(address)?,
                    landmark: *landmark,
                    metric: metric.first().map(|metric| metric.to_string()),
                });
            }
            ("file", _) => self.files.push(FileSymbols::default()),
            ("load", [start, end, address]) => {
                let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
                file?.loads.push(Load { start, end, address: hexadecimal(address)? });
            }
            ("part", fields) => {
                let file = file?;
                file.parts.push(range(fields, file.parts.last(), known)?);
            }
            ("site", [start, behind]) => {
                let (file, site) = (file?, (hexadecimal(start)?, hexadecimal(behind)?));
                if site.0 >= site.1 || file.sites.last().is_some_and(|last| last.1 > site.0) {
                    return Err("sites must ascend");
                }
                file.sites.push(site);
            }
            ("page", [offset, hash]) => {
                file?.pages.push((hexadecimal(offset)?, hexadecimal(hash)?))
            }
            _ => return Err("unknown line"),
        }
        Ok(())
    }
}

/// Parses the range of an item; it must be behind `before`, and its function one of `known`.
fn range(fields: &[&str], before: Option<&Range>, known: usize) -> Result<Range, &'static str> {
    let [start, end, function] = fields else { return Err("a range has three fields") };
    let function: u32 = function.parse().map_err(|_| "not a number")?;
    let range = Range { start: hexadecimal(start)?, end: hexadecimal(end)?, function };
    if function as usize >= known {
        return Err("no such function");
    }
    if range.start >= range.end || before.is_some_and(|before| before.end > range.start) {
        return Err("ranges must ascend");
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
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
        }
    }

    #[test]
    fn symbols_round_trip() {
        let parsed = Symbols::parse(&symbols().format()).unwrap();
        assert_eq!(parsed, symbols());
        let mangled: Vec<_> = parsed.functions.iter().map(|one| one.mangled.as_deref()).collect();
        assert_eq!(mangled, [None, None, Some("_ZN2ns3runEi")]);
    }

    #[test]
    fn no_part_of_symbols_is_taken_for_the_whole() {
        let whole = symbols().format();
        for length in 0..whole.len() - 1 {
            assert!(Symbols::parse(&whole[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = |lines: &str| {
            Symbols::parse(&format!("{}\n{lines}", FORMAT.header)).unwrap_err().to_string()
        };
        assert!(fault("range 1 2 0\n").contains("no such function"));
        assert!(fault("function a\tb\nrange 2 2 0\n").contains("ascend"));
        assert!(fault("function a\tb\nrange 1 3 0\nrange 2 4 0\n").contains("line 4"));
        assert!(fault("part 1 2 0\n").contains("no file yet"));
        assert!(fault("landmark 1 lunch\n").contains("unknown landmark"));
        assert!(fault("end 1\n").contains("cut short"));
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
