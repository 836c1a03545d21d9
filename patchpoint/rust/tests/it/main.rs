//! The integration tests of patchpoint: one program, so that it is linked once.

mod builds;
mod depends;
mod instructions;
#[path = "../../../tests/skip.rs"]
mod skip;
mod with_c;

/// Waits until no other test changes keys: `init` patches the keys of all, and one test damages a site.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static KEYS: std::sync::Mutex<()> = std::sync::Mutex::new(());
    KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
