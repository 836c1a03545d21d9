//! Remembers names, for callers that name places of the same files again and again.

use super::{CodeFile, Frame, Names, Sources, Stack, Why, file, kernel, names};
use crate::session::Recorded;
use crate::space::CodeKind;
use opcost_symbols::keyed::KeyedMap;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// The kernel's code without a name is looked up again once in this many times, since modules and
/// programs of BPF come while the kernel runs.
const ASKED_AGAIN: u32 = 16;

/// Names found before. Their number grows with the functions seen, not with time.
#[derive(Debug, Default)]
pub struct Remembered {
    files: KeyedMap<CodeFile, Known>,
    /// The running kernel's list of functions.
    kernel_list: Option<String>,
    times: u32,
    /// The number of files that were read for names, the kernel's list among them.
    read: u64,
}

/// The names found in one file.
#[derive(Debug, Default)]
struct Known {
    /// The file's stamp when it was read.
    stamp: Option<Stamp>,
    frames: Vec<Frame>,
    /// Functions by their first place, with their end and the number of their frame.
    functions: BTreeMap<u64, (u64, u32)>,
    /// The frames of places outside functions.
    places: KeyedMap<u64, u32>,
    why: Option<Why>,
    unchecked: bool,
    soname: Option<String>,
}

/// Tells apart two files with one path: device, number, length and time of change.
type Stamp = (u64, u64, u64, (i64, i64));

fn stamp(file: &CodeFile) -> Option<Stamp> {
    if file.kind != CodeKind::File {
        return None;
    }
    let path = file.path.strip_suffix(file::DELETED.as_bytes()).unwrap_or(&file.path);
    let found = fs::metadata(OsStr::from_bytes(path)).ok()?;
    Some((found.dev(), found.ino(), found.size(), (found.mtime(), found.mtime_nsec())))
}

impl Remembered {
    /// Returns how many files were read for names so far, the kernel's list among them.
    pub fn files_read(&self) -> u64 {
        self.read
    }

    /// Begins another round of naming.
    pub(super) fn begin(&mut self) {
        self.times += 1;
        if !self.times.is_multiple_of(ASKED_AGAIN) {
            return;
        }
        for (file, known) in &mut self.files {
            if file.kind == CodeKind::Kernel && !known.places.is_empty() {
                *known = Known::default();
                self.kernel_list = None;
            }
        }
    }

    /// Names these offsets of a file.
    pub(super) fn names(
        &mut self,
        file: &CodeFile,
        recorded: &Recorded,
        offsets: &[u64],
        sources: &Sources,
    ) -> Names {
        // The map of just-in-time compiled code changes all the time.
        if matches!(file.kind, CodeKind::Unmapped | CodeKind::Anonymous { .. }) {
            return names(file, recorded, offsets, sources);
        }
        let known = self.files.entry(file.clone()).or_default();
        let stamp = stamp(file);
        if known.stamp != stamp {
            *known = Known { stamp, ..Known::default() };
        }
        let is_new = |offset: &u64| known.frame(*offset).is_none();
        let new: Vec<u64> = offsets.iter().copied().filter(is_new).collect();
        if !new.is_empty() {
            let found = if file.kind == CodeKind::Kernel {
                self.read += u64::from(self.kernel_list.is_none());
                let reference = recorded.kernel_reference.as_ref();
                kernel::names_by(file, reference, &new, sources, &mut self.kernel_list)
            } else {
                self.read += 1;
                names(file, recorded, &new, sources)
            };
            known.add(&new, found);
        }
        known.names(offsets)
    }
}

impl Known {
    fn frame(&self, offset: u64) -> Option<u32> {
        let before = self.functions.range(..=offset).next_back();
        let within = before.filter(|(_, (end, _))| offset < *end).map(|(_, (_, frame))| *frame);
        within.or_else(|| self.places.get(&offset).copied())
    }

    fn add(&mut self, offsets: &[u64], found: Names) {
        // Frames number no more than places, which are counted in 32 bits.
        let before = self.frames.len() as u32;
        for (offset, stack) in offsets.iter().zip(found.stacks) {
            let frame = &found.frames[stack.function as usize];
            let number = before + stack.function;
            match frame.start.zip(frame.bytes) {
                Some((start, bytes)) => {
                    self.functions.insert(start, (start.saturating_add(bytes), number));
                }
                None => {
                    self.places.insert(*offset, number);
                }
            }
        }
        self.frames.extend(found.frames);
        (self.why, self.unchecked, self.soname) = (found.why, found.unchecked, found.soname);
    }

    fn names(&self, offsets: &[u64]) -> Names {
        let mut numbers = KeyedMap::default();
        let mut frames = Vec::new();
        let stack = |offset: &u64| {
            let known = self.frame(*offset).unwrap_or_default();
            let function = *numbers.entry(known).or_insert_with(|| {
                frames.push(self.frames[known as usize].clone());
                frames.len() as u32 - 1
            });
            Stack { function, inlined: Vec::new() }
        };
        let stacks = offsets.iter().map(stack).collect();
        let (why, soname) = (self.why.clone(), self.soname.clone());
        Names { why, unchecked: self.unchecked, soname, ..Names::new(frames, stacks) }
    }
}
