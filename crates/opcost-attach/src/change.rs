//! From a key and its new value to every byte that has to change, and what it replaces.

use crate::error::ChangeError;
use crate::registry::Registry;
use crate::span::BREAKPOINT;
use crate::survey::{Key, Kind, Site, Survey, form_address, slot_address};
use crate::writes::{Write, hex};
use patchpoint::{State, Unfit};
use serde::{Deserialize, Serialize};

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
    /// What has to change for `key` to have each of the states `asked` (see
    /// [`body::asked`](crate::body::asked)).
    ///
    /// A site that still is as it was compiled stays so, since it reads the key; a patched one gets
    /// the patched form of the new value.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn plan(survey: &Survey, key: &Key, asked: &[State]) -> Result<Change, ChangeError> {
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

    /// As [`plan`](Self::plan), whatever the states are.
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

/// What is to be written of one site; nothing where it reads the key.
fn site_write(
    registry: &Registry,
    key: &Key,
    site: &Site,
    asked: &[State],
) -> Result<Option<Write>, ChangeError> {
    let alias = registry.objects.iter().find(|object| object.address == site.object);
    if alias.is_some_and(|object| object.alias != 0) {
        return Err(ChangeError::Memfd { key: key.name.clone() });
    }
    let address = site.place.code;
    if site.now.first() == Some(&BREAKPOINT) {
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
