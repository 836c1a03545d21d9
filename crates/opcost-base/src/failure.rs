//! How a run failed, in words.

use crate::time::time_in_words;
use opcost_record::Failure;

/// How a run failed, and what to do about it.
pub fn in_words(failure: &Failure) -> String {
    let is_told = failure.stderr().is_some_and(|stderr| !stderr.is_empty());
    let see = |words: &str| if is_told { String::new() } else { words.to_string() };
    match failure {
        Failure::ExitStatus { code, .. } => format!(
            "it ended with status {code}; {}go on nevertheless with --ignore-failure",
            see("see why with --show-output, or ")
        ),
        Failure::Signal { signal, .. } => format!(
            "signal {signal}{} killed it{}",
            signal_name(*signal),
            see("; see what it printed with --show-output")
        ),
        Failure::Timeout { limit_ms, .. } => {
            format!(
                "it took longer than {} and was killed; give it more with --timeout",
                time_in_words(*limit_ms)
            )
        }
        Failure::Stopped { signal, .. } => format!(
            "signal {signal}{} stopped it; nothing would continue it, so opcost killed it{}",
            signal_name(*signal),
            see("; see what it printed with --show-output")
        ),
        Failure::IllegalInstruction { detail } => detail.clone(),
        Failure::Operations { detail } => {
            format!("the number of its operations is not known: {detail}")
        }
        Failure::Work { detail } => format!("the workload failed: {detail}"),
    }
}

/// The last lines of standard error, to follow [`in_words`]; empty if there are none.
pub fn printed(failure: &Failure) -> String {
    let mut words = String::new();
    for (number, line) in failure.stderr().unwrap_or_default().lines().enumerate() {
        words += if number == 0 { "; on standard error it printed:\n  " } else { "\n  " };
        words += line;
    }
    if words.contains("/dev/tty") {
        words += "\n  A run has no terminal; give it one: script -qec COMMAND /dev/null";
    }
    words
}

/// " (NAME)" for the signals that usually end or stop commands, else nothing.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        5 => " (SIGTRAP)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        19 => " (SIGSTOP)",
        20 => " (SIGTSTP)",
        21 => " (SIGTTIN)",
        22 => " (SIGTTOU)",
        24 => " (SIGXCPU)",
        31 => " (SIGSYS)",
        _ => "",
    }
}
