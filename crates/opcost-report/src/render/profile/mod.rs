//! Profiles for other tools: one file and one row of [`PROFILE_FORMATS`] for each format.
//!
//! Every format has the integers that were counted, summed over the counted runs.

#[cfg(test)]
mod any_tree;
pub mod callgrind;
mod firefox;
pub mod flame;
mod folded;
mod pprof;
mod speedscope;

use anyhow::{Result, bail};
use callgrind::LineCosts;
use opcost_analysis::comparison::call_tree::CallTree;
use opcost_profile::table::FunctionTable;
use opcost_steps::Side;

/// How many runs were added up; empty for a single run.
fn of_runs(runs: u64) -> String {
    if runs == 1 { String::new() } else { format!(" of {runs} runs") }
}

/// Renders one operation's steps.
pub type RenderSteps = fn(&Side<'_>) -> Result<Vec<u8>>;

/// A format of profiles.
pub struct ProfileFormat {
    /// The name in `--export-NAME`.
    pub name: &'static str,
    /// The sentence in the help text.
    pub help: &'static str,
    /// The most variants that one file can hold.
    pub variants_max: usize,
    render: fn(&CallTree) -> Result<Vec<u8>>,
    /// For formats that have source lines: renders a tree with the costs of its lines.
    render_lines: Option<fn(&CallTree, &LineCosts) -> String>,
    /// For formats that need no stacks: renders a profile with its event and name.
    render_table: Option<fn(&FunctionTable, &str, &str) -> String>,
    /// For formats of one operation's steps: renders those, in place of a tree.
    pub render_steps: Option<RenderSteps>,
}

impl ProfileFormat {
    /// Renders a tree.
    ///
    /// # Errors
    /// The format cannot represent the tree.
    pub fn render(&self, tree: &CallTree) -> Result<Vec<u8>> {
        (self.render)(tree)
    }

    /// Renders a tree with the costs of source lines, which `lines` finds if the format has lines.
    ///
    /// # Errors
    /// The format cannot represent the tree.
    pub fn render_lines(
        &self,
        tree: &CallTree,
        lines: impl FnOnce() -> LineCosts,
    ) -> Result<Vec<u8>> {
        match self.render_lines {
            Some(render) => Ok(render(tree, &lines()).into_bytes()),
            None => self.render(tree),
        }
    }

    /// Renders a profile without stacks; `None` if the format needs stacks.
    ///
    /// `event`: the event whose cost it holds; `name`: the profile's name.
    pub fn render_table(&self, table: &FunctionTable, event: &str, name: &str) -> Option<Vec<u8>> {
        self.render_table.map(|render| render(table, event, name).into_bytes())
    }
}

/// Every format of profiles.
pub static PROFILE_FORMATS: &[ProfileFormat] = &[
    ProfileFormat {
        name: "folded",
        help: "folded stacks with their instructions; of two variants two columns, as difffolded.pl has",
        variants_max: 2,
        render: |tree| Ok(folded::render(tree).into_bytes()),
        render_lines: None,
        render_table: None,
        render_steps: None,
    },
    ProfileFormat {
        name: "flamegraph",
        help: "a flame graph (SVG); of two variants a differential one",
        variants_max: 2,
        render: |tree| Ok(flame::flame_graph(tree).into_bytes()),
        render_lines: None,
        render_table: None,
        render_steps: None,
    },
    ProfileFormat {
        name: "speedscope",
        help: "JSON for speedscope, one profile a variant",
        variants_max: usize::MAX,
        render: speedscope::render,
        render_lines: None,
        render_table: None,
        render_steps: None,
    },
    ProfileFormat {
        name: "pprof",
        help: "for go tool pprof, one sample type a variant",
        variants_max: usize::MAX,
        render: pprof::render,
        render_lines: None,
        render_table: None,
        render_steps: None,
    },
    ProfileFormat {
        name: "firefox",
        help: "JSON for the Firefox Profiler, one thread a variant",
        variants_max: usize::MAX,
        render: firefox::render,
        render_lines: None,
        render_table: None,
        render_steps: None,
    },
    ProfileFormat {
        name: "chrome",
        help: "one operation step by step, for Chrome's trace viewer and Perfetto; a microsecond is an instruction",
        variants_max: 1,
        render: |_| bail!("one operation step by step is in recordings made with --steps"),
        render_lines: None,
        render_table: None,
        render_steps: Some(|side| {
            let trace = opcost_steps::chrome::render(side);
            Ok(opcost_base::json::line(&trace, "the steps")?.into_bytes())
        }),
    },
    ProfileFormat {
        name: "callgrind",
        help: "for KCachegrind and callgrind_annotate: costs and calls; calls that were not counted are 1",
        variants_max: 1,
        render: |tree| Ok(callgrind::render_lines(tree, &LineCosts::new()).into_bytes()),
        render_lines: Some(callgrind::render_lines),
        render_table: Some(callgrind::render_table),
        render_steps: None,
    },
];
