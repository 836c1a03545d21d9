//! From events to a tree of calls: who was where, without names.
//!
//! A sample costs one look at each half of its chain of callers, the kernel's and the program's, which
//! are usually known already, and one at the interrupted instruction; nothing of it is kept but two
//! sums. Whoever unwinds user stacks does so
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

/// Half a chain that came before, and the path that it is.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Where its addresses begin, and how many there are: in few bytes, since there are many chains.
    start: u32,
    frames: u16,
    unmapped: u16,
    version: u32,
    path: u32,
}

/// Takes events one by one.
#[derive(Clone, Debug)]
pub struct Session {
    event: u32,
    frames_max: usize,
    spaces: Spaces,
    tree: Tree,
    losses: Losses,
    stacks_unwound: u64,
    /// Halves of chains by a hash of them and of their address space's version.
    known: FxHashMap<u64, Known>,
    /// Their addresses, one behind the other.
    chains: Vec<u64>,
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
            known: FxHashMap::default(),
            chains: Vec::new(),
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
        // Paths of the old tree mean nothing in the new one.
        self.known.clear();
        self.chains.clear();
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
            tree: self.tree,
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
        let outer = self.path_of(sample.pid, version, outer);
        let inner = self.path_of(sample.pid, version, inner);
        let place = self.spaces.place(sample.pid, sample.address).unwrap_or_else(|| {
            self.losses.unmapped_samples += 1;
            Place { file: UNMAPPED, offset: 0 }
        });
        // What has one half only is one path.
        let (outer, callers) = if inner == NO_PATH { (NO_PATH, outer) } else { (outer, inner) };
        let place = self.tree.place(place);
        let node = self.tree.node(outer, callers, place);
        self.tree.add(node, sample.period);
    }

    /// The path of half a chain of callers.
    fn path_of(&mut self, pid: i32, version: u32, callers: &[u64]) -> u32 {
        if callers.is_empty() {
            return NO_PATH;
        }
        // The kernel is the same in each address space.
        let version = if callers.iter().all(|frame| *frame >= KERNEL_HALF) { 0 } else { version };
        let mut hasher = FxHasher::default();
        (version, callers).hash(&mut hasher);
        let key = hasher.finish();
        let known = match self.known.get(&key) {
            Some(known) if known.version == version && self.chain(*known) == callers => *known,
            _ => {
                let (path, unmapped) = self.follow(pid, callers);
                let start = u32::try_from(self.chains.len());
                let lengths = (u16::try_from(callers.len()), u16::try_from(unmapped));
                // What has no room is followed again each time.
                if let (Ok(start), (Ok(frames), Ok(unmapped))) = (start, lengths) {
                    self.chains.extend_from_slice(callers);
                    let known = Known { start, frames, unmapped, version, path };
                    // A later chain with the same hash takes the place of this one, which is then followed again.
                    self.known.insert(key, known);
                }
                self.losses.unmapped_callers += u64::from(unmapped);
                return path;
            }
        };
        self.losses.unmapped_callers += u64::from(known.unmapped);
        known.path
    }

    /// The addresses of half a chain.
    fn chain(&self, known: Known) -> &[u64] {
        let start = known.start as usize;
        &self.chains[start..start + usize::from(known.frames)]
    }

    /// The path of half a chain that is new, and how many of its callers are nowhere.
    fn follow(&mut self, pid: i32, callers: &[u64]) -> (u32, u32) {
        let mut path = NO_PATH;
        let mut unmapped = 0;
        for (at, frame) in callers.iter().enumerate().rev() {
            let cookie = at > 0 && callers[at - 1] == CONTEXT_USER_DEFERRED;
            if *frame >= CONTEXT_MAX || cookie {
                continue;
            }
            // What directly follows a marker was interrupted there; the others are addresses that a
            // call returns to, which may be the first of the next function.
            let interrupted = at > 0 && callers[at - 1] >= CONTEXT_MAX;
            let address = if interrupted { *frame } else { frame.saturating_sub(1) };
            let place = self.spaces.place(pid, address).unwrap_or_else(|| {
                unmapped += 1;
                Place { file: UNMAPPED, offset: 0 }
            });
            let place = self.tree.place(place);
            path = self.tree.path(path, place);
        }
        (path, unmapped)
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
