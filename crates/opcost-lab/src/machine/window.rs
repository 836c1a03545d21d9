//! The windows of time over which the machine's conditions are read.

use opcost_model::plan::Plan;
use opcost_sys::clock::monotonic_ns;

/// A window of time over which the machine's conditions are read: one run, or many short runs, for
/// which two readings each would cost more than a tenth of their time.
pub(super) struct Window {
    begun_ns: Option<u64>,
    made: u32,
    /// Whether every window is one run, since other work between runs must not be included.
    one_run: bool,
}

/// The number of first runs that each have a window, so that short recordings have enough windows.
const WINDOWS_OF_ONE_RUN: u32 = 16;
/// The least length of later windows: two ticks of the kernel's accounting of CPU time.
const WINDOW_NS_MIN: u64 = 20_000_000;

impl Window {
    pub(super) fn new(plan: &Plan) -> Window {
        let one_run = plan.has_hooks_between_runs() || plan.build().is_some();
        Window { begun_ns: None, made: 0, one_run }
    }

    pub(super) fn is_open(&self) -> bool {
        self.begun_ns.is_some()
    }

    /// Called before a run; returns whether a window begins.
    pub(super) fn open(&mut self) -> bool {
        let begins = self.begun_ns.is_none();
        if begins {
            self.begun_ns = Some(monotonic_ns());
        }
        begins
    }

    /// Called after a run; returns whether the window ends.
    pub(super) fn close(&mut self) -> bool {
        let long = self
            .begun_ns
            .is_some_and(|begun| monotonic_ns().saturating_sub(begun) >= WINDOW_NS_MIN);
        let ends = self.one_run || self.made < WINDOWS_OF_ONE_RUN || long;
        if ends {
            self.begun_ns = None;
            self.made += 1;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::fixture::{FakeSurroundings, experiment};
    use crate::resolve::resolve;

    #[test]
    fn short_runs_share_a_window_once_there_are_many() {
        let mut plan = resolve(&experiment(2, 2), &FakeSurroundings::default()).unwrap();
        let mut window = Window::new(&plan);
        for _ in 0..WINDOWS_OF_ONE_RUN {
            assert!(window.open() && window.close() && !window.is_open());
        }
        // A window that began long ago ends with the run; one that has just begun does not.
        assert!(window.open());
        window.begun_ns = Some(monotonic_ns() + 1_000_000_000);
        assert!(!window.close() && window.is_open() && !window.open());
        window.begun_ns = Some(0);
        assert!(window.close() && !window.is_open());
        plan.hooks.conclude = Some("true".into());
        let mut window = Window::new(&plan);
        window.made = WINDOWS_OF_ONE_RUN;
        assert!(window.open() && window.close(), "a hook runs between two runs");
    }
}
