//! Makes recordings of cases in built revisions.

use crate::trees::{Built, Site, Trees};
use anyhow::{Context, Result};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::failure;
use opcost_base::phases::Phases;
use opcost_command::globals::{Globals, check_store_owner};
use opcost_gate::gate::counts;
use opcost_gate::gate::key::FigureKey;
use opcost_gate::gate::suite::{Case, OF_REVISION};
use opcost_kernel::{default_cache, digest, prepare};
use opcost_lab::machine::Machine;
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::progress::{self, Who};
use opcost_lab::recording::{machine_for, make_runs};
use opcost_lab::resolve::{Surroundings, resolve};
use opcost_lab::run::Ending;
use opcost_model::experiment::{Experiment, Variant};
use opcost_model::guest_settings::GuestSettings;
use opcost_model::plan::guest::DEFAULT_KERNEL;
use opcost_model::plan::{MachineKind, Plan};
use opcost_model::recording::settings::Revision;
use opcost_model::recording::{MachineState, Recording, State};
use opcost_stats::relevance;
use opcost_store::store::{Store, StoreError};
use opcost_sys::clock::unix_ns;
use opcost_sys::interrupt::Interrupt;
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// The most recordings that the store of a repository's gates keeps; the oldest are deleted first.
const RECORDINGS_MAX: usize = 300;
/// The most files that name the recordings of inputs; recordings that are deleted leave theirs.
const COUNTED_MAX: usize = 4 * RECORDINGS_MAX;
/// How long a case of the host is measured, unless the case says otherwise.
const BUDGET: &str = "30s";

/// Makes the recordings of a command.
pub(crate) struct Bench<'a> {
    pub(crate) globals: &'a Globals,
    pub(crate) interrupt: &'a Interrupt,
    /// The path of the store for recordings.
    pub(crate) store: PathBuf,
    /// The top folder of the user's checkout; kernels under test are revisions of its repository.
    pub(crate) top: PathBuf,
    /// The folder of files that name the recordings of inputs.
    counted: Option<PathBuf>,
    /// How many counts were found in place of runs.
    pub(crate) found: Cell<usize>,
}

/// The measurement of one revision.
pub(crate) struct Measured {
    pub(crate) recording: Recording,
    /// The key of the counts: all that they depend on.
    pub(crate) key: FigureKey,
}

/// One side of a comparison.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    /// The side's name in the comparison.
    pub(crate) name: &'a str,
    /// The work, and the machine for it.
    pub(crate) case: &'a Case,
    pub(crate) built: &'a Built,
}

/// The number of seeds in a recording of exact counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Seeds {
    /// One seed, whose run is repeated.
    One,
    /// As many seeds as it takes to show how far seeds alone move a count.
    Floor,
}

impl Seeds {
    fn count(self) -> u32 {
        match self {
            Seeds::One => 1,
            Seeds::Floor => relevance::COUNTS_WANTED as u32,
        }
    }
}

impl<'a> Bench<'a> {
    /// Makes recordings in `store`; `top`: the top folder of the user's checkout; `trees`: the place for what is known of it.
    pub(crate) fn new(
        globals: &'a Globals,
        interrupt: &'a Interrupt,
        store: PathBuf,
        top: PathBuf,
        trees: Option<&Trees<'_>>,
    ) -> Self {
        let counted = trees.map(Trees::counted);
        Bench { globals, interrupt, store, top, counted, found: Cell::new(0) }
    }

    /// Makes the kernel of a case ready before anything is built for it; a kernel that is a revision, or one of its files, comes later.
    ///
    /// # Errors
    /// There is no such kernel, or it cannot be made.
    pub(crate) fn prepare_kernel(&self, case: &Case, phases: &mut Phases) -> Result<()> {
        let Experiment { kernel, kernel_tree, kernels, disk, .. } = &case.experiment;
        let name = kernel.first().map_or(DEFAULT_KERNEL, String::as_str);
        let comes_later =
            name.starts_with(OF_REVISION) || kernel_tree.is_some() || !kernels.is_empty();
        if !case.boots_kernel() || case.tests_kernel() || comes_later {
            return Ok(());
        }
        let spec = HostSurroundings.kernel(name)?;
        let cache = default_cache().map_err(HasStatus::carried)?;
        let mut say = |phase: &str, done: Option<&str>| phases.report(phase, done);
        let kernel = prepare(
            &spec,
            case.experiment.architecture.unwrap_or_default(),
            &cache,
            !disk.is_empty(),
            self.interrupt,
            &mut say,
        );
        kernel.map(drop).map_err(HasStatus::carried).context("the kernel of the case")
    }

