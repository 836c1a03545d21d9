//! Files of other tools, in every format: a file that is read can be assembled, compared and exported again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_analysis::comparison::compare;
use opcost_import::import::parsed::Input;
use opcost_import::import::{FORMATS, Options, ReadFile, assemble, read};
use opcost_model::recording::{Recording, State};
use opcost_record::Dictionary;
use opcost_report::render::{FORMATS as OUTPUTS, Style, View, render};
use opcost_sys::budget::Budget;
use std::path::Path;

fuzz_target!(|text: &str| {
    let path = Path::new("criterion/name/new/sample.json");
    let input = Input { path, text, budget: &Budget::default() };
    let names = FORMATS.iter().map(|format| Some(format.name));
    for name in names.chain([None]) {
        let Ok((format, parsed)) = read(&input, name) else { continue };
        let file = ReadFile { label: "a".into(), path: "a".into(), format, parsed };
        let Ok(made) = assemble(&[file], &Options::default()) else { continue };
        let recording = Recording {
            id: "fuzz".into(),
            created_unix_ns: 0,
            arrived_unix_ns: None,
            state: State::Finished,
            plan: made.plan,
            machine: vec![made.machine],
            dictionary: Dictionary::default(),
            records: Vec::new(),
            profiles: Vec::new(),
        };
        let (comparison, warnings) = compare(&recording);
        let style = Style::plain();
        let view = View {
            recording: &recording,
            comparison: &comparison,
            warnings: &warnings,
            style: &style,
        };
        for output in OUTPUTS {
            render(output.name, &view).expect("what was imported can be shown");
        }
    }
});
