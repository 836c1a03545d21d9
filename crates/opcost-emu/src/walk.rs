//! Follows control from block to block and keeps the calling context.
//!
//! Every rule works with three observations: how the last block handed over, the stack slot of its call or return, and the place of
//! the next block. The rules do not need registers or the kernel's idea of the current task: a kernel stack identifies its task,
//! and `__switch_to_asm` shows when stacks are exchanged.
//!
//! **A switch belongs to whoever asked for it.** A tick, or a thread that the kernel woke, marks the running task, which makes room
//! where it happens to be: often on the way back from a system call, which then has some 1,400 instructions of a switch, in some
//! layouts and not in others. The plugin notes the class in which the mark was set and moves the switch below that class's base
//! until the switch returns. RCU sets the mark in ticks without a call, so an unexplained switch is the tick's. Work that each switch
//! leaves for the way back to user mode goes with it. A task that waits pays for its switch.

use crate::block::Block;
use crate::class::{Class, Head};
use crate::decode::Exit;
use crate::frames::{Frame, Frames};
use crate::tree::{ROOT, THREADS, Tree};
use opcost_record::symbols::Landmark;
use std::collections::HashMap;

/// Largest number of remembered tasks.
const TASKS_MAX: usize = 4096;
/// Largest number of interruptions inside one another, and of remembered functions of one task.
const NESTED_MAX: usize = 64;
const LAST_MAX: usize = 4096;
/// The number of callers that a jump searches for its target's function.
const UP_MAX: usize = 256;

/// The way in which control left a block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Left {
    pub(crate) exit: Exit,
    pub(crate) function: u32,
    pub(crate) kernel: bool,
    /// Address of the block's last instruction.
    pub(crate) at: u64,
    /// Address behind the last instruction.
    pub(crate) end: u64,
}

impl Left {
    /// Describes a block that was executed to its end.
    pub(crate) fn whole(block: &Block) -> Left {
        Left {
            exit: block.exit,
            function: block.function,
            kernel: block.kernel,
            at: block.last_at(),
            end: block.end(),
        }
    }
}

/// An interrupted context.
#[derive(Clone, Copy, Debug)]
struct Interrupted {
    node: u32,
    /// The way in which control left the last block before the interruption, unless the block was cut and will be resumed.
    left: Option<Left>,
    slot: u64,
    /// Whether a signal handler, called from `node`, runs first.
    begins: bool,
}

/// Whether a landmark is an entry of the kernel.
pub(crate) fn is_entry(landmark: Landmark) -> bool {
    matches!(
        landmark,
        Landmark::SystemCall | Landmark::Fault | Landmark::Trap | Landmark::Interrupt
    )
}

/// What an interrupt or a task has of its own: the calls that are open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lane {
    /// The task's number, in the order of first turns; 0 for the first of each vCPU.
    pub(crate) task: u32,
    pub(crate) vcpu: u32,
    /// The base of the contexts.
    pub(crate) base: u32,
}

/// The state of one task.
#[derive(Debug)]
struct Task {
    number: u32,
    frames: Frames,
    user: Option<Interrupted>,
    entries: Vec<Interrupted>,
    /// The contexts that unreturned signal handlers interrupted.
    signals: Vec<Option<Interrupted>>,
    /// The node of each user function that last entered the kernel.
    last: HashMap<u32, u32>,
    /// The class that asked for the switch after which the task will return to user mode.
    made_room: Option<Class>,
}

impl Task {
    fn new() -> Task {
        Task {
            number: 0,
            frames: Frames::new(),
            user: None,
            entries: Vec::new(),
            signals: Vec::new(),
            last: HashMap::new(),
            made_room: None,
        }
    }
}

/// The position of one vCPU.
#[derive(Debug)]
pub(crate) struct Position {
    /// The node that is charged.
    pub(crate) node: u32,
    task: Task,
    /// The stack that the kernel is switching away from.
    switching: Option<u64>,
    /// Whether the switch that goes on leads to a task that was not seen before.
    unseen: bool,
    /// The class in which the running task was first asked to make room.
    asked: Option<Class>,
    /// The way in which control left the block before the interruption that the last step resumed.
    pub(crate) resumed: Option<Left>,
}

