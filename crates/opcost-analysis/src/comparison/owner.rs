//! The source files of the kernel functions in a difference, where known.

use super::FunctionRow;
use opcost_profile::symbols::clone::folded;
use opcost_record::profile::KERNEL;
use std::collections::HashMap;

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
