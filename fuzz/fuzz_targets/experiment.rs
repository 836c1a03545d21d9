//! An experiment file: an accepted file is written back to the same experiment.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_model::experiment::Experiment;

fuzz_target!(|text: &str| {
    if let Ok(experiment) = toml::from_str::<Experiment>(text) {
        let written = experiment.to_toml().expect("an experiment is TOML");
        let again: Experiment = toml::from_str(&written).expect("what was written is read");
        // NaN is not equal to itself.
        assert!(again == experiment || text.contains("nan"), "{written}");
    }
});
