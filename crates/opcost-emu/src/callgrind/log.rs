//! Messages, as Valgrind writes them: each line begins with the process.

use opcost_callgrind::names::{Expansion, expand};
use opcost_callgrind::settings::{Log, Settings};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of files that this process has named.
static FILES: AtomicU32 = AtomicU32::new(0);

/// Returns the name of a file by its pattern.
pub(super) fn file_name(pattern: &str) -> Result<String, String> {
    let number = FILES.fetch_add(1, Ordering::Relaxed) + 1;
    let variable = |name: &str| std::env::var(name).ok();
    expand(pattern, &Expansion { pid: std::process::id(), number, variable: &variable })
}

/// Where messages go.
pub(super) struct Messages {
    to: Option<File>,
    /// The process that the file was opened for.
    pid: u32,
    pattern: Option<String>,
    pub(super) quiet: bool,
}

impl Messages {
    /// Opens the place of messages.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn open(settings: &Settings) -> Result<Messages, String> {
        let copy = |descriptor: i32| {
            // SAFETY: a copy of the descriptor is made, and the descriptor itself is given back below.
            let lent = unsafe { OwnedFd::from_raw_fd(descriptor) };
            let copied = lent.as_fd().try_clone_to_owned();
            std::mem::forget(lent);
            copied.map(File::from)
        };
        let mut messages =
            Messages { to: None, pid: std::process::id(), pattern: None, quiet: settings.quiet };
        match &settings.log {
            Log::Stderr => messages.to = copy(2).ok(),
            Log::Descriptor(number) => {
                messages.to =
                    Some(copy(*number).map_err(|error| format!("--log-fd={number}: {error}"))?);
            }
            Log::File(pattern) => {
                messages.pattern = Some(pattern.clone());
                messages.open_file(false)?;
            }
        }
        Ok(messages)
    }

    fn open_file(&mut self, append: bool) -> Result<(), String> {
        let Some(pattern) = &self.pattern else { return Ok(()) };
        let name = file_name(pattern).map_err(|why| format!("--log-file={why}"))?;
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(append).truncate(!append);
        self.to = Some(
            options
                .open(&name)
                .map_err(|error| format!("--log-file: cannot open {name}: {error}"))?,
        );
        Ok(())
    }

    /// Goes on in a child process, which has a file of its own if the name has its number.
    pub(super) fn follow_fork(&mut self, is_silent: bool) {
        let pid = std::process::id();
        if self.pid != pid {
            self.pid = pid;
            self.quiet |= is_silent;
            let own = self.pattern.as_ref().is_some_and(|pattern| pattern.contains("%p"));
            let _ = self.open_file(!own);
        }
    }

    /// Writes lines, unless they are only for information and messages are off.
    pub(super) fn say(&mut self, needed: bool, lines: &[&str]) {
        if self.quiet && !needed {
            return;
        }
        let pid = std::process::id();
        let text: String = lines.iter().map(|line| format!("=={pid}== {line}\n")).collect();
        if let Some(to) = &mut self.to {
            // There is no other place for the reason.
            let _ = to.write_all(text.as_bytes());
        }
    }
}
