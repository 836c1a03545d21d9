//! The colours of frames, as classes of CSS.
//!
//! In a differential graph, a frame's colour is the change of the function in this context, with
//! everything it calls there, in steps that halve: full colour is more than half of the largest
//! change of any frame. The colour of a caller sums up its own change and its callees' changes,
//! whatever the callees' colours.

use opcost_analysis::comparison::call_tree::CallTree;
use opcost_record::profile::KERNEL;

/// Steps of colour in each direction.
pub(super) const STEPS: usize = 6;

/// The change of every node, per operation, and of everything together.
pub(super) struct Changes {
    /// The change of each node; the change of the whole tree is last.
    inclusive: Vec<f64>,
    /// The largest change, in absolute value.
    largest: f64,
}

impl Changes {
    /// The changes of a tree with two sides.
    pub(super) fn of(tree: &CallTree) -> Changes {
        let change = |counts: [u64; 2]| tree.per_op(1, counts[1]) - tree.per_op(0, counts[0]);
        let nodes = tree.nodes.iter().map(|node| change([node.inclusive[0], node.inclusive[1]]));
        let whole = change([tree.sides[0].total, tree.sides[1].total]);
        let inclusive: Vec<f64> = nodes.chain([whole]).collect();
        let largest = inclusive.iter().fold(0.0, |largest: f64, change| largest.max(change.abs()));
        Changes { inclusive, largest }
    }

    /// The change of a frame.
    pub(super) fn change(&self, node: Option<usize>) -> f64 {
        self.inclusive[node.unwrap_or(self.inclusive.len() - 1)]
    }

    /// The class of a frame: `u1` to `u6` for more, `d1` to `d6` for less, `n` for next to no change.
    pub(super) fn class(&self, node: Option<usize>) -> String {
        let change = self.change(node);
        match (1..=STEPS).rev().find(|step| change.abs() > self.threshold(*step)) {
            Some(step) if change > 0.0 => format!("u{step}"),
            Some(step) => format!("d{step}"),
            None => "n".into(),
        }
    }

    /// The change that a frame must exceed to have the colour of a step.
    pub(super) fn threshold(&self, step: usize) -> f64 {
        self.largest / f64::from(1u32 << (STEPS + 1 - step))
    }
}

/// The class of a function's frames in a graph without comparison: kernel or not, in one of three
/// shades, so that neighbours can be told apart.
pub(super) fn class_of_function(symbol: &str, module: &str) -> String {
    if module.is_empty() {
        return "n".into();
    }
    let shade =
        symbol.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{}{}", if module == KERNEL { "k" } else { "p" }, shade % 3)
}

/// Light colours by class, then dark ones.
const COLORS: [(&str, &str, &str); 19] = [
    ("n", "#ececec", "#3a3d44"),
    ("u1", "#fdeee9", "#46332f"),
    ("u2", "#fbd8cd", "#593630"),
    ("u3", "#f8bcab", "#6f3a30"),
    ("u4", "#f39d87", "#863d30"),
    ("u5", "#ec7c64", "#9e402f"),
    ("u6", "#e2614a", "#b7432e"),
    ("d1", "#eaf1fb", "#2c3542"),
    ("d2", "#d0e1f7", "#2c3d56"),
    ("d3", "#b1cdf2", "#2c476c"),
    ("d4", "#8eb6ec", "#2c5183"),
    ("d5", "#6fa2e6", "#2b5b9a"),
    ("d6", "#5792e0", "#2b65b1"),
    ("k0", "#fbd8a8", "#6b4a1c"),
    ("k1", "#f9c98a", "#785322"),
    ("k2", "#f7dfbd", "#5d4120"),
    ("p0", "#c5e6c9", "#2a5634"),
    ("p1", "#b2dcb9", "#2f633c"),
    ("p2", "#d9efdb", "#254a2d"),
];

