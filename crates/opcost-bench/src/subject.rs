//! From a command to the programs with benchmarks that it means.

use crate::frameworks::{FRAMEWORKS, Framework, Subject};
use crate::runner::{Invocation, Runner};
use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_callgrind::program::{Program, program};
use opcost_record::printable::printable;
use opcost_sys::spawn::find_program;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a command builds or is.
enum Kind {
    Cargo,
    Go,
    Pytest,
    Program,
}

fn kind(words: &[String]) -> Kind {
    let name =
        |word: &String| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
    let first = words.first().and_then(name).unwrap_or_default();
    match (first.as_str(), words.get(1).map(String::as_str)) {
        ("cargo", Some("bench")) => Kind::Cargo,
        ("cargo", Some(toolchain))
            if toolchain.starts_with('+') && words.get(2).is_some_and(|word| word == "bench") =>
        {
            Kind::Cargo
        }
        ("go", Some("test")) => Kind::Go,
        ("pytest" | "py.test" | "pytest-3", _) => Kind::Pytest,
        (python, Some("-m"))
            if python.starts_with("python")
                && words.get(2).is_some_and(|word| word == "pytest") =>
        {
            Kind::Pytest
        }
        _ => Kind::Program,
    }
}

/// Finds the programs of a command, run in a folder, and their frameworks.
///
/// # Errors
/// A build fails, there is no such program, or no framework knows it.
pub(crate) fn subjects(
    runner: &Runner<'_>,
    words: &[OsString],
    folder: &Path,
) -> Result<Vec<Subject>> {
    let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match kind(&texts) {
        Kind::Cargo => cargo(&texts, folder),
        Kind::Go => go(runner, &texts, folder),
        Kind::Pytest => pytest(runner, words, folder),
        Kind::Program => one_program(words, folder),
    }
}

/// Runs a build, whose messages go to standard error, and returns what it prints.
fn build(folder: &Path, words: &[String]) -> Result<String> {
    let command = words.join(" ");
    let (program, arguments) =
        words.split_first().ok_or_else(|| fail(Status::Usage, "there is no command"))?;
    let built = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let built = built
        .with_context(|| format!("cannot run {}", printable(program)))
        .status(Status::Missing)?;
    if !built.status.success() {
        return Err(fail(
            Status::WorkFailed,
            format!("the build failed ({}): {}", built.status, printable(&command)),
        ));
    }
    Ok(String::from_utf8_lossy(&built.stdout).into_owned())
}

fn cargo(words: &[String], folder: &Path) -> Result<Vec<Subject>> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut command = words[..end].to_vec();
    command.extend(["--no-run".into(), "--message-format=json-render-diagnostics".into()]);
    let filter =
        words.get(2).filter(|_| end > 2).filter(|word| !word.starts_with('-') && *word != "bench");
    let own = words[end..].iter().skip(1);
    if let Some(name) = filter.or(own.clone().find(|word| !word.starts_with('-'))) {
        return Err(names_first(name, "cargo bench"));
    }
    let own: Vec<OsString> = own.map(OsString::from).collect();
    let printed = build(folder, &command)?;
    let mut subjects = Vec::new();
    for line in printed.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let text = |name: &str| message.get(name).and_then(Value::as_str).map(PathBuf::from);
        let (Some(program), Some(manifest)) = (text("executable"), text("manifest_path")) else {
            continue;
        };
        let target = message.pointer("/target/name").and_then(Value::as_str).unwrap_or_default();
        let package = manifest.parent().unwrap_or(folder).to_path_buf();
        let invocation = Invocation {
            program,
            arguments: own.clone(),
            variables: vec![("CARGO_MANIFEST_DIR".into(), package.clone().into())],
            folder: package,
        };
        // Unit tests and programs without benchmarks are built as well.
        if let Ok((framework, version)) = recognise(&invocation.program) {
            subjects.push(Subject { invocation, framework, version, prefix: target.to_owned() });
        }
    }
    Ok(subjects)
}

fn go(runner: &Runner<'_>, words: &[String], folder: &Path) -> Result<Vec<Subject>> {
    let (flags, packages): (Vec<&String>, Vec<&String>) =
        words[2..].iter().partition(|word| word.starts_with('-'));
    for (name, value) in flags.iter().filter_map(|flag| flag.split_once('=')) {
        if ["bench", "run"].contains(&name.trim_start_matches('-'))
            && !["", ".", "^$"].contains(&value)
        {
            return Err(names_first(value, "go test"));
        }
    }
    let built_with: Vec<String> =
        flags.into_iter().filter(|flag| !is_of_run(flag)).map(|flag| flag.to_owned()).collect();
    let mut list =
        vec![words[0].clone(), "list".into(), "-f".into(), "{{.Dir}}\t{{.ImportPath}}".into()];
    list.extend(packages.into_iter().map(|package| package.to_owned()));
    let mut subjects = Vec::new();
    for (number, line) in build(folder, &list)?.lines().enumerate() {
        let Some((place, package)) = line.split_once('\t') else { continue };
        let name = package.rsplit('/').next().unwrap_or(package);
        let folder_of_program = runner.folder().join(number.to_string());
        std::fs::create_dir_all(&folder_of_program)
            .with_context(|| format!("cannot make {}", folder_of_program.display()))
            .status(Status::Missing)?;
        let program = folder_of_program.join(format!("{name}.test"));
        let mut command = vec![
            words[0].clone(),
            "test".into(),
            "-c".into(),
            "-o".into(),
            program.to_string_lossy().into_owned(),
        ];
        command.extend(built_with.iter().cloned());
        command.push(package.to_owned());
        build(folder, &command)?;
        // Without tests go writes no program.
        if let Ok((framework, version)) = recognise(&program) {
            let invocation = Invocation {
                program,
                arguments: Vec::new(),
                variables: Vec::new(),
                folder: place.into(),
            };
            subjects.push(Subject { invocation, framework, version, prefix: package.to_owned() });
        }
    }
    Ok(subjects)
}

