//! Progress of the steps before the runs, on standard error.

use crate::message::{announce, draw};
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
    /// The time after which a thread redraws the line.
    redrawn_every: Option<Duration>,
    quiet: bool,
    phase: String,
    said: Instant,
}

impl Phases {
    pub fn new(quiet: bool) -> Phases {
        // Nothing is measured while a kernel is built, so a thread may redraw the line.
        let redrawn_every = Some(Duration::from_millis(250));
        Phases { redrawn_every, ..Phases::still(quiet) }
    }

    /// Redraws only when a phase is reported, so that no thread runs in between.
    pub fn still(quiet: bool) -> Phases {
        let terminal = !quiet && std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("  {spinner} {wide_msg} {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.finish_and_clear();
            bar
        });
        Phases { bar, redrawn_every: None, quiet, phase: String::new(), said: Instant::now() }
    }

    /// Reports the phase, and how far it is (`done`). On a terminal, the line takes the place of whatever line was drawn.
    pub fn report(&mut self, phase: &str, done: Option<&str>) {
        let phase = printable(phase);
        if let Some(bar) = self.bar.as_ref().filter(|bar| bar.is_finished()) {
            draw(bar);
            bar.reset();
            if let Some(time) = self.redrawn_every {
                bar.enable_steady_tick(time);
            }
        }
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

    /// Clears the line. The next phase draws it anew.
    pub fn end(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
