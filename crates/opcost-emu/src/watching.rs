//! Amounts at the entries of functions: the bytes that an allocation asks for, the errors that system calls return.
//!
//! The blocks at which watched functions begin get one more callback, behind the one that follows calls. Every other block stays as
//! it is, so counting costs nothing elsewhere. An entry counts if the calling context was called since the last look: a loop back
//! to a function's first instruction is no call, and an instruction that begins again after a fault is none, either.
//!
//! Programs' allocators call one another: what a function of a sum calls, or jumps to at its end, is not counted again. A jump shows
//! in the stack pointer and the return address, which are still those of the function before.
//!
//! Blocks behind calls get a callback if programs are watched or results are wanted. Control returned from a watched function if its return address is
//! that of the block and its stack pointer is back; a function that it jumped to may have returned.
//!
//! Registers can be read when the stack pointer's place is known (`stack.rs`). A small program may allocate before that, so its first
//! block tells where they are. If an amount could not be read, the report leaves its sum out.

use crate::block::{Block, is_kernel};
use crate::callback;
use crate::callgrind::registers;
use crate::plugin::Plugin;
use crate::stack::Stack;
use crate::target::Target;
use crate::tree::Tree;
use opcost_record::Domain;
use opcost_record::event::{Amount, Measure, Pointer, Watch, Watched, error_name};
use std::collections::{HashMap, HashSet};
use std::ffi::{c_uint, c_void};

/// The largest number of an error (`MAX_ERRNO` of include/linux/err.h).
const ERROR_MAX: u64 = 4095;
/// The most calls whose return is awaited; more are those of tasks that never return.
const AWAITED_MAX: usize = 1 << 16;

/// A sum of amounts.
#[derive(Debug)]
struct Sum {
    name: String,
    domain: Domain,
    measure: Measure,
    /// The functions whose amounts add up to it.
    functions: HashSet<u32>,
    total: u64,
    /// The number of amounts that could not be read.
    unread: u64,
    /// The last function that counted, by task, with the stack pointer and the return address at its entry.
    last: HashMap<u32, (u32, Entered)>,
}

/// The stack pointer and the return address where a function begins.
type Entered = (u64, u64);

/// The memory that programs hold.
#[derive(Debug, Default)]
struct Heap {
    /// The bytes at each address.
    held: HashMap<u64, u64>,
    bytes: u64,
    bytes_max: u64,
    /// The first task that allocated.
    task: Option<u32>,
    /// Whether another task did, which may have memory of its own at the same addresses.
    several: bool,
    /// The number of allocations that could not be read.
    unread: u64,
}

impl Heap {
    fn hold(&mut self, address: u64, bytes: u64, task: u32) {
        if address == 0 {
            return;
        }
        self.several |= *self.task.get_or_insert(task) != task;
        self.free(address, task);
        self.held.insert(address, bytes);
        self.bytes += bytes;
        self.bytes_max = self.bytes_max.max(self.bytes);
    }

    /// A task that another one made by fork frees memory of its own.
    fn free(&mut self, address: u64, task: u32) {
        if let Some(bytes) = self.held.remove(&address) {
            self.several |= self.task != Some(task);
            self.bytes -= bytes;
        }
    }
}

/// A call whose result is awaited.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    /// Where it returns to.
    back: u64,
    what: What,
}

/// What a result tells.
#[derive(Clone, Copy, Debug)]
enum What {
    /// Memory of so many bytes; the first argument.
    Memory(Pointer, u64, u64),
    /// Whether the call failed, for a sum.
    Failure(usize),
}

/// The watched functions and their sums so far.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    functions: HashMap<u32, Vec<Watched>>,
    /// Whether the program's first block is known.
    pub(crate) began: bool,
    sums: Vec<Sum>,
    /// The calls of each context of a watched function at the last look.
    seen: HashMap<u32, u64>,
    heap: Heap,
    /// The calls whose results are awaited, by task and stack pointer at their entry.
    awaited: HashMap<(u32, u64), Awaited>,
    /// Sums and errors in the order in which they came up, with their number.
    failures: Vec<(usize, u16, u64)>,
}

