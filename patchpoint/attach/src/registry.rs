//! The registry of a process: its lock, its objects, its pages of jumps (`struct patchpoint_registry`).

use crate::arch::STUB_TARGET_AT;
use crate::memory::{Fields, Memory};
use std::collections::HashSet;
use std::io;
use std::ops::Range;

/// The only version of the formats that this crate knows (`PATCHPOINT_FORMAT`).
pub const FORMAT: u32 = 2;

const MAGIC: &[u8; 8] = b"patchpt\0";

/// Limits on a process's claims, so that damaged memory cannot keep opcost busy.
const OBJECTS_MAX: usize = 4096;
const STUB_PAGES_MAX: usize = 4 * OBJECTS_MAX;
const STUBS_IN_PAGE_MAX: u32 = 256;

/// Sizes and offsets of fields (patchpoint.h).
const OLDEST_SIZE: usize = 56;
const STUBS_AT: usize = 56;
const OPS_AT: usize = 64;
const OBJECT_SIZE: usize = 72;
const STUBS_SIZE: usize = 32;
const NOTE_SIZE: usize = 24;
pub(crate) const SITE_SIZE: usize = 16;

/// The damage of a registry, or of the structures that it points to.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum FormatError {
    /// It declares another version.
    #[error(
        "its patchpoint library has registry format {found}, and this opcost knows {FORMAT} only; \
         use the opcost of the library's version"
    )]
    Format { found: u32 },
    /// It does not begin with the registry's magic bytes.
    #[error(
        "no registry of patchpoint is where its note says ({address:#x}): the library is damaged"
    )]
    Magic { address: u64 },
    /// A part is not in memory.
    #[error("cannot read {what} at {address:#x}: {why}")]
    Unreadable { what: &'static str, address: u64, why: io::Error },
    /// Two objects have the same records.
    #[error(
        "the object registered at {address:#x} has records of another object: the library's memory is damaged"
    )]
    Shared { address: u64 },
    /// A list is longer than its limit, or circular.
    #[error("{what} are more than {most}: the library's memory is damaged")]
    TooMany { what: &'static str, most: usize },
}

/// Turns a failed read into a [`FormatError`].
pub(crate) fn unreadable(
    what: &'static str,
    address: u64,
) -> impl FnOnce(io::Error) -> FormatError {
    move |why| FormatError::Unreadable { what, address, why }
}

/// The registry's contents at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registry {
    /// The address of the registry.
    pub address: u64,
    /// The thread that is changing something, or 0; bit 31: others wait.
    pub lock: u32,
    /// Odd while code is being written.
    pub generation: u32,
    /// Changes of keys since the process began, all transactions together.
    pub transactions: u64,
    /// The program's own counter of operations; `None` if the library is too old to have it.
    pub ops: Option<u64>,
    /// The registered objects, in the order of registration.
    pub objects: Vec<Object>,
    /// The jumps to far targets.
    pub stubs: Vec<Stub>,
}

/// One registered program or shared object (`struct patchpoint_object`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Object {
    /// The address of the object.
    pub address: u64,
    /// The address range of its site records, from its note.
    pub records: Range<u64>,
    /// Its functions that keep the general registers (`PATCHPOINT_PRESERVING`), from its note.
    pub preserving: Range<u64>,
    /// The number of its sites.
    pub count: u32,
    /// The address of a second mapping of its text, which only earlier libraries made; 0 if there is none.
    /// The library notes 1 here once it replaced pages of the text by copies.
    pub alias: u64,
}

/// One jump near an object (`struct patchpoint_stubs`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stub {
    /// The object whose sites may call the jump.
    pub object: u64,
    /// The address of the jump.
    pub address: u64,
    /// The address that it jumps to.
    pub target: u64,
}

impl Registry {
    /// Reads the registry at an address.
    ///
    /// # Errors
    /// There is no registry, its version is unknown, or it or its structures are damaged.
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
        // Fields after `traps` exist if `size` includes them.
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

    /// Whether no thread is changing anything: only then the fields belong together.
    pub fn at_rest(&self) -> bool {
        at_rest(self.lock, self.generation)
    }

    /// Whether `function` is declared to keep the general registers.
    pub fn preserves(&self, function: u64) -> bool {
        self.objects.iter().any(|object| object.preserving.contains(&function))
    }

    /// The jump near `object` that leads to `target`.
    pub fn stub_to(&self, object: u64, target: u64) -> Option<u64> {
        let wanted = |stub: &&Stub| stub.object == object && stub.target == target;
        self.stubs.iter().find(wanted).map(|stub| stub.address)
    }
}

/// The parts of a registry to check whenever the program stands still: one short read, and one read
/// for each object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Glance {
    /// The lock, as [`Registry::lock`].
    pub lock: u32,
    /// The generation, as [`Registry::generation`].
    pub generation: u32,
    /// The first object's address.
    first: u64,
}

impl Glance {
    /// Reads the glance from the registry at `address`.
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

    /// Whether no thread is changing anything.
    pub fn at_rest(&self) -> bool {
        at_rest(self.lock, self.generation)
    }

    /// Whether the registered objects are `objects`: their addresses with the numbers of their sites.
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

/// The address of the program's own counter of operations.
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

/// The ranges that an object's note points to (`struct patchpoint_note`): records, preserving functions.
fn ranges_of_note(memory: &impl Memory, address: u64) -> Result<[Range<u64>; 2], FormatError> {
    let what = "an object's note";
    let head = memory.array::<16>(address).map_err(unreadable(what, address))?;
    let (format, size) = (Fields(&head).u32(0), Fields(&head).u32(12));
    // The fields from here on differ between formats.
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
        // The page of a closed object is kept for the next object.
        for index in (0..count).filter(|_| object != 0) {
            let stub = code.wrapping_add(u64::from(index) * size);
            let target = stub.wrapping_add(STUB_TARGET_AT);
            let target = memory.number(target).map_err(unreadable(WHAT, stub))?;
            stubs.push(Stub { object, address: stub, target });
        }
    }
    Ok(stubs)
}

/// The addresses in a linked list; each element's link is at `link_at`.
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
