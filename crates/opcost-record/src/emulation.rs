//! The text in which the emulator's plugin reports its counts.
//!
//! ```text
//! opcost-emulation 5
//! run 1
//! region work
//! count instructions kernel 1908796201
//! f handle_mm_fault<tab>[kernel]
//! c - 0 55945 2237800
//! y 811023 120331 40100 3020 66102 0
//! a 0 ffffffff812a4c10 55945 55945
//! j 0 ffffffff812a4c10 0 ffffffff812a4d02 41
//! mapped /usr/lib/python3.11/lib-dynload/_json.so
//! end 8
//! ```
//!
//! Runs are numbered from 1; a program that marks no end of a run ([`RunEnd`](crate::marker::Marker::RunEnd)) makes one. In a
//! run, every region starts with its name; counts with metric and domain follow, then the lines of the region's [`Profile`]. A
//! region that was counted several times in a run comes once, with the sums. Behind `work` and `twin` come the regions that the
//! program marked, with `region-entries` and `region-ops` among their counts. Behind all runs come the files of which the
//! program itself mapped code. [`framing`](crate::framing) describes the frame.

use crate::framing::{Format, TextError, number, words};
use crate::{Domain, Profile};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The format.
pub static FORMAT: Format = Format {
    header: "opcost-emulation 5",
    name: "the plugin's report",
    peer: "plugin",
    empty: "the emulator's plugin wrote no report",
    cut_short: "; the emulator died",
    counted: true,
};

/// The version of opcost's counting. It is raised when the same work in the same guest gets another count, because the plugin
/// counts otherwise or the guest's init does other work between the markers.
pub const COUNTING_VERSION: u32 = 8;

/// The newest version of QEMU's plugin API that the plugin supports.
pub const API_NEWEST: i32 = 7;

/// The variable that tells the plugin the API version to declare.
pub const API_VARIABLE: &str = "OPCOST_EMU_API";

/// A report.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Emulation {
    /// The regions of each run.
    pub runs: Vec<Vec<RegionCost>>,
    /// Files of which the program mapped code while it ran, by its system calls: libraries, also those opened by name. Known
    /// only for a program without a kernel.
    pub mapped: Vec<String>,
}

/// The cost of a region.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RegionCost {
    /// Name of the region.
    pub region: String,
    /// Every count: the metric's name, the domain of the instructions, the number.
    pub counts: Vec<(String, Domain, u64)>,
    /// Instructions by calling context; empty without a profile.
    pub profile: Profile,
}

impl RegionCost {
    /// Returns a count, if it was made.
    pub fn count(&self, name: &str, domain: Domain) -> Option<u64> {
        let found = self.counts.iter().find(|(known, of, _)| known == name && *of == domain);
        found.map(|(_, _, value)| *value)
    }
}

/// Writes a report run by run, so that no run has to be kept.
///
/// Everything that a call writes reaches the writer at once.
#[derive(Debug)]
pub struct ReportWriter<W> {
    inner: W,
    runs: usize,
    lines: usize,
}

impl<W: Write> ReportWriter<W> {
    /// Starts a report with its first line.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn start(mut inner: W) -> io::Result<Self> {
        inner.write_all(format!("{}\n", FORMAT.header).as_bytes())?;
        Ok(ReportWriter { inner, runs: 0, lines: 0 })
    }

    /// Writes the next run, as the costs of its regions.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn run(&mut self, regions: &[RegionCost]) -> io::Result<()> {
        self.runs += 1;
        let mut lines = vec![format!("run {}", self.runs)];
        for region in regions {
            lines.push(format!("region {}", region.region));
            for (name, domain, value) in &region.counts {
                lines.push(format!("count {name} {} {value}", domain.word()));
            }
            region.profile.write_lines(&mut lines);
        }
        self.lines += lines.len();
        lines.push(String::new());
        self.inner.write_all(lines.join("\n").as_bytes())
    }

    /// Writes the files of which code was mapped, behind the last run; skips paths with a line break.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn mapped(&mut self, paths: &[String]) -> io::Result<()> {
        for path in paths.iter().filter(|path| !path.contains(['\n', '\r'])) {
            self.lines += 1;
            self.inner.write_all(format!("mapped {path}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn end(mut self) -> io::Result<()> {
        self.inner.write_all(format!("end {}\n", self.lines).as_bytes())
    }
}

/// Returns the report of one run as text.
pub fn format(regions: &[RegionCost]) -> String {
    let mut bytes = Vec::new();
    let mut written = ReportWriter::start(&mut bytes);
    written = written.and_then(|mut report| report.run(regions).map(|()| report));
    written.and_then(ReportWriter::end).expect("memory takes everything");
    String::from_utf8(bytes).expect("it was written as text")
}

/// The file with a program's last instruction, beside the report at `out`.
pub fn last_path(out: &Path) -> PathBuf {
    let mut path = out.as_os_str().to_owned();
    path.push(".last");
    path.into()
}

/// The last instruction that an emulator translated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LastInstruction {
    /// Its address.
    pub address: u64,
    /// Its code and what follows it, behind the end of the page as zeros.
    pub code: [u8; LastInstruction::BYTES],
}

