//! The six phases, and the division of the operations among them.

/// A phase, in bonnie's order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    Putc,
    Write,
    Rewrite,
    Getc,
    Read,
    Seeks,
}

impl Phase {
    pub(super) const ALL: [Phase; 6] =
        [Phase::Putc, Phase::Write, Phase::Rewrite, Phase::Getc, Phase::Read, Phase::Seeks];

    pub(super) fn name(self) -> &'static str {
        ["putc", "write", "rewrite", "getc", "read", "seeks"][self as usize]
    }

    pub(super) fn of_name(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// Whether the phase begins with an empty file and makes it grow.
    pub(super) fn starts_empty(self) -> bool {
        matches!(self, Phase::Putc | Phase::Write)
    }

    /// Whether the phase changes the file.
    pub(super) fn writes(self) -> bool {
        !matches!(self, Phase::Getc | Phase::Read)
    }
}

/// Returns the operations of each phase: all for `only`, or a sixth each, with the remainder spread over the first phases.
pub(super) fn shares(only: Option<Phase>, ops: u64) -> [u64; Phase::ALL.len()] {
    let phases = Phase::ALL.len() as u64;
    Phase::ALL.map(|phase| match only {
        Some(only) if only == phase => ops,
        Some(_) => 0,
        None => ops / phases + u64::from((phase as u64) < ops % phases),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn phases_are_at_their_places_and_found_by_name() {
        for (place, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, place);
            assert_eq!(Phase::of_name(phase.name()), Some(phase));
        }
        assert_eq!(Phase::of_name("all"), None);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_no_phase_reads_what_none_wrote(ops in 1u64..100_000) {
            let all = shares(None, ops);
            prop_assert_eq!(all.iter().sum::<u64>(), ops);
            prop_assert!(all.is_sorted_by(|one, next| one >= next && one - next <= 1));
            prop_assert_eq!(shares(Some(Phase::Read), ops), [0, 0, 0, 0, ops, 0]);
        }
    }
}
