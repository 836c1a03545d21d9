//! Turns events into a tree of calls between places in code, without names.
//!
//! A sample costs three things: comparing each half of its chain of callers, the kernel's and the
//! program's, with the same half of the thread's last sample; a look at each frame that differs; and one
//! at the interrupted instruction. Only two sums are kept of it. A caller that unwinds user stacks does
//! so before: [`Session::spaces`] tells the mappings, and the callers found are appended to
//! [`Sample::chain`] behind [`CONTEXT_USER`].

use crate::event::{
    CONTEXT_GUEST, CONTEXT_MAX, CONTEXT_USER, CONTEXT_USER_DEFERRED, Event, Sample,
};
use crate::losses::Losses;
use crate::space::{
    CodeFile, CodeKind, KERNEL_HALF, KernelModule, KernelReference, Spaces, UNMAPPED, module_name,
};
use crate::symbolise::{Origin, running_build_id};
use crate::tree::{CodePlace, NO_PATH, Tree};
use opcost_symbols::keyed::KeyedMap;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// The callers that the kernel keeps of a chain by default (`kernel.perf_event_max_stack`).
pub const FRAMES_MAX: usize = 127;

/// Samples, and the facts needed to name their places.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Every file with code, as [`CodePlace::file`] numbers them.
    pub files: Vec<CodeFile>,
    /// The kernel's place in memory, if known.
    pub kernel_reference: Option<KernelReference>,
    /// The kernel's modules, as far as they were told.
    pub kernel_modules: Vec<KernelModule>,
    /// Where and when the samples were taken.
    pub origin: Origin,
    /// The file of the program that was executed first, if one was.
    pub program: Option<u32>,
    /// The tree of calls.
    pub tree: Tree,
    /// The data that is missing.
    pub losses: Losses,
    /// Samples whose callers were found in a copy of the stack, not by frame pointers.
    pub stacks_unwound: u64,
}

impl Recorded {
    /// Notes that the samples were taken on this computer just now, so that its kernel is the sampled one.
    pub fn taken_here(mut self) -> Recorded {
        for kernel in self.files.iter_mut().filter(|file| file.kind == CodeKind::Kernel) {
            kernel.build_id = kernel.build_id.take().or_else(running_build_id);
        }
        self
    }

    /// Adds build ids that were not known when files were mapped.
    ///
    /// `build_ids`: paths as they were mapped, with the build id; the kernel's path is `[kernel]`.
    pub fn learn(&mut self, build_ids: &[(Vec<u8>, Vec<u8>)]) {
        let by_path: KeyedMap<&[u8], &Vec<u8>> =
            build_ids.iter().map(|(path, id)| (path.as_slice(), id)).collect();
        for file in self.files.iter_mut().filter(|file| file.build_id.is_none()) {
            file.build_id = by_path.get(file.path.as_slice()).map(|id| id.to_vec());
        }
        if self.kernel_modules.iter().all(|module| module.build_id.is_some()) {
            return;
        }
        let named = |(path, id): &'_ (Vec<u8>, Vec<u8>)| {
            Some((module_name(&String::from_utf8_lossy(path))?, id.clone()))
        };
        let by_name: KeyedMap<String, Vec<u8>> = build_ids.iter().filter_map(named).collect();
        for module in self.kernel_modules.iter_mut().filter(|module| module.build_id.is_none()) {
            module.build_id = by_name.get(&module.name).cloned();
        }
    }
}

/// A frame of half a chain, with its path in the tree.
#[derive(Clone, Copy, Debug)]
struct Followed {
    address: u64,
    /// The path that ends here.
    path: u32,
    /// The number of unmapped callers from the outermost frame up to here.
    unmapped: u32,
}

/// Half of a thread's last chain, outermost frame first. The thread's next chain usually differs only at
/// the inner end.
#[derive(Clone, Debug, Default)]
struct Trail {
    tid: i32,
    version: u32,
    frames: Vec<Followed>,
}

/// The most threads whose last chain is kept; a power of two.
const THREADS_KEPT: usize = 256;

/// The place of an address that was looked up before.
#[derive(Clone, Copy, Debug)]
struct Found {
    address: u64,
    version: u32,
    /// The place's number in the tree.
    place: u32,
    mapped: bool,
}

/// The most addresses whose places are kept; a power of two.
const PLACES_KEPT: usize = 1 << 12;

/// A path that was extended by a caller before.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: u32,
    version: u32,
    address: u64,
    /// The extended path; [`NO_PATH`] if this entry is empty.
    to: u32,
    mapped: bool,
}

/// The most steps that are kept; a power of two.
const STEPS_KEPT: usize = 1 << 14;

/// Returns an entry's place in a table of so many entries.
fn slot(key: impl Hash, entries: usize) -> usize {
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    hasher.finish() as usize % entries
}

