//! From events to a tree of calls: who was where, without names.
//!
//! A sample costs a comparison of each half of its chain of callers, the kernel's and the program's, with
//! that of the thread's sample before, a look at each frame that differs, and one at the interrupted
//! instruction; nothing of it is kept but two sums. Whoever unwinds user stacks does so
//! before: [`Session::spaces`] says what is mapped, and the callers found are appended to
//! [`Sample::chain`] behind [`CONTEXT_USER`].

use crate::event::{
    CONTEXT_GUEST, CONTEXT_MAX, CONTEXT_USER, CONTEXT_USER_DEFERRED, Event, Sample,
};
use crate::losses::Losses;
use crate::space::{CodeFile, KERNEL_HALF, KernelReference, Spaces, UNMAPPED};
use crate::tree::{NO_PATH, Place, Tree};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// Callers that the kernel keeps of a chain unless told otherwise (`kernel.perf_event_max_stack`).
pub const FRAMES_MAX: usize = 127;

/// Samples, and what is needed to name them.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Every file that code was in, as [`Place::file`] numbers them.
    pub files: Vec<CodeFile>,
    /// Where the kernel was.
    pub kernel_reference: Option<KernelReference>,
    /// The file of the program that was executed first, where one was.
    pub program: Option<u32>,
    /// The calls.
    pub tree: Tree,
    /// What is missing.
    pub losses: Losses,
    /// Samples whose callers were found in a copy of the stack, not by frame pointers.
    pub stacks_unwound: u64,
}

impl Recorded {
    /// Takes build ids that were not known when files were mapped.
    ///
    /// `build_ids`: paths as they were mapped, with the build id; the kernel's path is `[kernel]`.
    pub fn learn(&mut self, build_ids: &[(Vec<u8>, Vec<u8>)]) {
        let by_path: FxHashMap<&[u8], &Vec<u8>> =
            build_ids.iter().map(|(path, id)| (path.as_slice(), id)).collect();
        for file in self.files.iter_mut().filter(|file| file.build_id.is_none()) {
            file.build_id = by_path.get(file.path.as_slice()).map(|id| id.to_vec());
        }
    }
}

/// A frame of half a chain that was followed.
#[derive(Clone, Copy, Debug)]
struct Followed {
    address: u64,
    /// The path that ends here.
    path: u32,
    /// Callers that are nowhere, up to here.
    unmapped: u32,
}

/// Half of a thread's last chain, outermost frame first: its next one differs from it at the inner end
/// only, more often than not.
#[derive(Clone, Debug, Default)]
struct Trail {
    tid: i32,
    version: u32,
    frames: Vec<Followed>,
}

/// Threads of which the last chain is kept, at most; a power of two.
const THREADS_KEPT: usize = 256;

/// Where an address was found before.
#[derive(Clone, Copy, Debug)]
struct Found {
    address: u64,
    version: u32,
    /// Its number in the tree.
    place: u32,
    mapped: bool,
}

/// Addresses of which the place is kept, at most; a power of two.
const PLACES_KEPT: usize = 1 << 12;

/// Takes events one by one.
#[derive(Clone, Debug)]
pub struct Session {
    event: u32,
    frames_max: usize,
    spaces: Spaces,
    tree: Tree,
    losses: Losses,
    stacks_unwound: u64,
    /// The outer and the inner half by thread; threads whose numbers end alike take turns.
    trails: Vec<[Trail; 2]>,
    /// By address and version; what falls on the same entry takes its place.
    found: Vec<Option<Found>>,
}