impl Position {
    /// Makes a position at the root.
    pub(crate) fn new() -> Position {
        Position {
            node: ROOT,
            task: Task::new(),
            switching: None,
            unseen: false,
            asked: None,
            resumed: None,
        }
    }
}

/// The state that all vCPUs share.
pub(crate) struct Walk {
    pub(crate) tree: Tree,
    kernel_frames: Frames,
    tasks: HashMap<u64, Task>,
    /// The number of tasks so far.
    numbered: u32,
    /// Whether tasks were forgotten because there were too many.
    forgot: bool,
    system: bool,
    /// Binary logarithm of the size of a kernel stack, to which kernel stacks are aligned.
    stack_shift: u32,
}

impl Walk {
    /// Makes an empty state; `system`: whether a whole machine is emulated.
    pub(crate) fn new(tree: Tree, system: bool, stack_shift: u32) -> Walk {
        let (kernel_frames, tasks) = (Frames::new(), HashMap::new());
        Walk { tree, kernel_frames, tasks, numbered: 0, forgot: false, system, stack_shift }
    }

    /// Moves to the next block.
    ///
    /// `left`: how control left the last block; `cut`: whether control left before the end of the block; `slot`: stack slot of its
    /// call or return.
    pub(crate) fn step(&mut self, at: &mut Position, left: Left, cut: bool, slot: u64, to: &Block) {
        at.resumed = None;
        let is_slot = !cut && matches!(left.exit, Exit::Call | Exit::CallIndirect | Exit::Return);
        if is_slot {
            self.switch(at, slot);
        }
        match to.landmark {
            Some((Landmark::Fork, _)) => {
                at.task = Task { number: at.task.number, ..Task::new() };
                at.unseen = false;
                at.node = self.tree.child(ROOT, to.function);
                self.tree.called(at.node);
            }
            Some((Landmark::Switch, _)) => {
                self.follow(at, left, slot, to);
                at.switching = Some(slot >> self.stack_shift);
                at.asked = None;
            }
            Some((landmark, _)) if is_entry(landmark) => {
                self.enter(at, left, cut, slot, landmark, to);
            }
            Some((landmark, _)) => {
                self.follow(at, left, slot, to);
                self.note(at, landmark);
            }
            None if cut && self.system => self.jump(at, to, to.at_entry),
            // In user mode a fault leads to a signal handler or nowhere.
            None if cut => self.signal(at, slot, to),
            None => self.follow(at, left, slot, to),
        }
    }

    /// The number of the task that a vCPU is in.
    pub(crate) fn task(&self, at: &Position) -> u32 {
        at.task.number
    }

    /// Returns the interrupt or task that a vCPU is in.
    pub(crate) fn lane(&self, at: &Position, vcpu: u32) -> Lane {
        let mut base = at.node;
        while self.tree.parent(base) != base {
            base = self.tree.parent(base);
        }
        let task = at.task.number;
        Lane { task, vcpu: if task == 0 { vcpu } else { 0 }, base }
    }

    /// Moves to the next block after a call or a return; the next block is no landmark.
    #[inline(always)]
    pub(crate) fn turn(&mut self, at: &mut Position, left: Left, slot: u64, to: &Block) {
        if left.exit == Exit::Return {
            return self.returned(at, slot, to);
        }
        at.resumed = None;
        self.switch(at, slot);
        if to.at_entry || to.function != left.function {
            let frame = Frame { node: at.node, behind: left.end };
            self.frames(at, slot).push(slot, frame);
            at.node = self.tree.child(at.node, to.function);
            self.tree.called(at.node);
        }
    }

    /// Moves to the next block after a return; the next block is no landmark.
    #[inline(always)]
    pub(crate) fn returned(&mut self, at: &mut Position, slot: u64, to: &Block) {
        at.resumed = None;
        self.switch(at, slot);
        self.back(at, slot, to);
    }

