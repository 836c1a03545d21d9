//! The flame graphs of a recording with profiles: a differential graph for each comparison, a plain
//! graph for a single variant.

use super::whose;
use crate::render::View;
use crate::render::profile::flame::flame_graph_of_page;
use maud::{Markup, PreEscaped, html};
use opcost_analysis::comparison::FunctionCosts;
use opcost_analysis::comparison::call_tree::{CallTree, VariantOf};

/// The script that zooms and searches; the graphs are complete without it.
pub(super) const SCRIPT: &str = include_str!("flame.js");
/// The most graphs of one page; more would make the page too heavy to open.
const GRAPHS_MAX: usize = 4;

/// Returns `None` if no runs have profiles or the runs may not be compared.
pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    let comparison = view.comparison;
    if comparison.refused() || comparison.ranking.is_some() {
        return None;
    }
    let graph = |at: usize, sides: &[usize]| {
        let of = |variant: &usize| VariantOf { recording: view.recording, variant: *variant };
        let tree = CallTree::of(&sides.iter().map(of).collect::<Vec<_>>()).ok()?;
        Some(html! {
            @if let [baseline, variant] = sides { (whose(view, [*baseline, *variant])) }
            @else if comparison.variants.len() > 1 { h3 { (comparison.variants[sides[0]].name) } }
            // The graph escapes text from outside itself, as the page's template does.
            div class="flame" { (PreEscaped(flame_graph_of_page(&tree, at))) }
        })
    };
    // A function has no counterpart in a variant that is only shown beside.
    let plan = &view.recording.plan;
    let beside = |costs: &FunctionCosts| vec![costs.variant];
    let alone = comparison.function_costs.iter().map(beside);
    let pairs = comparison.comparisons.iter().filter(|sides| plan.apart(**sides).is_none());
    let pairs = pairs.map(|&(baseline, variant)| vec![baseline, variant]);
    let graphs = pairs.take(GRAPHS_MAX).chain(alone).enumerate();
    let graphs: Vec<Markup> = graphs.filter_map(|(at, sides)| graph(at, &sides)).collect();
    let more = comparison.comparisons.len().saturating_sub(GRAPHS_MAX);
    (!graphs.is_empty()).then(|| {
        html! {
            p {
                "Point at a frame to read its name and figures. A picture of its own, with every frame: "
                code { "opcost show " (comparison.recording) " --export-flamegraph FILE" }
                @if more > 0 { ", which also has the " (more) " comparisons left out here" }
                "."
            }
            @for graph in graphs { (graph) }
            // The template would escape the script. The script is opcost's own, and the page's policy names its hash.
            script { (PreEscaped(SCRIPT)) }
        }
    })
}
