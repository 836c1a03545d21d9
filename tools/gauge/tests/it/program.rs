//! Runs the program briefly, as opcost does.

use assert_cmd::Command;
use opcost_record::gauge::{GaugeReport, KernelName};

fn gauge(arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("gauge").unwrap().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The report of a short run; `None` if the machine is too loaded: then the program must report the load.
fn report(arguments: &[&str]) -> Option<GaugeReport> {
    let output = gauge(arguments);
    match GaugeReport::decode(&output.stdout) {
        Ok(report) => {
            assert!(output.status.success());
            Some(report)
        }
        Err(error) => {
            let error = error.to_string();
            assert!(
                error.starts_with("this machine is too loaded") && error.contains(" %"),
                "{error}"
            );
            assert_eq!(output.status.code(), Some(1));
            crate::skip::skip!("{error}");
            None
        }
    }
}

#[test]
fn kernels_are_timed_by_build() {
    let Some(report) = report(&["time", "--repetitions", "3", "--only", ":heapsort@"]) else {
        return;
    };
    assert!(report.cpu.family > 0 && !report.cpu.vendor.is_empty(), "{:?}", report.cpu);
    assert!(!report.kernels.is_empty());
    for (name, measured) in &report.kernels {
        assert_eq!((name.class.as_str(), name.kernel.as_str()), ("sorting", "heapsort"));
        assert_eq!(measured.taken, 3);
    }
    let mut builds: Vec<&str> =
        report.kernels.iter().map(|(name, _)| name.build.as_str()).collect();
    builds.sort_unstable();
    builds.dedup();
    assert_eq!(builds.len(), report.kernels.len(), "each build once");
}

#[test]
fn loops_are_timed() {
    let Some(report) = report(&["loops", "--repetitions", "3", "--only", "alu.add"]) else {
        return;
    };
    let keys: Vec<&str> = report.loops.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert!(keys.contains(&"latency.alu.add") && keys.contains(&"throughput.alu.add"), "{keys:?}");
}

#[test]
fn what_is_listed_can_be_asked_for() {
    let listed = text(&gauge(&["list", "--only", "branches:"]).stdout);
    let names: Vec<KernelName> = listed
        .lines()
        .map(|line| KernelName::of_region(line.strip_prefix("kernel ").unwrap()).unwrap())
        .collect();
    assert!(names.len() > 10, "{listed}");
    assert!(names.iter().all(|name| name.class == "branches"), "{listed}");
}

#[test]
fn marked_kernels_find_what_they_should_and_say_nothing() {
    let output = gauge(&["mark", "--only", "strings:"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn mistakes_are_named() {
    let says = |arguments: &[&str], code: i32, part: &str| {
        let output = gauge(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
        output.stdout
    };
    says(&["measure"], 2, "'measure' is no command; usage: opcost-gauge time|loops|mark|list");
    says(&["mark", "--only", "nothing"], 1, "no kernel or loop has 'nothing' in its name");
    let stdout = says(&["time", "--cpu", "60000"], 1, "cannot run on CPU 60000");
    let error = GaugeReport::decode(&stdout).unwrap_err().to_string();
    assert!(error.contains("choose another with --cpu"), "{error}");
}
