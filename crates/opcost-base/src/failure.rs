//! How a run failed, in words.

use crate::time::time_in_words;
use opcost_record::Failure;

/// How a run failed, and what to do about it.
pub fn in_words(failure: &Failure) -> String {
    match failure {
        Failure::ExitStatus { code } => format!(
            "it ended with status {code}; see why with --show-output, or go on nevertheless with --ignore-failure"
        ),
        Failure::Signal { signal } => format!(
            "signal {signal}{} killed it; see what it printed with --show-output",
            signal_name(*signal)
        ),
        Failure::Timeout { limit_ms } => {
            format!(
                "it took longer than {} and was killed; give it more with --timeout",
                time_in_words(*limit_ms)
            )
        }
        Failure::Stopped { signal } => format!(
            "signal {signal}{} stopped it; nothing would continue it, so opcost killed it; see what it printed with --show-output",
            signal_name(*signal)
        ),
        Failure::IllegalInstruction { detail } => detail.clone(),
        Failure::Operations { detail } => {
            format!("the number of its operations is not known: {detail}")
        }
        Failure::Work { detail } => format!("the workload failed: {detail}"),
    }
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
