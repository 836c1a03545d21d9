//! Functions chosen by the processor's features.

use crate::abi::{self, RawAlternative};
use crate::error::Error;
use crate::key::Call;
use crate::signature::Signature;
use std::ops::BitOr;

/// Features of a processor.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cpu(u32);

impl Cpu {
    /// No feature: every processor fits.
    pub const NONE: Cpu = Cpu(0);
    /// SSE 4.2.
    pub const SSE4_2: Cpu = Cpu(1);
    /// AVX.
    pub const AVX: Cpu = Cpu(1 << 1);
    /// AVX2.
    pub const AVX2: Cpu = Cpu(1 << 2);
    /// AVX-512 Foundation.
    pub const AVX512F: Cpu = Cpu(1 << 3);
    /// BMI2.
    pub const BMI2: Cpu = Cpu(1 << 4);
    /// Enhanced `rep movsb`.
    pub const ERMS: Cpu = Cpu(1 << 5);
    /// Fast short `rep movsb`.
    pub const FSRM: Cpu = Cpu(1 << 6);
    /// `popcnt`.
    pub const POPCNT: Cpu = Cpu(1 << 7);
    /// All features, for permitting them.
    pub const ALL: Cpu = Cpu(u32::MAX);

    /// Returns the features that this processor has and the kernel lets programs use.
    pub fn here() -> Cpu {
        // SAFETY: asks the processor; no conditions.
        Cpu(unsafe { abi::patchpoint_cpu_features() })
    }

    /// Whether these include all of `others`.
    pub const fn include(self, others: Cpu) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Cpu {
    type Output = Cpu;

    fn bitor(self, other: Cpu) -> Cpu {
        Cpu(self.0 | other.0)
    }
}

impl<F: Signature> Call<F> {
    /// Sets the first of some functions whose needs are in `permitted` and in this processor.
    ///
    /// `alternatives`: the functions and their needs, best first. Returns the index of the one set.
    ///
    /// # Errors
    /// [`Error::NoAlternative`]; else as [`set`](Call::set).
    pub fn choose(
        &'static self,
        alternatives: &[(Cpu, F)],
        permitted: Cpu,
    ) -> Result<usize, Error> {
        let alternatives: Vec<RawAlternative> = alternatives
            .iter()
            .map(|(needs, function)| RawAlternative {
                needs: needs.0,
                function: function.to_slot(),
            })
            .collect();
        // SAFETY: a key of this kind and functions of its type; the list is read during the call.
        Error::check(unsafe {
            abi::patchpoint_choose(
                &self.raw,
                alternatives.as_ptr(),
                alternatives.len(),
                permitted.0,
            )
        })
        .map(|index| index as usize)
    }
}
