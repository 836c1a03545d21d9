//! From a case and a built revision to a recording.

use super::trees::{Built, Site};
use crate::command::globals::Globals;
use crate::command::record::{machine_for, make_runs};
use crate::exit::{HasStatus, Status, WithStatus, fail};
use crate::experiment::Experiment;
use crate::failure;
use crate::gate::counts;
use crate::gate::key::FigureKey;
use crate::gate::suite::Case;
use crate::machine::host::HostSurroundings;
use crate::plan::Plan;
use crate::progress;
use crate::recording::{Recording, State};
use crate::resolve::resolve;
use crate::run::Ending;
use crate::store::{Store, StoreError};
use anyhow::{Context, Result};
use opcost_kernel::digest;
use opcost_stats::relevance;
use opcost_sys::clock::unix_ns;
use opcost_sys::interrupt::Interrupt;
use std::path::{Path, PathBuf};

/// The seed of a case that names none: the same on every computer, so that counts are.
const SEED: u64 = 1;
/// Recordings that the store of a repository's gates keeps; the oldest go first.
const RECORDINGS_MAX: usize = 300;
/// How long a case of the host is measured, unless it says otherwise.
const BUDGET: &str = "30s";

/// Makes recordings.
pub(super) struct Bench<'a> {
    pub(super) globals: &'a Globals,
    pub(super) interrupt: &'a Interrupt,
    /// Where recordings go.
    pub(super) store: PathBuf,
    /// The top folder of the user's checkout, where paths of kernels start.
    pub(super) top: PathBuf,
}

/// What was measured of one revision.
pub(super) struct Measured {
    /// The recording.
    pub(super) recording: Recording,
    /// What its counts depend on.
    pub(super) key: FigureKey,
}

/// How many seeds a recording of exact counts has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Seeds {
    /// One, which is repeated.
    One,
    /// As many as it takes to say how far they alone move a count.
    Floor,
}

impl Seeds {
    fn count(self) -> u32 {
        match self {
            Seeds::One => 1,
            Seeds::Floor => relevance::COUNTS_MIN as u32,
        }
    }
}

