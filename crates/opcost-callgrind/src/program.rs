//! What the file of a program is: the kernel's way to execute it, followed without the kernel.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// What a file is that is to be executed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Program {
    /// A program of x86-64.
    Native,
    /// A script, with its interpreter and the interpreter's argument.
    Script(OsString, Option<OsString>),
    /// Anything else.
    Other,
}

/// Reads what a file is (ELF gABI, "ELF Header"; execve(2), "Interpreter scripts").
///
/// # Errors
/// The file cannot be read.
pub fn program(path: &Path) -> io::Result<Program> {
    let mut head = Vec::new();
    File::open(path)?.take(256).read_to_end(&mut head)?;
    // e_ident of little-endian files of 64 bits, and e_machine.
    if head.starts_with(b"\x7fELF\x02\x01") && head.get(18..20) == Some(&[62, 0]) {
        return Ok(Program::Native);
    }
    let Some(line) =
        head.strip_prefix(b"#!").and_then(|rest| rest.split(|byte| *byte == b'\n').next())
    else {
        return Ok(Program::Other);
    };
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let line = line.trim_ascii();
    Ok(match line.iter().position(|byte| byte.is_ascii_whitespace()) {
        Some(end) => Program::Script(text(&line[..end]), Some(text(line[end..].trim_ascii()))),
        None if line.is_empty() => Program::Other,
        None => Program::Script(text(line), None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_scripts_are_told_apart() {
        let folder = std::env::temp_dir().join(format!("opcost-callgrind-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let of = |bytes: &[u8]| {
            let path = folder.join("file");
            std::fs::write(&path, bytes).unwrap();
            program(&path).unwrap()
        };
        let found =
            [of(b"#! /bin/sh  -eu \nx"), of(b"#!/bin/env"), of(b"#!\n"), of(b"text"), of(b"")];
        let own = program(&std::env::current_exe().unwrap()).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let script = |name: &str, argument: Option<&str>| {
            Program::Script(name.into(), argument.map(OsString::from))
        };
        let expected = [
            script("/bin/sh", Some("-eu")),
            script("/bin/env", None),
            Program::Other,
            Program::Other,
            Program::Other,
        ];
        assert_eq!(found, expected);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(own, Program::Native);
        }
        assert!(program(&folder).is_err());
    }
}