/// Builds the tree from events.
#[derive(Clone, Debug)]
pub struct Session {
    event: u32,
    frames_max: usize,
    spaces: Spaces,
    tree: Tree,
    losses: Losses,
    stacks_unwound: u64,
    /// The outer and the inner half of the last chain by thread; threads may share an entry in turn.
    trails: Vec<[Trail; 2]>,
    /// Places by address and version; a new place replaces the old one at its entry.
    found: Vec<Option<Found>>,
    /// Steps by path, address and version, kept like the places.
    steps: Vec<Step>,
}

impl Session {
    /// Creates a session that takes the samples of one event.
    ///
    /// `event`: the event's index ([`Sample::event`]); `frames_max`: the most callers that the profiler
    /// kept of a chain, usually [`FRAMES_MAX`].
    pub fn new(event: u32, frames_max: usize) -> Session {
        Session {
            event,
            frames_max,
            spaces: Spaces::default(),
            tree: Tree::default(),
            losses: Losses::default(),
            stacks_unwound: 0,
            trails: Vec::new(),
            found: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Takes the samples of another event from now on, and drops those of the event before; address spaces stay.
    ///
    /// `event`, `frames_max`: as in [`Session::new`]; `left_out`: samples of the event before that never got here.
    pub(crate) fn choose(&mut self, event: u32, frames_max: usize, left_out: u64) {
        (self.event, self.frames_max, self.stacks_unwound) = (event, frames_max, 0);
        self.forget();
        self.tree.settle();
        let dropped: u64 =
            std::mem::take(&mut self.tree).nodes().iter().map(|node| node.samples).sum();
        let Losses { lost_events, throttles, other_events, guest_samples, .. } = self.losses;
        let other_events = other_events + dropped + guest_samples + left_out;
        self.losses = Losses { lost_events, throttles, other_events, ..Losses::default() };
    }

    /// Forgets the numbers of a tree that ends: they mean nothing in the new one.
    fn forget(&mut self) {
        self.trails.clear();
        self.found.clear();
        self.steps.clear();
    }

    /// Returns the current mappings of all processes.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Takes the next event; events must come in the order of time.
    pub fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Mapping(mapping) => self.spaces.map(mapping),
            Event::Name { pid, exec: true, .. } => self.spaces.clear(*pid),
            Event::Fork { pid, parent_pid, .. } => self.spaces.fork(*parent_pid, *pid),
            Event::Name { .. } | Event::Exit { .. } => {}
            Event::Sample(sample) => self.sample(sample),
            Event::Lost { events } => {
                self.losses.lost_events = self.losses.lost_events.saturating_add(*events);
            }
            Event::Throttled => self.losses.throttles += 1,
        }
    }

    /// Returns everything taken so far, and restarts tree and losses; address spaces stay.
    pub fn restart(&mut self) -> Recorded {
        self.tree.settle();
        self.forget();
        let recorded = Recorded {
            files: self.spaces.files().to_vec(),
            kernel_reference: self.spaces.kernel_reference().cloned(),
            kernel_modules: self.spaces.kernel_modules().to_vec(),
            origin: Origin::default(),
            program: self.spaces.program(),
            tree: std::mem::take(&mut self.tree),
            losses: std::mem::take(&mut self.losses),
            stacks_unwound: std::mem::take(&mut self.stacks_unwound),
        };
        self.spaces.begin();
        recorded
    }

    /// Ends the session and returns everything taken.
    pub fn finish(mut self) -> Recorded {
        let recorded = self.restart();
        Recorded { tree: recorded.tree.finished(), ..recorded }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        if sample.event != self.event {
            self.losses.other_events += 1;
            return;
        }
        // Markers are not frames.
        let markers = || sample.chain.iter().filter(|frame| **frame >= CONTEXT_MAX);
        if markers().any(|marker| CONTEXT_GUEST.contains(marker)) {
            self.losses.guest_samples += 1;
            return;
        }
        let copied = sample.user_stack.is_some_and(|stack| !stack.bytes.is_empty());
        let unwound = copied && sample.chain.contains(&CONTEXT_USER);
        self.stacks_unwound += u64::from(unwound);
        if copied && !unwound {
            self.losses.stacks_not_unwound += 1;
        }
        // The limit applies to chains that the kernel walked, not to unwound ones.
        if !unwound
            && sample.chain.len() >= self.frames_max
            && sample.chain.len() - markers().count() >= self.frames_max
        {
            self.losses.stacks_cut += 1;
        }
        let callers = callers(sample);
        let is_alone =
            !sample.chain.is_empty() && callers.iter().all(|frame| *frame >= CONTEXT_MAX);
        if is_alone && !unwound && !sample.in_kernel && sample.address < KERNEL_HALF {
            self.losses.samples_alone += 1;
        }
        let user = callers.iter().position(|frame| *frame == CONTEXT_USER);
        // The outer half keeps its marker: the frame behind the marker is an interrupted instruction.
        let (inner, outer) = callers.split_at(user.unwrap_or(0));
        let version = self.spaces.version(sample.pid);
        let outer = self.path_of(sample, version, outer, 0);
        let inner = self.path_of(sample, version, inner, 1);
        let (place, mapped) = self.place(sample.pid, version, sample.address);
        self.losses.unmapped_samples += u64::from(!mapped);
        // A chain with one half is one path.
        let (outer, callers) = if inner == NO_PATH { (NO_PATH, outer) } else { (outer, inner) };
        self.tree.add(outer, callers, place, sample.period);
    }