impl Watching {
    /// Watches the functions of a list.
    pub(crate) fn new(watch: &Watch) -> Watching {
        let sum = |sum: &opcost_record::event::Sum| Sum {
            name: sum.name.clone(),
            domain: sum.domain,
            measure: sum.measure,
            functions: HashSet::new(),
            total: 0,
            unread: 0,
            last: HashMap::new(),
        };
        let mut watching =
            Watching { sums: watch.sums.iter().map(sum).collect(), ..Watching::default() };
        for watched in &watch.watched {
            watching.functions.entry(watched.function).or_default().push(*watched);
            watching.sums[watched.sum as usize].functions.insert(watched.function);
        }
        watching
    }

    /// Whether a function is watched.
    pub(crate) fn has(&self, function: u32) -> bool {
        self.functions.contains_key(&function)
    }

    /// Whether returns are watched: for results, and since a function that returned jumps to no other.
    pub(crate) fn awaits(&self) -> bool {
        let is_awaited = |sum: &Sum| sum.domain == Domain::User || sum.measure == Measure::Failures;
        self.sums.iter().any(is_awaited)
    }

    /// All sums so far, each with the number of amounts that could not be read; then failures by error.
    pub(crate) fn totals(&self) -> impl Iterator<Item = u64> {
        let heap_unread = self.heap.unread + u64::from(self.heap.several);
        let sums = self.sums.iter().flat_map(move |sum| match sum.measure {
            Measure::Peak => [self.heap.bytes_max, heap_unread],
            Measure::Left => [self.heap.bytes, heap_unread],
            _ => [sum.total, sum.unread],
        });
        sums.chain(self.failures.iter().map(|(.., times)| *times))
    }

    /// Returns the counts of a region.
    ///
    /// `differences`: between two readings of [`totals`](Self::totals); `whole`: whether the heap began anew with the region. Others
    /// have no peak and nothing left, since these are levels.
    pub(crate) fn counts(&self, differences: &[u64], whole: bool) -> Vec<(String, Domain, u64)> {
        let (sums, failures) = differences.split_at(differences.len().min(2 * self.sums.len()));
        let read = self.sums.iter().zip(sums.chunks(2)).filter(|(_, pair)| pair[1] == 0);
        let is_level = |sum: &Sum| matches!(sum.measure, Measure::Peak | Measure::Left);
        let plain =
            read.filter(|(sum, _)| sum.measure != Measure::Failures && (whole || !is_level(sum)));
        let plain = plain.map(|(sum, pair)| (sum.name.clone(), sum.domain, pair[0]));
        let failures = self.failures.iter().zip(failures).filter(|(_, times)| **times > 0);
        let failures = failures.map(|((sum, error, _), times)| {
            let Sum { name, domain, .. } = &self.sums[*sum];
            (format!("{name}:{}", error_name(*error)), *domain, *times)
        });
        plain.chain(failures).collect()
    }

    /// Begins the run's region: what was allocated before is not of it.
    pub(crate) fn begin(&mut self) {
        self.heap = Heap::default();
    }

    /// A task became another program: its memory is gone.
    pub(crate) fn executed(&mut self, task: u32) {
        if self.heap.task == Some(task) {
            self.heap.held.clear();
            self.heap.bytes = 0;
        }
    }

