use crate::resolve::fixture::{FakeSurroundings, experiment};
use crate::resolve::resolve;
use opcost_model::experiment::Experiment;
use opcost_model::plan::service::ServicePlan;
use opcost_model::plan::*;
use opcost_model::plan::{MachineKind, OutputPlan};
use std::path::PathBuf;

#[test]
fn every_command_and_file_is_shown_as_it_is_used() {
    let asked = Experiment {
        machine: Some(MachineKind::Emulated),
        kernel: vec!["a".into()],
        pack: vec!["/packed".into()],
        ..experiment(2, 5)
    };
    let mut plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
    plan.hooks.setup = Some("S\u{1b}[2J".into());
    plan.hooks.conclude = Some("C".into());
    plan.hooks.cleanup = Some("U".into());
    plan.hooks.cwd = Some("/hooks".into());
    let variant = &mut plan.variants[1];
    variant.prepare = Some("P".into());
    variant.env = vec![("LD_PRELOAD".into(), "/evil.so".into())];
    variant.input = Some("/in".into());
    variant.output = Some(OutputPlan::File("/out".into()));
    variant.tree = Some("/tree-here".into());
    variant.cwd = Some("/cwd".into());
    let guest = variant.guest.as_mut().unwrap();
    guest.root = Some("/root\u{1b}".into());
    let ready = "port:80".parse().unwrap();
    guest.service = Some(ServicePlan { line: "serve me".into(), ready });
    // The text for people may say something else.
    variant.work = WorkPlan::Command {
        program: PathBuf::from("/tmp/evil"),
        argv: vec!["sleep".into(), "a b".into()],
        line: "sleep 1".into(),
    };
    let shown = plan.executed().join("\n");
    for part in [
        "setup: S\\u{1b}[2J (in /hooks)",
        "conclude: C",
        "cleanup: U",
        "pack: /packed",
        "prepare: P (in /cwd)",
        "executes /tmp/evil as: sleep 'a b' (in /cwd)",
        "env: LD_PRELOAD=/evil.so",
        "input: /in",
        "output: /out",
        "tree: /tree-here",
        "root: /root\\u{1b}",
        "service in the root: serve me",
        "kernel: {",
    ] {
        assert!(shown.contains(part), "no '{part}' in:\n{shown}");
    }
}
