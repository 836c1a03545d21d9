//! Recipes in the documents for other schedulers: YAML that these schedulers accept.

use crate::needs;
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};

const WORKFLOW: &str = include_str!("schemas/github-workflow.json");
const JOB: &str = include_str!("schemas/kubernetes-job.json");

/// Reads YAML 1.2, in which `on` is a word.
const TO_JSON: &str = r#"
import json, sys, yaml
class Loader(yaml.SafeLoader): pass
def kept(first, resolvers):
    return [each for each in resolvers if not (each[0].endswith(":bool") and first in "oOyYnN")]
Loader.yaml_implicit_resolvers = {
    first: kept(first, resolvers) for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}
json.dump(list(yaml.load_all(sys.stdin, Loader)), sys.stdout)
"#;

/// The documents of a text in YAML; `None` if no program here reads YAML.
fn documents(yaml: &str) -> Option<Vec<Value>> {
    if !needs::programs(&["python3"]) {
        return None;
    }
    let mut python = Command::new("python3")
        .args(["-c", TO_JSON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(yaml.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named 'yaml'") {
        crate::skip::skip!("python3 has no module yaml (apt install python3-yaml)");
        return None;
    }
    assert!(output.status.success(), "{said}\n{yaml}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The blocks of YAML in a document of the project.
fn blocks(document: &str) -> Vec<&str> {
    let blocks = document.split("```yaml\n").skip(1);
    blocks.map(|rest| rest.split_once("```").expect("a block has an end").0).collect()
}

/// The faults of a recipe, by its schema.
fn faults(recipe: &Value) -> Vec<String> {
    let is_job = recipe.get("apiVersion").is_some();
    let schema: Value = serde_json::from_str(if is_job { JOB } else { WORKFLOW }).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors = validator.iter_errors(recipe);
    errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn recipes_fit_the_schemas_of_those_who_run_them() {
    let (scale, ci) =
        (include_str!("../../../../docs/scale.md"), include_str!("../../../../docs/ci.md"));
    let (mut jobs, mut workflows) = (0, 0);
    for block in blocks(scale).into_iter().chain(blocks(ci)) {
        let Some(recipes) = documents(block) else { return };
        // There is no schema for GitLab here.
        let known =
            |recipe: &&Value| ["apiVersion", "jobs"].iter().any(|key| recipe.get(key).is_some());
        for recipe in recipes.iter().filter(known) {
            assert_eq!(faults(recipe), [""; 0], "{block}");
            match recipe.get("apiVersion") {
                Some(_) => jobs += 1,
                None => workflows += 1,
            }
        }
    }
    assert!(jobs >= 1 && workflows >= 2, "{jobs} jobs of Kubernetes, {workflows} workflows");
    // A slip in either kind of recipe is found.
    for block in blocks(scale) {
        let wrong = block.replace("completions:", "completion:").replace("steps:", "step:");
        let recipes = documents(&wrong).unwrap_or_default();
        assert!(recipes.iter().any(|recipe| !faults(recipe).is_empty()), "{wrong}");
    }
}
