//! Programs that the program starts (`--trace-children`): the plugin starts QEMU for them in the program's place.

use super::registers;
use opcost_callgrind::names;
use opcost_callgrind::program::{Program, program};
use opcost_callgrind::settings::Settings;
use std::ffi::{CString, OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// QEMU's option behind which the program's own name stands, the last of the options that opcost gives.
const NAME: &str = "-0";

/// QEMU's own arguments, and the program's command line.
pub(super) fn command_line() -> (Vec<OsString>, Vec<OsString>) {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let words: Vec<OsString> =
        line.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
    let own = words.iter().position(|word| word == NAME).unwrap_or(words.len());
    let mut program: Vec<OsString> = words[own..].iter().skip(1).cloned().collect();
    if program.len() > 1 {
        // The name, then the path that QEMU loads.
        program.remove(1);
    }
    (words[1.min(own)..own].to_vec(), program)
}

/// Reads a list of texts that ends with zero.
fn texts(mut at: u64) -> Option<Vec<OsString>> {
    let mut texts = Vec::new();
    while at != 0 {
        match registers::word(at)? {
            0 => break,
            text => texts.push(OsString::from_vec(registers::text(text)?)),
        }
        at += 8;
    }
    Some(texts)
}

unsafe extern "C" {
    // POSIX; std links the C library, which has this function.
    fn access(path: *const c_char, mode: c_int) -> c_int;
    // As above.
    fn execve(
        path: *const c_char,
        words: *const *const c_char,
        variables: *const *const c_char,
    ) -> c_int;
}

/// `X_OK` of unistd.h.
const EXECUTE: c_int = 1;

/// Executes a program under QEMU, in place of the program that asks for it by `execve`; returns if it is not to be followed, or if
/// the kernel is to say why it cannot be executed.
pub(super) fn execute(settings: &Settings, path: u64, arguments: u64, variables: u64) {
    if !settings.trace_children {
        return;
    }
    let Some(path) = registers::text(path).and_then(|path| CString::new(path).ok()) else { return };
    // SAFETY: the path ends with a zero byte.
    if unsafe { access(path.as_ptr(), EXECUTE) } != 0 {
        return;
    }
    let (Some(arguments), Some(variables)) = (texts(arguments), texts(variables)) else { return };
    let shown = path.to_string_lossy();
    let skips = |patterns: &[String], text: &str| {
        patterns.iter().any(|pattern| names::matches(pattern, text))
    };
    if skips(&settings.trace_children_skip, &shown)
        || arguments
            .iter()
            .skip(1)
            .any(|text| skips(&settings.trace_children_skip_by_arg, &text.to_string_lossy()))
    {
        return;
    }
    let path = OsString::from_vec(path.into_bytes());
    let first = arguments.first().cloned().unwrap_or_else(|| path.clone());
    let (name, file, before) = match program(Path::new(&path)) {
        Ok(Program::Native) => (first, path, Vec::new()),
        Ok(Program::Script(interpreter, argument)) => {
            (interpreter.clone(), interpreter, argument.into_iter().chain([path]).collect())
        }
        Ok(Program::Other) | Err(_) => return,
    };
    let (own, _) = command_line();
    let Ok(qemu) = std::env::current_exe() else { return };
    let words = [qemu.into_os_string()].into_iter().chain(own).chain([NAME.into(), name, file]);
    let words = words.chain(before).chain(arguments.into_iter().skip(1));
    // If this fails, the program's own call fails for the same reason.
    replace(words.collect(), variables);
}

/// Replaces this process, with its signals as they are; returns if that fails.
fn replace(words: Vec<OsString>, variables: Vec<OsString>) {
    let texts = |words: Vec<OsString>| -> Option<Vec<CString>> {
        words.into_iter().map(|word| CString::new(word.into_vec()).ok()).collect()
    };
    let (Some(words), Some(variables)) = (texts(words), texts(variables)) else { return };
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (word_list, variable_list) = (pointers(&words), pointers(&variables));
    // SAFETY: the lists end with null, and their texts with zero.
    unsafe { execve(words[0].as_ptr(), word_list.as_ptr(), variable_list.as_ptr()) };
}
