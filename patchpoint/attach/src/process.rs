//! A running process: its identity and its memory.
//!
//! **opcost traces a running program only while it changes it.** A tracer that stayed would have to answer every signal of
//! the program. A debugger may therefore attach in between; then the guardian waits for it to leave.

use crate::error::AttachError;
use crate::image::{self, Image};
use crate::maps::{self, Mapping};
use crate::memory::Memory;
use crate::printable::printable;
use crate::registry::FormatError;
use crate::survey::Survey;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// The purpose for which a process is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// Reading its memory.
    Look,
    /// Changing its memory.
    Change,
}

/// A process whose memory is open.
#[derive(Debug)]
pub struct Process {
    /// The process number.
    pub pid: i32,
    /// The start, in clock ticks since boot: distinguishes the process from a later one of the same number.
    pub started_ticks: u64,
    /// The name of its program.
    pub name: String,
    memory: File,
}

impl Process {
    /// Opens a process.
    ///
    /// # Errors
    /// There is no such process, or no right to it.
    pub fn open(pid: i32, purpose: Purpose) -> Result<Process, AttachError> {
        let stat = Stat::read(pid).ok_or(AttachError::NoProcess { pid })?;
        let memory = File::options()
            .read(true)
            .write(purpose == Purpose::Change)
            .open(format!("/proc/{pid}/mem"))
            .map_err(|error| denied(pid, "open the memory of", error))?;
        let name = printable(&stat.name);
        Ok(Process { pid, started_ticks: stat.started_ticks, name, memory })
    }

    /// Whether the process still runs the program that was opened.
    pub fn is_alive(&self) -> bool {
        self.stat().is_some() && self.has_memory()
    }

    fn stat(&self) -> Option<Stat> {
        Stat::read(self.pid).filter(|stat| stat.started_ticks == self.started_ticks)
    }

    /// Whether the opened memory belongs to a running program. It does not once the process has
    /// ended or executes another program: then a read returns 0 bytes. An unmapped address is an
    /// error instead (fs/proc/base.c, mem_rw).
    fn has_memory(&self) -> bool {
        !matches!(self.memory.read_at(&mut [0], 0), Ok(0))
    }

    /// The error for a process that is no longer the one that was opened.
    pub fn gone(&self) -> AttachError {
        // A process that is about to end has no program either.
        match self.stat().filter(|_| !self.has_memory() && self.program().is_some()) {
            Some(stat) => AttachError::OtherProgram { pid: self.pid, name: printable(&stat.name) },
            None => AttachError::Ended { pid: self.pid },
        }
    }

    /// The error for a failed read of the process's registry.
    pub(crate) fn unreadable(&self, why: FormatError) -> AttachError {
        match self.is_alive() {
            true => AttachError::Format { pid: self.pid, why },
            false => self.gone(),
        }
    }

    /// The processes that this one forked and that it is still the parent of.
    pub fn children(&self) -> Vec<i32> {
        let threads =
            fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let read = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
        let listed: Vec<String> = threads.filter_map(read).collect();
        listed.iter().flat_map(|text| text.split_whitespace()).flat_map(str::parse).collect()
    }

    /// The files that are mapped into the process.
    ///
    /// # Errors
    /// The process has ended, or there is no right to it.
    pub fn mappings(&self) -> Result<Vec<Mapping>, AttachError> {
        let path = format!("/proc/{}/maps", self.pid);
        let text =
            fs::read(path).map_err(|error| denied(self.pid, "read the mappings of", error))?;
        Ok(maps::parse(&String::from_utf8_lossy(&text)))
    }

    /// The file of the process's program.
    pub fn program(&self) -> Option<std::path::PathBuf> {
        fs::read_link(format!("/proc/{}/exe", self.pid)).ok()
    }

    /// The number of threads.
    pub fn thread_count(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid)).map_or(0, Iterator::count)
    }

    /// Reads all keys and sites of the process.
    ///
    /// # Errors
    /// The process does not use patchpoint, or uses an unknown version.
    pub fn survey(&self) -> Result<Survey, AttachError> {
        let mappings = self.mappings()?;
        let (mut registries, mut elf_32, mut elf_64) = (Vec::new(), false, false);
        for mapping in mappings.iter().filter(|mapping| mapping.offset_bytes == 0) {
            match image::look(self, mapping.start) {
                Image::Registry { address, .. } if !registries.contains(&address) => {
                    registries.push(address);
                }
                Image::Elf32 => elf_32 = true,
                Image::Registry { .. } | Image::WithoutRegistry => elf_64 = true,
                Image::NotElf => {}
            }
        }
        if registries.is_empty() {
            return Err(self.without_registry(elf_32 && !elf_64));
        }
        Survey::read(self, &mappings, &registries).map_err(|why| self.unreadable(why))
    }

    fn without_registry(&self, only_32: bool) -> AttachError {
        let (pid, name) = (self.pid, self.name.clone());
        if self.stat().is_none() {
            AttachError::Ended { pid }
        } else if only_32 {
            AttachError::Elf32 { pid, name }
        } else {
            AttachError::NotUsed { pid, name }
        }
    }

    /// Writes bytes, even to pages that are not writable (`FOLL_FORCE`, fs/proc/base.c, mem_write).
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, address)
    }
}

impl Memory for Process {
    fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(bytes, address)
    }
}

/// Fields of `/proc/PID/stat` (proc_pid_stat(5)).
struct Stat {
    name: String,
    started_ticks: u64,
}

impl Stat {
    /// `None` if the process is gone or a zombie.
    fn read(pid: i32) -> Option<Stat> {
        if pid <= 0 {
            return None;
        }
        Stat::parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    fn parse(text: &str) -> Option<Stat> {
        // The name may hold anything, including parentheses.
        let (head, tail) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let ended = matches!(*fields.first()?, "Z" | "X");
        (!ended).then_some(Stat {
            name: head.split_once('(')?.1.to_string(),
            started_ticks: fields.get(19)?.parse().ok()?,
        })
    }
}

fn denied(pid: i32, what: &'static str, why: io::Error) -> AttachError {
    match why.kind() {
        io::ErrorKind::NotFound => AttachError::Ended { pid },
        _ => AttachError::Denied { pid, what, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_any_name() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        let stat = Stat::parse(&format!("12 (a) b (c) {tail}")).unwrap();
        assert_eq!((stat.name.as_str(), stat.started_ticks), ("a) b (c", 4711));
        assert!(Stat::parse(&format!("12 (x) Z{}", &tail[1..])).is_none());
        assert!(Stat::parse("12 (x) S 1 2").is_none());
        assert!(Stat::parse("").is_none());
    }

    #[test]
    fn this_process_can_be_read() {
        let own = Process::open(std::process::id() as i32, Purpose::Look).unwrap();
        let text = *b"some text of this test";
        assert_eq!(own.array::<22>(text.as_ptr() as u64).unwrap(), text);
        assert!(own.is_alive());
        assert!(matches!(Process::open(0, Purpose::Look), Err(AttachError::NoProcess { pid: 0 })));
    }
}
