//! The terminal of the live view, given back as it was however the view ends.

use super::live::Live;
use super::screen::{Caption, draw, rows_shown};
use super::state::{Action, Filter, State};
use anyhow::{Context, Result};
use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event, KeyEventKind};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use opcost_sys::interrupt::Interrupt;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use std::io::stdout;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// How often keys and new intervals are looked for.
const GLANCE: Duration = Duration::from_millis(100);

/// A terminal in raw mode on its other screen.
struct Borrowed;

impl Borrowed {
    fn take() -> std::io::Result<Borrowed> {
        enable_raw_mode()?;
        // From here on dropping it undoes what was done.
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

/// Doing it twice does no harm; a terminal that is gone needs nothing.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Shows what is sampled until the user has seen enough.
///
/// # Errors
/// The terminal or the ring buffers cannot be read.
pub fn show(live: Live, length: Duration, caption: &Caption, interrupt: &Interrupt) -> Result<()> {
    // A message of a panic is to be seen on the screen that stays.
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        give_back();
        before(info);
    }));
    let filter = Mutex::new(Filter::Everything);
    let quitting = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    let shown = thread::scope(|scope| {
        let (filter, quitting) = (&filter, &quitting);
        let sampling = scope.spawn(move || {
            let stop = || quitting.load(Ordering::Relaxed);
            live.run(length, filter, stop, |looked_at, interval| {
                // Nobody listens any more when the view has ended.
                let _ = sender.send((looked_at, interval));
            })
        });
        // Also after a panic, or the thread would never be done.
        let quit = Quit(quitting);
        let _borrowed = Borrowed::take().context("cannot use the terminal")?;
        let mut terminal =
            Terminal::new(CrosstermBackend::new(stdout())).context("cannot use the terminal")?;
        let mut state = State::default();
        loop {
            terminal
                .draw(|frame| {
                    state.page_rows = rows_shown(frame.area().height);
                    draw(&state, caption, frame.area(), frame.buffer_mut());
                })
                .context("cannot write to the terminal")?;
            if interrupt.is_set() || sampling.is_finished() {
                break;
            }
            while let Ok((looked_at, interval)) = receiver.try_recv() {
                // What was sampled before the user looked elsewhere is of others.
                if looked_at == state.filter {
                    state.tick(interval);
                }
            }
            // A signal makes it return early.
            if !event::poll(GLANCE).unwrap_or(false) {
                continue;
            }
            if let Event::Key(key) = event::read().context("cannot read the keyboard")?
                && key.kind != KeyEventKind::Release
            {
                match state.key(key) {
                    Action::Quit => break,
                    Action::Show => {}
                    Action::Look(wanted) => {
                        *filter.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
                    }
                }
            }
        }
        drop(quit);
        match sampling.join() {
            Ok(done) => done,
            Err(_) => Err(anyhow::anyhow!("the thread that samples died")),
        }
    });
    // The hook that was there before is part of ours; the default is what a command line had.
    let _ = panic::take_hook();
    shown
}

/// Tells the sampling thread to end.
struct Quit<'a>(&'a AtomicBool);

impl Drop for Quit<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
