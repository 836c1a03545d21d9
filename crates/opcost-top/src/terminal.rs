//! The terminal of the live view, restored however the view ends.

use crate::live::{Live, Watch};
use crate::screen::{Caption, draw, rows_shown};
use crate::state::{Action, State};
use anyhow::{Context, Result};
use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event, KeyEventKind};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use opcost_sys::interrupt::{Input, Interrupt};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use std::io::{stdin, stdout};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd as _;
use std::panic;
use std::time::Duration;

/// The time between two looks for keys and new intervals.
const GLANCE: Duration = Duration::from_millis(100);

/// A terminal in raw mode on its alternate screen.
struct Borrowed;

impl Borrowed {
    fn take() -> std::io::Result<Borrowed> {
        enable_raw_mode()?;
        // From here on, dropping the value restores the terminal.
        let borrowed = Borrowed;
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(borrowed)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. Repeating this does no harm, and a terminal that is gone needs nothing.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Shows the samples until the user quits.
///
/// # Errors
/// The terminal or the ring buffers cannot be read.
pub fn show(live: Live, length: Duration, caption: &Caption, interrupt: &Interrupt) -> Result<()> {
    // The message of a panic has to be on the screen that stays.
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        give_back();
        before(info);
    }));
    let shown = look(&live.watch(length), caption, interrupt);
    // Our hook contains the earlier hook; without ours the default hook applies, which is what a command line had.
    let _ = panic::take_hook();
    shown
}

/// Draws and takes keys until the user quits or a signal comes.
fn look(watch: &Watch, caption: &Caption, interrupt: &Interrupt) -> Result<()> {
    let _borrowed = Borrowed::take().context("cannot use the terminal")?;
    // Dropped, it shows the cursor too, and where the terminal is gone it panics over that.
    let mut terminal = ManuallyDrop::new(
        Terminal::new(CrosstermBackend::new(stdout())).context("cannot use the terminal")?,
    );
    let mut state = State::default();
    let mut is_drawn = false;
    while !interrupt.is_set() {
        while let Some((looked_at, interval)) = watch.next(Duration::ZERO)? {
            // Samples from before the user chose another filter belong to the old filter.
            if looked_at == state.filter {
                state.tick(interval);
                is_drawn = false;
            }
        }
        // A screen that has not changed is not drawn again.
        if !std::mem::replace(&mut is_drawn, true) {
            let draw_all = |frame: &mut ratatui_core::terminal::Frame<'_>| {
                state.page_rows = rows_shown(frame.area().height);
                draw(&state, caption, frame.area(), frame.buffer_mut());
            };
            terminal.draw(draw_all).context("cannot write to the terminal")?;
        }
        // crossterm reads the keyboard of a terminal that hung up for ever, so it never waits itself.
        if interrupt.wait_for_input(stdin().as_fd(), GLANCE) == Input::Gone || interrupt.is_set() {
            break;
        }
        if !event::poll(Duration::ZERO).unwrap_or(false) {
            continue;
        }
        // A key came, or the terminal has another size.
        is_drawn = false;
        if let Event::Key(key) = event::read().context("cannot read the keyboard")?
            && key.kind != KeyEventKind::Release
        {
            match state.key(key) {
                Action::Quit => break,
                Action::Show => {}
                Action::Look(wanted) => watch.look_at(wanted),
            }
        }
    }
    Ok(())
}
