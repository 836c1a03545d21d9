//! The `immediate` workload: numbers that rarely change are read from memory, read from the instruction stream, or not read at all.
//!
//! The workload models a kernel's immediate values (2009): each operation reads some integers in cache lines of their own and
//! branches on each. The forms have the same length, so that only the source of the number differs. A walk over other lines between
//! operations can evict the caches. The twin does the same walk, so that its cost is told apart.

mod block;

use crate::error::WorkError;
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::{ParamSpec, Params, number, one_of};
use crate::patched::require_patched;
use crate::random::{Random, below, fold};
use crate::residency::use_small_pages;
use crate::spec::WorkloadSpec;
use crate::walk::Walk;
use crate::work::{PATH, Work};
use block::{Block, FLAG, LINE_BYTES, NUMBER, READS_MAX};
use opcost_record::Invariant;
use patchpoint::{Call, RawKey, Transaction};

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "immediate",
    summary: "numbers that seldom change, read from memory or from instructions",
    operation: "'reads' numbers read, with a branch on each",
    ops_default: "10000",
    programs: None,
    figures: &[],
    params: &[
        ParamSpec {
            name: PATH,
            default: "load",
            values: NAMES,
            help: "load: from memory, each number in a cache line of its own; immediate: patched \
                   into the instructions; branch: the branches themselves are patched",
            check: |value| one_of(value, &NAMES.split('|').collect::<Vec<_>>()),
        },
        ParamSpec {
            name: "reads",
            default: "128",
            values: "1..=4096",
            help: "numbers read in an operation; 32, 128 and 4096 in the record of 2009",
            check: |value| number(value, 1..=READS_MAX),
        },
        ParamSpec {
            name: "pollute",
            default: "0",
            values: "0..=1048576",
            help: "cache lines walked over before each operation, in random order; counted with our \
                   own loop",
            check: |value| number(value, 0..=1 << 20),
        },
    ],
    prepare: |params, seed| Ok(Box::new(Immediate::prepare(params, seed)?)),
};

const NAMES: &str = "load|immediate|branch";

/// Limits of the warm-up: operations, and reads plus steps of the walk.
const WARM_UP_OPS: u64 = 10_000;
const WARM_UP_STEPS: u64 = 10_000_000;

/// The loop's input, and its results.
struct Pass {
    lines: *const u8,
    entry: u64,
    ops: u64,
    /// Operations done so far.
    done: u64,
    /// Branches taken; none while the numbers are 0.
    taken: u64,
}

type Passage = unsafe extern "C" fn(*mut Pass, *const Walk);

/// One code path: the loop with its block, and the key that must be patched.
struct Path {
    name: &'static str,
    passage: Passage,
    key: Option<fn() -> *const RawKey>,
}

static PATHS: [Path; 3] = [
    Path { name: "load", passage: through::<LOADS>, key: None },
    Path { name: "immediate", passage: through::<IMMEDIATES>, key: Some(|| NUMBER.raw()) },
    Path { name: "branch", passage: through::<BRANCHES>, key: Some(|| FLAG.raw()) },
];

/// The loop that the work executes.
static PASSAGE: Call<Passage> = Call::new(c"immediate_pass", through::<LOADS>);

const LOADS: usize = 0;
const IMMEDIATES: usize = 1;
const BRANCHES: usize = 2;
const NOTHING: usize = 3;
const BLOCKS: [Block; 4] = [block::loads, block::immediates, block::branches, block::nothing];

/// Goes through all operations of a pass with one of the blocks, or through the loop alone.
///
/// # Safety
/// Nothing else uses the pass, which has `READS_MAX` lines; `walk` is valid.
#[inline(never)]
unsafe extern "C" fn through<const BLOCK: usize>(pass: *mut Pass, walk: *const Walk) {
    // SAFETY: as the caller promises.
    let (pass, walk) = unsafe { (&mut *pass, &*walk) };
    // All operations at once, unless there is a walk before each.
    let at_once = if walk.steps() == 0 { pass.ops } else { 1 };
    while pass.done < pass.ops {
        walk.go();
        // SAFETY: the block reads only lines that exist, and is entered at one of its reads.
        pass.taken += unsafe { BLOCKS[BLOCK](pass.lines, pass.entry, at_once) };
        pass.done += at_once;
    }
}

/// A line with a number. There are twice as many lines as are read, so that the first may be any of the first half.
#[repr(align(64))]
#[derive(Clone)]
struct Line([u32; LINE_BYTES / 4]);

