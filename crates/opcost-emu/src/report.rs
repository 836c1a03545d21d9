//! Writes the report.

use crate::arguments::Arguments;
use crate::core::Core;
use crate::counters::{Counters, Figure};
use crate::decode::Repeat;
use crate::model::estimated_cycles;
use crate::refusal;
use crate::region::Reading;
use opcost_record::emulation::{self, RegionCost, ReportWriter};
use opcost_record::marker::REGIONS;
use opcost_record::{Domain, Profile};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The runs that ended, as far as the report has come: each is written at once, so that a program
/// may make any number of them.
#[derive(Default)]
pub(crate) struct Reports {
    writer: Option<ReportWriter<File>>,
}

impl Reports {
    /// Whether a run has ended.
    pub(crate) fn any(&self) -> bool {
        self.writer.is_some()
    }

    /// Adds a run to the report that will be at `out`.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn add(&mut self, out: &Path, regions: &[RegionCost]) -> Result<(), String> {
        // A child's runs are no part of what its parent reports.
        if !refusal::is_first_process() {
            return Ok(());
        }
        let mut write = || {
            let writer = match &mut self.writer {
                Some(writer) => writer,
                none => none.insert(ReportWriter::start(File::create(fresh(out))?)?),
            };
            writer.run(regions)
        };
        write().map_err(|error| format!("cannot write the report {}: {error}", out.display()))
    }
}

/// Writes the report, or why there is none, when the guest has ended.
///
/// # Safety
/// No callback runs any more, and every block is alive.
pub(crate) unsafe fn write_at_exit(core: &mut Core) {
    if !refusal::is_first_process() {
        return;
    }
    let out = core.arguments.out.clone();
    let ended = match refusal::refused() {
        Some(message) => Err(message.to_string()),
        // SAFETY: as the caller promises.
        None => unsafe { core.end() },
    };
    let whole = ended.and_then(|()| {
        if !core.reports.any() {
            let regions = regions(core)?;
            core.reports.add(&out, &regions)?;
        }
        Ok(core.reports.writer.take())
    });
    let end = |mut report: ReportWriter<File>| {
        report.mapped(core.mapped.paths())?;
        report.end()
    };
    match whole {
        Ok(report) => put(&out, report.map_or(Ok(()), end)),
        Err(message) => write_error(&out, &message),
    }
}

/// Writes why there is no report.
pub(crate) fn write_error(out: &Path, message: &str) {
    put(out, fs::write(fresh(out), emulation::format_error(message)));
}

/// Where the report is until it is whole.
fn fresh(out: &Path) -> PathBuf {
    let mut fresh = out.as_os_str().to_owned();
    fresh.push(".tmp");
    fresh.into()
}

/// Puts what was written to its place.
fn put(out: &Path, written: io::Result<()>) {
    if let Err(error) = written.and_then(|()| fs::rename(fresh(out), out)) {
        eprintln!("opcost-emu: cannot write the report {}: {error}", out.display());
    }
}

/// What was counted since the last run's end.
///
/// # Errors
/// The parts of a region do not add up to its total.
pub(crate) fn regions(core: &Core) -> Result<Vec<RegionCost>, String> {
    let mut all = Vec::new();
    for (region, sum) in core.regions.sums() {
        let profile = core.walk.tree.profile(region + 1, core.attribution.functions());
        let total = sum.counters.get(Figure::Instructions, Domain::All);
        if profile.total() != total {
            return Err(format!(
                "the plugin's own sums differ in region '{}': {total} instructions in all, {} by \
                 context; this is a fault of opcost",
                REGIONS[region],
                profile.total()
            ));
        }
        let mut counts = counts(&core.arguments, &sum.counters);
        landmark_counts(core, sum, &mut counts);
        if core.arguments.probe {
            probe_counts(core, sum, &mut counts);
        }
        let profile = if core.arguments.profile { profile } else { Profile::default() };
        all.push(RegionCost { region: REGIONS[region].into(), counts, profile });
    }
    Ok(all)
}

type Counts = Vec<(String, Domain, u64)>;

fn counts(arguments: &Arguments, sums: &Counters) -> Counts {
    let domains: &[Domain] = if arguments.system {
        &[Domain::All, Domain::User, Domain::Kernel]
    } else {
        &[Domain::All, Domain::User]
    };
    let mut counts = Vec::new();
    for (figure, name, _) in Figure::TABLE.iter().filter(|(.., model)| arguments.model || !model) {
        for domain in domains {
            counts.push((name.to_string(), *domain, sums.get(*figure, *domain)));
        }
    }
    if arguments.model {
        for domain in domains {
            let get = |figure| sums.get(figure, *domain);
            let cycles = estimated_cycles(
                get(Figure::Instructions),
                get(Figure::BranchMisses),
                get(Figure::InstructionMisses) + get(Figure::DataMisses),
                get(Figure::LastMisses),
            );
            counts.push(("estimated-cycles".into(), *domain, cycles));
        }
    }
    counts
}

fn landmark_counts(core: &Core, sum: &Reading, counts: &mut Counts) {
    for (name, count) in core.attribution.metrics().iter().zip(&sum.landmarks) {
        counts.push((name.clone(), Domain::All, *count));
    }
    if !core.arguments.system
        && let Some(calls) = sum.landmarks.get(core.attribution.metrics().len())
    {
        counts.push(("system-calls".into(), Domain::All, *calls));
    }
}

fn probe_counts(core: &Core, sum: &Reading, counts: &mut Counts) {
    let names = Repeat::TABLE
        .iter()
        .flat_map(|(_, word, ..)| ["R", "W", "RW"].map(|filter| format!("probe-{word}-{filter}")));
    for (name, count) in names.zip(sum.landmarks.iter().skip(core.attribution.metrics().len() + 1))
    {
        counts.push((name, Domain::All, *count));
    }
}
