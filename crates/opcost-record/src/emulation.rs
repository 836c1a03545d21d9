//! The message in which the emulator's plugin reports its counts.
//!
//! The plugin writes a message for each run when the run ends, and a last one for the end of all runs. A program that marks no end of
//! a run ([`RunEnd`](crate::marker::Marker::RunEnd)) makes one run. A region that was counted several times in a run comes once, with
//! the sums. Behind `work` and `twin` come the regions that the program marked, with `region-entries` and `region-ops` among their
//! counts.

use crate::message::{Contents, Fault, Format, MessageError, decode_first, encode};
use crate::{Domain, Profile};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The format.
pub static FORMAT: Format = Format {
    letter: b'e',
    name: "the plugin's report",
    peer: "plugin",
    empty: "the emulator's plugin wrote no report",
    cut_short: "; the emulator died",
    bytes_max: 1 << 30,
    deflated: false,
};

/// The version of opcost's counting. It is raised when the same work in the same guest gets another count, because the plugin
/// counts otherwise or the guest's init does other work between the markers.
pub const COUNTING_VERSION: u32 = 10;

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
    /// How many of the kernel's alternatives ([`Symbols::alternatives`](crate::symbols::Symbols::alternatives)) the kernel had put
    /// in place of its image's code when the work began; `None` if the list is empty or the machine's memory could not be read.
    pub patched: Option<u64>,
}

/// The cost of a region.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
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

/// A message of a report.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
enum Part<'p> {
    /// A run, as the costs of its regions.
    Run(Cow<'p, [RegionCost]>),
    /// The end of the report: how many runs there are, [`Emulation::mapped`] and [`Emulation::patched`].
    End { runs: u64, mapped: Cow<'p, [String]>, patched: Option<u64> },
}

impl Contents for Part<'static> {
    fn check(&self) -> Result<(), &'static str> {
        match self {
            Part::Run(regions) => regions.iter().try_for_each(|region| region.profile.check()),
            Part::End { .. } => Ok(()),
        }
    }
}

impl Part<'_> {
    fn encode(&self) -> Vec<u8> {
        encode(&FORMAT, Ok(self))
    }
}

/// Writes a report run by run, so that no run has to be kept.
///
/// Everything that a call writes reaches the writer at once.
#[derive(Debug)]
pub struct ReportWriter<W> {
    inner: W,
    runs: u64,
}

impl<W: Write> ReportWriter<W> {
    /// Starts a report.
    pub fn start(inner: W) -> Self {
        ReportWriter { inner, runs: 0 }
    }

    /// Writes the next run, as the costs of its regions.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn run(&mut self, regions: &[RegionCost]) -> io::Result<()> {
        self.runs += 1;
        self.inner.write_all(&Part::Run(regions.into()).encode())
    }

    /// Writes the end; `mapped`: the files of which code was mapped; `patched`: see [`Emulation`].
    ///
    /// # Errors
    /// The writer's errors.
    pub fn end(mut self, mapped: &[String], patched: Option<u64>) -> io::Result<()> {
        let end = Part::End { runs: self.runs, mapped: mapped.into(), patched };
        self.inner.write_all(&end.encode())
    }
}

impl Emulation {
    /// Writes the report as the plugin does.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut report = ReportWriter::start(&mut bytes);
        let runs = self.runs.iter().try_for_each(|run| report.run(run));
        runs.and_then(|()| report.end(&self.mapped, self.patched))
            .expect("memory takes everything");
        bytes
    }

    /// Writes a failure in place of a report.
    pub fn encode_error(why: &str) -> Vec<u8> {
        encode::<Part<'_>>(&FORMAT, Err(why))
    }

    /// Reads a report.
    ///
    /// # Errors
    /// The first fault; a part of a report is never returned.
    pub fn decode(bytes: &[u8]) -> Result<Emulation, MessageError> {
        let (mut runs, mut rest) = (Vec::new(), bytes);
        let fault = loop {
            match decode_first(&FORMAT, rest) {
                Ok((Part::Run(regions), behind)) => {
                    runs.push(regions.into_owned());
                    rest = behind;
                }
                Ok((Part::End { runs: written, .. }, _)) if written != runs.len() as u64 => {
                    break Fault::Contents("not all of its runs came".into());
                }
                Ok((Part::End { mapped, patched, .. }, [])) => {
                    return Ok(Emulation { runs, mapped: mapped.into_owned(), patched });
                }
                Ok((Part::End { .. }, behind)) => break Fault::Trailing(behind.len()),
                // A report that ends behind a run lacks its end.
                Err(error) => match error.fault {
                    Fault::Empty | Fault::CutShort(_) if !bytes.is_empty() => {
                        break Fault::CutShort(bytes.len());
                    }
                    fault => break fault,
                },
            }
        };
        Err(FORMAT.error(fault))
    }

    /// Returns the error for a plugin that wrote nothing.
    pub fn missing() -> MessageError {
        FORMAT.error(Fault::Empty)
    }
}

