//! The `build` workload: the system's compiler compiles a small C source tree over and over, as in a kernel build.
//!
//! The sources are drawn from the seed and need no header but their own. The invariant is that every build makes the same objects,
//! byte by byte. The compilers, which are separate processes, spend the time. The workload only starts `jobs` of them at the
//! same time, and waits. A guest of the emulated machine gets the host's compiler.

mod compiler;
mod driver;
mod folder;
mod source;

use crate::error::WorkError;
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::{ParamSpec, Params, number, one_of};
use crate::random::fold;
use crate::spec::WorkloadSpec;
use crate::work::Work;
use compiler::Compiler;
use folder::Folder;
use opcost_record::{Domain, Invariant, MetricKey, Reading};
use opcost_sys::rusage::{self, Rusage};

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "build",
    summary: "a small C source tree is compiled",
    operation: "one build of the whole tree",
    ops_default: "1",
    programs: Some(|params, environment| driver::programs(params.text("cc"), environment)),
    figures: &[],
    params: &[
        ParamSpec {
            name: "jobs",
            default: "1",
            values: "1..=64",
            help: "compilers that run at the same time, as make -j has it",
            check: |value| number(value, 1..=JOBS_MAX as u64),
        },
        ParamSpec {
            name: "files",
            default: "8",
            values: "1..=1000",
            help: "source files of the tree",
            check: |value| number(value, 1..=1000),
        },
        ParamSpec {
            name: "functions",
            default: "20",
            values: "1..=1000",
            help: "functions of each source file",
            check: |value| number(value, 1..=1000),
        },
        ParamSpec {
            name: "optimise",
            default: "2",
            values: "0|1|2|3",
            help: "the compiler's level of optimisation",
            check: |value| one_of(value, &["0", "1", "2", "3"]),
        },
        ParamSpec {
            name: "cc",
            default: "cc",
            values: "a program, by name or absolute path",
            help: "the C compiler; another makes other objects, so it is another work",
            check: |value| (!value.is_empty() && !value.contains('\0')).then(|| value.into()),
        },
    ],
    prepare: |params, seed| Ok(Box::new(Build::prepare(params, seed)?)),
};

const JOBS_MAX: usize = 64;

struct Build {
    folder: Folder,
    compiler: Compiler,
    ops: u64,
    /// Hash over the sources.
    sources: u64,
    /// Hash over the objects of the warm-up.
    objects: u64,
    done: u64,
    twin_done: u64,
    /// The resources that the warm-up's compilers used.
    before: Rusage,
    /// Whether all compilers of this process belong to this work.
    charged_alone: bool,
}

impl Build {
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        let compiler_path = driver::find(params.text("cc"), std::env::var_os("PATH").as_deref())?;
        let folder = Folder::make()?;
        let files = params.number("files");
        let sources = source::write(&folder, files, params.number("functions"), seed)?;
        let compiler = Compiler::ready(
            &compiler_path,
            params.text("optimise"),
            &folder,
            files,
            params.number("jobs") as usize,
        )?;
        Ok(Build {
            folder,
            compiler,
            ops: params.number("ops"),
            sources,
            objects: 0,
            done: 0,
            twin_done: 0,
            before: Rusage::default(),
            charged_alone: params.number("threads") == 0,
        })
    }

    /// Returns the resources that the compilers have used so far.
    fn used_by_children() -> Result<Rusage, WorkError> {
        rusage::of_children().map_err(|source| WorkError::Setup {
            what: "ask for the compilers' CPU time with getrusage".into(),
            source,
            advice: "allow that system call",
        })
    }
}

impl Work for Build {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        self.compiler.build()?;
        self.objects = self.folder.hash_objects()?;
        self.before = Self::used_by_children()?;
        Ok(())
    }

    fn twin(&mut self) {
        while std::hint::black_box(self.twin_done) < self.ops {
            self.twin_done += 1;
        }
    }

    fn work(&mut self) -> Result<(), WorkError> {
        while self.done < self.ops {
            self.compiler.build()?;
            self.done += 1;
        }
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        let work = fold(fold(0, self.done), self.sources);
        let twin = fold(fold(0, self.twin_done), self.sources);
        if twin != work {
            return Err(WorkError::Twin { twin, work });
        }
        let objects = self.folder.hash_objects()?;
        if objects != self.objects {
            return Err(WorkError::OtherObjects { first: self.objects, last: objects });
        }
        Ok(vec![
            hash(work),
            Invariant { name: "objects-hash".into(), value: format!("{objects:016x}") },
            count("ops-build", self.done),
            count(PAGE_FAULTS_EXPECTED, 0),
        ])
    }

    fn figures(&self) -> Vec<Reading> {
        // The kernel reports the compilers of several threads as one sum.
        if !self.charged_alone {
            return Vec::new();
        }
        // The compilers' own resources, since this process only waits.
        let Ok(used) = Self::used_by_children().map(|used| used.since(&self.before)) else {
            return Vec::new();
        };
        used.figures()
            .map(|(name, value)| Reading::plain(MetricKey::new(name, Domain::All, "rusage"), value))
            .to_vec()
    }
}

#[cfg(test)]
mod tests;
