//! The `pvops` workload: page table entries read and written through a table of operations.
//!
//! The workload models a kernel's paravirt_ops (2009): each access to a page table goes through an operation that a hypervisor may
//! replace; on hardware the operation is an identity, a store or nothing. Several code paths make the same accesses; they differ in
//! the way in which code reaches the operation. One transaction of patchpoint takes a path, and also directs the loop to its code.
//!
//! The loop does not check the effect of an operation. Instead, every value read is part of a value written back, so the entries
//! show the effects afterwards. The expected entries are computed once more without any of the paths.

mod operations;
mod pass;
mod path;

use crate::error::WorkError;
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::{ParamSpec, Params, number, one_of};
use crate::random::{Random, fold};
use crate::residency::use_small_pages;
use crate::spec::WorkloadSpec;
use crate::work::{PATH, Work};
use opcost_record::Invariant;
use pass::{Draw, Pass, RANGE};
use path::Path;

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "pvops",
    summary: "page table entries changed through a table of operations, patched or not",
    operation: "one entry read, changed and written back: four operations of the table",
    ops_default: "1000000",
    programs: None,
    figures: &[],
    params: &[
        ParamSpec {
            name: PATH,
            default: "unpatched",
            values: path::NAMES,
            help: path::HELP,
            check: |value| one_of(value, &path::NAMES.split('|').collect::<Vec<_>>()),
        },
        ParamSpec {
            name: "sites",
            default: "hot",
            values: "hot|cold",
            help: "hot: the sites of the same 64 operations again and again; cold: those of one of 64 \
                   copies of the code, drawn each time",
            check: |value| one_of(value, &["hot", "cold"]),
        },
        ParamSpec {
            name: "entries",
            default: "512",
            values: "1..=1048576",
            help: "entries of the page table, of 8 bytes; which one is changed is drawn, where sites \
                   are hot for 256 at a time",
            check: |value| number(value, 1..=1 << 20),
        },
    ],
    prepare: |params, seed| Ok(Box::new(Pvops::prepare(params, seed)?)),
};

/// Operations of the warm-up.
const WARM_UP_OPS: u64 = 10_000;

/// The counted names of the table's operations; an operation of the work is one of each.
const NAMES: [&str; 4] = ["pte_val", "make_pte", "set_pte", "flush"];

struct Pvops {
    path: &'static Path,
    sites_are_cold: bool,
    ops: u64,
    seed: u64,
    entries: Vec<u64>,
    work: Option<Pass>,
    twin: Option<Pass>,
}

impl Pvops {
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        let sites_are_cold = params.text("sites") == "cold";
        use_small_pages();
        Ok(Pvops {
            path: path::take(params.text(PATH), sites_are_cold)?,
            sites_are_cold,
            ops: params.number("ops"),
            seed,
            entries: initial_entries(params.number("entries"), seed),
            work: None,
            twin: None,
        })
    }

    fn pass(&mut self, seed: u64, ops: u64) -> Pass {
        Pass {
            entries: self.entries.as_mut_ptr(),
            length: self.entries.len() as u64,
            seed,
            ops,
            done: 0,
            hash: 0,
        }
    }

    fn go(&mut self, seed: u64, ops: u64) -> Pass {
        let mut pass = self.pass(seed, ops);
        // SAFETY: the entries are this workload's, and as many as the pass says.
        unsafe { path::go(&mut pass) };
        pass
    }

    fn go_without_operations(&mut self, seed: u64, ops: u64) -> Pass {
        let mut pass = self.pass(seed, ops);
        // SAFETY: as above.
        unsafe { path::go_without_operations(&mut pass, self.sites_are_cold) };
        pass
    }

    fn reset(&mut self) {
        let initial = initial_entries(self.entries.len() as u64, self.seed);
        self.entries.copy_from_slice(&initial);
    }

    /// Checks that the entries are the result of `ops` operations.
    fn verify(&self, seed: u64, ops: u64) -> Result<(), WorkError> {
        let initial = initial_entries(self.entries.len() as u64, self.seed);
        let expected = checksum(&expected(initial, self.sites_are_cold, seed, ops));
        match checksum(&self.entries) {
            found if found == expected => Ok(()),
            found => Err(WorkError::Wrong { path: self.path.name.into(), found, expected }),
        }
    }
}

fn checksum(entries: &[u64]) -> u64 {
    entries.iter().fold(0, |sum, entry| fold(sum, *entry))
}

/// Returns entries that look like a page table's: a frame's number and some flags.
fn initial_entries(length: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::seeded(seed ^ 0x7074_6573);
    (0..length).map(|_| random.draw() & 0x000f_ffff_ffff_f067).collect()
}

/// Returns the entries that a pass must leave, computed without any of its code.
fn expected(mut entries: Vec<u64>, sites_are_cold: bool, seed: u64, ops: u64) -> Vec<u64> {
    let mut random = Random::seeded(seed);
    let length = entries.len() as u64;
    let in_ranges = if sites_are_cold { 0 } else { pass::in_ranges(ops, length) };
    let mut change = |adjacent: u64| {
        let Draw { index, flags, .. } = Draw::below(length - adjacent + 1, &mut random);
        let changed = &mut entries[index as usize..(index + adjacent) as usize];
        changed.iter_mut().for_each(|entry| *entry ^= flags);
    };
    (0..in_ranges / RANGE).for_each(|_| change(RANGE));
    (in_ranges..ops).for_each(|_| change(1));
    entries
}

impl Work for Pvops {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn exchange(&mut self, path: &str) -> Result<(), WorkError> {
        self.path = path::take(path, self.sites_are_cold)?;
        Ok(())
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        // Another stream than the work's, so that no branch predictor knows the work by heart.
        let seed = !self.seed;
        self.go_without_operations(seed, WARM_UP_OPS);
        self.reset();
        self.go(seed, WARM_UP_OPS);
        self.verify(seed, WARM_UP_OPS)?;
        self.reset();
        Ok(())
    }

    fn twin(&mut self) {
        self.twin = Some(self.go_without_operations(self.seed, self.ops));
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work = Some(self.go(self.seed, self.ops));
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        let hash_of = |pass: Option<Pass>| pass.map_or(0, |pass| fold(pass.hash, pass.done));
        let (twin, work) = (hash_of(self.twin), hash_of(self.work));
        if twin != work {
            return Err(WorkError::Twin { twin, work });
        }
        let done = self.work.map_or(0, |pass| pass.done);
        self.verify(self.seed, done)?;
        let mut invariants = vec![hash(work)];
        invariants.extend(NAMES.map(|name| count(format!("ops-{name}"), done)));
        // Shortened, so that the checksums of many processes can be added.
        invariants.push(count("checksum-entries", checksum(&self.entries) >> 16));
        invariants.push(count(PAGE_FAULTS_EXPECTED, 0));
        // The next run in this process begins like this one.
        self.reset();
        Ok(invariants)
    }
}

#[cfg(test)]
mod tests;
