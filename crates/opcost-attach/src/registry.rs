//! The registry of a process: its lock, its objects, its pages of jumps (`struct patchpoint_registry`).

use crate::memory::{Fields, Memory};
use std::collections::HashSet;
use std::io;
use std::ops::Range;

/// The one version of the formats that is known here (`PATCHPOINT_FORMAT`).
pub const FORMAT: u32 = 2;

const MAGIC: &[u8; 8] = b"patchpt\0";

/// Limits on what a process may claim, so that a damaged one cannot keep us busy.
const OBJECTS_MAX: usize = 4096;
const STUB_PAGES_MAX: usize = 4 * OBJECTS_MAX;
const STUBS_IN_PAGE_MAX: u32 = 256;

/// Sizes and places of fields (patchpoint.h).
const OLDEST_SIZE: usize = 56;
const STUBS_AT: usize = 56;
const OPS_AT: usize = 64;
const OBJECT_SIZE: usize = 72;
const STUBS_SIZE: usize = 32;
const NOTE_SIZE: usize = 24;
pub(crate) const SITE_SIZE: usize = 16;

/// What is wrong with a registry, or with what it leads to.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum FormatError {
    /// It says that it has another version.
    #[error(
        "its patchpoint library has registry format {found}, and this opcost knows {FORMAT} only; \
         use the opcost of the library's version"
    )]
    Format { found: u32 },
    /// It does not begin as a registry does.
    #[error(
        "no registry of patchpoint is where its note says ({address:#x}): the library is damaged"
    )]
    Magic { address: u64 },
    /// Something is not in memory.
    #[error("cannot read {what} at {address:#x}: {why}")]
    Unreadable { what: &'static str, address: u64, why: io::Error },
    /// A list is longer than can be, or a ring.
    #[error("{what} are more than {most}: the library's memory is damaged")]
    TooMany { what: &'static str, most: usize },
}

/// A failed read as a [`FormatError`].
pub(crate) fn unreadable(
    what: &'static str,
    address: u64,
) -> impl FnOnce(io::Error) -> FormatError {
    move |why| FormatError::Unreadable { what, address, why }
}

/// The registry at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registry {
    /// Its address.
    pub address: u64,
    /// The thread that changes something, or 0; bit 31: others wait.
    pub lock: u32,
    /// Odd while code is being written.
    pub generation: u32,
    /// Changes of keys since the process began, all transactions together.
    pub transactions: u64,
    /// What the program counted itself, where the library is new enough to have such a counter.
    pub ops: Option<u64>,
    /// The registered objects, in the order of registration.
    pub objects: Vec<Object>,
    /// The jumps to far targets.
    pub stubs: Vec<Stub>,
}

/// One registered program or shared object (`struct patchpoint_object`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Object {
    /// Its address.
    pub address: u64,
    /// Where the records of its sites are, by its note.
    pub records: Range<u64>,
    /// Its functions that keep the general registers (`PATCHPOINT_PRESERVING`), by its note.
    pub preserving: Range<u64>,
    /// Its sites' number.
    pub count: u32,
    /// Where its text is mapped a second time, writable (the writer `memfd`); 0 where it is not.
    pub alias: u64,
}

/// One jump near an object (`struct patchpoint_stubs`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stub {
    /// The object that may call it.
    pub object: u64,
    /// Where it is.
    pub address: u64,
    /// Where it leads.
    pub target: u64,
}

impl Registry {
    /// Reads the registry at an address.
    ///
    /// # Errors
    /// It is none, of another version, or what it leads to is damaged.
    pub fn read(memory: &impl Memory, address: u64) -> Result<Registry, FormatError> {
        let mut bytes =
            memory.bytes(address, OLDEST_SIZE).map_err(unreadable("the registry", address))?;
        if bytes[..8] != *MAGIC {
            return Err(FormatError::Magic { address });
        }
        let head = Fields(&bytes);
        if head.u32(8) != FORMAT {
            return Err(FormatError::Format { found: head.u32(8) });
        }
        // What follows `traps` is there when `size` says so.
        let size = (head.u32(12) as usize).clamp(OLDEST_SIZE, OPS_AT + 8);
        let more = memory
            .bytes(address + OLDEST_SIZE as u64, size - OLDEST_SIZE)
            .map_err(unreadable("the registry", address))?;
        bytes.extend(more);
        let head = Fields(&bytes);
        let ops = (size >= OPS_AT + 8).then(|| head.u64(OPS_AT));
        Ok(Registry {
            address,
            lock: head.u32(16),
            generation: head.u32(20),
            transactions: head.u64(32),
            ops,
            objects: objects(memory, head.u64(24))?,
            stubs: if size >= STUBS_AT + 8 { stubs(memory, head.u64(STUBS_AT))? } else { vec![] },
        })
    }

    /// Whether nobody changes anything: then what is read belongs together.
    pub fn at_rest(&self) -> bool {
        at_rest(self.lock, self.generation)
    }

    /// Whether a function says that it keeps the general registers.
    pub fn preserves(&self, function: u64) -> bool {
        self.objects.iter().any(|object| object.preserving.contains(&function))
    }

