use super::*;
use crate::render::profile::any_tree::any_tree;
use opcost_analysis::comparison::call_tree::fixture::tree;
use proptest::prelude::*;

/// The texts between each `open` and the next `close`.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    text.split(open).skip(1).map(|rest| rest.split(close).next().unwrap()).collect()
}

/// The title and the rectangle's class, x, y and width of every frame.
fn drawn(svg: &str) -> Vec<(String, String, [f64; 3])> {
    let attribute =
        |frame: &str, name: &str| between(frame, &format!(" {name}=\""), "\"")[0].to_string();
    let frames = between(svg, "<g class=\"f\" ", "</g>");
    let frame = |frame: &&str| {
        let rect = between(frame, "<rect", "/>")[0];
        let number = |name: &str| attribute(rect, name).parse().unwrap();
        let title = between(frame, "<title>", "</title>")[0].to_string();
        (title, attribute(rect, "class"), [number("x"), number("y"), number("width")])
    };
    frames.iter().map(frame).collect()
}

fn made() -> CallTree {
    tree(
        &["native", "paravirt"],
        &[
            (None, "main@/bin/work", &[(1, 1000), (1, 1000)]),
            (Some(0), "fault", &[(500, 4000), (500, 5000)]),
            (Some(1), "identity", &[(0, 0), (900, 2000)]),
            (Some(0), "set_pte", &[(40, 3000), (0, 0)]),
        ],
    )
}

#[test]
fn a_differential_graph_has_both_sides_on_one_scale() {
    let svg = flame_graph(&made());
    let frames = drawn(&svg);
    let of = |name: &str| -> Vec<&(String, String, [f64; 3])> {
        frames.iter().filter(|(title, ..)| title.starts_with(name)).collect()
    };
    // 8 instructions/op each: both fill the width of 1,180.
    for (_, _, [x, _, width]) in of("everything") {
        assert_eq!((*x, *width), (10.0, 1180.0));
    }
    let fault = of("fault");
    let widths: Vec<f64> = fault.iter().map(|frame| frame.2[2]).collect();
    assert_eq!(widths, [1180.0 * 7.0 / 8.0, 1180.0 * 4.0 / 8.0], "the variant first");
    assert!(fault.iter().all(|frame| frame.1 == "frame u6"), "both have the colour of +3");
    assert_eq!(
        fault[0].0,
        "fault · [kernel]\n4 → 7 instructions/op: +3 (+37.50 % of native's total)\n\
         on its own 4 → 5, called 0.5000 → 0.5000 ×"
    );
    // The variant's frames grow upwards, the baseline's downwards.
    assert!(fault[0].2[1] < of("everything")[0].2[1]);
    assert!(fault[1].2[1] > of("everything")[1].2[1]);
    let [new] = of("identity")[..] else { panic!("drawn on the other side, too") };
    assert_eq!((new.1.as_str(), new.0.contains(", new")), ("frame u6 new", true));
    let [gone] = of("set_pte")[..] else { panic!("drawn on the other side, too") };
    assert_eq!((gone.1.as_str(), gone.0.contains(", gone")), ("frame d6", true));
    assert_eq!(gone.2[2], 1180.0 * 3.0 / 8.0, "with the width it had");
    assert!(svg.contains("<title>paravirt against native: +0 instructions/op (+0 %)</title>"));
    // main stayed the same in sum, though everything below it changed.
    assert!(of("main").iter().all(|frame| frame.1 == "frame n"));
    assert_eq!(svg.matches("url(#opcost-gone)").count(), 2, "the frame and the legend");
}

#[test]
fn a_graph_of_one_variant_says_costs_and_shares() {
    let tree = tree(
        &["one"],
        &[
            (None, "main@/bin/work", &[(1000, 1000)]),
            (Some(0), "read", &[(500, 3000)]),
            (None, "[unattributed]@", &[(0, 12)]),
        ],
    );
    let svg = flame_graph(&tree);
    let frames = drawn(&svg);
    let read = frames.iter().find(|(title, ..)| title.starts_with("read")).unwrap();
    assert_eq!(
        read.0,
        "read · [kernel]\n3 instructions/op (74.78 % of all)\non its own 3, called 0.5000 ×"
    );
    assert!(read.1.starts_with("frame k"));
    assert!(svg.contains("<title>one: 4.012 instructions/op</title>"));
    assert!(svg.contains("of 10 runs of recording 261121-c0ffee"));
}

#[test]
fn a_graph_that_stands_alone_zooms_and_searches_and_names_its_file() {
    let mut tree = tree(&["perf.data"], &[(None, "main]]></script>", &[(1, 100)])]);
    tree.sides[0].recording = "perf.data".into();
    let svg = flame_graph(&tree);
    assert!(svg.contains("with everything called, from perf.data"), "{svg:.900}");
    assert_eq!(between(&svg, "<script><![CDATA[\n", "]]></script>"), [SCRIPT]);
    assert!(!SCRIPT.contains("]]>") && SCRIPT.contains("search"));
    assert_eq!(svg.matches("<script").count(), 1);
    assert!(!flame_graph_of_page(&tree, 0).contains("<script"), "a page has its own");
}

#[test]
fn names_are_escaped_and_the_method_of_long_ones_shows() {
    let name = "std::map<int, \"a\" & 'b'>\u{1}::operator[](std::pair<unsigned long, unsigned long> const&)";
    let tree = tree(&["<one>"], &[(None, name, &[(1, 100)]), (None, "other", &[(1, 900)])]);
    let svg = flame_graph(&tree);
    assert!(svg.contains("std::map&lt;int, &quot;a&quot; &amp; 'b'&gt;\\u{1}::operator"));
    assert!(svg.contains("&lt;one&gt;: 1 instructions/op"));
    let labels = between(&svg, "<text x=", "</text>");
    assert!(labels.iter().any(|label| label.ends_with("…operator[](…)")), "{labels:?}");
    assert!(!svg.contains("<one>") && !svg.contains('\u{1}'));
}

#[test]
fn what_is_too_narrow_is_counted() {
    let tree = tree(
        &["one"],
        &[(None, "wide", &[(1, 10_000_000)]), (None, "a", &[(1, 1)]), (None, "b", &[(1, 2)])],
    );
    let svg = flame_graph(&tree);
    assert!(svg.contains("2 frames narrower than 0.1 px are not drawn"));
    assert_eq!(drawn(&svg).len(), 2);
}

#[test]
fn an_empty_profile_is_drawn_too() {
    let nothing = tree(&["off", "on"], &[(None, "main", &[(0, 0), (0, 0)])]);
    assert_eq!(drawn(&flame_graph(&nothing)).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn elements_are_closed_and_frames_stay_on_the_page(tree in any_tree()) {
        let svg = flame_graph(&tree);
        for element in ["svg", "g", "title", "text", "style", "defs"] {
            let opened = svg.matches(&format!("<{element}>")).count()
                + svg.matches(&format!("<{element} ")).count();
            prop_assert_eq!(opened, svg.matches(&format!("</{element}>")).count(), "{}", element);
        }
        for (title, _, [x, _, width]) in drawn(&svg) {
            prop_assert!(x >= 9.99 && x + width <= 1190.02, "{}: {} {}", title, x, width);
        }
    }
}
