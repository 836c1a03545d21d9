//! The samples of one interval, by function, process and CPU.

use opcost_profile::symbolise::Sampled;
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use std::collections::{BTreeMap, HashMap};

/// Cost of one function, in the event's unit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FunctionCost {
    /// The cost of the function's own instructions.
    pub own: u64,
    /// The same cost by immediate caller; `None` if the caller is not known.
    pub callers: BTreeMap<Option<Function>, u64>,
}

/// Cost of a process, a thread or a CPU.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GroupCost {
    /// The name of the process or thread; empty for a CPU.
    pub name: String,
    /// The number of the process, or of the thread with its process; empty for a CPU.
    pub detail: String,
    /// The whole cost.
    pub cost: u64,
    /// The kernel's part of the cost.
    pub kernel: u64,
}

/// One interval of sampling.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Interval {
    /// The interval's length, nanoseconds.
    pub elapsed_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples and other events that were lost for lack of room.
    pub lost: u64,
    /// Times that the kernel stopped sampling because samples came too fast.
    pub throttles: u64,
    /// Cost by function.
    pub functions: BTreeMap<Function, FunctionCost>,
    /// Cost by process.
    pub processes: BTreeMap<i32, GroupCost>,
    /// Cost by thread.
    pub threads: BTreeMap<i32, GroupCost>,
    /// Cost by CPU.
    pub cpus: BTreeMap<i32, GroupCost>,
}

impl Interval {
    /// Adds the functions of samples that have names by now.
    pub fn take(&mut self, sampled: &Sampled) {
        let profile = &sampled.profile;
        // Sums by number first: there are many more contexts than functions with their callers.
        let mut edges: HashMap<(u32, Option<u32>), u64> = HashMap::new();
        for context in profile.contexts.iter().filter(|context| context.cost > 0) {
            let caller = context.parent.map(|parent| profile.contexts[parent as usize].function);
            *edges.entry((context.function, caller)).or_default() += context.cost;
        }
        let function = |number: u32| profile.functions[number as usize].clone();
        for ((called, caller), own) in edges {
            let cost = self.functions.entry(function(called)).or_default();
            cost.own += own;
            *cost.callers.entry(caller.map(function)).or_default() += own;
        }
        self.lost += sampled.losses.lost_events;
        self.throttles += sampled.losses.throttles;
    }

    /// Adds another interval.
    pub fn add(&mut self, other: &Interval) {
        self.elapsed_ns += other.elapsed_ns;
        self.samples += other.samples;
        self.lost += other.lost;
        self.throttles += other.throttles;
        for (function, cost) in &other.functions {
            let sum = self.functions.entry(function.clone()).or_default();
            sum.own += cost.own;
            for (caller, own) in &cost.callers {
                *sum.callers.entry(caller.clone()).or_default() += own;
            }
        }
        let groups = [
            (&mut self.processes, &other.processes),
            (&mut self.threads, &other.threads),
            (&mut self.cpus, &other.cpus),
        ];
        for (sums, groups) in groups {
            for (number, group) in groups {
                let sum = sums.entry(*number).or_default();
                sum.name.clone_from(&group.name);
                sum.detail.clone_from(&group.detail);
                sum.cost += group.cost;
                sum.kernel += group.kernel;
            }
        }
    }

    /// The cost of all functions.
    pub fn total(&self) -> u64 {
        self.functions.values().map(|cost| cost.own).sum()
    }

    /// The cost of the kernel's functions, its modules' included.
    pub fn kernel(&self) -> u64 {
        let kernel = self.functions.iter().filter(|(function, _)| in_kernel(function));
        kernel.map(|(_, cost)| cost.own).sum()
    }
}

/// Whether a function is the kernel's or one of its modules'.
pub fn in_kernel(function: &Function) -> bool {
    /// Names in brackets that are no modules of the kernel.
    const OTHERS: [&str; 3] = ["[vdso]", "[vsyscall]", "[jit]"];
    let module = function.module.as_str();
    module == KERNEL || (module.starts_with('[') && !OTHERS.contains(&module))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_profile::losses::Losses;
    use opcost_record::{Context, Profile};

    #[test]
    fn own_costs_are_summed_by_function_and_caller() {
        let function = |symbol: &str, module: &str| Function::new(symbol, module);
        let functions =
            vec![function("main", "/bin/a"), function("read", KERNEL), function("f", "[ext4]")];
        let context = |parent, function, cost| Context { parent, function, calls: 0, cost };
        let contexts = vec![
            context(None, 0, 5),
            context(Some(0), 1, 7),
            context(Some(1), 2, 2),
            context(None, 1, 1),
        ];
        let sampled = Sampled {
            profile: Profile { functions: functions.clone(), contexts, ..Profile::default() },
            losses: Losses { lost_events: 3, throttles: 1, ..Losses::default() },
            ..Sampled::default()
        };
        let mut interval = Interval { elapsed_ns: 10, samples: 4, ..Interval::default() };
        interval.take(&sampled);
        let read = &interval.functions[&functions[1]];
        assert_eq!((read.own, interval.total(), interval.kernel()), (8, 15, 10));
        let callers: Vec<u64> = read.callers.values().copied().collect();
        assert_eq!(callers, [1, 7]);
        let mut sum = interval.clone();
        sum.add(&interval);
        assert_eq!((sum.total(), sum.samples, sum.lost, sum.throttles), (30, 8, 6, 2));
        assert_eq!(sum.functions[&functions[1]].callers.values().sum::<u64>(), 16);
        assert!(!in_kernel(&function("x", "[vdso]")) && !in_kernel(&function("x", "")));
    }
}
