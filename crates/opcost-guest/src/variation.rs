//! Makes runs from one booted state differ as boots with different seeds do.
//!
//! A boot's seed and padding shift random numbers, the times of ticks, the start of a process's
//! stack and the free pages of memory. Here the same four are shifted: the kernel's pool is seeded,
//! the guest sleeps and spins, the environment is padded, and pages are allocated and kept.

use crate::error::JobError;
use opcost_record::request::{PADDING, Variation};
use opcost_sys::entropy;
use opcost_work::Random;
use std::ffi::OsString;
use std::hint::black_box;
use std::time::Duration;

/// The guest allocates fewer pages than this.
const PAGES_MAX: u64 = 16;

const PAGE_BYTES: usize = 4096;

/// The guest sleeps for less than this. A sleep shifts ticks against the work by up to a tenth of their
/// interval, as much as boots with different seeds do (docs/emulation.md has the spreads of both).
const SLEEP_MAX_NS: u64 = 1_000_000;

/// The loop has fewer rounds than this. It shifts ticks even on kernels whose sleeps end with a tick.
const ROUNDS_MAX: u64 = 1 << 16;

/// Varies the guest; returns the variable that pads the job's environment.
pub(crate) fn apply(variation: &Variation) -> Result<(OsString, OsString), JobError> {
    let mut random = Random::seeded(variation.seed.into());
    let mut draw = || random.draw();
    let mut bytes = [0; 32];
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&draw().to_le_bytes());
    }
    entropy::reseed(bytes).map_err(JobError::system("seed the kernel's random numbers"))?;
    let pages = vec![1u8; (draw() % PAGES_MAX) as usize * PAGE_BYTES];
    // The pages stay allocated until the machine ends.
    std::mem::forget(black_box(pages));
    std::thread::sleep(Duration::from_nanos(draw() % SLEEP_MAX_NS));
    for round in 0..draw() % ROUNDS_MAX {
        black_box(round);
    }
    Ok((PADDING.into(), "x".repeat(variation.padding_bytes.into()).into()))
}