    /// Counts a case of one revision.
    pub(crate) fn count(&self, case: &Case, built: &Built, seeds: Seeds) -> Result<Measured> {
        if case.bench.is_some() {
            let why = format!("case '{}' has benchmarks, which only opcost gate counts", case.name);
            return Err(fail(Status::Usage, why));
        }
        let plan = self.plan(case, &built.site, seeds)?;
        let (machine, state) = machine_for(self.globals.quiet, &plan, self.interrupt)?;
        let counted = self.counted_file(machine.as_ref(), &plan);
        let mut files = Vec::from_iter(counted.clone());
        if plan.pairs < Seeds::Floor.count() {
            // Counts with more seeds begin with the same seed, and are those of a base.
            let floor = self.plan(case, &built.site, Seeds::Floor)?;
            files.splice(0..0, self.counted_file(machine.as_ref(), &floor));
        }
        let found = files.iter().find_map(|file| self.counted_alike(file, &built.site));
        if let Some(found) = found {
            self.found.set(self.found.get() + 1);
            return Ok(found);
        }
        let recording = self.record(&plan, machine, &state)?;
        if let Some(file) = counted {
            // Without this file the case is counted again.
            let _ =
                std::fs::write(file, format!("{}\n{}", recording.id, built.site.folder.display()));
        }
        Ok(Measured { key: Self::key(&recording, &built.site, None), recording })
    }

    /// The counts of any revision that had the same inputs, byte by byte: programs, files, kernel, machine, job and seeds.
    ///
    /// `counted`: the file with the recording of these inputs.
    fn counted_alike(&self, counted: &Path, site: &Site) -> Option<Measured> {
        let counted = std::fs::read_to_string(counted).ok()?;
        let (id, tree) = counted.split_once('\n')?;
        let recording = Store::open_for_reading(&self.store).ok()?.read(id).ok()?;
        // Paths in the recording are those of the tree that was counted.
        let site = Site { folder: tree.into(), ..site.clone() };
        matches!(recording.state, State::Finished | State::StoppedSettled)
            .then(|| Measured { key: Self::key(&recording, &site, None), recording })
    }

    /// The file with the recording of a plan's inputs and the tree that was counted.
    fn counted_file(&self, machine: &dyn Machine, plan: &Plan) -> Option<PathBuf> {
        let folder = self.counted.as_ref()?;
        let inputs = machine.inputs(plan)?;
        std::fs::create_dir_all(folder).ok()?;
        Some(folder.join(inputs))
    }

    /// An earlier gate's counts of the same case, if what they depend on is `alike`.
    pub(crate) fn counted_before(
        &self,
        case: &Case,
        site: &Site,
        seeds: Seeds,
        alike: &dyn Fn(&FigureKey) -> bool,
    ) -> Result<Option<Measured>> {
        let experiment = self.experiment(case, site, seeds);
        let name = experiment.name.as_deref().unwrap_or_default();
        let recording = self.recorded(experiment.label.as_deref(), name)?;
        let measured = recording
            .map(|recording| Measured { key: Self::key(&recording, site, None), recording });
        Ok(measured.filter(|measured| alike(&measured.key)))
    }

    fn key(recording: &Recording, site: &Site, other: Option<&Site>) -> FigureKey {
        let revision = Revision {
            tree: &site.folder,
            other_tree: other.map(|other| other.folder.as_path()),
            compiler: site.compiler.as_deref(),
            is_kernel: site.kernel().is_some(),
        };
        counts::key(recording, revision)
    }

