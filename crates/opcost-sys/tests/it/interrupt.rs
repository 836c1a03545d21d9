//! Signals belong to a process, so each case runs in a process of its own: this test program again, with one test chosen and a
//! variable set.

use opcost_sys::interrupt::Interrupt;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output};

const VARIABLE: &str = "OPCOST_SYS_INTERRUPT_CASE";

/// Whether this process was started by [`alone`].
fn chosen() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Runs one test of this program in a process of its own, with SIGHUP ignored if asked.
fn alone(test: &str, ignore_hangup: bool) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(VARIABLE, "1");
    if ignore_hangup {
        // SAFETY: signal(2) is async-signal-safe, and nothing else is called.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
                Ok(())
            });
        }
    }
    command.output().unwrap()
}

fn raise(signal: i32) {
    // SAFETY: raise takes an integer; the signal's effect is the subject of the test.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

fn readable(interrupt: &Interrupt) -> bool {
    let mut poll = libc::pollfd {
        fd: interrupt.as_fd().unwrap().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

#[test]
fn a_signal_is_noted() {
    if !chosen() {
        let output = alone("interrupt::a_signal_is_noted", true);
        assert!(output.status.success(), "{output:?}");
        return;
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let interrupt = Interrupt::install().unwrap();
        assert!(!interrupt.is_set() && !readable(&interrupt));
        // The signal was ignored from the start, so it neither ends this process nor counts.
        raise(libc::SIGHUP);
        assert_eq!(interrupt.signal(), None);
        raise(signal);
        assert!(interrupt.is_set() && readable(&interrupt));
        assert_eq!(interrupt.signal(), Some(signal));
        let second = Interrupt::install().unwrap_err();
        assert_eq!(second.kind(), std::io::ErrorKind::AlreadyExists);
    }
    let none = Interrupt::none();
    assert!(!none.is_set() && none.as_fd().is_none() && none.signal().is_none());
}

#[test]
fn a_second_interrupt_ends_the_process() {
    if !chosen() {
        let output = alone("interrupt::a_second_interrupt_ends_the_process", false);
        assert_eq!(output.status.signal(), Some(libc::SIGINT), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("survived the first"));
        return;
    }
    let interrupt = Interrupt::install().unwrap();
    raise(libc::SIGINT);
    assert!(interrupt.is_set());
    eprintln!("survived the first");
    raise(libc::SIGINT);
    unreachable!("the second SIGINT takes its default action");
}

#[test]
fn dropping_restores_what_was_there() {
    if !chosen() {
        let output = alone("interrupt::dropping_restores_what_was_there", false);
        assert_eq!(output.status.signal(), Some(libc::SIGTERM), "{output:?}");
        return;
    }
    drop(Interrupt::install().unwrap());
    raise(libc::SIGTERM);
    unreachable!("SIGTERM has its default action again");
}
