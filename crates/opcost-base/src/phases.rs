//! Progress of the steps before the runs, on standard error.

use crate::message::announce;
use indicatif::{ProgressBar, ProgressStyle};
use opcost_record::printable::printable;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The time between two lines about one long phase, if standard error is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(20);

/// Reports phases on standard error. A terminal has one line that changes; elsewhere each phase has
/// a line, and a long phase has more.
pub struct Phases {
    bar: Option<ProgressBar>,
    quiet: bool,
    phase: String,
    said: Instant,
}

impl Phases {
    pub fn new(quiet: bool) -> Phases {
        let phases = Phases::still(quiet);
        if let Some(bar) = &phases.bar {
            // Nothing is measured while a kernel is built, so a thread may redraw the line.
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        phases
    }

    /// Redraws only when a phase is reported, so that no thread runs in between.
    pub fn still(quiet: bool) -> Phases {
        let terminal = !quiet && std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("  {spinner} {wide_msg} {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::new_spinner().with_style(style)
        });
        Phases { bar, quiet, phase: String::new(), said: Instant::now() }
    }

    /// Reports the phase, and how far it is (`done`).
    pub fn report(&mut self, phase: &str, done: Option<&str>) {
        let phase = printable(phase);
        match &self.bar {
            Some(bar) => bar.set_message(match done {
                Some(done) => format!("{phase} ({})", printable(done)),
                None => phase.clone(),
            }),
            None if !self.quiet && phase != self.phase => {
                self.said = Instant::now();
                announce!("{phase}");
            }
            None if !self.quiet && self.said.elapsed() >= SAY_EVERY => {
                if let Some(done) = done {
                    self.said = Instant::now();
                    announce!("{phase} ({done})");
                }
            }
            None => {}
        }
        self.phase = phase.clone();
    }

    pub fn end(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