impl Bench<'_> {
    /// Counts a case of one revision.
    pub(super) fn count(&self, case: &Case, built: &Built, seeds: Seeds) -> Result<Measured> {
        let plan = self.plan(case, &built.site, seeds)?;
        let recording = self.record(plan)?;
        Ok(Measured { key: Self::key(&recording, &built.site), recording })
    }

    /// The same, as an earlier gate recorded it, if that depends on the same things as `alike`.
    pub(super) fn counted_before(
        &self,
        case: &Case,
        site: &Site,
        seeds: Seeds,
        alike: &FigureKey,
    ) -> Result<Option<Measured>> {
        let experiment = self.experiment(case, site, seeds);
        let Ok(store) = Store::open_for_reading(&self.store) else { return Ok(None) };
        let heads = store.list().map_err(StoreError::carried)?;
        let mut heads = heads.iter().rev().filter(|head| {
            head.state == State::Finished
                && head.label == experiment.label
                && Some(&head.experiment) == experiment.name.as_ref()
        });
        let Some(head) = heads.next() else { return Ok(None) };
        // A damaged one is made again.
        let Ok(recording) = store.read(&head.id) else { return Ok(None) };
        let measured = Measured { key: Self::key(&recording, site), recording };
        Ok(Some(measured).filter(|measured| measured.key == *alike))
    }

    fn key(recording: &Recording, site: &Site) -> FigureKey {
        counts::key(recording, site.compiler.as_deref(), &site.folder)
    }

    /// Compares a case of two revisions by a metric that varies: their runs alternate.
    pub(super) fn compare(&self, case: &Case, sides: [(&str, &Built); 2]) -> Result<Recording> {
        let mut experiment = case.experiment.clone();
        let Experiment { pairs, until_width, budget, .. } = &experiment;
        if pairs.is_none() && until_width.is_none() && budget.is_none() {
            experiment.budget = BUDGET.parse().ok();
        }
        let work = experiment.variants.remove(0);
        experiment.variants = sides
            .iter()
            .map(|(name, built)| {
                let mut variant = work.clone();
                variant.name = Some(name.to_string());
                variant.cwd = Some(
                    built.site.folder.join(experiment.cwd.as_deref().unwrap_or(Path::new(""))),
                );
                variant
            })
            .collect();
        experiment.cwd = None;
        let keys: Vec<&str> = sides.iter().map(|(_, built)| built.site.key.as_str()).collect();
        experiment.label = Some(keys.join(" "));
        self.record(resolve(&experiment, &HostSurroundings)?)
    }

    fn experiment(&self, case: &Case, site: &Site, seeds: Seeds) -> Experiment {
        let mut experiment = case.experiment.clone();
        experiment.seed = experiment.seed.or(Some(SEED));
        experiment.pairs = Some(seeds.count());
        experiment.cwd = Some(site.folder.join(experiment.cwd.as_deref().unwrap_or(Path::new(""))));
        let paths = experiment.kernel_tree.iter_mut().chain(&mut experiment.kernel_config);
        paths.for_each(|path| *path = self.top.join(&*path));
        for kernel in experiment.kernel.iter_mut().filter(|kernel| kernel.starts_with("./")) {
            *kernel = site.folder.join(&kernel[2..]).to_string_lossy().into_owned();
        }
        // What the recording is of, to find it again.
        let text = experiment.to_toml().unwrap_or_default();
        let text = format!("{}\n{}\n{text}", site.key, env!("CARGO_PKG_VERSION"));
        experiment.label = Some(digest(text.as_bytes())[..16].to_string());
        experiment
    }

    fn plan(&self, case: &Case, site: &Site, seeds: Seeds) -> Result<Plan> {
        let mut plan = resolve(&self.experiment(case, site, seeds), &HostSurroundings)?;
        for variant in &mut plan.variants {
            variant.tree = Some(site.folder.clone());
        }
        Ok(plan)
    }

    /// Makes a plan's runs.
    fn record(&self, plan: Plan) -> Result<Recording> {
        let (mut machine, state) = machine_for(self.globals.quiet, &plan, self.interrupt)?;
        let writer = Store::open_for_writing(&self.store)
            .and_then(|store| store.begin(&plan, &state, unix_ns()))
            .map_err(StoreError::carried)?;
        let mut progress = progress::for_terminal(self.globals.quiet);
        let made = make_runs(
            &plan,
            &[],
            (machine.as_mut(), &state, self.interrupt),
            writer,
            progress.as_mut(),
        );
        let (ending, recording) = made?;
        match ending {
            Ending::Complete | Ending::Stopped(_) => Ok(recording),
            Ending::Interrupted => {
                let why =
                    format!("interrupted; what was measured is in recording {}", recording.id);
                Err(fail(Status::Interrupted, why))
            }
            Ending::Failed { variant, failure, .. } => {
                let work = plan.variants[usize::from(variant)].work.describe();
                let why = format!("'{work}': {}", failure::in_words(&failure));
                Err(fail(Status::WorkFailed, why))
            }
        }
    }
}

/// Deletes the oldest recordings of a store of gates, if there are too many. What cannot be deleted stays.
pub(super) fn forget_old(globals: &Globals, store: &Path) {
    // What a user named is the user's.
    if globals.store.is_some() {
        return;
    }
    let Ok(mut store) = Store::open_for_writing(store) else { return };
    let heads = store.list().unwrap_or_default();
    let surplus = heads.len().saturating_sub(RECORDINGS_MAX);
    let ended = heads.iter().filter(|head| head.state != State::Running);
    let oldest: Vec<String> = ended.take(surplus).map(|head| head.id.clone()).collect();
    if !oldest.is_empty() {
        let _ = store.forget(&oldest, false);
    }
}

/// Where recordings of a gate go: where the user says, else beside its builds.
pub(super) fn store_path(globals: &Globals, beside: PathBuf) -> Result<PathBuf> {
    let path = globals.store.clone().unwrap_or(beside);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)
            .with_context(|| {
                format!("cannot make the folder '{}' for recordings", folder.display())
            })
            .status(Status::Missing)?;
    }
    Ok(path)
}