    /// Compares a case of two revisions, or of two machines. The runs alternate, as many as it takes.
    pub(crate) fn compare(&self, sides: [Side<'_>; 2]) -> Result<Recording> {
        let plan = self.plan_of_sides(sides)?;
        let (machine, state) = machine_for(self.globals.quiet, &plan, self.interrupt)?;
        self.record(&plan, machine, &state)
    }

    /// An earlier command's recording of the same comparison, if what it depends on is `alike`.
    pub(crate) fn compared_before(
        &self,
        sides: [Side<'_>; 2],
        alike: &dyn Fn(&FigureKey) -> bool,
    ) -> Result<Option<Recording>> {
        let plan = self.plan_of_sides(sides)?;
        let found = self.recorded(plan.label.as_deref(), plan.experiment.as_str())?;
        let is_alike = |found: &Recording| {
            let [one, other] = sides.map(|side| &side.built.site);
            alike(&Self::key(found, one, Some(other)))
        };
        Ok(found.filter(is_alike))
    }

    fn plan_of_sides(&self, sides: [Side<'_>; 2]) -> Result<Plan> {
        let mut experiment = sides[0].case.experiment.clone();
        let is_host = experiment.machine == Some(MachineKind::Host);
        let Experiment { pairs, until_width, budget, .. } = &experiment;
        if is_host && pairs.is_none() && until_width.is_none() && budget.is_none() {
            experiment.budget = BUDGET.parse().ok();
        }
        let work = experiment.variants.remove(0);
        let cwd = experiment.cwd.take();
        experiment.variants = sides
            .iter()
            .map(|Side { name, case, built }| {
                let mut variant = Variant { name: Some(name.to_string()), ..work.clone() };
                let of_case = &case.experiment;
                variant.kernel =
                    of_case.kernel.first().map(|kernel| kernel_at(&built.site, kernel));
                variant.boot = of_case.boot.first().cloned();
                variant.cpu_model = of_case.cpu_model.first().cloned();
                variant.like = of_case.like.first().cloned();
                GuestSettings::inherit(&mut variant, of_case);
                variant.root = root_of(case, &built.site);
                match built.site.kernel() {
                    Some(commit) => variant.kernel = Some(commit.to_string()),
                    // The folder is one of the root.
                    None if variant.root.is_some() => variant.cwd.clone_from(&cwd),
                    None => variant.cwd = Some(built.site.below(cwd.as_deref())),
                }
                variant.tree = tree_of(case, &built.site);
                variant
            })
            .collect();
        for fields in [
            &mut experiment.kernel,
            &mut experiment.boot,
            &mut experiment.cpu_model,
            &mut experiment.like,
            &mut experiment.root,
        ] {
            fields.clear();
        }
        experiment.kernels.extend(sides[1].case.experiment.kernels.clone());
        if sides[0].built.site.kernel().is_some() {
            experiment.kernel_tree = Some(self.top.clone());
        }
        let keys: Vec<&str> = sides.iter().map(|side| side.built.site.key.as_str()).collect();
        experiment.label = Some(Self::label(&keys.join(" "), &experiment));
        resolve(&experiment, &HostSurroundings)
    }

    /// A label made of the keys and the experiment of a recording, to find the recording again.
    fn label(keys: &str, experiment: &Experiment) -> String {
        let text = experiment.to_toml().unwrap_or_default();
        let text = format!("{keys}\n{}\n{text}", env!("CARGO_PKG_VERSION"));
        digest(text.as_bytes())[..16].to_string()
    }

    /// The newest finished recording with a label; a damaged recording counts as none and is made again.
    fn recorded(&self, label: Option<&str>, experiment: &str) -> Result<Option<Recording>> {
        let Ok(store) = Store::open_for_reading(&self.store) else { return Ok(None) };
        let heads = store.list().map_err(StoreError::carried)?;
        let head = heads.iter().rev().find(|head| {
            matches!(head.state, State::Finished | State::StoppedSettled)
                && head.label.as_deref() == label
                && head.experiment == experiment
        });
        Ok(head.and_then(|head| store.read(&head.id).ok()))
    }

    fn experiment(&self, case: &Case, site: &Site, seeds: Seeds) -> Experiment {
        let mut experiment = case.experiment.clone();
        experiment.tree = tree_of(case, site);
        experiment.pairs = Some(seeds.count());
        match site.kernel() {
            Some(commit) => {
                experiment.kernel_tree = Some(self.top.clone());
                experiment.kernel = vec![commit.to_string()];
                experiment.cwd = None;
            }
            None if !experiment.root.is_empty() => {}
            None => experiment.cwd = Some(site.below(experiment.cwd.as_deref())),
        }
        experiment.root = root_of(case, site).into_iter().collect();
        for kernel in &mut experiment.kernel {
            *kernel = kernel_at(site, kernel);
        }
        experiment.label = Some(Self::label(&site.key, &experiment));
        experiment
    }

    fn plan(&self, case: &Case, site: &Site, seeds: Seeds) -> Result<Plan> {
        resolve(&self.experiment(case, site, seeds), &HostSurroundings)
    }

    /// Makes a plan's runs.
    fn record(
        &self,
        plan: &Plan,
        mut machine: Box<dyn Machine + '_>,
        state: &MachineState,
    ) -> Result<Recording> {
        let writer = Store::open_for_writing(&self.store)
            .and_then(|store| store.begin(plan, state, unix_ns()))
            .map_err(StoreError::carried)?;
        let mut progress = progress::on_stderr(self.globals.quiet, Who::Gate);
        let made = make_runs(
            plan,
            &[],
            (machine.as_mut(), state, self.interrupt),
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
            Ending::InputChanged(changed) => Err(fail(Status::NotComparable, changed.in_words())),
            Ending::Failed { variant, failure, .. } => {
                let work = plan.variants[usize::from(variant)].work.describe();
                let (what, printed) = (failure::in_words(&failure), failure::printed(&failure));
                let why = format!("'{work}': {what}{printed}");
                Err(fail(Status::WorkFailed, why))
            }
        }
    }
}

/// A case's kernel, in a revision's tree if it is a file of that.
fn kernel_at(site: &Site, kernel: &str) -> String {
    kernel.strip_prefix(OF_REVISION).map_or_else(
        || kernel.to_string(),
        |file| site.folder.join(file).to_string_lossy().into_owned(),
    )
}

/// The folder that the guests of a case have at /tree; `None` if no guest is booted.
fn tree_of(case: &Case, site: &Site) -> Option<PathBuf> {
    site.tree().filter(|_| case.boots_kernel() && case.experiment.root.is_empty())
}

/// The root of a case's guests; a relative path is one of the revision's tree.
fn root_of(case: &Case, site: &Site) -> Option<String> {
    let root = case.experiment.root.first()?;
    Some(site.below(Some(Path::new(root))).to_string_lossy().into_owned())
}

/// Deletes the oldest files that name recordings, if there are too many.
pub(crate) fn forget_counted(folder: &Path) {
    let counted = std::fs::read_dir(folder);
    let mut counted: Vec<_> = counted
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    counted.sort();
    let surplus = counted.len().saturating_sub(COUNTED_MAX);
    for (_, path) in &counted[..surplus] {
        let _ = std::fs::remove_file(path);
    }
}

/// Deletes the oldest recordings of a store of gates, if there are too many. A recording that cannot be deleted stays.
pub(crate) fn forget_old(globals: &Globals, store: &Path) {
    // A store that the user named belongs to the user.
    if globals.named_store().is_some() {
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

/// The path of the store for a gate's recordings: the store that the user names, else `beside`.
pub(crate) fn store_path(globals: &Globals, beside: PathBuf) -> Result<PathBuf> {
    let path = globals.named_store().unwrap_or(beside);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)
            .with_context(|| {
                format!("cannot make the folder '{}' for recordings", folder.display())
            })
            .status(Status::Missing)?;
    }
    check_store_owner(&path)?;
    Ok(path)
}
