//! Everything patchable in a process: its keys, and the sites of each.

use crate::instruction::{self, KeyState, LENGTH_MAX, Record};
use crate::maps::Mapping;
use crate::memory::{Fields, Memory};
use crate::registry::{FORMAT, FormatError, Registry, list, unreadable};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Limits on what a process may claim.
const SITES_MAX: usize = 1 << 22;
const IMPORTS_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 256;

const NOTE_SIZE: usize = 16;
const SITE_SIZE: usize = 16;
const KEY_SIZE: usize = 56;
/// `PATCHPOINT_KEY_IMPORT`.
const IMPORT: u8 = 1;

/// What a key or a site is (`enum patchpoint_kind`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The implementation of an operation.
    Call,
    /// A number or pointer.
    Value,
    /// A yes or no.
    Branch,
}

impl Kind {
    /// The word for it, the library's own.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Call => "call",
            Kind::Value => "value",
            Kind::Branch => "branch",
        }
    }

    fn of(number: u8) -> Option<Kind> {
        [Kind::Call, Kind::Value, Kind::Branch].get(usize::from(number).wrapping_sub(1)).copied()
    }
}

/// One site.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Site {
    /// What its record says.
    pub record: Record,
    /// The registered object that it belongs to.
    pub object: u64,
    /// The file that its code is of; empty where that is not known.
    pub path: String,
    /// What it holds.
    pub now: Vec<u8>,
    /// A word for that.
    pub state: &'static str,
}

impl Site {
    /// What it held as compiled; `None` where the register of a value cannot be told any more.
    pub fn original(&self) -> Option<Vec<u8>> {
        instruction::original(&self.record, &self.now).ok()
    }
}

/// One key, with all its sites.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Key {
    /// Its address.
    pub address: u64,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Bytes of a value.
    pub size: u8,
    /// What it makes of its sites.
    pub state: KeyState,
    /// Executions of its sites, where they were compiled with `PATCHPOINT_OPS`.
    pub ops: u64,
    /// Keys of other objects that stand for it.
    pub imports: Vec<u64>,
    /// The registry that it belongs to, an index.
    pub registry: usize,
    /// The file that defines it; empty where that is not known.
    pub path: String,
    /// Its sites, by address.
    pub sites: Vec<Site>,
}

/// What was found in a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Survey {
    /// One for each copy of the library.
    pub registries: Vec<Registry>,
    /// The keys that have sites, by name.
    pub keys: Vec<Key>,
}

impl Survey {
    /// Reads what the registries at these addresses lead to.
    ///
    /// # Errors
    /// A registry of another version, or damaged memory.
    pub fn read(
        memory: &impl Memory,
        mappings: &[Mapping],
        registries: &[u64],
    ) -> Result<Survey, FormatError> {
        let mut keys = HashMap::new();
        let mut found = Vec::new();
        for (index, address) in registries.iter().enumerate() {
            let registry = Registry::read(memory, *address)?;
            let reader = Reader { memory, mappings, registry: &registry, index };
            for object in 0..registry.objects.len() {
                reader.object(object, &mut keys)?;
            }
            found.push(registry);
        }
        let mut keys: Vec<Key> = keys.into_values().collect();
        keys.sort_by(|one, two| (&one.name, one.address).cmp(&(&two.name, two.address)));
        for key in &mut keys {
            key.sites.sort_by_key(|site| site.record.address);
        }
        Ok(Survey { registries: found, keys })
    }

    /// The sites in all.
    pub fn site_count(&self) -> usize {
        self.keys.iter().map(|key| key.sites.len()).sum()
    }
}

struct Reader<'a, M> {
    memory: &'a M,
    mappings: &'a [Mapping],
    registry: &'a Registry,
    index: usize,
}

