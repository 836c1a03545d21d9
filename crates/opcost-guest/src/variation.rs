//! Makes runs from one booted state differ as boots with different seeds do.
//!
//! A boot's seed and padding shift random numbers, the start of a process's stack and the free pages of memory. Here the same
//! three are shifted: the kernel's pool is seeded, the environment is padded, and pages are allocated and kept. In every run,
//! also of a boot of its own, the seed decides when the work begins within a tick of the clock ([`opcost_sys::deferred`]).

use crate::error::JobError;
use opcost_record::request::{BOOT_SEED, PADDING, Variation};
use opcost_sys::entropy;
use opcost_work::Random;
use std::ffi::OsString;
use std::hint::black_box;

/// The guest allocates fewer pages than this.
const PAGES_MAX: u64 = 16;

const PAGE_BYTES: usize = 4096;

/// Varies the guest; returns the variable that pads the job's environment, and the seed of phases.
pub(crate) fn apply(variation: &Variation) -> Result<((OsString, OsString), u64), JobError> {
    let mut random = Random::seeded(variation.seed.into());
    reseed(&mut random)?;
    let pages = vec![1u8; (random.draw() % PAGES_MAX) as usize * PAGE_BYTES];
    // The pages stay allocated until the machine ends.
    std::mem::forget(black_box(pages));
    let padding = (PADDING.into(), "x".repeat(variation.padding_bytes.into()).into());
    Ok((padding, variation.seed.into()))
}

/// Does what runs of a boot of their own need; returns the seed of phases.
///
/// Such a kernel may have no random numbers yet, and then pays for each one that an exec or a fork draws. A user's kernel has them.
///
/// `options`: the kernel's command line.
pub(crate) fn of_boot(options: &str) -> Result<u64, JobError> {
    let seed = seed_of_boot(options);
    reseed(&mut Random::seeded(seed))?;
    Ok(seed)
}

fn reseed(random: &mut Random) -> Result<(), JobError> {
    let mut bytes = [0; 32];
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&random.draw().to_le_bytes());
    }
    entropy::reseed(bytes).map_err(JobError::system("seed the kernel's random numbers"))
}

/// Returns the seed that a boot's options name; 0 if they name none.
fn seed_of_boot(options: &str) -> u64 {
    let mut words = options.split_ascii_whitespace();
    words.find_map(|word| word.strip_prefix(BOOT_SEED)?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_stands_in_the_options_of_the_boot() {
        assert_eq!(seed_of_boot("quiet opcost.seed=0000000017 opcost.padding=xx\n"), 17);
        assert_eq!(seed_of_boot("quiet opcost.padding=xx"), 0);
    }
}
