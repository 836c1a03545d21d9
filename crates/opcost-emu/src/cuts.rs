//! Settles blocks that were cut short where only totals are counted (`totals.rs`).
//!
//! **In a guest with a known kernel, the kernel's entries say where a block was cut.** The processor pushes the address of
//! the instruction that faulted. QEMU executes an access to a device, and a write to the block's own code, as a block of one
//! instruction, and calls the plugin for such blocks. Steps within blocks and callbacks for calls and returns are then
//! unnecessary, with every version of the API. The stack pointer comes from QEMU's CPU object; the plugin learns its offset
//! from the first calls (`stack.rs`) and works without it if it does not find exactly one.

use crate::api;
use crate::block::{Block, cost, is_kernel};
use crate::counters::Cost;
use crate::plugin::Plugin;
use crate::stack::Entered;
use crate::totals::{Closing, began};
use crate::x86_64::entry::{FETCH, interrupted};
use opcost_record::symbols::Landmark;

impl Plugin {
    /// Whether the beginning of a block needs a callback where only totals are counted.
    pub(crate) fn needs_look(&self, block: &Block) -> bool {
        let landmark = block
            .landmark
            .is_some_and(|(landmark, place)| place.is_some() || landmark == Landmark::Fault);
        let closing = self.totals.as_ref().map(|totals| totals.closing(block));
        landmark
            || block.behind.is_some()
            || closing == Some(Closing::ByStore)
            || block.restorer.is_some()
            || self.learns_calls()
    }

    /// Whether totals alone are counted, and calls still have to tell the place of the stack pointer.
    pub(crate) fn learns_calls(&self) -> bool {
        self.totals.as_ref().is_some_and(|totals| totals.cuts) && self.stack.is_open()
    }

    /// Whether blocks of a program without a kernel begin and end as a whole until [`follow_cuts`](Self::follow_cuts).
    pub(crate) fn counts_whole_blocks(&self) -> bool {
        let tells_cuts = !self.target.restarts_own_stores || api::is_writable(0).is_some();
        !self.arguments.system && tells_cuts && api::discards_code()
    }

    /// Counts a program block by block from now on, because its blocks may be cut short.
    #[cold]
    pub(crate) fn follow_cuts(&mut self) {
        // QEMU 7.2 may still use what it frees with the code if an instruction with callbacks faulted.
        if self.totals.as_ref().is_some_and(|totals| totals.faulted) {
            self.failure.get_or_insert_with(|| {
                "the program handled a fault, and later shares memory, queues a signal, handles SIGTRAP, handles \
                 faults without SA_SIGINFO or executes code that it may write to, so totals alone cannot be \
                 counted exactly: count with functions instead"
                    .into()
            });
        } else if self.totals.take_if(|totals| !totals.cuts).is_some() {
            self.by_entry =
                self.target.signalled.is_some() && !self.untold && self.stack.use_shown();
            self.translate_anew();
        }
    }

    /// Prepares for a signal that the program now handles; `tells`: whether the frame will tell what the signal interrupts.
    pub(crate) fn follow_handled(&mut self, tells: bool) {
        if !(tells && self.target.signalled.is_some() && self.stack.use_shown()) {
            self.follow_cuts();
        }
    }

