//! Finds sites for patchpoint in the functions of a comparison that changed most, where instructions were counted by address.
//!
//! The code of functions is in files, which must be the recorded ones. A recording that came from elsewhere names files of another
//! computer, so nothing is read for it. No server is asked for debug information either: a comparison prints without a network.

use crate::recorded_code::recorded_program;
use opcost_analysis::annotation::{CodeFacts, addresses, annotate, code_names, decoded};
use opcost_analysis::comparison::address_runs::{AddressRuns, CountedFunction};
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_analysis::comparison::{Comparison, FunctionComparison, FunctionRow};
use opcost_analysis::patch_sites::{FoundSite, PatchSite, patch_sites};
use opcost_model::recording::Recording;
use opcost_profile::annotate::Program;
use opcost_profile::symbolise::{CodeLines, KernelSource, Sources, lines};
use opcost_size::CodeNames;
use opcost_symbols::debug_files::DebugFiles;
use std::collections::BTreeMap;

/// The most functions of a comparison whose code is read.
const FUNCTIONS_MAX: usize = 8;

/// Adds the sites of each comparison.
///
/// `limit_bytes`: the most memory that reading one file may take.
pub fn add(comparison: &mut Comparison, recording: &Recording, limit_bytes: u64) {
    if comparison.refused() {
        return;
    }
    let sources = sources(limit_bytes);
    let mut searched: BTreeMap<usize, Option<Searched<'_>>> = BTreeMap::new();
    let mut all = Vec::new();
    for functions in comparison.functions.iter().filter(|functions| functions.shifted()) {
        let sides = [functions.baseline, functions.variant];
        let found = found(functions, |side, rows| {
            let variant = sides[side];
            let of_variant = || Searched::of(VariantOf { recording, variant });
            let searched = searched.entry(variant).or_insert_with(of_variant);
            searched.as_mut().map(|one| one.sites(rows, &sources)).unwrap_or_default()
        });
        all.extend(found.into_iter().map(|site| FoundSite { sides, of: sides[site.of], ..site }));
    }
    comparison.patch_sites = all;
}

/// The sites in the functions that differ most between two variants, those that take most away first; both are numbered from 0.
///
/// `limit_bytes`: the most memory that reading one file may take.
pub fn between(
    variants: [VariantOf<'_>; 2],
    functions: &FunctionComparison,
    limit_bytes: u64,
) -> Vec<FoundSite> {
    if !functions.shifted() {
        return Vec::new();
    }
    let sources = sources(limit_bytes);
    let mut searched = variants.map(Searched::of);
    found(functions, |side, rows| {
        searched[side].as_mut().map(|one| one.sites(rows, &sources)).unwrap_or_default()
    })
}

fn sources(limit_bytes: u64) -> Sources {
    Sources {
        kernel: KernelSource::Running,
        debug_files: DebugFiles::of_environment(None),
        build_id_cache: None,
        inlined: true,
        limit_bytes,
    }
}

/// The sites of both sides, numbered 0 and 1; `sites` finds those of a side in some rows.
fn found(
    functions: &FunctionComparison,
    mut sites: impl FnMut(usize, &[FunctionRow]) -> Vec<FoundSite>,
) -> Vec<FoundSite> {
    let (rows, ..) = functions.leading(FUNCTIONS_MAX);
    let mut found: Vec<FoundSite> = Vec::new();
    for of in [1, 0] {
        for site in sites(of, rows) {
            let site = FoundSite { of, ..site };
            // A site of both sides is named once, as the variant executed it, unless it costs more on one side.
            let beside = |of: &FoundSite| of.site.removed / of.site.executions.max(1);
            let is_same = |known: &FoundSite| {
                (&known.function, &known.place) == (&site.function, &site.place)
                    && known.site.kind == site.site.kind
                    && beside(known) == beside(&site)
            };
            if !found.iter().any(is_same) {
                found.push(site);
            }
        }
    }
    found.sort_by_key(|one| {
        (u64::MAX - one.site.removed, u64::MAX - one.site.executions, one.site.address)
    });
    found
}

/// A variant whose code is searched. A variant may be a side of several comparisons, and to read a program takes long, so that each
/// program is read once and each function is searched once.
struct Searched<'a> {
    variant: VariantOf<'a>,
    runs: AddressRuns<'a>,
    programs: BTreeMap<String, Option<(Program, CodeNames)>>,
    /// The sites of each function, by its place in `runs`.
    found: BTreeMap<usize, Vec<FoundSite>>,
}

