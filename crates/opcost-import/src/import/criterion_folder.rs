//! Finds the samples to compare in one of criterion's folders.
//!
//! The folder of a benchmark contains `new`, the last run, and a folder for each baseline: `base`, or the NAME of `--save-baseline
//! NAME`. `change` and `report` have no samples.

use opcost_sys::foreign_file;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Samples of one benchmark in one run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SampleFile {
    /// The file.
    pub path: PathBuf,
    /// The run: `new`, or the name of a baseline.
    pub run: String,
}

/// The samples of a folder.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// The last run of every benchmark, in the order of their names.
    pub newest: Vec<SampleFile>,
    /// The runs with which the last runs can be compared.
    pub baselines: Vec<SampleFile>,
    /// Baselines that equal the last run: criterion copies `new` to `base` at its end.
    pub copies: BTreeSet<String>,
}

/// The folder of the last run.
const NEWEST: &str = "new";
/// The file with the samples.
const SAMPLES: &str = "sample.json";
/// The longest such file that is read.
const SAMPLES_BYTES_MAX: u64 = 64 << 20;

/// Searches a folder.
///
/// # Errors
/// A folder cannot be read.
pub fn find(folder: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let mut runs = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            // Links are not followed, as they may form a cycle.
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let path = entry.path().join(SAMPLES);
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_file() {
                runs.push(SampleFile { path, run: name });
            }
            folders.push(entry.path());
        }
        let Some(at) = runs.iter().position(|file| file.run == NEWEST) else { continue };
        let newest = runs.swap_remove(at);
        let samples = foreign_file::read(&newest.path, SAMPLES_BYTES_MAX)?;
        for file in runs {
            if foreign_file::read(&file.path, SAMPLES_BYTES_MAX)? == samples {
                found.copies.insert(file.run);
            } else {
                found.baselines.push(file);
            }
        }
        found.newest.push(newest);
    }
    found.newest.sort_by(|one, two| one.path.cmp(&two.path));
    found.baselines.sort_by(|one, two| (&one.run, &one.path).cmp(&(&two.run, &two.path)));
    Ok(found)
}

/// The benchmark's name from the folders between this folder and the samples; `None` if there are no folders between, or one has
/// criterion's own name.
pub fn case(folder: &Path, samples: &Path) -> Option<String> {
    if samples.components().any(|part| part.as_os_str() == "criterion") {
        return None;
    }
    // The last two parts are the run and the file.
    let between = samples.strip_prefix(folder).ok()?.parent()?.parent()?;
    let parts: Vec<_> = between.iter().map(|part| part.to_string_lossy()).collect();
    Some(parts.join("/")).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_last_run_is_no_baseline() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sort/10/new/sample.json", "2");
        write("sort/10/base/sample.json", "2");
        write("sort/10/before/sample.json", "1");
        write("sort/10/change/estimates.json", "{}");
        write("sum/new/sample.json", "3");
        write("sum/base/sample.json", "4");
        write("gone/base/sample.json", "5");
        let found = find(folder.path()).unwrap();
        let shown = |files: &[SampleFile]| -> Vec<String> {
            let relative = |file: &SampleFile| {
                let path = file.path.strip_prefix(folder.path()).unwrap();
                format!("{} {}", file.run, path.display())
            };
            files.iter().map(relative).collect()
        };
        assert_eq!(
            shown(&found.newest),
            ["new sort/10/new/sample.json", "new sum/new/sample.json"]
        );
        assert_eq!(
            shown(&found.baselines),
            ["base sum/base/sample.json", "before sort/10/before/sample.json"]
        );
        assert_eq!(found.copies.iter().collect::<Vec<_>>(), ["base"]);
    }

    #[test]
    fn a_copy_of_the_folder_names_benchmarks_too() {
        let case = |folder: &str, file: &str| case(Path::new(folder), Path::new(file));
        assert_eq!(case("old", "old/sum/10/new/sample.json"), Some("sum/10".into()));
        assert_eq!(case("old", "old/new/sample.json"), None);
        assert_eq!(case("target/criterion", "target/criterion/sum/new/sample.json"), None);
    }
}
