//! Ranges with names: makes them disjoint, and fills their gaps with others.

/// A range with a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span<N> {
    /// First byte.
    pub start: u64,
    /// The byte behind the last one.
    pub end: u64,
    /// The range's owner.
    pub name: N,
}

/// Makes nested and overlapping spans disjoint: each byte goes to the span that starts last.
///
/// `spans`: ascending by start, no start twice. Behind an inner span, the outer span resumes.
pub fn unnest<N: Copy>(spans: &[Span<N>]) -> Vec<Span<N>> {
    let mut disjoint = Vec::with_capacity(spans.len());
    let mut nest = Nest::default();
    for span in spans {
        nest.add(*span, &mut |piece| disjoint.push(piece));
    }
    nest.finish(&mut |piece| disjoint.push(piece));
    disjoint
}

/// Does the work of [`unnest`] for spans that come one by one.
pub(super) struct Nest<N> {
    /// Spans that may go on, the innermost last.
    open: Vec<Span<N>>,
    /// The end of the pieces given so far.
    done: u64,
}

impl<N> Default for Nest<N> {
    fn default() -> Self {
        Nest { open: Vec::new(), done: 0 }
    }
}

impl<N: Copy> Nest<N> {
    /// Adds a span that starts behind all before it; `give`: takes the pieces that are final then,
    /// ascending by start.
    pub(super) fn add(&mut self, span: Span<N>, give: &mut impl FnMut(Span<N>)) {
        self.close(span.start, give);
        self.open.push(span);
    }

    /// Gives the remaining pieces.
    pub(super) fn finish(&mut self, give: &mut impl FnMut(Span<N>)) {
        self.close(u64::MAX, give);
    }

    fn close(&mut self, until: u64, give: &mut impl FnMut(Span<N>)) {
        while let Some(&Span { start, end, name }) = self.open.last() {
            let (start, stop) = (start.max(self.done), end.min(until));
            if start < stop {
                give(Span { start, end: stop, name });
                self.done = stop;
            }
            if end > until {
                break;
            }
            self.open.pop();
        }
    }
}

/// Fills the gaps of `over` with the parts of `under` there.
///
/// Both lists, and the result, ascend and are disjoint.
pub(super) fn lay_under<N: Copy>(over: &[Span<N>], under: &[Span<N>]) -> Vec<Span<N>> {
    let mut both = Vec::with_capacity(over.len() + under.len());
    let mut over = over.iter().copied().peekable();
    let mut done = 0;
    for span in under {
        let gap = |from: u64, end| {
            let start = span.start.max(from);
            (start < end).then_some(Span { start, end, name: span.name })
        };
        while let Some(above) = over.next_if(|above| above.start < span.end) {
            both.extend(gap(done, above.start));
            both.push(above);
            done = above.end;
        }
        both.extend(gap(done, span.end));
    }
    both.extend(over);
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(start: u64, end: u64, name: usize) -> Span<usize> {
        Span { start, end, name }
    }

    /// Returns the name of each of the first hundred bytes.
    fn painted(spans: &[Span<usize>]) -> Vec<Option<usize>> {
        let mut bytes = vec![None; 100];
        for Span { start, end, name } in spans {
            bytes[*start as usize..*end as usize].fill(Some(*name));
        }
        bytes
    }

    fn ascends(spans: &[Span<usize>]) -> bool {
        spans.iter().all(|span| span.start < span.end)
            && spans.windows(2).all(|pair| pair[0].end <= pair[1].start)
    }

    fn any_spans() -> impl Strategy<Value = Vec<Span<usize>>> {
        proptest::collection::btree_map(0u64..90, 1u64..40, 0..12).prop_map(|spans| {
            let spans = spans.into_iter().enumerate();
            spans.map(|(name, (start, long))| span(start, (start + long).min(100), name)).collect()
        })
    }

    #[test]
    fn the_outer_function_resumes_behind_the_inner_one() {
        let spans = [span(0, 50, 0), span(10, 20, 1), span(15, 30, 2), span(60, 70, 3)];
        let expected =
            [span(0, 10, 0), span(10, 15, 1), span(15, 30, 2), span(30, 50, 0), span(60, 70, 3)];
        assert_eq!(unnest(&spans), expected);
    }

    proptest! {
        #[test]
        fn unnested_spans_paint_the_same_picture(spans in any_spans()) {
            let disjoint = unnest(&spans);
            prop_assert!(ascends(&disjoint));
            prop_assert_eq!(painted(&disjoint), painted(&spans));
        }

        #[test]
        fn what_lies_over_hides_what_lies_under(over in any_spans(), under in any_spans()) {
            let (over, under) = (unnest(&over), unnest(&under));
            let both = lay_under(&over, &under);
            prop_assert!(ascends(&both));
            let picture: Vec<_> = painted(&over)
                .into_iter()
                .zip(painted(&under))
                .map(|(over, under)| over.or(under))
                .collect();
            prop_assert_eq!(painted(&both), picture);
        }
    }
}
