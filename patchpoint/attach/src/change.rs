//! Plans every byte that has to change for a key's new value, and the bytes that it replaces.
//!
//! **The library alone decides which bytes a site holds, even when opcost patches another process.** opcost runs the
//! library's own compiled recogniser (`patchpoint_body`) on the program's bytes and asks it for the bytes of every form
//! (`patchpoint_place_…`). A second implementation would have to agree with the library to the last byte. The program's
//! library may be another version; opcost tries the key's present function to see whether both agree. If not, sites call
//! functions.

use crate::arch::is_breakpoint;
use crate::error::ChangeError;
use crate::registry::Registry;
use crate::survey::{Key, Kind, Site, Survey, form_address, slot_address};
use crate::writes::{Write, hex};
use patchpoint::{State, Unfit};
use serde::{Deserialize, Serialize};

/// A complete change of one key: code, form and slots, and data to check that it still fits.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Change {
    /// The registry's address.
    pub registry: u64,
    /// The addresses of the registered objects, each with its number of sites.
    pub objects: Vec<(u64, u32)>,
    /// Address and length of each site of the key, changed or not: no thread may be inside a site.
    pub sites: Vec<(u64, u8)>,
    /// The writes of code, then those of the key.
    pub writes: Vec<Write>,
    /// The number of writes that are code; they come first.
    pub code_writes: usize,
}

/// The objects of a registry in the form of [`Change::objects`].
pub fn objects(registry: &Registry) -> Vec<(u64, u32)> {
    registry.objects.iter().map(|object| (object.address, object.count)).collect()
}

impl Change {
    /// Plans the writes that give `key` each of the states `asked` (see
    /// [`body::state_with`](crate::body::state_with)).
    ///
    /// A site that is still as compiled stays so, since it reads the key. A patched site gets the
    /// patched form of the new value.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn plan(survey: &Survey, key: &Key, asked: &[State]) -> Result<Change, ChangeError> {
        if key.bound {
            return Err(ChangeError::Bound { key: key.name.clone() });
        }
        for (index, state) in asked.iter().enumerate() {
            let named = || (key.name.clone(), crate::value::show(key, state.value));
            if state.value == key.state.value {
                let (key, value) = named();
                return Err(ChangeError::Same { key, value });
            }
            if asked[..index].iter().any(|before| before.value == state.value) {
                let (key, value) = named();
                return Err(ChangeError::Twice { key, value });
            }
        }
        Change::to_states(survey, key, asked)
    }

    /// Does the same as [`plan`](Self::plan), but allows equal states.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn to_states(survey: &Survey, key: &Key, asked: &[State]) -> Result<Change, ChangeError> {
        let registry = &survey.registries[key.registry];
        let mut writes = Vec::new();
        for site in &key.sites {
            writes.extend(site_write(registry, key, site, asked)?);
        }
        let code_writes = writes.len();
        let states = || std::iter::once(&key.state).chain(asked);
        if key.kind == Kind::Call {
            let sides = states().map(form_bytes).collect();
            writes.push(Write { address: form_address(key.address), sides });
        }
        let slots = std::iter::once(&key.address).chain(&key.imports);
        writes.extend(slots.map(|holder| Write {
            address: slot_address(*holder),
            sides: states().map(|state| state.value.to_le_bytes().to_vec()).collect(),
        }));
        let sites = key.sites.iter().map(|site| (site.place.code, site.place.length)).collect();
        let (registry, objects) = (registry.address, objects(registry));
        Ok(Change { registry, objects, sites, writes, code_writes })
    }
}

/// The write for one site; `None` if the site reads the key.
fn site_write(
    registry: &Registry,
    key: &Key,
    site: &Site,
    asked: &[State],
) -> Result<Option<Write>, ChangeError> {
    let alias = registry.objects.iter().find(|object| object.address == site.object);
    if alias.is_some_and(|object| object.alias > 1) {
        return Err(ChangeError::Memfd { key: key.name.clone() });
    }
    let address = site.place.code;
    if is_breakpoint(&site.now) {
        return Err(ChangeError::Breakpoint { key: key.name.clone(), address });
    }
    let foreign = || ChangeError::Foreign { key: key.name.clone(), address, now: hex(&site.now) };
    let compiled = site.original().filter(|_| site.state != "foreign").ok_or_else(foreign)?;
    if compiled == site.now {
        return Ok(None);
    }
    let mut sides = vec![site.now.clone()];
    for state in asked {
        let stub = registry.stub_to(site.object, state.value);
        sides.push(match site.patched(state, stub) {
            Ok(bytes) => bytes,
            Err(Unfit::Far) => compiled.clone(),
            Err(Unfit::Unknown) => return Err(foreign()),
        });
    }
    Ok(Some(Write { address, sides }))
}

fn form_bytes(state: &State) -> Vec<u8> {
    [&[state.form.0][..], &state.body].concat()
}