    /// The jump near an object that leads to a target.
    pub fn stub_to(&self, object: u64, target: u64) -> Option<u64> {
        let wanted = |stub: &&Stub| stub.object == object && stub.target == target;
        self.stubs.iter().find(wanted).map(|stub| stub.address)
    }
}

/// What has to be looked at again whenever a program stands still: one short read, and one for each
/// object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Glance {
    /// As [`Registry::lock`].
    pub lock: u32,
    /// As [`Registry::generation`].
    pub generation: u32,
    /// The first object.
    first: u64,
}

impl Glance {
    /// Reads it.
    ///
    /// # Errors
    /// There is no registry at that address (any more).
    pub fn read(memory: &impl Memory, address: u64) -> Result<Glance, FormatError> {
        let bytes = memory.array::<32>(address).map_err(unreadable("the registry", address))?;
        if bytes[..8] != *MAGIC {
            return Err(FormatError::Magic { address });
        }
        let head = Fields(&bytes);
        Ok(Glance { lock: head.u32(16), generation: head.u32(20), first: head.u64(24) })
    }

    /// Whether nobody changes anything.
    pub fn at_rest(&self) -> bool {
        at_rest(self.lock, self.generation)
    }

    /// Whether the registered objects are these: their addresses with the numbers of their sites.
    pub fn has_objects(&self, memory: &impl Memory, objects: &[(u64, u32)]) -> bool {
        let mut next = self.first;
        for (address, count) in objects {
            let Ok(bytes) = memory.array::<OBJECT_SIZE>(next) else { return false };
            if (next, Fields(&bytes).u32(24)) != (*address, *count) {
                return false;
            }
            next = Fields(&bytes).u64(8);
        }
        next == 0
    }
}

fn at_rest(lock: u32, generation: u32) -> bool {
    lock == 0 && generation.is_multiple_of(2)
}

/// Where the program's own counter of operations is.
pub fn ops_address(registry: u64) -> u64 {
    registry.wrapping_add(OPS_AT as u64)
}

fn objects(memory: &impl Memory, first: u64) -> Result<Vec<Object>, FormatError> {
    let mut objects = Vec::new();
    for address in list(memory, first, 8, "registered objects", OBJECTS_MAX)? {
        let bytes = memory
            .array::<OBJECT_SIZE>(address)
            .map_err(unreadable("a registered object", address))?;
        let fields = Fields(&bytes);
        let [records, preserving] = ranges_of_note(memory, fields.u64(0))?;
        let (count, alias) = (fields.u32(24), fields.u64(48));
        objects.push(Object { address, records, preserving, count, alias });
    }
    Ok(objects)
}

/// What an object's note leads to (`struct patchpoint_note`): its records, its preserving functions.
fn ranges_of_note(memory: &impl Memory, address: u64) -> Result<[Range<u64>; 2], FormatError> {
    let what = "an object's note";
    let head = memory.array::<16>(address).map_err(unreadable(what, address))?;
    let (format, size) = (Fields(&head).u32(0), Fields(&head).u32(12));
    // Other formats have other fields from here on.
    if format != FORMAT || size as usize != SITE_SIZE {
        return Err(FormatError::Format { found: format });
    }
    let note = memory.array::<NOTE_SIZE>(address).map_err(unreadable(what, address))?;
    let target = |at| Fields(&note).target(address, at);
    Ok([target(4)..target(8), target(16)..target(20)])
}

fn stubs(memory: &impl Memory, first: u64) -> Result<Vec<Stub>, FormatError> {
    const WHAT: &str = "pages of far jumps";
    let mut stubs = Vec::new();
    for address in list(memory, first, 0, WHAT, STUB_PAGES_MAX)? {
        let page = memory.array::<STUBS_SIZE>(address).map_err(unreadable(WHAT, address))?;
        let fields = Fields(&page);
        let (object, code) = (fields.u64(8), fields.u64(16));
        let (count, size) = (fields.u32(24).min(STUBS_IN_PAGE_MAX), u64::from(fields.u32(28)));
        // A closed object's page waits for the next one.
        for index in (0..count).filter(|_| object != 0) {
            let stub = code.wrapping_add(u64::from(index) * size);
            // jmp *0(%rip), then the target (src/arch/x86_64.c, arch_stub).
            let target = memory.number(stub.wrapping_add(6)).map_err(unreadable(WHAT, stub))?;
            stubs.push(Stub { object, address: stub, target });
        }
    }
    Ok(stubs)
}

/// The addresses of a linked list whose links are at `link_at`.
pub(crate) fn list(
    memory: &impl Memory,
    first: u64,
    link_at: u64,
    what: &'static str,
    most: usize,
) -> Result<Vec<u64>, FormatError> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut next = first;
    while next != 0 {
        if found.len() == most || !seen.insert(next) {
            return Err(FormatError::TooMany { what, most });
        }
        found.push(next);
        let link = next.wrapping_add(link_at);
        next = memory.number(link).map_err(unreadable(what, link))?;
    }
    Ok(found)
}