impl LastInstruction {
    /// The longest instruction of x86-64.
    pub const BYTES: usize = 15;

    /// The instruction at an address with at most so many bytes from there on.
    pub fn of(address: u64, bytes: &[u8]) -> LastInstruction {
        let mut code = [0; LastInstruction::BYTES];
        code.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        LastInstruction { address, code }
    }

    /// The instruction as a line, which always has the same length.
    pub fn format(&self) -> String {
        let code: String = self.code.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:016x} {code}\n", self.address)
    }

    /// Reads such a line; `None` if it is none.
    pub fn parse(line: &str) -> Option<LastInstruction> {
        let (address, code) = line.strip_suffix('\n')?.split_once(' ')?;
        let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
        if code.len() != 2 * LastInstruction::BYTES || !digits(code) || !digits(address) {
            return None;
        }
        let bytes: Vec<u8> = (0..LastInstruction::BYTES)
            .filter_map(|at| u8::from_str_radix(&code[2 * at..2 * at + 2], 16).ok())
            .collect();
        Some(LastInstruction::of(u64::from_str_radix(address, 16).ok()?, &bytes))
    }
}

/// Writes a failure in place of a report; line breaks in the message become spaces.
pub fn format_error(message: &str) -> String {
    FORMAT.write_error(message)
}

/// Reads a report.
///
/// # Errors
/// [`TextError`] names the first fault; a partial report is never returned.
pub fn parse(text: &str) -> Result<Emulation, TextError> {
    let mut emulation = Emulation::default();
    FORMAT.read(text, |line| read_item(&mut emulation, line))?;
    Ok(emulation)
}