impl<'a> Searched<'a> {
    /// `None` if the variant came from elsewhere or has no costs by address.
    fn of(variant: VariantOf<'a>) -> Option<Searched<'a>> {
        if variant.recording.arrived_unix_ns.is_some() {
            return None;
        }
        let runs = AddressRuns::of(variant).ok()?;
        Some(Searched { variant, runs, programs: BTreeMap::new(), found: BTreeMap::new() })
    }

    /// The sites in the functions of some rows.
    fn sites(&mut self, rows: &[FunctionRow], sources: &Sources) -> Vec<FoundSite> {
        let known = self.runs.in_files();
        let mut all = Vec::new();
        for row in rows {
            let modules = [Some(&row.module), row.module_baseline.as_ref()];
            let is_row = |module: &String| modules.contains(&Some(module));
            let of_row = known
                .iter()
                .find(|one| one.function.symbol == row.symbol && is_row(&one.function.module));
            let Some(of_row) = of_row else { continue };
            if let Some(found) = self.found.get(&of_row.number) {
                all.extend(found.iter().cloned());
                continue;
            }
            let module = &of_row.function.module;
            let program = self.programs.entry(module.clone()).or_insert_with(|| {
                let VariantOf { recording, variant } = self.variant;
                let program = recorded_program(recording, variant, module, sources).ok()?;
                let names = code_names(&program).ok()?;
                Some((program, names))
            });
            let found = program.as_ref().and_then(|(program, names)| {
                sites_of(&self.runs, of_row, (program, names), sources)
            });
            let found = found.unwrap_or_default();
            all.extend(found.iter().cloned());
            self.found.insert(of_row.number, found);
        }
        all
    }
}

/// The sites of a function; `None` if its code cannot be read.
fn sites_of(
    runs: &AddressRuns<'_>,
    of: &CountedFunction<'_>,
    (program, names): (&Program, &CodeNames),
    sources: &Sources,
) -> Option<Vec<FoundSite>> {
    let costs = runs.costs(of.number);
    let costed = costs.iter().flatten().map(|(address, _)| *address);
    let pieces = program.pieces(of.function, costed).ok()?;
    let code = decoded(program, names, &pieces, &costs).ok()?;
    // Only sites need lines.
    let none =
        CodeLines { places: vec![Vec::new(); addresses(&code).len()], ..CodeLines::default() };
    let facts = CodeFacts {
        function: of.function,
        pieces: code,
        lines: &none,
        sources: Vec::new(),
        runs: &costs,
        totals: runs.totals(),
        flow: runs.flow(of.number),
    };
    let sites = patch_sites(&annotate(facts));
    let places = places(program, &sites, sources);
    let found = sites.into_iter().zip(places).map(|(site, place)| FoundSite {
        sides: [0, 1],
        of: 1,
        function: of.function.symbol.clone(),
        place,
        site,
    });
    Some(found.collect())
}

/// The file and the line of each site, in the innermost inlined function.
fn places(program: &Program, sites: &[PatchSite], sources: &Sources) -> Vec<Option<(String, u32)>> {
    let mut addresses: Vec<u64> = sites.iter().map(|site| site.address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() {
        return Vec::new();
    }
    let CodeLines { places, files, .. } = lines(&program.path, &addresses, sources);
    let place = |site: &PatchSite| {
        let at = addresses.binary_search(&site.address).ok()?;
        let inner = places[at].last()?;
        Some((files.get(inner.file? as usize)?.path.clone(), inner.line?))
    };
    sites.iter().map(place).collect()
}
