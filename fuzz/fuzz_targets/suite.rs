//! A gate's suite (`opcost.toml`) and the trailers of commits: any text is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_gate::gate::suite::Suite;
use opcost_gate::gate::trailer::Accepted;

fuzz_target!(|text: &str| {
    let _ = Accepted::parse("c0ffee", text);
    if let Ok(suite) = Suite::parse(text) {
        assert!(!suite.cases.is_empty());
        let names: Vec<String> = suite.cases.iter().map(|case| case.name.clone()).collect();
        assert_eq!(suite.clone().select(&names), Ok(suite));
    }
});