    /// Moves to the next block after a jump or branch; the next block is in another function and no landmark.
    #[inline(always)]
    pub(crate) fn jump_whole(&mut self, at: &mut Position, left: Left, to: &Block) {
        at.resumed = None;
        // The same rules as in `follow`.
        let falls = left.exit == Exit::Branch && to.start == left.end;
        let calls = to.at_entry && !falls;
        if self.tree.function(at.node) == to.function && at.node != ROOT {
            return;
        }
        let parent = self.tree.parent(at.node);
        match self.tree.find(parent, to.function) {
            Some(child) => {
                at.node = child;
                if calls {
                    self.tree.called(child);
                }
            }
            None => self.jump(at, to, calls),
        }
    }

    fn back(&mut self, at: &mut Position, slot: u64, to: &Block) {
        let to_frame = |frame: &Frame| {
            let past = to.start.wrapping_sub(frame.behind);
            // A repeated string instruction at the return address has no callback of its own.
            past == 0 || past < 8 && to.behind.is_some()
        };
        let mut found = self.frames(at, slot).pop(slot, to_frame);
        // In 32-bit code a return takes off 4 bytes, but the slot was computed for 8.
        if found.is_none() && self.system && slot >> 32 == 0 {
            found = self.frames(at, slot).pop(slot.wrapping_add(4), to_frame);
        }
        match found {
            Some(frame) => at.node = frame.node,
            None => {
                // A function that takes its own return address off the stack returns past its caller, to where the caller wanted to
                // jump (Linux, srso_safe_ret).
                let parent = self.tree.parent(at.node);
                let below = slot.wrapping_sub(8);
                let skipped = self.frames(at, slot).pop(below, |frame| frame.node == parent);
                if std::mem::take(&mut at.unseen) {
                    // The switch returns to a thread of the kernel.
                    at.node = self.tree.child(THREADS, to.function);
                    return;
                }
                at.node = skipped.map_or(at.node, |frame| frame.node);
                self.jump(at, to, to.at_entry);
            }
        }
    }

    fn follow(&mut self, at: &mut Position, left: Left, slot: u64, to: &Block) {
        match left.exit {
            Exit::Call | Exit::CallIndirect => {
                // A call into the middle of its own function pushes an address for its own use (retpolines).
                if !to.at_entry && to.function == left.function {
                    return;
                }
                let frame = Frame { node: at.node, behind: left.end };
                self.frames(at, slot).push(slot, frame);
                at.node = self.tree.child(at.node, to.function);
                self.tree.called(at.node);
            }
            Exit::Return => self.back(at, slot, to),
            Exit::Leave => self.leave(at, to),
            Exit::Enter if !self.system && to.start != left.end => self.signal_end(at, to),
            // Falling into a function's first instruction is no call: the symbol is a label.
            Exit::Next | Exit::Branch if to.start == left.end => self.jump(at, to, false),
            _ => self.jump(at, to, to.at_entry),
        }
    }

    fn frames<'a>(&'a mut self, at: &'a mut Position, slot: u64) -> &'a mut Frames {
        if self.system && slot >> 63 == 1 { &mut self.kernel_frames } else { &mut at.task.frames }
    }

    /// Follows a jump into another function: a tail call, a part of a function that stands elsewhere, or an unwinding.
    ///
    /// `calls`: whether the jump counts as a call.
    fn jump(&mut self, at: &mut Position, to: &Block, calls: bool) {
        if self.tree.function(at.node) == to.function && at.node != ROOT {
            return;
        }
        let parent = self.tree.parent(at.node);
        if !to.at_entry {
            if let Some(sibling) = self.tree.find(parent, to.function) {
                at.node = sibling;
                return;
            }
            if let Some(above) = self.above(at.node, to.function) {
                at.node = above;
                return;
            }
        }
        at.node = self.tree.child(parent, to.function);
        if calls {
            self.tree.called(at.node);
        }
    }