impl<M: Memory> Reader<'_, M> {
    /// Adds the sites of one object to their keys.
    fn object(&self, object: usize, keys: &mut HashMap<u64, Key>) -> Result<(), FormatError> {
        let object = &self.registry.objects[object];
        let note = self
            .memory
            .array::<NOTE_SIZE>(object.note)
            .map_err(unreadable("an object's note", object.note))?;
        let fields = Fields(&note);
        if fields.u32(0) != FORMAT || fields.u32(12) as usize != SITE_SIZE {
            return Err(FormatError::Format { found: fields.u32(0) });
        }
        let start = fields.target(object.note, 4);
        let length = fields.target(object.note, 8).wrapping_sub(start) as usize;
        if length / SITE_SIZE > SITES_MAX {
            return Err(FormatError::TooMany { what: "sites of an object", most: SITES_MAX });
        }
        let records =
            self.memory.bytes(start, length).map_err(unreadable("records of sites", start))?;
        for (record, address) in records.chunks_exact(SITE_SIZE).zip((start..).step_by(SITE_SIZE)) {
            // The record of no kind keeps the section there.
            let Some(kind) = Kind::of(record[12]) else { continue };
            self.site(object.address, kind, Fields(record), address, keys)?;
        }
        Ok(())
    }

    fn site(
        &self,
        object: u64,
        kind: Kind,
        fields: Fields<'_>,
        address: u64,
        keys: &mut HashMap<u64, Key>,
    ) -> Result<(), FormatError> {
        let length = fields.u8(13);
        if usize::from(length) > LENGTH_MAX {
            return Err(FormatError::TooMany { what: "bytes of a site", most: LENGTH_MAX });
        }
        let aux = fields.target(address, 8);
        let likely = fields.u8(14) & 1 != 0;
        let record = Record {
            address: fields.target(address, 0),
            key: fields.target(address, 4),
            aux,
            kind,
            length,
            likely,
            saved: kind == Kind::Call && fields.u8(14) & 2 != 0,
            other: if kind == Kind::Branch { self.other_side(aux, likely) } else { None },
        };
        let key = match keys.entry(self.resolve(record.key)?) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let key = self.key(*place.key(), kind)?;
                place.insert(key)
            }
        };
        let now = self
            .memory
            .bytes(record.address, usize::from(length))
            .map_err(unreadable("a site", record.address))?;
        let stub = self.registry.stub_to(object, key.state.slot);
        // Some first byte must be there for a state to be told; a site of another kind has none.
        let state = if key.kind == kind && !now.is_empty() {
            instruction::state(&record, &now, &key.state, stub)
        } else {
            "foreign"
        };
        let path = self.path(record.address);
        key.sites.push(Site { record, object, path, now, state });
        Ok(())
    }

    /// The key that holds the value: an import stands for another one.
    fn resolve(&self, key: u64) -> Result<u64, FormatError> {
        let bytes = self.memory.array::<KEY_SIZE>(key).map_err(unreadable("a key", key))?;
        let (origin, flags) = (Fields(&bytes).u64(24), bytes[43]);
        if flags & IMPORT == 0 || origin == 0 {
            return Ok(key);
        }
        self.memory.number(origin).map_err(unreadable("an imported key", origin))
    }

    fn key(&self, address: u64, kind: Kind) -> Result<Key, FormatError> {
        let bytes = self.memory.array::<KEY_SIZE>(address).map_err(unreadable("a key", address))?;
        let fields = Fields(&bytes);
        let name = self
            .memory
            .text(fields.u64(8), NAME_BYTES_MAX)
            .map_err(unreadable("a key's name", fields.u64(8)))?;
        let mut body = [0; 6];
        body.copy_from_slice(&bytes[45..51]);
        Ok(Key {
            address,
            name: name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect(),
            kind: Kind::of(bytes[40]).unwrap_or(kind),
            size: bytes[41].min(8),
            state: KeyState { slot: fields.u64(0), form: bytes[44], body },
            ops: fields.u64(16),
            imports: list(self.memory, fields.u64(32), 32, "imports of a key", IMPORTS_MAX)?,
            registry: self.index,
            path: self.path(address),
            sites: Vec::new(),
        })
    }

    /// Where a branch's other side is, by the code that tests its key: f6 05 key 01 (testb), 0f 84 or
    /// 85 and the distance (src/arch/x86_64.c, branch_other).
    fn other_side(&self, aux: u64, likely: bool) -> Option<u64> {
        let code = self.memory.array::<13>(aux).ok()?;
        let condition = if likely { 0x84 } else { 0x85 };
        let known = code[..2] == [0xf6, 0x05] && code[6..9] == [0x01, 0x0f, condition];
        let distance = Fields(&code).u32(9) as i32;
        known.then(|| aux.wrapping_add(13).wrapping_add_signed(distance.into()))
    }

    fn path(&self, address: u64) -> String {
        let holds = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&address);
        self.mappings.iter().find(holds).map(|mapping| mapping.path.clone()).unwrap_or_default()
    }
}

/// Where a key's slot is; an import's is at the same place.
pub fn slot_address(key: u64) -> u64 {
    key
}

/// Where a call key's form and body are: 7 bytes.
pub fn form_address(key: u64) -> u64 {
    key.wrapping_add(44)
}

/// Where the executions of a key's sites are counted.
pub fn key_ops_address(key: u64) -> u64 {
    key.wrapping_add(16)
}
