//! The cost of each instruction in every run of a variant.

use crate::address_costs::NoAddresses;
use crate::annotation::{Flow, Own};
use crate::function_costs::{ProfiledRun, VariantOf, matching, profiled_runs};
use crate::matching::Matching;
use crate::patch_sites::is_retpoline;
use opcost_record::profile::KERNEL;
use opcost_record::{AddressCost, Context, Function};
use std::collections::BTreeMap;

/// A function of a variant.
pub struct CountedFunction<'a> {
    /// Its place among the functions of [`AddressRuns`].
    pub number: usize,
    /// The function.
    pub function: &'a Function,
    /// The cost over all runs.
    pub cost: u64,
}

/// The instructions of a variant, run by run.
pub struct AddressRuns<'a> {
    runs: Vec<ProfiledRun<'a>>,
    matching: Matching,
}

impl<'a> AddressRuns<'a> {
    /// Finds the finished runs of a variant that have costs by address.
    ///
    /// # Errors
    /// There are none.
    pub fn of(variant: VariantOf<'a>) -> Result<AddressRuns<'a>, NoAddresses> {
        let mut runs = profiled_runs(variant.recording);
        runs.retain(|run| run.variant == variant.variant && !run.profile.addresses.is_empty());
        if runs.is_empty() {
            return Err(NoAddresses::of(variant));
        }
        let matching = matching(&[variant], &[runs.iter().collect()]);
        Ok(AddressRuns { runs, matching })
    }

    /// The functions, each with its cost over all runs; those that have none stay.
    pub fn functions(&self) -> Vec<(&Function, u64)> {
        let mut costs = vec![0u64; self.matching.functions().len()];
        for run in &self.runs {
            for row in &run.profile.addresses {
                let function = &run.profile.functions[row.function as usize];
                let cost = &mut costs[self.matching.number(0, function) as usize];
                *cost = cost.saturating_add(row.cost);
            }
        }
        self.matching.functions().iter().zip(costs).collect()
    }

    /// The functions with a cost whose code is in files.
    pub fn in_files(&self) -> Vec<CountedFunction<'_>> {
        let all = self.functions().into_iter().enumerate();
        let all = all.map(|(number, (function, cost))| CountedFunction { number, function, cost });
        all.filter(|CountedFunction { function: Function { symbol, module, .. }, cost, .. }| {
            *cost > 0 && !symbol.starts_with('[') && (module == KERNEL || !module.starts_with('['))
        })
        .collect()
    }

    /// The costs of a function, which is one of [`functions`](Self::functions) by its place there: each address in each run.
    pub fn costs(&self, function: usize) -> Vec<Vec<(u64, Own)>> {
        let of_run = |run: &ProfiledRun<'_>| {
            let functions = run.profile.functions.iter();
            let is_own: Vec<bool> = functions
                .map(|known| self.matching.number(0, known) as usize == function)
                .collect();
            let mut sums: BTreeMap<u64, Own> = BTreeMap::new();
            for AddressCost { function, address, executions, cost } in &run.profile.addresses {
                if is_own[*function as usize] {
                    let own = Own { cost: *cost, samples: 0, executions: *executions };
                    sums.entry(*address).or_default().add(own);
                }
            }
            sums.into_iter().collect::<Vec<_>>()
        };
        self.runs.iter().map(of_run).collect()
    }

    /// Where the calls of a function went, which is one of [`functions`](Self::functions) by its place there.
    pub fn flow(&self, function: usize) -> Flow {
        let functions = self.matching.functions();
        let mut transfers: BTreeMap<(u64, (u32, u64)), u64> = BTreeMap::new();
        let mut callees: BTreeMap<u32, u64> = BTreeMap::new();
        // The cost of each retpoline, the address of its first instruction, and how often it began.
        let mut passes: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        for run in &self.runs {
            let numbers: Vec<u32> = (run.profile.functions.iter())
                .map(|known| self.matching.number(0, known))
                .collect();
            let number = |of: u32| numbers[of as usize];
            for one in &run.profile.transfers {
                let (from, to) = (number(one.from.0), number(one.to.0));
                if from as usize == function {
                    let key = (one.from.1, (to, one.to.1));
                    add(transfers.entry(key).or_default(), one.times);
                }
            }
            let contexts = &run.profile.contexts;
            for Context { parent, function: called, calls, .. } in contexts {
                let caller = parent.map(|parent| number(contexts[parent as usize].function));
                if *calls > 0 && caller.is_some_and(|caller| caller as usize == function) {
                    add(callees.entry(number(*called)).or_default(), *calls);
                }
            }
            for one in &run.profile.addresses {
                let of = number(one.function);
                if is_retpoline(&functions[of as usize].symbol) {
                    let (cost, first, begun) = passes.entry(of).or_insert((0, one.address, 0));
                    add(cost, one.cost);
                    if one.address == *first {
                        add(begun, one.executions);
                    }
                }
            }
        }
        let name = |of: u32| functions[of as usize].symbol.clone();
        let went = |((from, (of, to)), times)| (from, (name(of), to), times);
        let whole = |(of, (cost, _, begun)): (u32, (u64, u64, u64))| {
            let instructions = cost.checked_div(begun).filter(|one| one * begun == cost)?;
            Some((name(of), instructions))
        };
        Flow {
            transfers: transfers.into_iter().map(went).collect(),
            callees: callees.into_iter().map(|(of, calls)| (name(of), calls)).collect(),
            retpolines: passes.into_iter().filter_map(whole).collect(),
        }
    }

    /// The total of each run.
    pub fn totals(&self) -> Vec<u64> {
        self.runs.iter().map(|run| run.total).collect()
    }

    /// The operations of each run, 1 for a command; and whether they are known.
    pub fn operations(&self) -> (Vec<u64>, bool) {
        let known = self.runs.iter().all(|run| run.ops.is_some_and(|ops| ops > 0));
        (self.runs.iter().map(|run| run.ops.filter(|_| known).unwrap_or(1)).collect(), known)
    }
}

/// The functions that are in files of both variants, by their numbers on each side, with the change of their cost; a cost of an
/// operation where operations are known. The one that changed most comes first.
pub fn by_change(sides: [&AddressRuns<'_>; 2]) -> Vec<([usize; 2], f64)> {
    let ops = sides.map(|side| side.operations().0.iter().sum::<u64>().max(1) as f64);
    let [old, new] = sides.map(AddressRuns::in_files);
    let both = new.iter().filter_map(|new| {
        let old = old.iter().find(|old| old.function.symbol == new.function.symbol)?;
        Some(([old.number, new.number], new.cost as f64 / ops[1] - old.cost as f64 / ops[0]))
    });
    let mut both: Vec<_> = both.collect();
    both.sort_by(|one, two| two.1.abs().total_cmp(&one.1.abs()));
    both
}