    /// Takes back what a fault left undone, at the first block of the program's handler.
    fn settle_signal(&mut self, handler: &Block) {
        let Some(signal) = self.signalled(handler) else { return };
        let at = signal.instruction;
        let mut found = self.blocks.all().filter_map(|block| Some((block, block.index_of(at)?)));
        if !signal.by_fault {
            // The handler may go on elsewhere.
            if let Some(site) =
                found.find_map(|(block, _)| block.repeats.filter(|_| block.repeats_at(at)))
            {
                // SAFETY: sites live as long as the plugin; QEMU adds to them between callbacks only.
                unsafe { (*site).leave() };
            }
            return;
        }
        let Some(totals) = &mut self.totals else { return };
        totals.faulted = true;
        let Some((left, index)) = found.next() else { return };
        let last = left.address_behind(index).wrapping_sub(1);
        // Nothing began if the fetch faulted.
        if [at, last].map(api::is_executable).contains(&Some(false)) {
            return;
        }
        let rest = |block: &Block, index: usize| {
            let last = block.facts[block.facts.len() - 1].0;
            let begins = began(&block.facts[index].0);
            (begins, block.one(index), block.tail(index), block.end(), last.repeat.is_some())
        };
        // SAFETY: counts live for ever, and QEMU adds to them between callbacks only.
        let mut times = unsafe { *left.count };
        for (block, other) in found {
            // SAFETY: as above.
            times += unsafe { *block.count };
            if rest(block, other) != rest(left, index) {
                self.failure.get_or_insert_with(|| {
                    format!(
                        "an instruction at {at:#x} faulted, and blocks of code that contain it end differently, \
                         so totals alone cannot be counted exactly: count with functions instead"
                    )
                });
                return;
            }
        }
        if let Some(site) = left.repeats {
            // SAFETY: as above.
            unsafe { (*site).leave() };
        }
        // A handler's first block that is a loop begins with the same frame again.
        if totals.settled.insert(signal.frame, (at, times)) == Some((at, times)) {
            return;
        }
        self.take_back_behind(left, index);
        if began(&left.facts[index].0) {
            self.take_back_unfinished(left, index);
        }
    }

    /// Looks whether the program may write to a block's code, which would cut the block; `bytes`: the length of the code.
    pub(crate) fn watch_own_stores(&mut self, start: u64, bytes: u64) {
        let whole = self.totals.as_ref().is_some_and(|totals| !totals.cuts);
        let writable = |address| api::is_writable(address) != Some(false);
        if whole
            && self.target.restarts_own_stores
            && (writable(start) || writable(start.wrapping_add(bytes.saturating_sub(1))))
        {
            self.follow_cuts();
        }
    }

    /// Does what the beginning of a block needs beside QEMU's own counting.
    pub(crate) fn look_total(&mut self, begun: &'static Block) {
        let Some(totals) = &mut self.totals else { return };
        let closing = totals.closing(begun);
        let plain = begun.kernel && begun.landmark.is_none() && begun.behind.is_none();
        if let Some(slot) = totals.call.take().filter(|_| plain) {
            // SAFETY: a block begins on the one vCPU.
            unsafe { self.stack.learn(slot) };
        }
        if let Some((landmark, place)) = begun.landmark {
            if landmark == Landmark::Fault {
                self.settle_fault(place);
            }
            if let Some(place) = place {
                self.landmarks[place] += 1;
            }
        }
        if begun.restorer.is_some() && self.stack.is_known() {
            self.settle_signal(begun);
        }
        if closing == Closing::ByStore {
            if begun.is_one_access() {
                self.settle_own_store(begun);
            }
            if let Some(totals) = &mut self.totals {
                totals.set(begun.number);
            }
        }
        // SAFETY: sites live as long as the plugin; QEMU adds to them between callbacks only.
        if let Some(site) = begun.behind.map(|site| unsafe { &mut *site }) {
            self.pass(site);
        }
    }

    /// Notes the slot of a call that ended a block.
    pub(crate) fn called_at(&mut self, slot: u64) {
        if let Some(totals) = &mut self.totals
            && self.stack.is_open()
        {
            totals.call = Some(slot);
        }
    }

    /// Notes the access of a block that is one access, or that ends with a plain store.
    ///
    /// QEMU 7.2 also calls for accesses of later instructions that it leaves to functions of its own (`cmpxchg16b`, `fxsave`);
    /// these calls mean nothing.
    pub(crate) fn accessed(&mut self, block: &Block) {
        let Some(totals) = &mut self.totals else { return };
        let number = totals.number();
        if number == block.number {
            totals.set(0);
            return;
        }
        // QEMU left another block for an access to a device, and executed the instruction by itself.
        let Some(left) = self.blocks.numbered(number) else { return };
        if let Some(index) = left.index_of(block.start) {
            totals.set(0);
            self.take_back_behind(left, index);
        }
    }