    fn above(&self, node: u32, function: u32) -> Option<u32> {
        let mut node = node;
        for _ in 0..UP_MAX {
            let base = node;
            node = self.tree.parent(node);
            if node == base {
                return None;
            }
            if self.tree.function(node) == function {
                return Some(node);
            }
        }
        None
    }

    fn enter(
        &mut self,
        at: &mut Position,
        left: Left,
        cut: bool,
        slot: u64,
        landmark: Landmark,
        to: &Block,
    ) {
        if left.exit == Exit::Leave && !cut && at.task.entries.is_empty() && left.kernel {
            // Back to user code that was interrupted again before its first instruction.
            at.node = at.task.user.map_or(ROOT, |user| user.node);
        } else {
            let interrupted =
                Interrupted { node: at.node, left: (!cut).then_some(left), slot, begins: false };
            if !left.kernel {
                let function = self.tree.function(at.node);
                if at.task.last.len() < LAST_MAX {
                    at.task.last.insert(function, at.node);
                }
                at.task.user = Some(interrupted);
                at.task.entries.clear();
            } else {
                if at.task.entries.len() == NESTED_MAX {
                    at.task.entries.remove(0);
                }
                at.task.entries.push(interrupted);
            }
        }
        let parent = match landmark {
            Landmark::Interrupt => self.tree.interrupt_base(to.function),
            _ => at.node,
        };
        at.node = self.tree.child(parent, to.function);
        self.tree.called(at.node);
    }

    /// Handles the kernel's change of the place where user code resumes, or of the task.
    fn note(&mut self, at: &mut Position, landmark: Landmark) {
        let task = &mut at.task;
        match landmark {
            Landmark::Signal => {
                if task.signals.len() == NESTED_MAX {
                    task.signals.remove(0);
                }
                task.signals.push(task.user);
                let node = task.user.map_or(ROOT, |user| user.node);
                task.user = Some(Interrupted { node, left: None, slot: 0, begins: true });
            }
            // Handlers that a jump left are below the one that returns.
            Landmark::SignalReturn => task.user = task.signals.pop().unwrap_or(task.user),
            Landmark::Exec => {
                let entries = std::mem::take(&mut task.entries);
                *task = Task { number: task.number, entries, ..Task::new() };
            }
            // A CPU also marks tasks of other CPUs.
            _ if self.tree.vcpus() > 1 => {}
            Landmark::Due => at.asked = at.asked.or_else(|| self.tree.asked_by(at.node)),
            Landmark::Yield | Landmark::Schedule => {
                if self.tree.yields(at.node) {
                    let class = at.asked.unwrap_or(Class::Tick);
                    at.node = self.tree.moved(at.node, class);
                    task.made_room = Some(class);
                } else if landmark == Landmark::Yield {
                    task.made_room = None;
                }
                if landmark == Landmark::Schedule {
                    at.asked = None;
                }
            }
            // The program's own work on that way has the same companions.
            Landmark::Resume if self.tree.has_head(at.node, Head::Program) => task.made_room = None,
            Landmark::Resume => {
                if let Some(class) = task.made_room {
                    at.node = self.tree.moved(at.node, class);
                }
            }
            _ => {}
        }
    }

    fn leave(&mut self, at: &mut Position, to: &Block) {
        let fits = |tree: &Tree, known: &Interrupted| {
            let pending = known.left.is_some_and(|left| {
                matches!(left.exit, Exit::Call | Exit::CallIndirect | Exit::Return)
            });
            pending || tree.function(known.node) == to.function
        };
        if !to.kernel {
            at.task.made_room = None;
            if let Some(user) = at.task.user.filter(|user| user.begins) {
                at.node = self.tree.child(user.node, to.function);
                self.tree.called(at.node);
                return;
            }
            match at.task.user.filter(|user| fits(&self.tree, user)) {
                Some(user) => self.resume(at, user, to),
                None => match at.task.last.get(&to.function) {
                    Some(node) => at.node = *node,
                    None => {
                        at.node = self.tree.child(ROOT, to.function);
                        // A program starts here, or the child of a fork resumes here.
                        if to.at_entry {
                            self.tree.called(at.node);
                        }
                    }
                },
            }
            return;
        }
        let found = at.task.entries.iter().rposition(|entry| fits(&self.tree, entry));
        // A handler may return elsewhere (exception tables); control then resumes from the context interrupted last.
        match found.or(at.task.entries.len().checked_sub(1)) {
            Some(place) => {
                let entry = at.task.entries[place];
                at.task.entries.truncate(place);
                self.resume(at, entry, to);
            }
            None => at.node = self.tree.child(ROOT, to.function),
        }
    }

