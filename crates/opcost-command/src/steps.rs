//! The source lines of the branches at which operations part.
//!
//! Lines are in files, which must be the recorded ones. A recording that came from elsewhere names files of another computer, so
//! nothing is read for it.

use opcost_analysis::comparison::Comparison;
use opcost_attribution::function_costs::profiled_runs;
use opcost_lab::recorded_code::recorded_program;
use opcost_model::recording::Recording;
use opcost_profile::symbolise::{KernelSource, Sources, lines};
use opcost_symbols::debug_files::DebugFiles;

/// Adds the lines that are found; `limit_bytes`: the most memory that reading one file may take.
pub fn add_lines(comparison: &mut Comparison, recording: &Recording, limit_bytes: u64) {
    if comparison.steps.is_empty() || recording.arrived_unix_ns.is_some() {
        return;
    }
    let sources = Sources {
        kernel: KernelSource::Running,
        debug_files: DebugFiles::of_environment(None),
        build_id_cache: None,
        inlined: true,
        limit_bytes,
    };
    let runs = profiled_runs(recording);
    for found in &mut comparison.steps {
        let variants = found.sides;
        let partings = found.parting.iter_mut().chain(&mut found.calls_part);
        let sides = partings.flat_map(|parting| variants.into_iter().zip(&mut parting.sides));
        for (variant, side) in sides {
            let Some(branch) = &mut side.branch else { continue };
            // All runs of a variant number their functions alike only by chance: the address says the same in each.
            let module = runs.iter().filter(|run| run.variant == variant).find_map(|run| {
                let steps = run.profile.steps.as_ref()?;
                let known = steps
                    .branches
                    .iter()
                    .find(|one| (one.function, one.address) == (branch.function, branch.address))?;
                run.profile.functions.get(known.function as usize)
            });
            let Some(function) = module else { continue };
            let program = recorded_program(recording, variant, &function.module, &sources);
            let Ok(program) = program else { continue };
            let found = lines(&program.path, &[branch.address], &sources);
            let at = found.places.first().and_then(|place| place.last());
            branch.line = at.and_then(|at| {
                let file = &found.files.get(at.file? as usize)?.path;
                let name = file.rsplit('/').next().unwrap_or(file);
                Some(format!("{name}:{}", at.line?))
            });
        }
    }
}
