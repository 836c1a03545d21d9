//! `opcost top`: what runs at this moment, function by function.
//!
//! ```text
//! Live (samples) → Interval → State ← keys
//!                               ↓
//!                             screen
//! ```
//!
//! State and screen are pure; only `live` samples, only `terminal` knows a terminal.

pub mod interval;
pub mod live;
pub mod screen;
pub mod state;
pub mod terminal;

use crate::action::print;
use crate::cli::Cli;
use crate::exit::{Status, WithStatus, fail};
use crate::render::Style;
use crate::sampling::SamplingArgs;
use anyhow::{Context, Result};
use clap::Args;
use live::Live;
use opcost_sys::interrupt::Interrupt;
use screen::Caption;
use state::{Filter, State};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Lines of a table that is printed instead of shown.
const BATCH_LINES: u16 = 24;

/// Arguments of `opcost top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Look at one process and what it starts [default: the whole machine]
    #[arg(long, short = 'p', value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,

    /// Seconds between two looks
    #[arg(long, short = 'd', value_name = "N", default_value = "2", value_parser = crate::cli::seconds)]
    pub delay: f64,

    /// Print so many tables as text instead of taking over the terminal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub sampling: SamplingArgs,
}

/// `opcost top`.
///
/// # Errors
/// No terminal to show it on, no such process, or no right to sample.
pub fn top(cli: &Cli, args: &TopArgs) -> Result<Status> {
    let plan = args.sampling.plan()?;
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if args.batch.is_none() && !terminal {
        return Err(fail(
            Status::Usage,
            "opcost top needs a terminal to show its table on and to read keys from; print tables \
             as text with --batch N",
        ));
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
    let style = Style::detect(cli.no_color);
    let caption = Caption {
        what: format!("{} at {} Hz, {whom}{only}", granted.event, plan.frequency_hz),
        color: style.color,
    };
    let length = Duration::from_secs_f64(args.delay);
    match args.batch {
        Some(tables) => batch(live, tables, length, &caption, style.width, &interrupt)?,
        None => terminal::show(live, length, &caption, &interrupt).status(Status::Missing)?,
    }
    // A signal ends it as `q` does: nothing is lost.
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
    let mut state = State::default();
    let printed = AtomicU32::new(0);
    let mut problem = None;
    let stop = || interrupt.is_set() || printed.load(Ordering::Relaxed) >= tables;
    live.run(length, &Mutex::new(Filter::Everything), stop, |_, interval| {
        state.tick(interval);
        let table = printed.fetch_add(1, Ordering::Relaxed);
        // One more may be on its way when the last is printed.
        if table < tables {
            let gap = if table == 0 { "" } else { "\n" };
            let text = screen::text(&state, caption, width, BATCH_LINES);
            if let Err(error) = print(&format!("{gap}{text}")) {
                problem.get_or_insert(error);
                printed.store(tables, Ordering::Relaxed);
            }
        }
    })
    .status(Status::Missing)?;
    match problem {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
