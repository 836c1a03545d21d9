//! Surveys of damaged memory end with a named error, without panics or endless lists.

use crate::made;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use patchpoint_attach::body;
use patchpoint_attach::change::Change;
use patchpoint_attach::image::{self, Image};
use patchpoint_attach::maps;
use patchpoint_attach::memory::{Block, Memory};
use patchpoint_attach::process::{Process, Purpose};
use patchpoint_attach::registry::{FormatError, Registry};
use patchpoint_attach::survey::{Kind, Survey};
use patchpoint_attach::writes::Write;
use proptest::prelude::*;

const START: u64 = 0x10000;
const REGISTRY: usize = 0x400;
const OBJECT: usize = 0x500;
const NOTE: usize = 0x600;
const SITES: usize = 0x640;
const KEY: usize = 0x800;
const NAME: usize = 0x900;
const CODE: usize = 0xa00;

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

fn at(place: usize) -> [u8; 8] {
    (START + place as u64).to_le_bytes()
}

fn relative(from: usize, to: usize) -> [u8; 4] {
    (to as i32 - from as i32).to_le_bytes()
}

/// The memory of a program with one value key and one site.
fn memory() -> Block {
    let mut bytes = vec![0; 0x1000];
    put(&mut bytes, 0, b"\x7fELF\x02\x01\x01");
    put(&mut bytes, 32, &64u64.to_le_bytes());
    put(&mut bytes, 56, &[2, 0]);
    // The types of the two segments: PT_LOAD and PT_NOTE.
    put(&mut bytes, 64, &[1]);
    put(&mut bytes, 120, &[4]);
    put(&mut bytes, 120 + 16, &0x300u64.to_le_bytes());
    put(&mut bytes, 120 + 40, &32u64.to_le_bytes());
    put(&mut bytes, 0x300, &[11, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0]);
    put(&mut bytes, 0x30c, b"patchpoint\0");
    put(&mut bytes, 0x318, &[2]);
    put(&mut bytes, 0x31c, &relative(0x31c, REGISTRY));
    put(&mut bytes, REGISTRY, b"patchpt\0\x02\0\0\0\x48\0\0\0");
    put(&mut bytes, REGISTRY + 24, &at(OBJECT));
    put(&mut bytes, REGISTRY + 64, &99u64.to_le_bytes());
    put(&mut bytes, OBJECT, &at(NOTE));
    put(&mut bytes, OBJECT + 24, &[1]);
    put(&mut bytes, NOTE, &[2]);
    put(&mut bytes, NOTE + 4, &relative(NOTE + 4, SITES));
    put(&mut bytes, NOTE + 8, &relative(NOTE + 8, SITES + 32));
    put(&mut bytes, NOTE + 12, &[16]);
    // The record of no kind, then the site.
    let site = SITES + 16;
    put(&mut bytes, site, &relative(site, CODE));
    put(&mut bytes, site + 4, &relative(site + 4, KEY));
    put(&mut bytes, site + 12, &[2, 7, 0, 0]);
    put(&mut bytes, KEY, &42u64.to_le_bytes());
    put(&mut bytes, KEY + 8, &at(NAME));
    put(&mut bytes, KEY + 52, &[2, 4]);
    put(&mut bytes, NAME, b"limit\0");
    put(&mut bytes, CODE, &[0x40, 0xc7, 0xc0, 0x2a, 0, 0, 0]);
    Block { start: START, bytes }
}

fn survey(memory: &Block) -> Result<Survey, FormatError> {
    Survey::read(memory, &[], &[START + REGISTRY as u64])
}

#[test]
fn the_whole_memory_is_read_as_it_was_laid_out() {
    let memory = memory();
    let address = START + REGISTRY as u64;
    assert_eq!(image::look(&memory, START), Image::Registry { address, format: 2 });
    let survey = survey(&memory).unwrap();
    assert_eq!(survey.registries[0].ops, Some(99));
    let [key] = survey.keys.as_slice() else { panic!("{:?}", survey.keys) };
    assert_eq!((key.name.as_str(), key.kind, key.state.value), ("limit", Kind::Value, 42));
    assert_eq!((key.sites.len(), key.sites[0].state), (1, "immediate"));
    let change =
        Change::plan(&survey, key, &[body::state_with(&memory, &survey, key, 43)]).unwrap();
    assert_eq!(change.code_writes, 1);
    assert_eq!(change.writes[0].sides[1], [0x40, 0xc7, 0xc0, 0x2b, 0, 0, 0]);
    assert_eq!(change.writes[1].address, START + KEY as u64);
}

