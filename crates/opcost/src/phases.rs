//! What is being done before the runs, on standard error.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Where standard error is no terminal, how often it says how far a long phase is.
const SAY_EVERY: Duration = Duration::from_secs(20);

/// What is being done, on standard error: a line that changes on a terminal, else one for each
/// phase, and now and then one more of a long phase.
pub(crate) struct Phases {
    bar: Option<ProgressBar>,
    quiet: bool,
    phase: String,
    said: Instant,
}

impl Phases {
    pub(crate) fn new(quiet: bool) -> Phases {
        let phases = Phases::still(quiet);
        if let Some(bar) = &phases.bar {
            // Nothing is measured while a kernel is made.
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        phases
    }

    /// Drawn only when something is told, so that nothing else runs between.
    pub(crate) fn still(quiet: bool) -> Phases {
        let terminal = !quiet && std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("  {spinner} {wide_msg} {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::new_spinner().with_style(style)
        });
        Phases { bar, quiet, phase: String::new(), said: Instant::now() }
    }

    /// Shows the phase, and how far it is (`done`).
    pub(crate) fn tell(&mut self, phase: &str, done: Option<&str>) {
        match &self.bar {
            Some(bar) => bar.set_message(match done {
                Some(done) => format!("{phase} ({done})"),
                None => phase.to_string(),
            }),
            None if !self.quiet && phase != self.phase => {
                self.said = Instant::now();
                eprintln!("opcost: {phase}");
            }
            None if !self.quiet && self.said.elapsed() >= SAY_EVERY => {
                if let Some(done) = done {
                    self.said = Instant::now();
                    eprintln!("opcost: {phase} ({done})");
                }
            }
            None => {}
        }
        self.phase = phase.to_string();
    }

    pub(crate) fn end(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
