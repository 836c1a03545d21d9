//! `--annotate`: a function of a profile by source line and by instruction.

use crate::command::globals::Globals;
use crate::command::output::{print, write_whole};
use anyhow::{Context, Result};
use clap::Args;
use opcost_analysis::annotation::{Annotation, CodeFacts, addresses, annotate, decoded};
use opcost_base::exit::{Status, WithStatus};
use opcost_page::document::Document;
use opcost_page::writer::text::text;
use opcost_profile::annotate::{Own, Program, SourceRoot, charged, source_text};
use opcost_profile::read::ReadProfile;
use opcost_profile::symbolise::{Sources, lines};
use opcost_record::Function;
use opcost_report::render::html;
use serde_json::Value;
use std::path::PathBuf;

/// What is shown of a function's lines.
#[derive(Args, Clone, Debug, Default)]
pub struct AnnotateArgs {
    /// Show this function's source lines and instructions with their costs; without a name the function
    /// with the highest cost
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
/// [`AnnotateError`](opcost_profile::annotate::AnnotateError), or the code cannot be disassembled.
pub(crate) fn of_samples(
    profiles: &[&ReadProfile],
    function: &Function,
    sources: &Sources,
    roots: &[SourceRoot],
) -> Result<Annotation> {
    let mut program: Option<Program> = None;
    let mut runs = Vec::new();
    for profile in profiles {
        let none = Default::default();
        let sampled = profile.sampled.as_ref().unwrap_or(&none);
        let found = charged(sampled, function).status(Status::Usage)?;
        let program = match &program {
            Some(program) => program,
            None => program.insert(Program::sampled(found.file, sources).status(Status::Usage)?),
        };
        let place = |(offset, own): (u64, Own)| Some((program.address(offset)?, own));
        runs.push(found.costs.into_iter().filter_map(place).collect::<Vec<_>>());
    }
    let totals = profiles.iter().map(|profile| profile.table.total).collect();
    let Some(program) = program else { anyhow::bail!("no profile to annotate") };
    of_program(&program, function, &runs, totals, sources, roots)
}

/// A function of a program by line.
fn of_program(
    program: &Program,
    function: &Function,
    runs: &[Vec<(u64, Own)>],
    totals: Vec<u64>,
    sources: &Sources,
    roots: &[SourceRoot],
) -> Result<Annotation> {
    let costed: Vec<u64> = runs.iter().flatten().map(|(address, _)| *address).collect();
    let pieces = program.pieces(function, &costed).status(Status::Usage)?;
    let code = decoded(program, &pieces, runs).status(Status::Usage)?;
    let lines = lines(&program.path, &addresses(&code), sources);
    let text = |file| source_text(file, roots, program.modified);
    let sources = lines.files.iter().map(text).collect();
    let facts = CodeFacts { function, pieces: code, lines: &lines, sources, runs, totals };
    Ok(annotate(facts))
}