/// The error of surveying a memory with some bytes overwritten.
fn error(place: usize, bytes: &[u8]) -> String {
    let mut memory = memory();
    put(&mut memory.bytes, place, bytes);
    survey(&memory).unwrap_err().to_string()
}

#[test]
fn damage_has_a_name() {
    assert!(error(REGISTRY, b"X").contains("no registry of patchpoint is where its note says"));
    assert!(error(REGISTRY + 8, &[1]).contains("registry format 1, and this opcost knows 2 only"));
    assert!(error(NOTE, &[7]).contains("registry format 7"));
    assert!(error(OBJECT + 8, &at(OBJECT)).contains("registered objects are more than"));
    assert!(error(REGISTRY + 24, &[1; 8]).contains("cannot read registered objects"));
    assert!(error(NOTE + 8, &[0, 0, 0, 0x80]).contains("sites are more than"));
    assert!(error(SITES + 16 + 13, &[17]).contains("bytes of a site are more than 16"));
    assert!(error(SITES + 16 + 4, &[0, 0, 0, 0x70]).contains("cannot read a key"));
    assert!(error(KEY + 8, &[1; 8]).contains("cannot read a key's name"));
    assert!(error(KEY + 32, &at(KEY)).contains("imports of keys are more than"));
    assert!(error(SITES + 16, &[0, 0, 0, 0x70]).contains("cannot read a site"));
}

#[test]
fn objects_that_share_their_records_are_damage() {
    let mut memory = memory();
    let second = 0x580;
    put(&mut memory.bytes, OBJECT + 8, &at(second));
    put(&mut memory.bytes, second, &at(NOTE));
    put(&mut memory.bytes, second + 24, &[1]);
    let error = survey(&memory).unwrap_err().to_string();
    assert!(error.contains("records of another object"), "{error}");
    let many = vec![START + REGISTRY as u64; 65];
    let error = Survey::read(&memory, &[], &many).unwrap_err().to_string();
    assert!(error.contains("copies of the library are more than 64"), "{error}");
}

#[test]
fn an_older_registry_has_no_counter() {
    let mut memory = memory();
    put(&mut memory.bytes, REGISTRY + 12, &[64]);
    assert_eq!(Registry::read(&memory, START + REGISTRY as u64).unwrap().ops, None);
    put(&mut memory.bytes, REGISTRY + 12, &[0; 4]);
    assert_eq!(Registry::read(&memory, START + REGISTRY as u64).unwrap().stubs, []);
}

#[test]
fn programs_of_another_kind_are_told_apart() {
    let mut memory = memory();
    put(&mut memory.bytes, 4, &[1]);
    assert_eq!(image::look(&memory, START), Image::Elf32);
    put(&mut memory.bytes, 0, b"#!/bin/sh");
    assert_eq!(image::look(&memory, START), Image::NotElf);
    let mut memory = self::memory();
    put(&mut memory.bytes, 0x30c, b"Patchpoint");
    assert_eq!(image::look(&memory, START), Image::WithoutRegistry);
    assert_eq!(image::look(&memory, 0), Image::NotElf);
}

const PAGE: u64 = 4096;

/// Pages of a real program, and the addresses in them that a survey of it reads.
struct Snapshot {
    registry: u64,
    image: u64,
    mappings: Vec<maps::Mapping>,
    pages: BTreeMap<u64, Vec<u8>>,
    places: Vec<u64>,
}

impl Snapshot {
    /// Records what a survey and plans read; `None` if the program cannot be built.
    fn taken() -> Option<Snapshot> {
        let busy = made::Busy::run(1, "")?;
        let process = Process::open(busy.pid(), Purpose::Change).unwrap();
        let mappings = process.mappings().unwrap();
        let recorder = Recorder { process: &process, read: RefCell::default() };
        let found =
            mappings.iter().find_map(|mapping| match image::look(&recorder, mapping.start) {
                Image::Registry { address, .. } => Some((mapping.start, address)),
                _ => None,
            });
        let (image, registry) = found.unwrap();
        plans(&recorder, &mappings, registry, &[0, 1]);
        let places: Vec<u64> = recorder.read.into_inner().into_keys().collect();
        let mut pages = BTreeMap::new();
        for start in places.iter().map(|place| place / PAGE * PAGE) {
            let copied = || process.bytes(start, PAGE as usize).unwrap();
            pages.entry(start).or_insert_with(copied);
        }
        Some(Snapshot { registry, image, mappings, pages, places })
    }