struct Immediate {
    path: &'static Path,
    lines: Vec<Line>,
    /// The index of the first line.
    first: usize,
    reads: u64,
    walk: Walk,
    ops: u64,
    done: u64,
    done_twin: u64,
    taken: u64,
}

impl Immediate {
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        use_small_pages();
        let mut random = Random::seeded(seed);
        Ok(Immediate {
            path: take(params.text(PATH))?,
            lines: vec![Line([0; LINE_BYTES / 4]); 2 * READS_MAX as usize],
            first: below(random.draw() >> 32, 32, READS_MAX) as usize,
            reads: params.number("reads"),
            walk: Walk::lay_out(params.number("pollute"), random.draw()),
            ops: params.number("ops"),
            done: 0,
            done_twin: 0,
            taken: 0,
        })
    }

    fn pass(&self, ops: u64) -> Pass {
        let lines = self.lines[self.first..].as_ptr().cast();
        Pass { lines, entry: block::entry(self.reads), ops, done: 0, taken: 0 }
    }

    fn go(&self, ops: u64) -> Pass {
        let mut pass = self.pass(ops);
        // SAFETY: the pass and the walk belong to this workload; enough lines follow the first.
        unsafe { patchpoint::call!(PASSAGE, &raw mut pass, &raw const self.walk) };
        pass
    }

    fn go_without_operations(&self, ops: u64) -> Pass {
        let mut pass = Pass { entry: 0, ..self.pass(ops) };
        // SAFETY: as above.
        unsafe { through::<NOTHING>(&mut pass, &self.walk) };
        pass
    }

    /// Checks that every read of one operation sees the number, both 1 and 0.
    fn verify(&mut self) -> Result<(), WorkError> {
        for number in [1, 0] {
            self.set_number(number)?;
            let (found, expected) = (self.go(1).taken, u64::from(number) * self.reads);
            if found != expected {
                self.set_number(0)?;
                return Err(WorkError::Wrong { path: self.path.name.into(), found, expected });
            }
        }
        Ok(())
    }

    /// Sets the number in memory, in the instructions, and in the branches.
    fn set_number(&mut self, number: u32) -> Result<(), WorkError> {
        for line in &mut self.lines {
            line.0[0] = number;
        }
        let mut change = Transaction::new();
        change.set_value(&NUMBER, number).set_branch(&FLAG, number != 0);
        change.commit().map_err(|source| WorkError::Patch { path: self.path.name.into(), source })
    }
}

/// Directs the loop to the code of a path.
fn take(name: &str) -> Result<&'static Path, WorkError> {
    let Some(path) = PATHS.iter().find(|path| path.name == name) else {
        return Err(WorkError::NoPath { path: name.into(), known: NAMES });
    };
    let mut change = Transaction::new();
    change.set_call(&PASSAGE, path.passage).set_value(&NUMBER, 0).set_branch(&FLAG, false);
    change.commit().map_err(|source| WorkError::Patch { path: name.into(), source })?;
    if let Some(key) = path.key {
        require_patched(name, &[key()])?;
    }
    Ok(path)
}

impl Work for Immediate {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn exchange(&mut self, path: &str) -> Result<(), WorkError> {
        self.path = take(path)?;
        Ok(())
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        self.verify()?;
        let steps = self.reads + self.walk.steps();
        let ops = self.ops.min(WARM_UP_OPS).min(WARM_UP_STEPS / steps).max(1);
        self.go_without_operations(ops);
        self.go(ops);
        Ok(())
    }

    fn twin(&mut self) {
        self.done_twin = self.go_without_operations(self.ops).done;
    }

    fn work(&mut self) -> Result<(), WorkError> {
        let pass = self.go(self.ops);
        (self.done, self.taken) = (pass.done, pass.taken);
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        let hash_of = |done| fold(fold(fold(0, self.reads), self.first as u64), done);
        let (twin, work) = (hash_of(self.done_twin), hash_of(self.done));
        if twin != work {
            return Err(WorkError::Twin { twin, work });
        }
        if self.taken != 0 {
            let path = self.path.name.into();
            return Err(WorkError::Wrong { path, found: self.taken, expected: 0 });
        }
        Ok(vec![
            hash(work),
            count("ops-immediate", self.done),
            count("reads", self.done * self.reads),
            count(PAGE_FAULTS_EXPECTED, 0),
        ])
    }
}

#[cfg(test)]
mod tests;
