//! The `build` workload: a small C source tree is compiled by the system's compiler, as a kernel
//! build would be, over and over.
//!
//! The sources are drawn from the seed and need no header but their own. Every object has to be the
//! same, byte by byte, in every build: that is the invariant. The time is the compilers', which are
//! processes of their own; the workload itself only starts them, `jobs` at the same time, and waits.
//! A guest of the emulated machine is given the compiler of the host.

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
    /// What the compilers of the warm-up used.
    before: Rusage,
    /// Whether this process has no compilers but this work's.
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

    /// What the compilers have used so far.
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
        // Of several threads' compilers the kernel tells as of one's.
        if !self.charged_alone {
            return Vec::new();
        }
        // The compilers' own, since this process only waits.
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