    fn byte(&mut self, place: u64) -> &mut u8 {
        let page = self.pages.get_mut(&(place / PAGE * PAGE)).unwrap();
        &mut page[(place % PAGE) as usize]
    }
}

impl Memory for Snapshot {
    fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        for (at, byte) in bytes.iter_mut().enumerate() {
            let place = address.wrapping_add(at as u64);
            let page = self.pages.get(&(place / PAGE * PAGE));
            *byte = page.ok_or(io::ErrorKind::UnexpectedEof)?[(place % PAGE) as usize];
        }
        Ok(())
    }
}

/// A process that remembers which of its bytes were read.
struct Recorder<'a> {
    process: &'a Process,
    read: RefCell<BTreeMap<u64, ()>>,
}

impl Memory for Recorder<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.process.read(address, bytes)?;
        let places = (0..bytes.len() as u64).map(|at| (address + at, ()));
        self.read.borrow_mut().extend(places);
        Ok(())
    }
}

/// Surveys, and plans a change of every key to each value; returns the number of changes planned.
fn plans(memory: &impl Memory, maps: &[maps::Mapping], registry: u64, values: &[u64]) -> usize {
    let Ok(survey) = Survey::read(memory, maps, &[registry]) else { return 0 };
    let mut planned = 0;
    for key in &survey.keys {
        let states: Vec<_> =
            values.iter().map(|asked| body::state_with(memory, &survey, key, *asked)).collect();
        if let Ok(change) = Change::plan(&survey, key, &states) {
            let fits = |write: &Write| write.sides.iter().all(|side| side.len() == write.length());
            assert!(change.writes.iter().all(fits));
            planned += 1;
        }
    }
    planned
}

fn snapshot() -> Option<Snapshot> {
    static TAKEN: OnceLock<Option<Snapshot>> = OnceLock::new();
    // Without the program, every test that needs it is skipped, not only the first.
    made::program()?;
    let taken = TAKEN.get_or_init(Snapshot::taken).as_ref()?;
    let (mappings, pages) = (taken.mappings.clone(), taken.pages.clone());
    Some(Snapshot { mappings, pages, places: taken.places.clone(), ..*taken })
}

#[test]
fn a_real_programs_pages_are_surveyed_as_the_program_is() {
    let Some(snapshot) = snapshot() else { return };
    let survey = Survey::read(&snapshot, &snapshot.mappings, &[snapshot.registry]).unwrap();
    assert_eq!(survey.keys.len(), 6);
    assert!(plans(&snapshot, &snapshot.mappings, snapshot.registry, &[0, 1]) > 0);
}

proptest! {
    #[test]
    fn no_damage_of_a_real_program_makes_it_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..12),
    ) {
        if let Some(mut damaged) = snapshot() {
            for (index, byte, how) in damage {
                let place = *index.get(&damaged.places);
                let old = *damaged.byte(place);
                *damaged.byte(place) = match how {
                    0 => byte,
                    1 => old ^ 1 << (byte % 8),
                    2 => old.wrapping_add(8),
                    // The next byte: it shifts numbers and pointers by one byte.
                    _ => damaged.array::<1>(place.wrapping_add(1)).map_or(0, |[byte]| byte),
                };
            }
            image::look(&damaged, damaged.image);
            image::build_id(&damaged, damaged.image);
            let asked = [7, damaged.places[0], u64::MAX];
            plans(&damaged, &damaged.mappings, damaged.registry, &asked);
        }
    }

    #[test]
    fn no_damage_makes_it_panic(damage in prop::collection::vec((0..0xb00usize, any::<u8>()), 1..40)) {
        let mut memory = memory();
        for (place, byte) in damage {
            memory.bytes[place] = byte;
        }
        image::look(&memory, START);
        if let Ok(survey) = survey(&memory) {
            for key in &survey.keys {
                // The functions asked for may lie anywhere, too.
                let states = [7, START + CODE as u64].map(|asked| body::state_with(&memory, &survey, key, asked));
                if let Ok(change) = Change::plan(&survey, key, &states) {
                    let fits = |write: &Write| write.sides.len() == 3 && write.sides.iter().all(|side| side.len() == write.length());
                    prop_assert!(change.writes.iter().all(fits));
                }
            }
        }
    }

    #[test]
    fn no_text_of_mappings_makes_it_panic(text in "[0-9a-f /-]{0,200}") {
        maps::parse(&text);
    }
}
