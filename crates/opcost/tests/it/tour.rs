//! The commands of docs/tour.md, as a newcomer gives them.

use crate::lab::{Lab, Started, root};
use crate::needs;

const PAGE: &str = include_str!("../../../../docs/tour.md");

/// The commands of a block; a quoted argument may have several lines.
fn commands(block: &str) -> Vec<String> {
    let (mut found, mut command) = (Vec::new(), String::new());
    for line in block.lines() {
        command += line;
        if command.matches('\'').count() % 2 == 0 {
            found.push(std::mem::take(&mut command));
        } else {
            command.push('\n');
        }
    }
    assert!(command.is_empty(), "a quote has no end: {command}");
    found
}

#[test]
fn every_command_of_the_tour_works() {
    let tools = ["gcc", "git", "gzip", "make", "python3"];
    if !needs::all() || !needs::programs(&tools) || needs::kernel().is_none() {
        return;
    }
    let lab = Lab::new();
    let blocks = PAGE.split("```sh\n").skip(1).map(|rest| rest.split("```\n").next().unwrap());
    let mut folder = String::from(".");
    let mut made = 0;
    for line in blocks.flat_map(commands) {
        let (line, remark) = line.split_once("  #").unwrap_or((&line, ""));
        if let Some(into) = line.strip_prefix("cd ") {
            folder = into.trim().to_string();
            continue;
        }
        let status = i32::from(remark.contains("status 1"));
        let given = format!("cd {folder} && {line}");
        let mut command = lab.shell(&given);
        let programs = std::path::Path::new(crate::lab::OPCOST).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("EXAMPLES", root().join("examples"));
        let ended = command.spawn().unwrap().end().expect(status);
        if line.starts_with("opcost gate") {
            let says = ["The change must not land: count instructions", "accepted by"];
            let said = says[usize::from(status == 0)];
            assert!(ended.stdout.contains(said), "no '{said}' in:\n{}", ended.stdout);
        } else if line.starts_with("opcost bisect") {
            for said in ["table_mix", "order_mix", "table_add"] {
                assert!(ended.stdout.contains(said), "no '{said}' in:\n{}", ended.stdout);
            }
        }
        made += 1;
    }
    assert!(made >= 14, "{made} commands");
}
