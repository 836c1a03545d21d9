//! All keys of a process, and the sites of each key.

use crate::arch::{TEST_SIZE, TESTS_AT};
use crate::maps::Mapping;
use crate::memory::{Block, Fields, Memory, code_of};
use crate::printable::printable;
use crate::registry::{FormatError, Object, Registry, SITE_SIZE, list, unreadable};
use patchpoint::{Form, LENGTH_MAX, Place, State, Unfit};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Limits on a process's claims, all its libraries together. A kernel has some 50,000 such sites.
const SITES_MAX: usize = 1 << 18;
const REGISTRIES_MAX: usize = 64;
const IMPORTS_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 256;

/// Offsets of a key's fields (patchpoint.h).
const KEY_SIZE: usize = 72;
const ORIGIN_AT: usize = 24;
const IMPORTS_AT: u64 = 32;
const KIND_AT: usize = 52;
const FORM_AT: usize = 56;
/// The form, then the body.
const FORM_SIZE: usize = 1 + size_of::<patchpoint::Body>();
/// `PATCHPOINT_KEY_IMPORT`.
const IMPORT: u8 = 1;
/// `PATCHPOINT_KEY_VARIANTS` and `PATCHPOINT_KEY_BINDS`.
const BOUND: u8 = 4 | 8;

const WAYS_MAX: usize = 8;

/// The kind of a key or a site (`enum patchpoint_kind`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The implementation of an operation.
    Call,
    /// A number or pointer.
    Value,
    /// A yes or no.
    Branch,
    /// One of several ways.
    Switch,
}

/// The kinds by their numbers, from 1.
const KINDS: [Kind; 4] = [Kind::Call, Kind::Value, Kind::Branch, Kind::Switch];

impl Kind {
    /// The library's word for the kind.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Call => "call",
            Kind::Value => "value",
            Kind::Branch => "branch",
            Kind::Switch => "switch",
        }
    }

    fn of(number: u8) -> Option<Kind> {
        KINDS.get(usize::from(number).wrapping_sub(1)).copied()
    }
}

/// One site.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Site {
    /// The contents of the site's record.
    pub place: Place,
    /// The kind of key that the site was compiled for.
    pub kind: Kind,
    /// The registered object of the site.
    pub object: u64,
    /// The file of the site's code; empty if it is unknown.
    pub path: String,
    /// The bytes that the site holds.
    pub now: Vec<u8>,
    /// The library's word for these bytes.
    pub state: &'static str,
    /// The code that tests the key of a branch or switch.
    pub test: Block,
}

impl Site {
    /// The bytes as compiled; `None` if they cannot be determined any more.
    pub fn original(&self) -> Option<Vec<u8>> {
        self.place.compiled(&self.now, code_of(&self.test)).ok()
    }

    /// The bytes of the site once it is patched for a key's state.
    ///
    /// `stub`: the jump near the site's object that leads to the function, if the function is out of reach.
    ///
    /// # Errors
    /// As for [`Place::patched`].
    pub fn patched(&self, state: &State, stub: Option<u64>) -> Result<Vec<u8>, Unfit> {
        self.place.patched(&self.now, state, stub, code_of(&self.test))
    }
}

/// One key with all its sites.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Key {
    /// The address in the process.
    pub address: u64,
    /// The name, printable.
    pub name: String,
    /// The kind by the key's own record.
    pub kind: Kind,
    /// Bytes of a value; ways of a switch.
    pub size: u8,
    /// The value, and the form of its sites.
    pub state: State,
    /// Whether the key is a function with variants, or such a function follows it.
    pub bound: bool,
    /// The executions of its sites, if they were compiled with `PATCHPOINT_OPS`.
    pub ops: u64,
    /// The keys of other objects that stand for this key.
    pub imports: Vec<u64>,
    /// The index of its registry in [`Survey::registries`].
    pub registry: usize,
    /// The file that defines the key; empty if it is unknown.
    pub path: String,
    /// The sites, by address.
    pub sites: Vec<Site>,
}

