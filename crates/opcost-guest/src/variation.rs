//! What makes two runs from one booted state differ as two boots with different seeds would.
//!
//! A boot's seed and padding shift what is random, when ticks fall, where a process's stack begins and
//! which pages of memory are free. Here the same four are shifted: the kernel's pool is seeded, time is
//! slept and spun away, the environment is padded, pages are taken and kept.

use crate::error::JobError;
use opcost_record::request::{PADDING, Variation};
use opcost_sys::entropy;
use opcost_work::Random;
use std::ffi::OsString;
use std::hint::black_box;
use std::time::Duration;

/// The most pages that are taken.
const PAGES_MAX: u64 = 16;

const PAGE_BYTES: usize = 4096;

/// The longest sleep: it moves ticks against the work by a tenth of the time between two, as much as boots
/// with different seeds do (docs/emulation.md has the spreads of both).
const SLEEP_MAX_NS: u64 = 1_000_000;

/// The most rounds of the loop, which shifts ticks where a kernel's sleeps end with one.
const ROUNDS_MAX: u64 = 1 << 16;

/// Varies the guest; result: the variable that pads the job's environment.
pub(crate) fn apply(variation: &Variation) -> Result<(OsString, OsString), JobError> {
    let mut random = Random::seeded(variation.seed.into());
    let mut draw = || random.draw();
    let mut bytes = [0; 32];
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&draw().to_le_bytes());
    }
    entropy::reseed(bytes).map_err(JobError::system("seed the kernel's random numbers"))?;
    let pages = vec![1u8; (draw() % PAGES_MAX) as usize * PAGE_BYTES];
    // Kept until the machine ends.
    std::mem::forget(black_box(pages));
    std::thread::sleep(Duration::from_nanos(draw() % SLEEP_MAX_NS));
    for round in 0..draw() % ROUNDS_MAX {
        black_box(round);
    }
    Ok((PADDING.into(), "x".repeat(variation.padding_bytes.into()).into()))
}
