//! Asks git which commits touched the files of kernel functions, if kernels are commits of one tree.

use opcost_analysis::comparison::Comparison;
use opcost_analysis::comparison::kernel_sources::{KernelCommits, files};
use opcost_kernel::{KernelSpec, Revision, commits, functions_of};
use opcost_model::recording::Recording;

/// The most files that git is asked about.
const FILES_MAX: usize = 12;

/// Adds the commits to each comparison of two revisions of one tree.
pub fn add(comparison: &mut Comparison, recording: &Recording) {
    if comparison.refused() {
        return;
    }
    let Ok(cache) = opcost_kernel::default_cache() else { return };
    let revision = |variant: usize| -> Option<&Revision> {
        match recording.plan.variants[variant].guest.as_ref()?.kernel.as_ref()? {
            KernelSpec::Revision(revision) => Some(revision),
            _ => None,
        }
    };
    let files_of = |variant: usize| {
        let kernels = recording.machine.first().map_or(&[][..], |state| &state.kernels);
        let kernel = kernels.iter().find(|kernel| kernel.variant == variant)?;
        functions_of(&cache, &kernel.digest)
    };
    for functions in comparison.functions.iter().filter(|functions| functions.shifted()) {
        let (baseline, variant) = (functions.baseline, functions.variant);
        let Some((old, new)) = revision(baseline).zip(revision(variant)) else { continue };
        if old.tree != new.tree || old.commit == new.commit {
            continue;
        }
        let mut files = files(functions, &[baseline, variant].map(files_of));
        files.truncate(FILES_MAX);
        if files.is_empty() {
            continue;
        }
        let names: Vec<String> = files.iter().map(|file| file.file.clone()).collect();
        let between = [&old.commit, &new.commit];
        let unknown = match commits(&old.tree, between.map(String::as_str), &names) {
            Ok(found) => {
                for (file, commits) in files.iter_mut().zip(found) {
                    file.commits = commits;
                }
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let between = between.map(String::clone);
        comparison.kernel_commits.push(KernelCommits {
            baseline,
            variant,
            between,
            files,
            unknown,
        });
    }
}