/// The keys and registries of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Survey {
    /// The registries, one for each copy of the library.
    pub registries: Vec<Registry>,
    /// The keys that have sites, by name.
    pub keys: Vec<Key>,
}

impl Survey {
    /// Reads the registries at these addresses, and all keys and sites that they lead to.
    ///
    /// # Errors
    /// A registry has another version, or memory is damaged.
    pub fn read(
        memory: &impl Memory,
        mappings: &[Mapping],
        registries: &[u64],
    ) -> Result<Survey, FormatError> {
        let mut keys = HashMap::new();
        let mut found = Vec::new();
        if registries.len() > REGISTRIES_MAX {
            let what = "copies of the library";
            return Err(FormatError::TooMany { what, most: REGISTRIES_MAX });
        }
        let mut left = Left { sites: SITES_MAX, imports: SITES_MAX, records: Vec::new() };
        for (index, address) in registries.iter().enumerate() {
            let registry = Registry::read(memory, *address)?;
            let resolved = HashMap::new();
            let left = &mut left;
            let mut reader =
                Reader { memory, mappings, registry: &registry, index, resolved, left };
            for object in &registry.objects {
                reader.object(object, &mut keys)?;
            }
            found.push(registry);
        }
        let mut keys: Vec<Key> = keys.into_values().collect();
        keys.sort_by(|one, two| (&one.name, one.address).cmp(&(&two.name, two.address)));
        for key in &mut keys {
            key.sites.sort_by_key(|site| site.place.code);
        }
        Ok(Survey { registries: found, keys })
    }

    /// The number of sites of all keys.
    pub fn site_count(&self) -> usize {
        self.keys.iter().map(|key| key.sites.len()).sum()
    }
}

struct Reader<'a, M> {
    memory: &'a M,
    mappings: &'a [Mapping],
    registry: &'a Registry,
    index: usize,
    /// For each key that a site names: the key that holds the value.
    resolved: HashMap<u64, u64>,
    /// The elements that the process may still claim.
    left: &'a mut Left,
}

/// How much of the limits is left.
struct Left {
    sites: usize,
    imports: usize,
    /// The records that were read: no two objects share one.
    records: Vec<Range<u64>>,
}

