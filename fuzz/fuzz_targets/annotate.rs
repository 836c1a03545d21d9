//! A program's code by line and by instruction: for any file, the lines add up to the function, or there is an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_analysis::annotation::{CodeFacts, Flow, Own, addresses, annotate, code_names, decoded};
use opcost_profile::annotate::{Program, SourceState, SourceText};
use opcost_profile::code_costs::CountedFrom;
use opcost_profile::symbolise::{KernelSource, Sources, lines};
use opcost_record::{Function, Unit};
use opcost_report::render::annotated::{View, document, json};
use std::fs;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    fs::write(&path, bytes).unwrap();
    let sources = Sources {
        kernel: KernelSource::Nothing,
        debug_files: folder.path().into(),
        build_id_cache: None,
        inlined: true,
        limit_bytes: 64 << 20,
    };
    let Ok(program) = Program::read(&path, &sources) else { return };
    let own = Own { cost: 1, samples: 1, executions: 0 };
    let from = [CountedFrom::Disk, CountedFrom::Memory, CountedFrom::Link];
    let costs: Vec<(u64, Own)> = (0..bytes.len() as u64)
        .step_by(61)
        .flat_map(|place| from.map(|from| program.address(from, place)))
        .flatten()
        .map(|address| (address, own))
        .collect();
    let function = Function::new("f", "/bin/f");
    let Ok(pieces) = program.pieces(&function, costs.iter().map(|(address, _)| *address)) else {
        return;
    };
    let runs = [costs];
    let Ok(names) = code_names(&program) else { return };
    let Ok(code) = decoded(&program, &names, &pieces, &runs) else { return };
    let lines = lines(&path, &addresses(&code), &sources);
    // The target must not read files of this computer whose names a fuzzer finds.
    let text = |path: &str| SourceText {
        path: path.into(),
        lines: Vec::new(),
        state: SourceState::Missing,
    };
    let texts = lines.files.iter().map(|file| text(&file.path)).collect();
    let facts = CodeFacts {
        function: &function,
        pieces: code,
        lines: &lines,
        sources: texts,
        runs: &runs,
        totals: vec![runs[0].len() as u64],
        flow: Flow::default(),
    };
    let annotation = annotate(facts);
    let cost = |own: &[Own]| own.iter().map(|own| own.cost).sum::<u64>();
    let of_lines: u64 = annotation.lines.iter().map(|line| cost(&line.own)).sum();
    assert_eq!(of_lines, cost(&annotation.own));
    let view =
        View { name: "f", event: "e", unit: Unit::Count, counted: false, annotation: &annotation };
    document(&view, false);
    json(&view);
});