impl From<Vec<RegionCost>> for Emulation {
    /// The report of one run.
    fn from(regions: Vec<RegionCost>) -> Emulation {
        Emulation { runs: vec![regions], ..Emulation::default() }
    }
}

/// The file with a program's last instruction, beside the report at `out`.
pub fn last_path(out: &Path) -> PathBuf {
    let mut path = out.as_os_str().to_owned();
    path.push(".last");
    path.into()
}

/// The format of the last instruction.
static LAST: Format = Format {
    letter: b'l',
    name: "the last instruction",
    peer: "plugin",
    empty: "no instruction was translated",
    cut_short: "",
    bytes_max: 64,
    deflated: false,
};

/// The last instruction that an emulator translated.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LastInstruction {
    /// Its address.
    pub address: u64,
    /// Its code and what follows it, behind the end of the page as zeros.
    pub code: [u8; LastInstruction::BYTES],
}

impl Contents for LastInstruction {}

impl LastInstruction {
    /// The longest instruction of x86-64.
    pub const BYTES: usize = 15;

    /// The instruction at an address with at most so many bytes from there on.
    pub fn of(address: u64, bytes: &[u8]) -> LastInstruction {
        let mut code = [0; LastInstruction::BYTES];
        code.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        LastInstruction { address, code }
    }

    /// Writes the message.
    pub fn encode(&self) -> Vec<u8> {
        encode(&LAST, Ok(self))
    }

    /// Reads a file whose start was written several times, so that it may end with the rest of a longer message; `None` if it has none.
    pub fn decode(bytes: &[u8]) -> Option<LastInstruction> {
        decode_first(&LAST, bytes).ok().map(|(last, _)| last)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::message::tests::{check_message, contradiction};
    use crate::{AddressCost, Context, Function, Transfer};

    pub(crate) fn sample() -> Vec<RegionCost> {
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
    fn reports_round_trip() {
        let report = Emulation::from(sample());
        assert_eq!(Emulation::decode(&report.encode()), Ok(report.clone()));
        let regions = &report.runs[0];
        assert_eq!(regions[1].count("instructions", Domain::User), Some(10));
        assert_eq!(regions[1].count("instructions", Domain::Kernel), None);
        assert_eq!(regions[1].profile.total(), 42);
        check_message(&FORMAT, &Part::Run(sample().into()));
    }

    #[test]
    fn runs_are_apart_and_every_one_of_them_must_have_come() {
        let mapped = vec!["/lib/a library.so".into(), "/lib/with\na line".into()];
        let runs = vec![sample(), Vec::new(), sample()[1..].to_vec()];
        let report = Emulation { runs, mapped, patched: Some(1 << 40) };
        let whole = report.encode();
        assert_eq!(Emulation::decode(&whole), Ok(report));
        assert_eq!(Emulation::decode(&Emulation::default().encode()), Ok(Emulation::default()));
        assert_eq!(Emulation::decode(&[]), Err(Emulation::missing()));
        for length in 1..whole.len() {
            let error = Emulation::decode(&whole[..length]).unwrap_err();
            assert_eq!(error.fault, Fault::CutShort(length));
        }
        let fault = |bytes: &[u8]| Emulation::decode(bytes).unwrap_err().to_string();
        let run = Part::Run(sample().into()).encode();
        assert!(fault(&[&run[..], &whole].concat()).contains("not all of its runs"));
        assert!(fault(&[&whole[..], &run].concat()).contains("follow the end"));
        assert_eq!(
            fault(&[&run[..], &Emulation::encode_error("no\nmarkers")].concat()),
            "no\nmarkers"
        );
    }

    #[test]
    fn a_profile_that_contradicts_itself_is_refused() {
        let fault = |change: &dyn Fn(&mut Profile)| {
            let mut regions = sample();
            change(&mut regions[1].profile);
            contradiction(&FORMAT, &Part::Run(regions.into()))
        };
        assert_eq!(fault(&|it| it.contexts[0].parent = Some(0)), "a parent comes after its child");
        assert_eq!(fault(&|it| it.contexts[1].function = 2), "no such function");
        assert_eq!(fault(&|it| it.cycles.truncate(1)), "a context has no cycles");
        assert_eq!(fault(&|it| it.addresses[0].function = 2), "no such function");
        assert_eq!(fault(&|it| it.addresses[1] = it.addresses[0]), "instructions must ascend");
        assert_eq!(fault(&|it| it.transfers[0].to.0 = 2), "no such function");
        assert_eq!(fault(&|it| it.transfers = [it.transfers[0]; 2].to_vec()), "jumps must ascend");
    }

    #[test]
    fn the_last_instruction_is_read_from_a_file_that_held_a_longer_one() {
        let [short, long] = [7, u64::MAX].map(|address| LastInstruction::of(address, &[0xc3]));
        check_message(&LAST, &long);
        let mut file = long.encode();
        file[..short.encode().len()].copy_from_slice(&short.encode());
        assert_eq!(LastInstruction::decode(&file), Some(short));
        assert_eq!(LastInstruction::decode(&file[..40]), None);
    }
}