    /// Returns the path of half a chain of callers; `half`: 0 for the outer half, 1 for the inner one.
    fn path_of(&mut self, sample: &Sample<'_>, version: u32, callers: &[u64], half: usize) -> u32 {
        if callers.is_empty() {
            return NO_PATH;
        }
        // The kernel is the same in all address spaces.
        let version = if callers.iter().all(|frame| *frame >= KERNEL_HALF) { 0 } else { version };
        if self.trails.is_empty() {
            self.trails.resize_with(THREADS_KEPT, Default::default);
        }
        let slot = sample.tid as usize % THREADS_KEPT;
        let mut trail = std::mem::take(&mut self.trails[slot][half]);
        if (trail.tid, trail.version) != (sample.tid, version) {
            (trail.tid, trail.version) = (sample.tid, version);
            trail.frames.clear();
        }
        let outermost_first = callers.iter().rev().zip(&trail.frames);
        let same = outermost_first.take_while(|(frame, known)| **frame == known.address).count();
        if same < callers.len() || same < trail.frames.len() {
            // A frame's meaning depends on the next inner one, so the last equal frame is followed again.
            trail.frames.truncate(same.saturating_sub(1));
            self.follow(sample.pid, version, callers, &mut trail.frames);
        }
        let last = trail.frames.last().copied();
        self.trails[slot][half] = trail;
        last.map_or(NO_PATH, |last| {
            self.losses.unmapped_callers += u64::from(last.unmapped);
            last.path
        })
    }

    /// Follows the frames of half a chain that are inside of those in `followed`.
    fn follow(&mut self, pid: i32, version: u32, callers: &[u64], followed: &mut Vec<Followed>) {
        let last = followed.last();
        let (mut path, mut unmapped) = last.map_or((NO_PATH, 0), |last| (last.path, last.unmapped));
        for at in (0..callers.len() - followed.len()).rev() {
            let frame = callers[at];
            let inside = at.checked_sub(1).map(|inside| callers[inside]);
            if frame < CONTEXT_MAX && inside != Some(CONTEXT_USER_DEFERRED) {
                // The frame behind a marker is an interrupted instruction. The others are return
                // addresses, which may be the first address of the next function.
                let interrupted = inside.is_some_and(|inside| inside >= CONTEXT_MAX);
                let address = if interrupted { frame } else { frame.saturating_sub(1) };
                let step = self.step(pid, version, address, path);
                unmapped += u32::from(!step.mapped);
                path = step.to;
            }
            followed.push(Followed { address: frame, path, unmapped });
        }
    }

    /// Extends a path by a caller at this address.
    fn step(&mut self, pid: i32, version: u32, address: u64, from: u32) -> Step {
        if self.steps.is_empty() {
            let empty = Step { from: 0, version: 0, address: 0, to: NO_PATH, mapped: false };
            self.steps.resize(STEPS_KEPT, empty);
        }
        let slot = slot((address, from, version), STEPS_KEPT);
        let known = self.steps[slot];
        if known.to != NO_PATH
            && (known.address, known.from, known.version) == (address, from, version)
        {
            return known;
        }
        let (place, mapped) = self.place(pid, version, address);
        let to = self.tree.path(from, place);
        self.steps[slot] = Step { from, version, address, to, mapped };
        self.steps[slot]
    }

    /// Returns the number of an address's place in an address space of this version, and whether a known
    /// mapping is there.
    fn place(&mut self, pid: i32, version: u32, address: u64) -> (u32, bool) {
        // The kernel is the same in all address spaces.
        let version = if address >= KERNEL_HALF { 0 } else { version };
        if self.found.is_empty() {
            self.found.resize(PLACES_KEPT, None);
        }
        let slot = slot((address, version), PLACES_KEPT);
        if let Some(found) = self.found[slot]
            && (found.address, found.version) == (address, version)
        {
            return (found.place, found.mapped);
        }
        let place = self.spaces.place(pid, address);
        let mapped = place.is_some();
        let place = self.tree.place(place.unwrap_or(CodePlace { file: UNMAPPED, offset: 0 }));
        self.found[slot] = Some(Found { address, version, place, mapped });
        (place, mapped)
    }
}

/// Returns the chain without the interrupted instruction at its start.
fn callers<'a>(sample: &Sample<'a>) -> &'a [u64] {
    let first = sample.chain.iter().position(|frame| *frame < CONTEXT_MAX);
    match first {
        Some(first) if sample.chain[first] == sample.address => &sample.chain[first + 1..],
        _ => sample.chain,
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
