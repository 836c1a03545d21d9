//! The user's commands around the runs.

use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_model::plan::Plan;
use opcost_sys::interrupt::Interrupt;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The variable with the run's number among the runs of its variant. The name is hyperfine's, so that scripts for both have one.
pub const ITERATION: &str = "HYPERFINE_ITERATION";

/// One execution of a hook.
#[derive(Clone, Debug)]
pub struct Hook<'a> {
    /// The option without its hyphens: `prepare`.
    pub name: &'static str,
    /// The command, for `/bin/sh -c`.
    pub command: &'a str,
    /// The variant that it belongs to; a hook of the whole recording has none.
    pub variant: Option<HookVariant<'a>>,
    /// The number of the run that it belongs to, for [`ITERATION`].
    pub iteration: Option<String>,
}

/// The variant of a hook.
#[derive(Clone, Copy, Debug)]
pub struct HookVariant<'a> {
    /// The variant's index in the plan.
    pub index: usize,
    /// The environment of the variant's work, which the hook gets as well.
    pub environment: &'a [(OsString, OsString)],
}

/// How a hook ended, unless it failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HookEnd {
    /// The hook ended with status 0.
    Done,
    /// A signal that interrupts opcost ended the hook, too.
    Interrupted,
}

/// Executes hooks: [`HookShell`], or a test's substitute.
pub trait HookRunner {
    /// Executes a hook and waits for its end.
    ///
    /// # Errors
    /// The hook failed, and no signal interrupted opcost meanwhile.
    fn run(&mut self, plan: &Plan, hook: &Hook<'_>) -> Result<HookEnd>;

    /// Whether a signal came, so that no further hook before a run should start.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Executes hooks through `/bin/sh -c`.
///
/// A hook of a variant has that variant's environment and working directory. Another hook has the
/// environment of this process and the directory in which the recording was begun. Hooks stay in
/// this process's group, so that they may ask for a password on the terminal; the terminal's
/// interrupt key reaches them, too.
pub struct HookShell<'a> {
    /// Tells whether a signal came.
    pub interrupt: &'a Interrupt,
}

impl HookRunner for HookShell<'_> {
    fn run(&mut self, plan: &Plan, hook: &Hook<'_>) -> Result<HookEnd> {
        let Hook { name, command, variant, iteration } = hook;
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null());
        let mut dir = plan.hooks.cwd.as_ref();
        if let Some(HookVariant { index, environment }) = variant {
            shell.env_clear().envs(environment.iter().map(|(key, value)| (key, value)));
            dir = plan.variants[*index].cwd.as_ref().or(dir);
        }
        shell.envs(iteration.iter().map(|iteration| (ITERATION, iteration)));
        if let Some(dir) = dir {
            shell.current_dir(dir);
        }
        let status = shell
            .status()
            .with_context(|| format!("cannot run --{name} '{command}'"))
            .status(Status::WorkFailed)?;
        if status.success() {
            return Ok(HookEnd::Done);
        }
        if self.interrupt.is_set() {
            return Ok(HookEnd::Interrupted);
        }
        Err(fail(
            Status::WorkFailed,
            format!("--{name} '{command}' failed ({status}); its error output is above"),
        ))
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }
}
