//! Finds sites for patchpoint in the functions of a comparison that changed most, where instructions were counted by address.
//!
//! The code of functions is in files, which must be the recorded ones. A recording that came from elsewhere names files of another
//! computer, so nothing is read for it. No server is asked for debug information either: a comparison prints without a network.

use crate::recorded_code::recorded_program;
use opcost_analysis::annotation::{CodeFacts, addresses, annotate, decoded};
use opcost_analysis::comparison::address_runs::AddressRuns;
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_analysis::comparison::{Comparison, FunctionRow};
use opcost_analysis::patch_sites::{FoundSite, PatchSite, patch_sites};
use opcost_model::recording::Recording;
use opcost_profile::annotate::Program;
use opcost_profile::symbolise::{CodeLines, KernelSource, Sources, lines};
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
    for functions in comparison.functions.iter().filter(|functions| functions.shifted()) {
        let sides = [functions.baseline, functions.variant];
        let (rows, ..) = functions.leading(FUNCTIONS_MAX);
        let mut found: Vec<FoundSite> = Vec::new();
        for of in [sides[1], sides[0]] {
            for site in of_variant(VariantOf { recording, variant: of }, rows, &sources) {
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

/// The sites of a variant in the functions of some rows.
fn of_variant(variant: VariantOf<'_>, rows: &[FunctionRow], sources: &Sources) -> Vec<FoundSite> {
    let Ok(runs) = AddressRuns::of(variant) else { return Vec::new() };
    let known = runs.in_files();
    let mut programs: BTreeMap<&str, Option<Program>> = BTreeMap::new();
    let mut found = Vec::new();
    for row in rows {
        let modules = [Some(&row.module), row.module_baseline.as_ref()];
        let is_row = |module: &String| modules.contains(&Some(module));
        let of_row = known
            .iter()
            .find(|one| one.function.symbol == row.symbol && is_row(&one.function.module));
        let Some(of_row) = of_row else { continue };
        let function = of_row.function;
        let program = programs.entry(&function.module).or_insert_with(|| {
            recorded_program(variant.recording, variant.variant, &function.module, sources).ok()
        });
        let Some(program) = program else { continue };
        let costs = runs.costs(of_row.number);
        let costed = costs.iter().flatten().map(|(address, _)| *address);
        let Ok(pieces) = program.pieces(function, costed) else { continue };
        let Ok(code) = decoded(program, &pieces, &costs) else { continue };
        // Only sites need lines.
        let none =
            CodeLines { places: vec![Vec::new(); addresses(&code).len()], ..CodeLines::default() };
        let facts = CodeFacts {
            function,
            pieces: code,
            lines: &none,
            sources: Vec::new(),
            runs: &costs,
            totals: runs.totals(),
            flow: runs.flow(of_row.number),
        };
        let sites = patch_sites(&annotate(facts));
        let places = places(program, &sites, sources);
        found.extend(sites.into_iter().zip(places).map(|(site, place)| FoundSite {
            sides: [variant.variant; 2],
            of: variant.variant,
            function: row.symbol.clone(),
            place,
            site,
        }));
    }
    found
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