impl<M: Memory> Reader<'_, M> {
    /// Adds the sites of one object to their keys.
    fn object(&mut self, object: &Object, keys: &mut HashMap<u64, Key>) -> Result<(), FormatError> {
        let start = object.records.start;
        let length = object.records.end.wrapping_sub(start) as usize;
        let Some(sites) = self.left.sites.checked_sub(length / SITE_SIZE) else {
            return Err(FormatError::TooMany { what: "sites", most: SITES_MAX });
        };
        self.left.sites = sites;
        let here = &object.records;
        let meets = |other: &Range<u64>| here.start < other.end && other.start < here.end;
        if length > 0 && self.left.records.iter().any(meets) {
            return Err(FormatError::Shared { address: object.address });
        }
        self.left.records.push(here.clone());
        let records =
            self.memory.bytes(start, length).map_err(unreadable("records of sites", start))?;
        for (record, address) in records.chunks_exact(SITE_SIZE).zip((start..).step_by(SITE_SIZE)) {
            // The linker keeps the section because of a record of no kind.
            let Some(kind) = Kind::of(record[12]) else { continue };
            self.site(object.address, kind, Fields(record), address, keys)?;
        }
        Ok(())
    }

    fn site(
        &mut self,
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
        let place = Place {
            code: fields.target(address, 0),
            key: fields.target(address, 4),
            aux: fields.target(address, 8),
            kind: fields.u8(12),
            length,
            flags: fields.u8(14),
        };
        let key = match keys.entry(self.resolve(place.key)?) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let key = self.key(*place.key(), kind)?;
                place.insert(key)
            }
        };
        let now = self
            .memory
            .bytes(place.code, usize::from(length))
            .map_err(unreadable("a site", place.code))?;
        let test = self.test(&place, kind, key.size);
        let stub = self.registry.stub_to(object, key.state.value);
        let state = if key.kind == kind {
            place.word(&now, &key.state, stub, code_of(&test))
        } else {
            "foreign"
        };
        let path = self.path(place.code);
        key.sites.push(Site { place, kind, object, path, now, state, test });
        Ok(())
    }

    /// The code that tests a key. It is empty if missing: then a site of a branch or switch is foreign.
    fn test(&self, place: &Place, kind: Kind, ways: u8) -> Block {
        // A branch has one test; a switch has one for each way but the first.
        let length = match kind {
            Kind::Branch => TESTS_AT + TEST_SIZE,
            Kind::Switch => TESTS_AT + (usize::from(ways).clamp(2, WAYS_MAX) - 1) * TEST_SIZE,
            Kind::Call | Kind::Value => 0,
        };
        let bytes = self.memory.bytes(place.aux, length).unwrap_or_default();
        Block { start: place.aux, bytes }
    }

    /// The key that holds the value: an import stands for another key.
    fn resolve(&mut self, key: u64) -> Result<u64, FormatError> {
        if let Some(known) = self.resolved.get(&key) {
            return Ok(*known);
        }
        let bytes = self.memory.array::<KEY_SIZE>(key).map_err(unreadable("a key", key))?;
        let fields = Fields(&bytes);
        let found = match fields.u64(ORIGIN_AT) {
            origin if fields.u8(KIND_AT + 3) & IMPORT != 0 && origin != 0 => {
                self.memory.number(origin).map_err(unreadable("an imported key", origin))?
            }
            _ => key,
        };
        self.resolved.insert(key, found);
        Ok(found)
    }

    fn key(&mut self, address: u64, kind: Kind) -> Result<Key, FormatError> {
        let bytes = self.memory.array::<KEY_SIZE>(address).map_err(unreadable("a key", address))?;
        let fields = Fields(&bytes);
        let name = self
            .memory
            .text(fields.u64(8), NAME_BYTES_MAX)
            .map_err(unreadable("a key's name", fields.u64(8)))?;
        let imports = fields.u64(IMPORTS_AT as usize);
        let most = self.left.imports.min(IMPORTS_MAX);
        let imports = list(self.memory, imports, IMPORTS_AT, "imports of keys", most)?;
        self.left.imports -= imports.len();
        Ok(Key {
            address,
            name: printable(&name),
            kind: Kind::of(fields.u8(KIND_AT)).unwrap_or(kind),
            size: fields.u8(KIND_AT + 1).min(8),
            state: state_of(&bytes, Some(&bytes[FORM_AT..FORM_AT + FORM_SIZE])),
            bound: fields.u8(KIND_AT + 3) & BOUND != 0,
            ops: fields.u64(16),
            imports,
            registry: self.index,
            path: self.path(address),
            sites: Vec::new(),
        })
    }

    fn path(&self, address: u64) -> String {
        let holds = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&address);
        self.mappings.iter().find(holds).map(|mapping| printable(&mapping.path)).unwrap_or_default()
    }
}

/// The state by the bytes of a key's slot and, for a call, of its form and body.
pub(crate) fn state_of(slot: &[u8], form: Option<&[u8]>) -> State {
    let form = Fields(form.unwrap_or_default());
    let body = std::array::from_fn(|index| form.u8(1 + index));
    State { value: Fields(slot).u64(0), form: Form(form.u8(0)), body }
}

/// The address of a key's slot; an import has its slot at the same offset.
pub fn slot_address(key: u64) -> u64 {
    key
}

/// The address of a call key's form and body, 8 bytes.
pub fn form_address(key: u64) -> u64 {
    key.wrapping_add(FORM_AT as u64)
}

/// The address of the counter of a key's executions.
pub fn key_ops_address(key: u64) -> u64 {
    key.wrapping_add(16)
}