    /// Forgets calls, since the tree's counts begin anew.
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
    }

    /// Looks at a watched function's first block, which begins in a context of a task.
    fn enter(&mut self, tree: &Tree, (node, task): (u32, u32), begun: &Block, read: &Reader<'_>) {
        let Some(watched) = self.functions.get(&begun.function) else { return };
        let calls = tree.calls(node);
        if self.seen.insert(node, calls).unwrap_or(0) == calls {
            return;
        }
        let (mut knows_heap, entered) = (false, read.stack().zip(read.back()));
        for Watched { amount, pointer, sum: place, .. } in watched {
            let sum = &mut self.sums[*place as usize];
            let caller = tree.function(tree.parent(node));
            if sum.domain == Domain::Kernel
                && caller != begun.function
                && sum.functions.contains(&caller)
            {
                continue;
            }
            if sum.domain == Domain::User {
                let is_of = |node: u32| sum.functions.contains(&tree.function(node));
                if tree.above(node).any(is_of) {
                    continue;
                }
                let Some(entered) = entered else {
                    sum.unread += 1;
                    self.heap.unread +=
                        u64::from(matches!(sum.measure, Measure::Peak | Measure::Left));
                    continue;
                };
                let jumped = |(function, before): &(u32, Entered)| {
                    *before == entered && *function != begun.function
                };
                if sum.last.get(&task).is_some_and(jumped) {
                    continue;
                }
                sum.last.insert(task, (begun.function, entered));
            }
            let awaited = match sum.measure {
                Measure::Peak | Measure::Left => {
                    if std::mem::replace(&mut knows_heap, true) {
                        continue;
                    }
                    let (first, bytes) = (read.argument(0), read.amount(*amount));
                    if let (Pointer::Freed, Some(address)) = (pointer, first) {
                        self.heap.free(address, task);
                        continue;
                    }
                    let memory = bytes.zip(first);
                    memory.map(|(bytes, first)| What::Memory(*pointer, bytes, first))
                }
                Measure::Failures => Some(What::Failure(*place as usize)),
                Measure::Entries | Measure::Each => {
                    sum.total += 1;
                    continue;
                }
                Measure::Amounts => {
                    match read.amount(*amount) {
                        Some(amount) => sum.total = sum.total.wrapping_add(amount),
                        None => sum.unread += 1,
                    }
                    continue;
                }
            };
            match awaited.zip(entered) {
                Some((what, (stack, back))) => {
                    if self.awaited.len() >= AWAITED_MAX {
                        self.awaited.clear();
                    }
                    self.awaited.insert((task, stack), Awaited { back, what });
                }
                None if sum.measure == Measure::Failures => sum.unread += 1,
                None => self.heap.unread += 1,
            }
        }
    }

    /// Looks at a block behind a call, to which a watched function may have returned.
    fn leave(&mut self, task: u32, begun: &Block, read: &Reader<'_>) {
        let Some(stack) = read.stack() else { return };
        let key = (task, stack.wrapping_sub(read.target.return_bytes.into()));
        let over = (key.1, begun.start);
        for sum in &mut self.sums {
            if sum.last.get(&task).is_some_and(|(_, entered)| *entered == over) {
                sum.last.remove(&task);
            }
        }
        let Some(Awaited { what, .. }) =
            self.awaited.get(&key).copied().filter(|one| one.back == begun.start)
        else {
            return;
        };
        self.awaited.remove(&key);
        let Some(result) = read.stack.register(0) else { return };
        match what {
            What::Failure(sum) => {
                let error = result.wrapping_neg();
                if (1..=ERROR_MAX).contains(&error) {
                    self.failed(sum, error as u16);
                }
            }
            What::Memory(Pointer::Moved, bytes, old) => {
                if result != 0 || bytes == 0 {
                    self.heap.free(old, task);
                    self.heap.hold(result, bytes, task);
                }
            }
            What::Memory(Pointer::Stored, bytes, at) => {
                let mut address = [0; 8];
                match (result, read.stack.read(at, &mut address)) {
                    (0, true) => self.heap.hold(u64::from_le_bytes(address), bytes, task),
                    (0, false) => self.heap.unread += 1,
                    _ => {}
                }
            }
            What::Memory(_, bytes, _) => self.heap.hold(result, bytes, task),
        }
    }

    fn failed(&mut self, sum: usize, error: u16) {
        let known = self.failures.iter_mut().find(|(of, number, _)| (*of, *number) == (sum, error));
        match known {
            Some((.., times)) => *times += 1,
            None => self.failures.push((sum, error, 1)),
        }
    }
}

/// Reads registers and memory where a function begins or returned.
struct Reader<'a> {
    stack: &'a Stack,
    target: &'static Target,
}

