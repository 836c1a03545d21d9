//! The source files of the kernel functions in a difference, where known, and the commits that touched them.

use super::{FunctionComparison, FunctionRow};
use opcost_kernel::Commit;
use opcost_record::profile::KERNEL;
use opcost_symbols::clone::folded;
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

/// The source files of one kernel.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KernelFiles {
    /// The kernel's name.
    pub kernel: String,
    /// Source files by function, from the kernel's symbol table; `None` if there is no table to read.
    pub files: Option<HashMap<String, Vec<String>>>,
}

/// The source files of kernel functions, on both sides of a difference.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Owners {
    /// The kernels of the baseline and of the variant; a kernel of both sides appears once.
    kernels: Vec<KernelFiles>,
}

impl Owners {
    /// Creates the table from kernels; parts and copies of a function are listed under the function.
    pub fn of(mut kernels: Vec<KernelFiles>) -> Owners {
        kernels.dedup_by(|one, two| one.kernel == two.kernel);
        for files in kernels.iter_mut().filter_map(|kernel| kernel.files.as_mut()) {
            let mut whole: HashMap<String, Vec<String>> = HashMap::new();
            for (symbol, of) in files.drain() {
                let known = whole.entry(folded(&symbol).to_string()).or_default();
                known.extend(of);
                known.sort();
                known.dedup();
            }
            *files = whole;
        }
        Owners { kernels }
    }

    /// The source files of a kernel function: one, or every file that has a function of that name. Empty if no kernel's symbol
    /// table names a file.
    pub fn files(&self, row: &FunctionRow) -> Vec<&str> {
        if row.module != KERNEL {
            return Vec::new();
        }
        let known =
            self.kernels.iter().filter_map(|kernel| kernel.files.as_ref()?.get(&row.symbol));
        let mut files: Vec<&str> = known.flatten().map(String::as_str).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    /// The owner of a function in words: `slub.c of the kernel`, `/bin/true`.
    pub fn owner(&self, row: &FunctionRow) -> String {
        match (row.module == KERNEL, self.files(row).join(" or ")) {
            (false, _) => row.module.clone(),
            (true, none) if none.is_empty() => "the kernel".into(),
            (true, files) => format!("{files} of the kernel"),
        }
    }

    /// Why some of these rows have no source file, one sentence for each reason.
    pub fn unknown(&self, rows: &[FunctionRow]) -> Vec<String> {
        let without: Vec<&FunctionRow> =
            rows.iter().filter(|row| row.module == KERNEL && self.files(row).is_empty()).collect();
        if without.is_empty() {
            return Vec::new();
        }
        let unread = self.kernels.iter().filter(|kernel| kernel.files.is_none());
        let mut said: Vec<String> = unread
            .map(|kernel| {
                format!(
                    "source files of the kernel {} are not known: there is no vmlinux of it in the \
                     cache (opcost kernel build keeps one, Debian's packages have none)",
                    kernel.kernel
                )
            })
            .collect();
        if self.kernels.iter().any(|kernel| kernel.files.is_some()) {
            said.push(
                "of a kernel function without a file the kernel's symbol table does not tell which \
                 it is from"
                    .into(),
            );
        }
        said
    }
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
        let mut functions = crate::comparison::function_changes::tests::empty();
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
