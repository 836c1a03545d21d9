//! From a key and its new value to every byte that has to change, and what it replaces.

use crate::instruction::{self, AS_COMPILED, BREAKPOINT, DIRECT, KeyState, Unfit};
use crate::registry::Registry;
use crate::survey::{Key, Kind, Survey, form_address, slot_address};
use crate::writes::{Write, hex};
use serde::{Deserialize, Serialize};

/// Why a change cannot be made. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The key has the value already.
    #[error("'{key}' is {value} already, so there would be nothing to compare; give another value")]
    Same {
        /// Its name.
        key: String,
        /// The value.
        value: String,
    },
    /// A site holds a breakpoint.
    #[error(
        "the site of '{key}' at {address:#x} holds a breakpoint of a debugger or a probe; remove it first"
    )]
    Breakpoint {
        /// Its name.
        key: String,
        /// Where.
        address: u64,
    },
    /// A site holds what nobody who follows the library's rules wrote.
    #[error(
        "the site of '{key}' at {address:#x} holds {now}, which is neither what it was compiled to nor \
         what the key's value makes of it; another tool changed it"
    )]
    Foreign {
        /// Its name.
        key: String,
        /// Where.
        address: u64,
        /// What it holds, in hexadecimal.
        now: String,
    },
    /// The code cannot be written where it is executed.
    #[error(
        "the program writes the sites of '{key}' through a memfd, because its own /proc is of no use to \
         it; opcost attach cannot write such code"
    )]
    Memfd {
        /// Its name.
        key: String,
    },
}

/// A change of one key, complete: code, form and slots; and what tells that it still fits.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Change {
    /// The registry's address.
    pub registry: u64,
    /// The registered objects: their addresses with the numbers of their sites.
    pub objects: Vec<(u64, u32)>,
    /// Address and length of each site of the key, changed or not: no thread may be inside one.
    pub sites: Vec<(u64, u8)>,
    /// The code, then the key.
    pub writes: Vec<Write>,
    /// How many of the writes, the first ones, are code.
    pub code_writes: usize,
}

/// The objects of a registry, as [`Change::objects`] has them.
pub fn objects(registry: &Registry) -> Vec<(u64, u32)> {
    registry.objects.iter().map(|object| (object.address, object.count)).collect()
}

impl Change {
    /// What has to change for `key` to have the value `asked`.
    ///
    /// A site that still is as it was compiled stays so, since it reads the key; a patched one gets
    /// the patched form of the new value. A function is called, also where the library would put its
    /// body in the call's place.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn plan(survey: &Survey, key: &Key, asked: u64) -> Result<Change, ChangeError> {
        let next = KeyState {
            slot: asked,
            form: match (key.kind, key.state.form) {
                (Kind::Call, form) if form != AS_COMPILED => DIRECT,
                (_, form) => form,
            },
            body: key.state.body,
        };
        if next.slot == key.state.slot {
            let value = crate::value::show(key, asked);
            return Err(ChangeError::Same { key: key.name.clone(), value });
        }
        Change::to_state(survey, key, next)
    }

    /// As [`plan`](Self::plan), for a state of the key that is given whole.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn to_state(survey: &Survey, key: &Key, next: KeyState) -> Result<Change, ChangeError> {
        let registry = &survey.registries[key.registry];
        let mut writes = Vec::new();
        for site in &key.sites {
            let alias = registry.objects.iter().find(|object| object.address == site.object);
            if alias.is_some_and(|object| object.alias != 0) {
                return Err(ChangeError::Memfd { key: key.name.clone() });
            }
            let address = site.record.address;
            if site.now.first() == Some(&BREAKPOINT) {
                return Err(ChangeError::Breakpoint { key: key.name.clone(), address });
            }
            let compiled = site.original();
            if site.state == "foreign" || compiled.is_none() {
                let now = hex(&site.now);
                return Err(ChangeError::Foreign { key: key.name.clone(), address, now });
            }
            if compiled.as_ref() == Some(&site.now) {
                continue;
            }
            let stub = registry.stub_to(site.object, next.slot);
            let asked = match instruction::patched(&site.record, &site.now, &next, stub) {
                Ok(bytes) => Some(bytes),
                Err(Unfit::Far) => compiled,
                Err(Unfit::Unknown) => None,
            };
            let foreign =
                || ChangeError::Foreign { key: key.name.clone(), address, now: hex(&site.now) };
            let asked = asked.ok_or_else(foreign)?;
            writes.push(Write { address, found: site.now.clone(), asked });
        }
        let code_writes = writes.len();
        if key.kind == Kind::Call {
            writes.push(Write {
                address: form_address(key.address),
                found: form_bytes(&key.state),
                asked: form_bytes(&next),
            });
        }
        let slots = std::iter::once(&key.address).chain(&key.imports);
        writes.extend(slots.map(|holder| Write {
            address: slot_address(*holder),
            found: key.state.slot.to_le_bytes().to_vec(),
            asked: next.slot.to_le_bytes().to_vec(),
        }));
        let sites =
            key.sites.iter().map(|site| (site.record.address, site.record.length)).collect();
        let (registry, objects) = (registry.address, objects(registry));
        Ok(Change { registry, objects, sites, writes, code_writes })
    }
}

fn form_bytes(state: &KeyState) -> Vec<u8> {
    [&[state.form][..], &state.body].concat()
}
