//! `--annotate`: a function of a profile by source line and by instruction.

use anyhow::{Context, Result};
use clap::Args;
use opcost_analysis::annotation::{
    Annotation, CodeFacts, Flow, addresses, annotate, annotate_lines, code_names, decoded,
};
use opcost_analysis::comparison::address_costs::{VariantAddresses, address_costs};
use opcost_analysis::comparison::address_runs::{AddressRuns, CountedFunction, by_change};
use opcost_analysis::comparison::annotated::{AnnotatedDifference, counted_difference};
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_base::exit::{HasStatus, Status, WithStatus};
use opcost_command::function_option::{on_both_sides, the_function};
use opcost_command::globals::Globals;
use opcost_command::output::{print, write_whole};
use opcost_lab::recorded_code::recorded_program;
use opcost_page::document::Document;
use opcost_page::writer::text::text;
use opcost_profile::annotate::{
    AnnotateError, FirstShown, FunctionCode, Own, Program, SourceRoot, first_shown, function_code,
    source_text,
};
use opcost_profile::read::ReadProfile;
use opcost_profile::symbolise::{CodeLines, LineAt, Sources, lines};
use opcost_record::{AddressCost, AddressCosts, Function};
use opcost_report::render::html;
use opcost_report::render::profile::callgrind::{FunctionLines, LineCosts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is shown of a function's lines.
#[derive(Args, Clone, Debug, Default)]
pub struct AnnotateArgs {
    /// Show the cost of this function by source line and by instruction; without a name the function with
    /// the highest cost, of diff the one that changed most. diff takes OLD=NEW if the function has another
    /// name on each side
    #[arg(long, value_name = "FUNCTION", num_args = 0..=1, default_missing_value = "")]
    annotate: Option<String>,

    /// Look for source files below DIR; with OLD=, only for those whose paths began with OLD when they were
    /// compiled. May be repeated; diff takes the first of two for the baseline and the second for the variant
    #[arg(long, value_name = "[OLD=]DIR", requires = "annotate")]
    source_root: Vec<SourceRoot>,

    /// Write the annotated function as a page for a browser
    #[arg(long, value_name = "FILE", requires = "annotate")]
    html: Option<PathBuf>,
}

impl AnnotateArgs {
    /// Whether lines are asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.annotate.is_some()
    }

    /// The function's name, if one is given.
    pub(crate) fn function(&self) -> Option<&str> {
        self.annotate.as_deref().filter(|name| !name.is_empty())
    }

    /// Takes the word behind `--annotate` for an argument of the command, if it is one.
    pub(crate) fn take_word(&mut self) -> Option<String> {
        self.annotate.replace(String::new()).filter(|word| !word.is_empty())
    }

    /// The folders with the sources of a side.
    pub(crate) fn roots(&self, side: usize) -> &[SourceRoot] {
        match &self.source_root[..] {
            [one, two] => std::slice::from_ref([one, two][side]),
            all => all,
        }
    }

    /// All folders with sources.
    pub(crate) fn all_roots(&self) -> &[SourceRoot] {
        &self.source_root
    }

    /// Prints and writes a report.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn show(
        &self,
        globals: &Globals,
        full_names: bool,
        document: &Document,
        json: Option<Value>,
    ) -> Result<Status> {
        if let Some(path) = &self.html {
            let title = self.function().unwrap_or("the function with the highest cost");
            let page = html::page_of(&format!("{title} – opcost --annotate"), document);
            write_whole(path, page.as_bytes(), 0o666)
                .with_context(|| format!("cannot write '{}'", path.display()))
                .status(Status::Missing)?;
        }
        match json {
            Some(json) => print(&opcost_base::json::document(&json, "annotation")?)?,
            None => print(&text(document, &globals.style().with_full_names(full_names)))?,
        }
        Ok(Status::Done)
    }
}

/// A function of sampled profiles by line; each profile is a run.
///
/// # Errors
/// [`AnnotateError`], or the code cannot be disassembled.
pub(crate) fn of_samples(
    profiles: &[&ReadProfile],
    function: &Function,
    sources: &Sources,
    roots: &[SourceRoot],
) -> Result<Annotation> {
    let totals = profiles.iter().map(|profile| profile.table.total).collect();
    match function_code(profiles, function, sources).status(Status::Usage)? {
        FunctionCode::Program(program, runs) => {
            of_program(&program, function, &runs, totals, Flow::default(), sources, roots)
        }
        FunctionCode::Lines(lines) => {
            let text = |file| source_text(file, roots, lines.modified);
            let texts = lines.files.iter().map(text).collect();
            Ok(annotate_lines(function, &lines, texts, totals))
        }
    }
}