impl Reader<'_> {
    fn argument(&self, number: u8) -> Option<u64> {
        self.stack.register(*self.target.arguments.get(usize::from(number))?)
    }

    /// The stack pointer.
    fn stack(&self) -> Option<u64> {
        self.stack.register(self.target.stack_number)
    }

    /// The address to which the function will return.
    fn back(&self) -> Option<u64> {
        if self.target.links() {
            // The procedure call standard of arm64: x30.
            return self.stack.register(30);
        }
        let mut bytes = [0; 8];
        self.stack.read(self.stack()?, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    fn amount(&self, amount: Amount) -> Option<u64> {
        let if_program = |pointer: u8, number: u8| match is_kernel(self.argument(pointer)?) {
            true => Some(0),
            false => self.argument(number),
        };
        match amount {
            Amount::Nothing => Some(0),
            Amount::Argument(number) => self.argument(number),
            Amount::Product(one, other) => {
                Some(self.argument(one)?.wrapping_mul(self.argument(other)?))
            }
            Amount::Field(number, offset) => {
                let mut bytes = [0; 4];
                let address = self.argument(number)?.wrapping_add(offset.into());
                self.stack.read(address, &mut bytes).then(|| u32::from_le_bytes(bytes).into())
            }
            Amount::Pages(number) => {
                let order = self.argument(number)? as u32;
                (order < 32).then(|| (opcost_record::symbols::PAGE_BYTES as u64) << order)
            }
            Amount::ToProgram(number) => if_program(0, number),
            Amount::FromProgram(number) => if_program(1, number),
        }
    }
}

/// Called when a program's first block begins.
pub(crate) unsafe extern "C" fn on_first_block(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: as below; this thread runs the vCPU, and a block begins.
    unsafe {
        if let Some((plugin, _)) = callback::state_of(vcpu) {
            let start = (*data.cast::<Block>()).start;
            plugin.stack.show(registers::of_this_thread(start));
        }
    }
}

/// Called when the first block of a watched function begins, behind the callback that follows calls.
pub(crate) unsafe extern "C" fn on_watched_block(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: the data are those of this callback, a block, which lives for ever; `state_of` checks the thread.
    unsafe {
        if let Some((plugin, _)) = callback::state_of(vcpu) {
            plugin.look_watched(&*data.cast::<Block>(), true);
        }
    }
}

/// Called when a block behind a call begins, behind the callback that follows calls.
pub(crate) unsafe extern "C" fn on_block_behind_call(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: as above.
    unsafe {
        if let Some((plugin, _)) = callback::state_of(vcpu) {
            plugin.look_watched(&*data.cast::<Block>(), false);
        }
    }
}

impl Plugin {
    fn look_watched(&mut self, begun: &Block, enters: bool) {
        let (node, task) = (self.node(), self.task());
        let Some(watching) = &mut self.watching else { return };
        let read = Reader { stack: &self.stack, target: self.target };
        if enters {
            watching.enter(&self.walk.tree, (node, task), begun, &read);
        } else {
            watching.leave(task, begun, &read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_held_until_it_is_freed() {
        let mut heap = Heap::default();
        heap.hold(0x10, 100, 0);
        heap.hold(0x20, 50, 0);
        heap.free(0x10, 0);
        heap.free(0x10, 0);
        heap.free(0x999, 4);
        heap.hold(0, 7, 0);
        heap.hold(0x10, 60, 0);
        assert_eq!((heap.bytes, heap.bytes_max, heap.several), (110, 150, false));
        heap.free(0x10, 4);
        assert!(heap.several);
    }

    #[test]
    fn failures_are_counted_by_function_and_error() {
        let sum = |name: &str| opcost_record::event::Sum {
            name: name.into(),
            domain: Domain::Kernel,
            measure: Measure::Failures,
        };
        let watch = Watch { watched: vec![], sums: vec![sum("failed:read"), sum("failed:open")] };
        let mut watching = Watching::new(&watch);
        watching.failed(0, 11);
        let before: Vec<u64> = watching.totals().collect();
        for (sum, error) in [(1, 2), (0, 11), (1, 2)] {
            watching.failed(sum, error);
        }
        let after: Vec<u64> = watching.totals().collect();
        let differences = after.iter().enumerate();
        let differences: Vec<u64> =
            differences.map(|(at, now)| now - before.get(at).unwrap_or(&0)).collect();
        let counts = watching.counts(&differences, true);
        let shown: Vec<String> =
            counts.iter().map(|(name, _, times)| format!("{name}={times}")).collect();
        assert_eq!(shown, ["failed:read:EAGAIN=1", "failed:open:ENOENT=2"]);
        assert!(watching.awaits());
    }
}