    /// Takes back what a store into its own block left undone; the store begins again, as a block of its own.
    fn settle_own_store(&mut self, again: &Block) {
        let Some(totals) = &mut self.totals else { return };
        let number = totals.take();
        let Some(left) = self.blocks.numbered(number) else { return };
        match left.index_of(again.start) {
            Some(index) => {
                self.take_back_behind(left, index);
                // Hardware does not count the first attempt; the emulator did begin it.
                self.take_back_unfinished(left, index);
            }
            None => self.lose(number, Some(again.start)),
        }
    }

    /// Takes back what a fault left undone. `place`: where the fault is counted.
    fn settle_fault(&mut self, place: Option<usize>) {
        let Some(totals) = &mut self.totals else { return };
        let number = totals.take();
        // Before the place of the stack pointer is known, no region begins.
        if !self.stack.is_known() {
            return;
        }
        // SAFETY: the first block of a handler begins.
        let Some(pushed) = (unsafe { self.stack.entered() }) else {
            return self.lose(number, None);
        };
        if number == 0 {
            let metrics = self.attribution.metrics();
            let page_fault = place.is_some_and(|place| metrics[place] == "page-faults");
            return self.settle_last(&pushed, page_fault);
        }
        let left = self.blocks.numbered(number);
        let found = left.and_then(|left| Some((left, left.index_in_page(pushed.instruction)?)));
        let Some((left, index)) = found else { return self.lose(number, Some(pushed.instruction)) };
        self.take_back_behind(left, index);
        if began(&left.facts[index].0) {
            self.take_back_unfinished(left, index);
        }
        if let Some(site) = left.repeats {
            // SAFETY: as above.
            unsafe { (*site).leave() };
        }
    }

    /// Takes back a block's last instruction, which faulted.
    fn settle_last(&mut self, pushed: &Entered, page_fault: bool) {
        if page_fault && pushed.error.is_some_and(|error| error & FETCH != 0) {
            return;
        }
        // The instruction's page is missing only if its fetch faulted.
        let Some((facts, length)) = interrupted(&self.stack, pushed) else { return };
        if began(&facts) {
            let cost = Cost { starts: 0, ..cost([&facts]) };
            self.take_back(&cost, is_kernel(pushed.instruction));
        }
        if facts.repeat.is_some() {
            let behind = pushed.instruction.wrapping_add(length);
            if let Some(site) = self.totals.as_ref().and_then(|totals| totals.sites.get(&behind)) {
                // SAFETY: as above.
                unsafe { (**site).leave() };
            }
        }
    }

    /// Notes that a cut was found where no block fits: the counts of an open region are wrong.
    ///
    /// `number`: the cell's value; `at`: the address at which control left the block.
    #[cold]
    fn lose(&mut self, number: u64, at: Option<u64>) {
        if self.regions.open().is_none() {
            return;
        }
        let left = self.blocks.numbered(number).map(|block| block.start);
        self.failure.get_or_insert_with(|| {
            format!(
                "the plugin lost track of where control left a block (the cell holds {number:#x}, block \
                 {left:x?}, left at {at:x?}); this is a fault of opcost. Count with functions instead"
            )
        });
    }

    /// Makes the cell right at a region's start in a block: what came before may have left it anyhow.
    ///
    /// # Errors
    /// The stack pointer's place is not known, so faults could not be settled.
    pub(crate) fn begin_totals(&mut self, block: &Block) -> Result<(), String> {
        let Some(totals) = self.totals.as_mut().filter(|totals| totals.cuts) else {
            return Ok(());
        };
        totals.set(if Closing::of(block) == Closing::Never { 0 } else { block.number });
        match self.stack.is_known() {
            true => Ok(()),
            false => {
                Err("the guest's stack pointer was not found in this QEMU, so totals alone cannot \
                          be counted exactly: count with functions instead"
                    .into())
            }
        }
    }
}