/// The style sheet, for light and dark surroundings.
pub(super) fn style() -> String {
    let fills = |pick: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
        let rule = |color: &(&'static str, &'static str, &'static str)| {
            format!(".opcost-flame .{}{{fill:{}}}", color.0, pick(color))
        };
        COLORS.iter().map(rule).collect::<String>()
    };
    let surface = |paper: &str, ink: &str, faint: &str| {
        format!(
            ".opcost-flame .paper{{fill:{paper}}}.opcost-flame text{{fill:{ink}}}\
             .opcost-flame .faint{{fill:{faint}}}.opcost-flame rect.frame{{stroke:{paper}}}\
             .opcost-flame rect.new{{stroke:{ink}}}.opcost-flame .stripe{{fill:{ink}}}"
        )
    };
    format!(
        ".opcost-flame text{{font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}}\
         .opcost-flame text.title{{font-size:15px;font-weight:bold}}\
         .opcost-flame rect.frame{{stroke-width:.5}}.opcost-flame rect.new{{stroke-width:1.2}}\
         .opcost-flame .stripe{{opacity:.45}}.opcost-flame g.f:hover rect{{opacity:.75}}\
         .opcost-flame.live .f{{cursor:pointer}}.opcost-flame .f[hidden]{{display:none}}\
         .opcost-flame .above{{opacity:.55}}.opcost-flame.searching .f:not(.hit){{opacity:.45}}\
         .opcost-flame .hit rect.frame{{stroke:currentColor;stroke-width:1.5}}\
         .opcost-flame .tools{{font:12px sans-serif;margin:0;text-align:right}}\
         {}{}@media(prefers-color-scheme:dark){{{}{}}}",
        surface("#ffffff", "#1b1b1b", "#5a5a5a"),
        fills(|color| color.1),
        surface("#16181c", "#ececec", "#a6a9b0"),
        fills(|color| color.2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_analysis::comparison::call_tree::fixture::tree;

    #[test]
    fn a_callers_colour_is_its_own_inclusive_change() {
        let tree = tree(
            &["off", "on"],
            &[
                (None, "main", &[(1, 1000), (1, 1000)]),
                (Some(0), "grew", &[(1, 0), (1, 6400)]),
                (Some(0), "shrank", &[(1, 6400), (1, 0)]),
                (Some(1), "half", &[(1, 0), (1, 3200)]),
                (Some(2), "tiny", &[(1, 1000), (1, 1001)]),
            ],
        );
        let changes = Changes::of(&tree);
        let class = |node| changes.class(Some(node));
        // grew +9,600 is the largest; main's +3,201 is a third of it; shrank −6,399 is two thirds.
        assert_eq!(changes.change(Some(1)), 9.6);
        assert_eq!([class(1), class(2), class(0)], ["u6", "d6", "u5"]);
        // The callee of `grew`: a third of the largest change. The last frame hardly changed.
        assert_eq!([class(3), class(4)], ["u5", "n"]);
        assert_eq!(changes.class(None), "u5", "all together is main");
        assert_eq!(changes.threshold(6), 4.8);
        assert_eq!(changes.threshold(1), 0.15);
    }

    #[test]
    fn nothing_is_coloured_where_nothing_changed() {
        let tree = tree(&["off", "on"], &[(None, "main", &[(1, 5), (1, 5)])]);
        assert_eq!(Changes::of(&tree).class(Some(0)), "n");
        assert_eq!(class_of_function("[unattributed]", ""), "n");
        assert!(class_of_function("read", KERNEL).starts_with('k'));
        assert!(class_of_function("read", "/lib/libc.so.6").starts_with('p'));
    }

    #[test]
    fn every_class_has_two_colours() {
        let style = style();
        for step in 1..=STEPS {
            for direction in ["u", "d"] {
                assert_eq!(style.matches(&format!(".{direction}{step}{{fill:")).count(), 2);
            }
        }
    }
}
