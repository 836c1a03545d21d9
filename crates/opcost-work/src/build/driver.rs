//! The compiler's driver (`cc`): its path, and the programs that it starts.

use super::compiler::OPTIONS;
use crate::error::WorkError;
use opcost_sys::spawn::find_program;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the driver print the commands that it would execute (GCC's manual, "Overall Options"; clang has this option as well).
const DRY_RUN: &str = "-###";

/// Finds the compiler.
///
/// # Errors
/// [`WorkError::NoCompiler`]: no program has this name.
pub(super) fn find(name: &str, search_path: Option<&OsStr>) -> Result<PathBuf, WorkError> {
    find_program(OsStr::new(name), search_path, Path::new("/"))
        .map(|path| Path::new("/").join(path))
        .map_err(|error| WorkError::NoCompiler { name: name.into(), why: error.to_string() })
}

/// Returns the driver of that name and all programs that it starts to compile a file: for gcc a compiler proper and an assembler,
/// for clang clang itself.
///
/// # Errors
/// [`WorkError::NoCompiler`]: there is no driver; [`WorkError::CompilerPrograms`]: the driver does not name its programs, or one of
/// them is missing.
pub(super) fn programs(
    name: &str,
    environment: &[(OsString, OsString)],
) -> Result<Vec<PathBuf>, WorkError> {
    let variable = environment.iter().rev().find(|(known, _)| known == "PATH");
    let search_path = variable.map(|(_, value)| value.as_os_str());
    let driver = find(name, search_path)?;
    let failed =
        |why: String| WorkError::CompilerPrograms { compiler: driver.display().to_string(), why };
    let told = Command::new(&driver)
        .arg(DRY_RUN)
        .args(OPTIONS)
        .args(["-c", "-o", "/dev/null", "-x", "c", "/dev/null"])
        .current_dir("/")
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&told.stderr);
    let started = commands(&text);
    if !told.status.success() || started.is_empty() {
        let said: String = text.trim().chars().take(300).collect();
        return Err(failed(format!("asked with {DRY_RUN} what it starts, it said '{said}'")));
    }
    let mut programs = vec![driver.clone()];
    for name in started {
        let found = find_program(OsStr::new(&name), search_path, Path::new("/"))
            .map_err(|error| failed(format!("of the programs that it starts, {error}")))?;
        let found = Path::new("/").join(found);
        if !programs.contains(&found) {
            programs.push(found);
        }
    }
    Ok(programs)
}

/// Returns the first word of each command in a driver's output. A command is a line of its own behind a space, with words in
/// quotation marks where they need it (gcc) or always (clang).
fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(' '));
    // Skips clang's notes on its programs, such as ` (in-process)`.
    let lines = lines.filter(|line| !line.starts_with(['(', ' ']));
    lines.filter_map(first_word).collect()
}

fn first_word(line: &str) -> Option<String> {
    let Some(quoted) = line.strip_prefix('"') else {
        return line.split(' ').next().filter(|word| !word.is_empty()).map(String::from);
    };
    let mut word = String::new();
    let mut letters = quoted.chars();
    loop {
        match letters.next()? {
            '"' => return Some(word),
            '\\' => word.push(letters.next()?),
            letter => word.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::Folder;
    use super::*;
    use crate::in_child::in_child;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_commands_of_gcc_and_of_clang_are_read() {
        let gcc = "Using built-in specs.\nCOLLECT_GCC=cc\nTarget: x86_64-linux-gnu\n \
                   /usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet x.c \"-mtune=generic\" -o - |\n \
                   as --64 -o x.o\nCOMPILER_PATH=/usr/lib/gcc/\n";
        assert_eq!(commands(gcc), ["/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "as"]);
        let clang = "Debian clang version 14.0.6\nThread model: posix\n (in-process)\n \
                     \"/opt/my \\\"llvm\\\"/bin/clang\" \"-cc1\" \"-o\" \"x.o\"\n";
        assert_eq!(commands(clang), ["/opt/my \"llvm\"/bin/clang"]);
        assert!(commands("error: no such option\n \"cut\n\n").is_empty());
    }

    /// Makes a driver with these answers to `-###`, in a folder of its own.
    fn driver(answers: &str) -> (Folder, PathBuf) {
        let folder = Folder::make().unwrap();
        let path = folder.path().join("cc");
        let text = format!("#!/bin/sh\n[ \"$1\" = '-###' ] || exit 9\n{answers}\n");
        // A process of its own writes the file: a process that another test forks meanwhile would inherit the open file, and a file
        // open for writing cannot be executed (execve(2), ETXTBSY).
        in_child(|| {
            folder.write("cc", &text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            String::new()
        })
        .unwrap();
        (folder, path)
    }

    #[test]
    fn programs_are_found_in_the_environment_given() {
        let (folder, path) = driver("echo ' as --64' >&2; echo ' /bin/sh -c' >&2; echo ' as' >&2");
        let tool = folder.path().join("as");
        fs::hard_link(&path, &tool).unwrap();
        let environment = [("PATH".into(), folder.path().into())];
        assert_eq!(programs("cc", &environment).unwrap(), [path, tool, "/bin/sh".into()]);
        let said = programs("cc", &[("PATH".into(), "/none".into())]).unwrap_err().to_string();
        assert!(said.starts_with("no C compiler 'cc': cannot find 'cc' in PATH (/none)"), "{said}");
    }

    #[test]
    fn a_driver_without_its_programs_is_named() {
        let said = |answers: &str| {
            let (_folder, path) = driver(answers);
            let path = path.to_str().unwrap();
            let said = programs(path, &[]).unwrap_err().to_string();
            assert!(said.starts_with(&format!("the compiler {path} cannot be packed: ")), "{said}");
            assert!(said.ends_with("or name gcc or clang with cc="), "{said}");
            said
        };
        let without = said("echo ' no-such-cc1 -quiet' >&2");
        assert!(without.contains("of the programs that it starts, cannot find 'no-such-cc1'"));
        let silent = said("echo 'invalid option' >&2; exit 1");
        assert!(silent.contains("it said 'invalid option'"), "{silent}");
        assert!(said("exit 0").contains("it said ''"));
    }
}