impl Session {
    /// A session that takes the samples of one event.
    ///
    /// `event`: its index ([`Sample::event`]); `frames_max`: the most callers that the profiler kept
    /// of a chain, usually [`FRAMES_MAX`].
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
        }
    }

    /// What is mapped where at this moment.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Takes an event; they come in the order of time.
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

    /// What was taken so far; the session goes on.
    pub fn recorded(&self) -> Recorded {
        Recorded {
            files: self.spaces.files().to_vec(),
            kernel_reference: self.spaces.kernel_reference().cloned(),
            program: self.spaces.program(),
            tree: self.tree.clone(),
            losses: self.losses.clone(),
            stacks_unwound: self.stacks_unwound,
        }
    }

    /// What was taken so far, after which the tree and the losses begin anew; address spaces stay.
    pub fn restart(&mut self) -> Recorded {
        // Numbers of the old tree mean nothing in the new one.
        self.trails.clear();
        self.found.clear();
        let recorded = Recorded {
            files: self.spaces.files().to_vec(),
            kernel_reference: self.spaces.kernel_reference().cloned(),
            program: self.spaces.program(),
            tree: std::mem::take(&mut self.tree),
            losses: std::mem::take(&mut self.losses),
            stacks_unwound: std::mem::take(&mut self.stacks_unwound),
        };
        self.spaces.begin();
        recorded
    }

    /// What was taken.
    pub fn finish(self) -> Recorded {
        Recorded {
            files: self.spaces.files().to_vec(),
            kernel_reference: self.spaces.kernel_reference().cloned(),
            program: self.spaces.program(),
            tree: self.tree.finished(),
            losses: self.losses,
            stacks_unwound: self.stacks_unwound,
        }
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
        // The kernel's limit is for the callers that it finds itself.
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
        // With its marker, which says that the first was interrupted there.
        let (inner, outer) = callers.split_at(user.unwrap_or(0));
        let version = self.spaces.version(sample.pid);
        let outer = self.path_of(sample, version, outer, 0);
        let inner = self.path_of(sample, version, inner, 1);
        let (place, mapped) = self.place(sample.pid, version, sample.address);
        self.losses.unmapped_samples += u64::from(!mapped);
        // What has one half only is one path.
        let (outer, callers) = if inner == NO_PATH { (NO_PATH, outer) } else { (outer, inner) };
        let node = self.tree.node(outer, callers, place);
        self.tree.add(node, sample.period);
    }

    /// The path of half a chain of callers; `half`: 0 of the outer one, 1 of the inner one.
    fn path_of(&mut self, sample: &Sample<'_>, version: u32, callers: &[u64], half: usize) -> u32 {
        if callers.is_empty() {
            return NO_PATH;
        }
        // The kernel is the same in each address space.
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
            // What a frame is depends on the one inside of it, so the last of those is followed again.
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

    /// Follows the frames of half a chain that are not among `followed`, its outer ones.
    fn follow(&mut self, pid: i32, version: u32, callers: &[u64], followed: &mut Vec<Followed>) {
        let last = followed.last();
        let (mut path, mut unmapped) = last.map_or((NO_PATH, 0), |last| (last.path, last.unmapped));
        for at in (0..callers.len() - followed.len()).rev() {
            let frame = callers[at];
            let inside = at.checked_sub(1).map(|inside| callers[inside]);
            if frame < CONTEXT_MAX && inside != Some(CONTEXT_USER_DEFERRED) {
                // What directly follows a marker was interrupted there; the others are addresses that
                // a call returns to, which may be the first of the next function.
                let interrupted = inside.is_some_and(|inside| inside >= CONTEXT_MAX);
                let address = if interrupted { frame } else { frame.saturating_sub(1) };
                let (place, mapped) = self.place(pid, version, address);
                unmapped += u32::from(!mapped);
                path = self.tree.path(path, place);
            }
            followed.push(Followed { address: frame, path, unmapped });
        }
    }

    /// The number of the place of an address in an address space of this version, and whether anything
    /// is known to be mapped there.
    fn place(&mut self, pid: i32, version: u32, address: u64) -> (u32, bool) {
        if self.found.is_empty() {
            self.found.resize(PLACES_KEPT, None);
        }
        let mut hasher = FxHasher::default();
        (address, version).hash(&mut hasher);
        let slot = hasher.finish() as usize % PLACES_KEPT;
        if let Some(found) = self.found[slot]
            && (found.address, found.version) == (address, version)
        {
            return (found.place, found.mapped);
        }
        let place = self.spaces.place(pid, address);
        let mapped = place.is_some();
        let place = self.tree.place(place.unwrap_or(Place { file: UNMAPPED, offset: 0 }));
        self.found[slot] = Some(Found { address, version, place, mapped });
        (place, mapped)
    }
}

/// The chain without the interrupted instruction itself, which it begins with.
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
