//! The commits that touched the source files of kernel functions whose cost changed.

use super::{FunctionComparison, FunctionRow};
use opcost_kernel::Commit;
use opcost_profile::symbols::clone::folded;
use opcost_record::profile::KERNEL;
use serde::Serialize;
use std::collections::HashMap;

/// The number of functions to look up, as many as tables show.
const FUNCTIONS_MAX: usize = 40;

/// The commits between the kernels of one comparison, by file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct KernelCommits {
    /// Index of the baseline.
    #[serde(skip)]
    pub baseline: usize,
    /// Index of the variant.
    #[serde(skip)]
    pub variant: usize,
    /// The two commits.
    pub between: [String; 2],
    /// The files of the functions that changed most, the largest changes first.
    pub files: Vec<FileCommits>,
    /// Why the commits are unknown; `None` if they are known.
    pub unknown: Option<String>,
}

/// A source file and the commits that touched it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FileCommits {
    /// The file's path within the source.
    pub file: String,
    /// The functions of the file whose cost changed.
    pub functions: Vec<String>,
    /// The commits of only one of the two histories that touched the file, the latest first.
    pub commits: Vec<Commit>,
}

/// Source files by symbol, of the baseline's kernel and of the variant's.
pub type FilesBySymbol = [Option<HashMap<String, Vec<String>>>; 2];

/// The files of the kernel functions that changed most, in that order, each with its functions.
pub fn files(functions: &FunctionComparison, known: &FilesBySymbol) -> Vec<FileCommits> {
    let whole: Vec<HashMap<&str, Vec<&str>>> = known
        .iter()
        .flatten()
        .map(|files| {
            let mut whole: HashMap<&str, Vec<&str>> = HashMap::new();
            for (symbol, of) in files {
                // Parts and copies stand for their function.
                let all = whole.entry(folded(symbol)).or_default();
                all.extend(of.iter().map(String::as_str));
            }
            whole
        })
        .collect();
    let of_row = |row: &FunctionRow| -> Vec<String> {
        let found = whole.iter().filter_map(|files| files.get(row.symbol.as_str()));
        let mut files: Vec<String> = found.flatten().map(ToString::to_string).collect();
        files.sort();
        files.dedup();
        files
    };
    let mut found: Vec<FileCommits> = Vec::new();
    let (rows, ..) = functions.leading(FUNCTIONS_MAX);
    for row in rows.iter().filter(|row| row.module == KERNEL) {
        for file in of_row(row) {
            let at = found.iter().position(|known| known.file == file).unwrap_or_else(|| {
                found.push(FileCommits { file, functions: Vec::new(), commits: Vec::new() });
                found.len() - 1
            });
            found[at].functions.push(row.symbol.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Sides;

    #[test]
    fn files_come_in_the_order_of_their_functions() {
        let row = |symbol: &str, module: &str, change: f64| FunctionRow {
            symbol: symbol.into(),
            module: module.into(),
            own: Sides { value_baseline: 1.0, value: 1.0 + change, change },
            ..FunctionRow::default()
        };
        let mut functions = crate::comparison::functions::tests::empty();
        functions.rows = vec![
            row("merge", KERNEL, 9.0),
            row("main", "/bin/work", 8.0),
            row("do_mmap", KERNEL, 7.0),
            row("unmap", KERNEL, 6.0),
            row("nobody", KERNEL, 5.0),
            row("same", KERNEL, 0.0),
        ];
        let files_by = |pairs: &[(&str, &str)]| {
            let mut files: HashMap<String, Vec<String>> = HashMap::new();
            for (symbol, file) in pairs {
                files.entry(symbol.to_string()).or_default().push(file.to_string());
            }
            Some(files)
        };
        let known = [
            files_by(&[("do_mmap", "mm/mmap.c"), ("same", "mm/same.c"), ("main", "no.c")]),
            files_by(&[
                ("merge.isra.0", "mm/vma.c"),
                ("do_mmap", "mm/mmap.c"),
                ("unmap", "mm/vma.c"),
            ]),
        ];
        let said: Vec<(String, String)> = files(&functions, &known)
            .into_iter()
            .map(|file| (file.file, file.functions.join(" ")))
            .collect();
        let expected = [("mm/vma.c", "merge unmap"), ("mm/mmap.c", "do_mmap")];
        assert_eq!(said, expected.map(|(file, of)| (file.to_string(), of.to_string())));
        assert!(files(&functions, &[None, None]).is_empty());
    }
}
