//! Over which time the machine's conditions are read.

use crate::plan::Plan;
use opcost_sys::clock::monotonic_ns;

/// The time over which the machine's conditions are read: that of one run, or of many short ones,
/// for which two readings each would cost more than a tenth of what they take.
pub(super) struct Window {
    begun_ns: Option<u64>,
    made: u32,
    /// Between runs something else is run, whose doing must not be in it.
    one_run: bool,
}

/// So many runs have a window each, so that short recordings have enough of them.
const WINDOWS_OF_ONE_RUN: u32 = 16;
/// After those a window lasts so long at least: two ticks of the kernel's accounts of CPU time.
const WINDOW_NS_MIN: u64 = 20_000_000;

impl Window {
    pub(super) fn new(plan: &Plan) -> Window {
        let one_run = plan.has_hooks_between_runs() || plan.build().is_some();
        Window { begun_ns: None, made: 0, one_run }
    }

    pub(super) fn is_open(&self) -> bool {
        self.begun_ns.is_some()
    }

    /// Before a run; whether one begins.
    pub(super) fn open(&mut self) -> bool {
        let begins = self.begun_ns.is_none();
        if begins {
            self.begun_ns = Some(monotonic_ns());
        }
        begins
    }

    /// After a run; whether it ends.
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
        // One that began long ago ends with the run, one that has just begun does not.
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
