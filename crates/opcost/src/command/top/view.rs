//! Shows the tables that the arguments ask for, on the terminal or printed.

use super::TopArgs;
use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_source::sampling::existing;
use opcost_sys::interrupt::Interrupt;
use opcost_top::live::Live;
use opcost_top::screen::{self, Caption};
use opcost_top::state::State;
use opcost_top::terminal;
use patchpoint_attach::AttachError;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// The time between two checks whether a signal came.
const GLANCE: Duration = Duration::from_millis(100);
/// Lines of a table that is printed instead of shown.
const BATCH_LINES: u16 = 24;

/// Samples what the arguments ask for, and shows the samples until the user quits.
///
/// # Errors
/// No terminal to show it on, no such process, or no right to sample.
pub(super) fn view(globals: &Globals, args: &TopArgs) -> Result<Status> {
    let plan = args.sampling.plan()?;
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if args.batch.is_none() && !terminal {
        return Err(fail(
            Status::Usage,
            "opcost top needs a terminal to show its table on and to read keys from; print tables \
             as text with --batch N",
        ));
    }
    if let Some(pid) = args.pid
        && existing::threads(Path::new("/proc"), pid).is_empty()
    {
        return Err(fail(Status::Missing, AttachError::NoProcess { pid }.to_string()));
    }
    let interrupt = Interrupt::install()
        .context("cannot install the signal handler")
        .status(Status::Missing)?;
    let live = Live::begin(&plan, args.pid).status(Status::Missing)?;
    let granted = live.granted();
    let whom = match args.pid {
        Some(pid) => format!("process {pid}"),
        None => "all CPUs".into(),
    };
    let only = if granted.user_only { ", user mode only (no right to see the kernel)" } else { "" };
    let style = globals.style();
    let caption = Caption {
        what: format!("{} at {} Hz, {whom}{only}", granted.event, plan.frequency_hz),
        color: style.color,
    };
    let length = Duration::from_secs_f64(args.delay);
    match args.batch {
        Some(tables) => batch(live, tables, length, &caption, style.width, &interrupt)?,
        None => terminal::show(live, length, &caption, &interrupt).status(Status::Missing)?,
    }
    // A signal ends the view like `q`: nothing is lost.
    Ok(Status::Done)
}

fn batch(
    live: Live,
    tables: u32,
    length: Duration,
    caption: &Caption,
    width: usize,
    interrupt: &Interrupt,
) -> Result<()> {
    let width = u16::try_from(width).unwrap_or(u16::MAX);
    let watch = live.watch(length);
    let mut state = State::default();
    let mut printed = 0;
    while printed < tables && !interrupt.is_set() {
        let Some((_, interval)) = watch.next(GLANCE).status(Status::Missing)? else { continue };
        state.tick(interval);
        let gap = if printed == 0 { "" } else { "\n" };
        print(&format!("{gap}{}", screen::text(&state, caption, width, BATCH_LINES)))?;
        printed += 1;
    }
    Ok(())
}
