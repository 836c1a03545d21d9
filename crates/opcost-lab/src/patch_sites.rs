//! Finds sites for patchpoint in the functions of a comparison that changed most, where instructions were counted by address.
//!
//! The code of functions is in files, which must be the recorded ones. A recording that came from elsewhere names files of another
//! computer, so nothing is read for it. No server is asked for debug information either: a comparison prints without a network.

use crate::recorded_code::recorded_program;
use opcost_analysis::annotation::{CodeFacts, addresses, annotate, code_names, decoded};
use opcost_analysis::comparison::address_runs::{AddressRuns, CountedFunction};
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_analysis::comparison::{Comparison, FunctionRow};
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
    let is_counted = recording.profiles.iter().any(|(_, profile)| !profile.addresses.is_empty());
    if comparison.refused() || recording.arrived_unix_ns.is_some() || !is_counted {
        return;
    }
    let sources = Sources {
        kernel: KernelSource::Running,
        debug_files: DebugFiles::of_environment(None),
        build_id_cache: None,
        inlined: true,
        limit_bytes,
    };
    let mut all = Vec::new();
    let mut searched: BTreeMap<usize, Option<Searched<'_>>> = BTreeMap::new();
    for functions in comparison.functions.iter().filter(|functions| functions.shifted()) {
        let sides = [functions.baseline, functions.variant];
        let (rows, ..) = functions.leading(FUNCTIONS_MAX);
        let mut found: Vec<FoundSite> = Vec::new();
        for of in [sides[1], sides[0]] {
            let variant = searched
                .entry(of)
                .or_insert_with(|| Searched::of(VariantOf { recording, variant: of }));
            let Some(variant) = variant else { continue };
            for site in variant.sites(rows, &sources) {
                let site = FoundSite { sides, of, ..site };
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
        all.extend(found);
    }
    comparison.patch_sites = all;
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
    /// `None` if the variant has no costs by address.
    fn of(variant: VariantOf<'a>) -> Option<Searched<'a>> {
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
                sites_of(self.variant.variant, &self.runs, of_row, (program, names), sources)
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
    variant: usize,
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
        sides: [variant; 2],
        of: variant,
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
