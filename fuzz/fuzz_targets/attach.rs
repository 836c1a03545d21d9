//! A process's memory from address 4096 on; the first two bytes give the place of the registry.
//! Changes to each key that is read are planned, and no write covers bytes of another length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patchpoint_attach::body;
use patchpoint_attach::change::Change;
use patchpoint_attach::image;
use patchpoint_attach::maps;
use patchpoint_attach::memory::Block;
use patchpoint_attach::survey::Survey;

fuzz_target!(|bytes: &[u8]| {
    let Some((place, bytes)) = bytes.split_first_chunk() else { return };
    let memory = Block { start: 4096, bytes: bytes.to_vec() };
    maps::parse(&String::from_utf8_lossy(bytes));
    image::look(&memory, 4096);
    let registry = 4096 + u64::from(u16::from_le_bytes(*place));
    let Ok(survey) = Survey::read(&memory, &[], &[registry]) else { return };
    for key in &survey.keys {
        let states = [0, 1, u64::MAX].map(|asked| body::state_with(&memory, &survey, key, asked));
        let Ok(change) = Change::plan(&survey, key, &states) else { continue };
        for write in &change.writes {
            assert!(write.sides.iter().all(|side| side.len() == write.length()));
        }
    }
});
