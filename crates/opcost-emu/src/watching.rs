//! Amounts at the entries of functions: the bytes that an allocation asks for.
//!
//! The blocks at which watched functions begin get one more callback, behind the one that follows calls. Every other block stays as
//! it is, so counting costs nothing elsewhere. An entry counts if the calling context was called since the last look: a loop back
//! to a function's first instruction is no call, and an instruction that begins again after a fault is none, either.
//!
//! Registers can be read when the stack pointer's place is known (`stack.rs`). A sum of which an amount could not be read is left out
//! of the report.

use crate::block::Block;
use crate::callback;
use crate::plugin::Plugin;
use crate::stack::Stack;
use crate::target::Target;
use crate::tree::Tree;
use opcost_record::Domain;
use opcost_record::event::{Amount, Watch};
use std::collections::{HashMap, HashSet};
use std::ffi::{c_uint, c_void};

/// An amount of a function, and the place of its sum.
type Watched = (Amount, usize);

/// A sum of amounts.
#[derive(Debug)]
struct Sum {
    name: String,
    domain: Domain,
    /// The functions whose amounts add up to it.
    functions: HashSet<u32>,
    total: u64,
    /// The number of amounts that could not be read.
    unread: u64,
}

/// The watched functions and their sums so far.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    functions: HashMap<u32, Vec<Watched>>,
    sums: Vec<Sum>,
    /// The calls of each context of a watched function at the last look.
    seen: HashMap<u32, u64>,
}

impl Watching {
    /// Watches the functions of a list.
    pub(crate) fn new(watch: &Watch) -> Watching {
        let sum = |(name, domain): &(String, Domain)| Sum {
            name: name.clone(),
            domain: *domain,
            functions: HashSet::new(),
            total: 0,
            unread: 0,
        };
        let mut watching =
            Watching { sums: watch.sums.iter().map(sum).collect(), ..Watching::default() };
        for watched in &watch.watched {
            let sum = watched.sum as usize;
            let all = watching.functions.entry(watched.function).or_default();
            all.push((watched.amount, sum));
            watching.sums[sum].functions.insert(watched.function);
        }
        watching
    }

    /// Whether a function is watched.
    pub(crate) fn has(&self, function: u32) -> bool {
        self.functions.contains_key(&function)
    }

    /// All sums so far, each with the number of amounts that could not be read.
    pub(crate) fn totals(&self) -> impl Iterator<Item = u64> {
        self.sums.iter().flat_map(|sum| [sum.total, sum.unread])
    }

    /// Returns the sums between two readings of [`totals`](Self::totals); `differences`: between them.
    pub(crate) fn counts<'a>(
        &'a self,
        differences: &'a [u64],
    ) -> impl Iterator<Item = (String, Domain, u64)> + 'a {
        let read = self.sums.iter().zip(differences.chunks(2)).filter(|(_, pair)| pair[1] == 0);
        read.map(|(sum, pair)| (sum.name.clone(), sum.domain, pair[0]))
    }

    /// Forgets calls, since the tree's counts begin anew.
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
    }

    /// Looks at a watched function's first block, which begins in a context.
    fn enter(&mut self, tree: &Tree, node: u32, begun: &Block, stack: &Stack, target: &Target) {
        let Some(watched) = self.functions.get(&begun.function) else { return };
        let calls = tree.calls(node);
        if self.seen.insert(node, calls).unwrap_or(0) == calls {
            return;
        }
        for (amount, sum) in watched {
            let sum = &mut self.sums[*sum];
            // Programs' allocators call one another; functions of the kernel are each a row's lowest.
            let is_below = sum.domain == Domain::User
                && tree.above(node).any(|node| sum.functions.contains(&tree.function(node)));
            if is_below {
                continue;
            }
            match read(*amount, stack, target) {
                Some(amount) => sum.total = sum.total.wrapping_add(amount),
                None => sum.unread += 1,
            }
        }
    }
}

/// Reads an amount where a function begins.
fn read(amount: Amount, stack: &Stack, target: &Target) -> Option<u64> {
    let argument = |number: u8| stack.register(*target.arguments.get(usize::from(number))?);
    let of_program = |number: u8| argument(number).map(|address| !crate::block::is_kernel(address));
    match amount {
        Amount::Nothing => Some(0),
        Amount::Argument(number) => argument(number),
        Amount::Product(one, other) => Some(argument(one)?.wrapping_mul(argument(other)?)),
        Amount::Field(number, offset) => {
            let mut bytes = [0; 4];
            let address = argument(number)?.wrapping_add(offset.into());
            stack.read(address, &mut bytes).then(|| u32::from_le_bytes(bytes).into())
        }
        Amount::Pages(number) => {
            let order = argument(number)? as u32;
            (order < 32).then(|| (opcost_record::symbols::PAGE_BYTES as u64) << order)
        }
        Amount::ToProgram(number) => {
            if of_program(0)? {
                argument(number)
            } else {
                Some(0)
            }
        }
        Amount::FromProgram(number) => {
            if of_program(1)? {
                argument(number)
            } else {
                Some(0)
            }
        }
    }
}

/// Called when the first block of a watched function begins, behind the callback that follows calls.
pub(crate) unsafe extern "C" fn on_watched_block(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: the data are those of this callback, a block, which lives for ever; `state_of` checks the thread.
    unsafe {
        if let Some((plugin, _)) = callback::state_of(vcpu) {
            plugin.look_watched(&*data.cast::<Block>());
        }
    }
}

impl Plugin {
    fn look_watched(&mut self, begun: &Block) {
        let node = self.node();
        let (stack, target) = (&self.stack, self.target);
        if let Some(watching) = &mut self.watching {
            watching.enter(&self.walk.tree, node, begun, stack, target);
        }
    }
}