fn read_item(emulation: &mut Emulation, line: &str) -> Result<(), &'static str> {
    let (word, rest) = words(line);
    let runs = &mut emulation.runs;
    match word {
        "run" if rest != (runs.len() + 1).to_string() => return Err("runs must be in order"),
        "run" => runs.push(Vec::new()),
        "mapped" => emulation.mapped.push(rest.to_string()),
        _ => {
            let run = runs.last_mut().ok_or("no run yet")?;
            match (word, run.last_mut()) {
                ("region", _) => {
                    run.push(RegionCost { region: rest.to_string(), ..RegionCost::default() });
                }
                (_, None) => return Err("no region yet"),
                ("count", Some(region)) => {
                    let fields: Vec<&str> = rest.split(' ').collect();
                    let [name, domain, value] = fields[..] else {
                        return Err("a count has three fields");
                    };
                    let domain = Domain::from_word(domain).ok_or("unknown domain")?;
                    region.counts.push((name.to_string(), domain, number(value)?));
                }
                (_, Some(region)) => region.profile.read_line(line)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Fault;
    use crate::{AddressCost, Context, Function, Transfer};

    fn report() -> Vec<RegionCost> {
        let function = |symbol: &str, module: &str| Function::new(symbol, module);
        let profile = Profile {
            functions: vec![
                function("main", "/bin/a program"),
                function("core::fmt::Write for T", crate::profile::KERNEL),
            ],
            contexts: vec![
                Context { parent: None, function: 0, calls: 1, cost: 10 },
                Context { parent: Some(0), function: 1, calls: 3, cost: 32 },
            ],
            cycles: vec![[1, 2, 3, 4, 5, 0], [6, 0, 0, 0, 9, 8]],
            addresses: vec![
                AddressCost { function: 0, address: 0x40_1136, executions: 11, cost: 10 },
                AddressCost { function: 1, address: u64::MAX, executions: 32, cost: 32 },
            ],
            transfers: vec![Transfer { from: (0, 0x40_1136), to: (1, u64::MAX), times: 4 }],
            ..Profile::default()
        };
        let counts = vec![
            ("instructions".to_string(), Domain::All, 42),
            ("instructions".to_string(), Domain::User, 10),
        ];
        vec![
            RegionCost { region: "twin".into(), ..RegionCost::default() },
            RegionCost { region: "work".into(), counts, profile },
        ]
    }

    #[test]
    fn the_text_is_the_one_documented() {
        let text = "opcost-emulation 5\nrun 1\nregion twin\nregion work\n\
                    count instructions all 42\ncount instructions user 10\n\
                    f main\t/bin/a program\nf core::fmt::Write for T\t[kernel]\n\
                    c - 0 1 10\ny 1 2 3 4 5 0\nc 0 1 3 32\n\
                    y 6 0 0 0 9 8\na 0 401136 11 10\n\
                    a 1 ffffffffffffffff 32 32\nj 0 401136 1 ffffffffffffffff 4\nend 14\n";
        assert_eq!(format(&report()), text);
        assert_eq!(format_error("no\nmarkers"), "opcost-emulation 5\nerror no markers\nend 1\n");
    }

    #[test]
    fn reports_round_trip() {
        let Emulation { runs, mapped } = parse(&format(&report())).unwrap();
        assert_eq!(runs, [report()]);
        assert_eq!(mapped, Vec::<String>::new());
        let regions = &runs[0];
        assert_eq!(regions[1].count("instructions", Domain::User), Some(10));
        assert_eq!(regions[1].count("instructions", Domain::Kernel), None);
        assert_eq!(regions[1].profile.total(), 42);
        assert_eq!(parse(&format(&[])).unwrap().runs, [[]]);
    }

    const MAPPED: [&str; 3] = ["/lib/a library.so", "/lib/with\na line", "/lib/b.so"];

    /// Returns the text of a report on these runs.
    fn written(runs: &[Vec<RegionCost>]) -> String {
        let mut bytes = Vec::new();
        let mut report = ReportWriter::start(&mut bytes).unwrap();
        runs.iter().for_each(|run| report.run(run).unwrap());
        report.mapped(&MAPPED.map(str::to_string)).unwrap();
        report.end().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn runs_are_apart_and_every_one_of_them_must_have_come() {
        let runs = [report(), Vec::new(), report()[1..].to_vec()];
        let whole = written(&runs);
        let read = parse(&whole).unwrap();
        assert_eq!(read.runs, runs);
        assert_eq!(read.mapped, [MAPPED[0], MAPPED[2]]);
        assert_eq!(parse(&written(&[])).unwrap().runs, Vec::<Vec<RegionCost>>::new());
        for length in 0..whole.len() - 1 {
            assert!(parse(&whole[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn no_part_of_a_report_is_taken_for_a_whole_one() {
        let whole = format(&report());
        for length in 0..whole.len() - 1 {
            assert!(parse(&whole[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault =
            |lines: &str| parse(&format!("{}\n{lines}", FORMAT.header)).unwrap_err().to_string();
        assert_eq!(parse("").unwrap_err().fault, Fault::Empty);
        assert!(parse("opcost-emulation 1\n").unwrap_err().to_string().contains("versions"));
        assert_eq!(fault("error no markers\nend 1\n"), "no markers");
        assert!(fault("region work\n").contains("no run yet"));
        assert!(fault("run 2\n").contains("in order"));
        assert!(fault("run 1\nrun 1\n").contains("line 3"));
        assert!(fault("run 1\ncount instructions all 1\n").contains("no region yet"));
        assert!(
            fault("run 1\nregion work\nrun 2\ncount instructions all 1\n").contains("no region")
        );
        let region = |lines: &str| fault(&format!("run 1\nregion work\n{lines}"));
        assert!(region("count instructions guest 1\n").contains("unknown domain"));
        assert!(region("c - 0 1 1\n").contains("line 4"));
        assert!(region("f a\tb\nc 0 0 1 1\n").contains("parent"));
        assert!(region("y 1 2 3 4 5 6\n").contains("without a context"));
        let context = |lines: &str| region(&format!("f a\tb\nc - 0 1 1\n{lines}"));
        assert!(context("y 1 2 3 4 5\n").contains("six figures"));
        assert!(context("y 1 2 3 4 5 6\ny 1 2 3 4 5 6\n").contains("without a context"));
        let lacks = "y 1 2 3 4 5 6\nc - 0 1 1\nc - 0 1 1\n";
        assert!(context(lacks).contains("has no cycles"));
        assert!(context("a 0 1 1\n").contains("four fields"));
        assert!(context("a 1 1 1 1\n").contains("no such function"));
        assert!(context("a 0 xy 1 1\n").contains("not hexadecimal"));
        assert!(context("a 0 1 1 1\na 0 1 1 1\n").contains("must ascend"));
        assert!(context("j 0 1 0 1\n").contains("five fields"));
        assert!(context("j 0 1 1 1 1\n").contains("no such function"));
        assert!(context("j 0 1 0 1 1\nj 0 1 0 1 1\n").contains("must ascend"));
        assert!(region("end 3\n").contains("cut short"));
    }
}