/// The error of a command that says which benchmarks it runs.
fn names_first(name: &str, command: &str) -> anyhow::Error {
    let name = printable(name);
    fail(
        Status::Usage,
        format!(
            "'{name}' picks benchmarks, which opcost does itself: opcost bench '{name}' -- {command} …"
        ),
    )
}

/// Whether a flag of `go test` says what is run, which opcost chooses.
fn is_of_run(flag: &str) -> bool {
    let name = flag.trim_start_matches('-').split('=').next().unwrap_or_default();
    ["bench", "benchtime", "benchmem", "run", "count", "cpu", "v"].contains(&name)
}

fn pytest(runner: &Runner<'_>, words: &[OsString], folder: &Path) -> Result<Vec<Subject>> {
    let Some((_, framework)) =
        FRAMEWORKS.iter().enumerate().find(|(_, row)| row.name == "pytest-benchmark")
    else {
        return Ok(Vec::new());
    };
    let invocation = invocation(words, folder)?;
    let python = Invocation {
        arguments: vec![
            "-c".into(),
            "import importlib.metadata as m; print(m.version('pytest-benchmark'))".into(),
        ],
        ..invocation.clone()
    };
    let version = runner.printed(&python).map_err(|error| {
        fail(
            Status::Missing,
            format!(
                "{} has no pytest-benchmark; install it there ({error})",
                invocation.program.display()
            ),
        )
    })?;
    let version = Some(version.trim().to_owned()).filter(|version| !version.is_empty());
    Ok(vec![Subject { invocation, framework, version, prefix: String::new() }])
}

fn one_program(words: &[OsString], folder: &Path) -> Result<Vec<Subject>> {
    let invocation = invocation(words, folder)?;
    let (framework, version) = recognise(&invocation.program)?;
    Ok(vec![Subject { invocation, framework, version, prefix: String::new() }])
}

/// A command as it is started; scripts by their interpreter.
fn invocation(words: &[OsString], folder: &Path) -> Result<Invocation> {
    let (name, arguments) =
        words.split_first().ok_or_else(|| fail(Status::Usage, "there is no command"))?;
    let found = find(name, folder)?;
    let kind = program(&found)
        .with_context(|| format!("cannot read {}", found.display()))
        .status(Status::Usage)?;
    let mut all: Vec<OsString> = arguments.to_vec();
    let program = match kind {
        Program::Native => found,
        Program::Script(interpreter, argument) => {
            all.insert(0, found.into_os_string());
            let argument = argument.map(|argument| argument.to_os_string());
            // `#!/usr/bin/env python3` names the interpreter by its argument.
            match argument {
                Some(real) if interpreter == OsStr::new("/usr/bin/env") => find(&real, folder)?,
                Some(argument) => {
                    all.insert(0, argument);
                    interpreter.into()
                }
                None => interpreter.into(),
            }
        }
        Program::Other => {
            return Err(fail(
                Status::Usage,
                format!(
                    "{} is no program of 64-bit x86 and no script, so its benchmarks cannot be counted",
                    found.display()
                ),
            ));
        }
    };
    Ok(Invocation { program, arguments: all, variables: Vec::new(), folder: folder.to_path_buf() })
}

fn find(name: &OsStr, folder: &Path) -> Result<PathBuf> {
    let found =
        find_program(name, std::env::var_os("PATH").as_deref(), folder).status(Status::Usage)?;
    let path = if found.is_absolute() { found } else { folder.join(found) };
    std::path::absolute(&path)
        .with_context(|| format!("cannot find {}", path.display()))
        .status(Status::Usage)
}

/// The framework of a program.
fn recognise(path: &Path) -> Result<(&'static Framework, Option<String>)> {
    let bytes = fs::read(path)
        .with_context(|| format!("cannot read {}", path.display()))
        .status(Status::Usage)?;
    let found = FRAMEWORKS.iter().find_map(|row| Some((*row, (row.recognise)(&bytes)?)));
    found.ok_or_else(|| {
        let names: Vec<&str> = FRAMEWORKS.iter().map(|row| row.name).collect();
        fail(
            Status::Usage,
            format!(
                "{} has no benchmarks of a framework that opcost knows: {}",
                path.display(),
                names.join(", ")
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_known_by_their_words() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            match kind(&words) {
                Kind::Cargo => "cargo",
                Kind::Go => "go",
                Kind::Pytest => "pytest",
                Kind::Program => "program",
            }
        };
        for (line, expected) in [
            ("cargo bench", "cargo"),
            ("cargo +nightly bench -p x", "cargo"),
            ("cargo build", "program"),
            ("/usr/local/go/bin/go test ./...", "go"),
            ("python3.11 -m pytest tests", "pytest"),
            ("pytest tests", "pytest"),
            ("./suite", "program"),
        ] {
            assert_eq!(of(line), expected, "{line}");
        }
    }

    #[test]
    fn a_command_does_not_pick_benchmarks() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in ["cargo bench fib", "cargo bench -p x -- fib"] {
            let error = cargo(&words(line), Path::new("/")).unwrap_err();
            assert!(error.to_string().contains("opcost bench 'fib' -- cargo bench"), "{error}");
        }
        assert!(is_of_run("-benchtime=1x") && is_of_run("--v") && !is_of_run("-tags=x"));
    }
}