/// The number of the function that a name means.
pub(crate) fn find_function(
    variant: VariantOf<'_>,
    functions: &[CountedFunction<'_>],
    name: &str,
) -> Result<usize> {
    let known: Vec<&Function> = functions.iter().map(|one| one.function).collect();
    Ok(functions[the_function("--annotate", variant.name(), &known, name)?].number)
}

/// Compares a function of two variants by line; without a name, the first that can be shown of those whose cost changed most, with
/// the reason that another one is not.
///
/// # Errors
/// As for [`of_variant`]; a variant has no costs by address, or no such function.
pub(crate) fn of_two_variants(
    args: &AnnotateArgs,
    variants: [VariantOf<'_>; 2],
    sources: &Sources,
) -> Result<FirstShown<AnnotatedDifference>> {
    let runs = |side: usize| AddressRuns::of(variants[side]).map_err(HasStatus::carried);
    let runs = [runs(0)?, runs(1)?];
    let functions = runs.each_ref().map(AddressRuns::in_files);
    let operations = runs.each_ref().map(AddressRuns::operations);
    let shown = |chosen: [usize; 2]| -> Result<[Annotation; 2]> {
        let side = |side: usize| {
            of_variant(variants[side], &runs[side], chosen[side], sources, args.roots(side))
        };
        Ok([side(0)?, side(1)?])
    };
    let (sides, hidden) = match args.function() {
        Some(name) => {
            let find =
                |side: usize, name: &str| find_function(variants[side], &functions[side], name);
            (shown(on_both_sides(name, find)?)?, None)
        }
        None => {
            let about = |(numbers, change): ([usize; 2], f64)| {
                let symbol = &runs[1].functions()[numbers[1]].0.symbol;
                format!("{symbol} changed by {change:+.0} instructions")
            };
            let changed = by_change(runs.each_ref()).into_iter();
            let found = first_shown(changed, |(numbers, _)| shown(numbers), about);
            found.ok_or(AnnotateError::NothingInCommon).status(Status::Usage)??
        }
    };
    let names = variants.map(|variant| variant.name().to_string());
    let names = match names[0] == names[1] {
        true => variants.map(|variant| variant.recording.id.clone()),
        false => names,
    };
    let per_op = operations.iter().all(|(_, known)| *known);
    let ones = operations.map(|(ops, _)| if per_op { ops } else { vec![1; ops.len()] });
    Ok((counted_difference(names, sides, ones, per_op), hidden))
}

/// A function of a variant by line.
///
/// # Errors
/// As for [`of_samples`]; the program is not the recorded one.
pub(crate) fn of_variant(
    variant: VariantOf<'_>,
    runs: &AddressRuns<'_>,
    function: usize,
    sources: &Sources,
    roots: &[SourceRoot],
) -> Result<Annotation> {
    let (flow, costs) = (runs.flow(function), runs.costs(function));
    let function = runs.functions()[function].0;
    let program = recorded_program(variant.recording, variant.variant, &function.module, sources)
        .status(Status::Usage)?;
    of_program(&program, function, &costs, runs.totals(), flow, sources, roots)
}

/// The costs of a variant by source line; empty without costs by address. A function of a file that is not the recorded one, or
/// that has no line table, has no lines.
pub(crate) fn line_costs(variant: VariantOf<'_>, sources: &Sources) -> LineCosts {
    let mut found = LineCosts::new();
    let Ok(VariantAddresses { costs: AddressCosts { functions, costs, .. }, .. }) =
        address_costs(variant)
    else {
        return found;
    };
    let mut modules: BTreeMap<&str, Vec<&AddressCost>> = BTreeMap::new();
    for cost in &costs {
        modules.entry(&functions[cost.function as usize].module).or_default().push(cost);
    }
    for (module, costs) in modules {
        let Ok(program) = recorded_program(variant.recording, variant.variant, module, sources)
        else {
            continue;
        };
        let mut addresses: Vec<u64> = costs.iter().map(|cost| cost.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let CodeLines { places, files, .. } = lines(&program.path, &addresses, sources);
        let place = |at: Option<&LineAt>| -> (String, u32) {
            let file = at.and_then(|at| files.get(at.file? as usize));
            let line = at.and_then(|at| at.line).unwrap_or(0);
            (file.map(|file| file.path.clone()).unwrap_or_default(), line)
        };
        for cost in costs {
            let Ok(at) = addresses.binary_search(&cost.address) else { continue };
            let (outer, inner) = (place(places[at].first()), place(places[at].last()));
            let function = functions[cost.function as usize].clone();
            // Instructions of a function come in ascending order, its first line first.
            let lines = found.entry(function).or_insert_with(|| {
                let (file, line) = outer;
                FunctionLines { file, line, costs: BTreeMap::new() }
            });
            let sum = lines.costs.entry(inner).or_default();
            *sum = sum.saturating_add(cost.cost);
        }
    }
    // Nothing is known of a function without any line.
    found.retain(|_, lines| lines.costs.keys().any(|(_, line)| *line > 0));
    found
}

/// A function of a program by line.
fn of_program(
    program: &Program,
    function: &Function,
    runs: &[Vec<(u64, Own)>],
    totals: Vec<u64>,
    flow: Flow,
    sources: &Sources,
    roots: &[SourceRoot],
) -> Result<Annotation> {
    let costed = runs.iter().flatten().map(|(address, _)| *address);
    let pieces = program.pieces(function, costed).status(Status::Usage)?;
    let names = code_names(program).status(Status::Usage)?;
    let code = decoded(program, &names, &pieces, runs).status(Status::Usage)?;
    let lines = lines(&program.path, &addresses(&code), sources);
    let text = |file| source_text(file, roots, program.modified);
    let sources = lines.files.iter().map(text).collect();
    let facts = CodeFacts { function, pieces: code, lines: &lines, sources, runs, totals, flow };
    Ok(annotate(facts))
}
