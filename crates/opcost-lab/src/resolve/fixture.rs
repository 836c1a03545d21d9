//! Plans for tests, independent of this computer.

use super::{Surroundings, resolve};
use crate::load::Load;
use opcost_kernel::{KernelSpec, Revision, Toolchain};
use opcost_model::experiment::{Command, Experiment, Scalar, Seed, Variant};
use opcost_model::plan::{BlockPlan, CorePlan, EventPlan, Plan};
use opcost_sys::perf::Refusal;
use opcost_sys::scheduling::NoRealTime;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A machine with CPUs 0 and 2 that can count every event except those in `refused`.
pub struct FakeSurroundings {
    /// Labels of events that are refused.
    pub refused: &'static [&'static str],
    /// The value of PATH.
    pub path: Option<OsString>,
    /// The working directory.
    pub dir: PathBuf,
    /// The load.
    pub load: Option<Load>,
    /// Why runs cannot have real-time priority.
    pub no_real_time: Option<NoRealTime>,
}

impl Default for FakeSurroundings {
    fn default() -> Self {
        FakeSurroundings {
            refused: &[],
            path: None,
            dir: "/".into(),
            load: None,
            no_real_time: None,
        }
    }
}

impl Surroundings for FakeSurroundings {
    fn allowed_cpus(&self) -> Vec<usize> {
        vec![0, 2]
    }

    fn primary(&self) -> Option<String> {
        None
    }

    fn load(&self) -> Option<Load> {
        self.load
    }

    fn no_real_time(&self) -> Option<NoRealTime> {
        self.no_real_time
    }

    fn draw_seed(&self) -> u64 {
        4711
    }

    fn sysfs(&self) -> PathBuf {
        "/nonexistent".into()
    }

    fn refusals(&self, events: &[EventPlan]) -> Vec<Option<Refusal>> {
        let refusal = |event: &EventPlan| {
            self.refused
                .contains(&event.key.label().as_str())
                .then(|| Refusal { reason: "no such counter".into(), remedy: "buy one".into() })
        };
        events.iter().map(refusal).collect()
    }

    fn cpuinfo(&self) -> Option<String> {
        Some("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 63\n".into())
    }

    fn kernel(&self, name: &str) -> anyhow::Result<KernelSpec> {
        Ok(KernelSpec::Image(PathBuf::from("/boot").join(name)))
    }

    fn core(&self, name: &str) -> anyhow::Result<CorePlan> {
        let text = opcost_core_model::Core::shipped_text(name).expect("a core that ships");
        Ok(CorePlan::new(name.into(), text)?)
    }

    fn kernel_revision(
        &self,
        tree: &Path,
        name: &str,
        config: &[PathBuf],
    ) -> anyhow::Result<KernelSpec> {
        Ok(KernelSpec::Revision(Revision {
            name: name.into(),
            tree: tree.into(),
            commit: format!("c0ffee of {name}"),
            hash: "f00d".into(),
            config: config.to_vec(),
            toolchain: Toolchain::Gcc,
        }))
    }

    fn recipe_file(&self, folder: &Path, file: &Path) -> PathBuf {
        folder.join(file)
    }

    fn search_path(&self) -> Option<OsString> {
        self.path.clone()
    }

    fn working_dir(&self) -> std::io::Result<PathBuf> {
        Ok(self.dir.clone())
    }
}

/// An experiment of equal workloads named `v0`, `v1`, …
pub fn experiment(variants: usize, pairs: u32) -> Experiment {
    Experiment {
        pairs: Some(pairs),
        seed: Some(Seed::Number(1)),
        variants: (0..variants)
            .map(|number| Variant {
                name: Some(format!("v{number}")),
                workload: Some("syscall".into()),
                ..Variant::default()
            })
            .collect(),
        ..Experiment::default()
    }
}

/// An experiment of two routines of the workload `copy`, exchanged in one process.
pub fn in_process(pairs: u32) -> Experiment {
    let mut asked = experiment(2, pairs);
    for (variant, path) in asked.variants.iter_mut().zip(["libc", "rep-movsb"]) {
        variant.workload = Some("copy".into());
        variant.params.insert("path".into(), Scalar::Text(path.into()));
    }
    Experiment { in_process: true, ..asked }
}

/// `pairs` pairs of two variants in mirrored blocks, as in plans of many pairs.
pub fn mirrored(pairs: u32) -> Vec<BlockPlan> {
    super::schedule::draw(2, pairs, 0, 1, false)
}

/// The plan of [`experiment`].
pub fn plan(variants: usize, pairs: u32) -> Plan {
    resolve(&experiment(variants, pairs), &FakeSurroundings::default()).unwrap()
}

/// An experiment of commands.
pub fn commands(lines: &[&str]) -> Experiment {
    Experiment {
        pairs: Some(2),
        seed: Some(Seed::Number(1)),
        variants: lines
            .iter()
            .map(|line| Variant {
                command: Some(Command::Line(line.to_string())),
                ..Variant::default()
            })
            .collect(),
        ..Experiment::default()
    }
}

/// Puts an executable script into a folder.
pub fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}