    fn resume(&mut self, at: &mut Position, interrupted: Interrupted, to: &Block) {
        at.node = interrupted.node;
        if let Some(frame) = self.finished_return(at, &interrupted, to) {
            at.node = frame.node;
            return;
        }
        match interrupted.left {
            Some(left) if left.exit != Exit::Leave => {
                self.follow(at, left, interrupted.slot, to);
                at.resumed = Some(left);
            }
            _ => self.jump(at, to, to.at_entry),
        }
    }

    /// Returns the frame to which the kernel returned in place of a task that was interrupted behind a call.
    ///
    /// A return thunk calls code that takes the thunk's address off the stack and returns. The kernel does not resume that code
    /// (Linux 6.12, `handle_interrupted_saferet` in arch/x86/kernel/cpu/bugs.c).
    fn finished_return(
        &mut self,
        at: &mut Position,
        interrupted: &Interrupted,
        to: &Block,
    ) -> Option<Frame> {
        interrupted.left.filter(|left| left.exit == Exit::Call && to.kernel && !to.at_entry)?;
        let slot = interrupted.slot.wrapping_add(8);
        self.frames(at, slot).pop(slot, |frame| frame.behind == to.start)
    }

    /// Follows control to a signal handler in user mode, after an instruction that faulted.
    fn signal(&mut self, at: &mut Position, slot: u64, to: &Block) {
        if self.tree.function(at.node) == to.function && !to.at_entry {
            return;
        }
        if at.task.entries.len() == NESTED_MAX {
            at.task.entries.remove(0);
        }
        at.task.entries.push(Interrupted { node: at.node, left: None, slot, begins: false });
        at.node = self.tree.child(at.node, to.function);
        self.tree.called(at.node);
    }

    /// Follows control back from a signal handler.
    fn signal_end(&mut self, at: &mut Position, to: &Block) {
        let entries = &mut at.task.entries;
        match entries.iter().rposition(|entry| self.tree.function(entry.node) == to.function) {
            Some(place) => {
                at.node = entries[place].node;
                entries.truncate(place);
            }
            None => self.jump(at, to, to.at_entry),
        }
    }

    /// Exchanges the task when the stack differs from the one that the kernel is switching away from.
    #[inline(always)]
    fn switch(&mut self, at: &mut Position, slot: u64) {
        if let Some(from) = at.switching {
            self.switch_from(at, from, slot);
        }
    }

    #[cold]
    fn switch_from(&mut self, at: &mut Position, from: u64, slot: u64) {
        let stack = slot >> self.stack_shift;
        if stack == from {
            return;
        }
        at.switching = None;
        // The last task pays for the switch until it returns on the next task's stack, whether that task was seen before or not.
        let next = self.tasks.remove(&stack);
        at.unseen = next.is_none();
        if at.unseen && self.forgot {
            // Frames of the stack may lead back to the task.
            at.unseen = false;
            at.node = self.tree.child(THREADS, self.tree.function(at.node));
        }
        let mut next = next.unwrap_or_else(Task::new);
        if next.number == 0 {
            self.numbered += 1;
            next.number = self.numbered;
        }
        if self.tasks.len() >= TASKS_MAX {
            self.tasks.clear();
            self.forgot = true;
        }
        self.tasks.insert(from, std::mem::replace(&mut at.task, next));
    }
}
