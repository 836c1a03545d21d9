//! Commands that the user has run around the runs.

use super::HookEnd;
use crate::exit::{Status, WithStatus, fail};
use crate::plan::Plan;
use anyhow::{Context, Result};
use opcost_sys::interrupt::Interrupt;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// Runs a hook's command through `/bin/sh -c` and waits for it.
///
/// `variant`: index and environment of the variant it belongs to, if it does. The hook stays in
/// this process's group, so that it may ask for a password on the terminal; the terminal's
/// interrupt key reaches it, too.
///
/// # Errors
/// The hook did not end with status 0, and no signal interrupted us meanwhile.
pub(super) fn run(
    plan: &Plan,
    variant: Option<(usize, &[(OsString, OsString)])>,
    name: &str,
    command: &str,
    interrupt: &Interrupt,
) -> Result<HookEnd> {
    let mut hook = Command::new("/bin/sh");
    hook.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null());
    let mut dir = plan.hooks.cwd.as_ref();
    if let Some((variant, environment)) = variant {
        hook.env_clear().envs(environment.iter().map(|(key, value)| (key, value)));
        dir = plan.variants[variant].cwd.as_ref().or(dir);
    }
    if let Some(dir) = dir {
        hook.current_dir(dir);
    }
    let status = hook
        .status()
        .with_context(|| format!("cannot run --{name} '{command}'"))
        .status(Status::WorkFailed)?;
    if status.success() {
        return Ok(HookEnd::Done);
    }
    if interrupt.is_set() {
        return Ok(HookEnd::Interrupted);
    }
    Err(fail(
        Status::WorkFailed,
        format!("--{name} '{command}' failed ({status}); its error output is above"),
    ))
}
