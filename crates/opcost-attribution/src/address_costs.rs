//! The cost of each instruction of a variant, summed over its runs.

use crate::function_costs::{VariantOf, matching, profiled_runs};
use opcost_base::exit::{HasStatus, Status};
use opcost_record::{AddressCost, AddressCosts, Transfer};
use std::collections::BTreeMap;

/// The cost of each instruction of a variant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VariantAddresses {
    /// The sums of all runs. The functions have the names that other reports show: a part that the compiler split off a function
    /// is the function.
    pub costs: AddressCosts,
    /// The runs that were summed: finished runs of blocks.
    pub runs: u64,
    /// Whether every run executed every instruction equally often.
    pub repeats: bool,
}

/// The error that a variant has no costs by address.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "'{name}' of recording {recording}: no finished run has costs by address; record it again with --machine emulated \
     --addresses"
)]
pub struct NoAddresses {
    name: String,
    recording: String,
}

impl NoAddresses {
    pub(crate) fn of(variant: VariantOf<'_>) -> NoAddresses {
        NoAddresses { name: variant.name().to_string(), recording: variant.recording.id.clone() }
    }
}

impl HasStatus for NoAddresses {
    fn status(&self) -> Status {
        Status::Usage
    }
}

/// Sums the cost of each instruction over a variant's runs.
///
/// # Errors
/// No finished run of the variant has costs by address.
pub fn address_costs(variant: VariantOf<'_>) -> Result<VariantAddresses, NoAddresses> {
    let runs = profiled_runs(variant.recording);
    let runs = runs.iter().filter(|run| run.variant == variant.variant);
    let runs: Vec<_> = runs.filter(|run| !run.profile.addresses.is_empty()).collect();
    let matching = matching(&[variant], std::slice::from_ref(&runs));
    let mut sums: BTreeMap<FunctionAddress, [u64; 2]> = BTreeMap::new();
    let mut transfers: BTreeMap<(FunctionAddress, FunctionAddress), u64> = BTreeMap::new();
    let mut first = None;
    let mut repeats = true;
    for run in &runs {
        let of_function = |function| matching.number(0, function);
        let numbers: Vec<u32> = run.profile.functions.iter().map(of_function).collect();
        let mut of_run: BTreeMap<FunctionAddress, [u64; 2]> = BTreeMap::new();
        for AddressCost { function, address, executions, cost } in &run.profile.addresses {
            let place = (numbers[*function as usize], *address);
            add(of_run.entry(place).or_default(), [*executions, *cost]);
        }
        for Transfer { from, to, times } in &run.profile.transfers {
            let [from, to] = [from, to].map(|place| (numbers[place.0 as usize], place.1));
            let sum = transfers.entry((from, to)).or_default();
            *sum = sum.saturating_add(*times);
        }
        for (place, amount) in &of_run {
            add(sums.entry(*place).or_default(), *amount);
        }
        repeats &= *first.get_or_insert_with(|| of_run.clone()) == of_run;
    }
    if sums.is_empty() {
        return Err(NoAddresses::of(variant));
    }
    let costs = sums.into_iter().map(|((function, address), [executions, cost])| AddressCost {
        function,
        address,
        executions,
        cost,
    });
    let transfers = transfers.into_iter().map(|((from, to), times)| Transfer { from, to, times });
    let functions = matching.functions().to_vec();
    let costs = AddressCosts { functions, costs: costs.collect(), transfers: transfers.collect() };
    Ok(VariantAddresses { costs, runs: runs.len() as u64, repeats })
}

/// The number of a function, and an address.
type FunctionAddress = (u32, u64);

fn add(sums: &mut [u64; 2], amounts: [u64; 2]) {
    sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum = sum.saturating_add(amount));
}
