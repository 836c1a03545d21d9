//! Everything of this computer that a plan uses, for a reader who did not write the plan.

use super::{Plan, VariantPlan, WorkPlan};
use opcost_kernel::KernelSpec;
use opcost_record::printable::{printable, printable_bytes};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Plan {
    /// One line for each command that the runs execute and for each file or folder that they use, as they are used: the program that
    /// is executed, not the command's text for people. Every line is printable.
    pub fn executed(&self) -> Vec<String> {
        let folder = |path: Option<&Path>| match path {
            Some(path) => format!(" (in {})", shown(path)),
            None => String::new(),
        };
        let mut lines = Vec::new();
        let hooks = &self.hooks;
        let cwd = folder(hooks.cwd.as_deref());
        let around =
            [("setup", &hooks.setup), ("conclude", &hooks.conclude), ("cleanup", &hooks.cleanup)];
        for (name, command) in around {
            lines.extend(command.iter().map(|line| format!("{name}: {}{cwd}", printable(line))));
        }
        lines.extend(self.build().map(|build| format!("rebuild: {}", printable(&build.command))));
        if let Some(emulation) = self.emulation() {
            lines.extend(emulation.pack.iter().map(|path| format!("pack: {}", printable(path))));
        }
        for variant in &self.variants {
            let begin = format!("'{}' ", printable(&variant.name));
            let of_variant = lines_of(variant, &folder(variant.cwd.as_deref()));
            lines.extend(of_variant.into_iter().map(|line| begin.clone() + &line));
        }
        lines
    }
}

fn lines_of(variant: &VariantPlan, cwd: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let hooks = [
        ("setup", &variant.setup),
        ("prepare", &variant.prepare),
        ("conclude", &variant.conclude),
        ("cleanup", &variant.cleanup),
    ];
    for (name, command) in hooks {
        lines.extend(command.iter().map(|line| format!("{name}: {}{cwd}", printable(line))));
    }
    lines.push(match &variant.work {
        WorkPlan::Command { program, argv, .. } => {
            let words: Vec<String> =
                argv.iter().map(|word| printable_bytes(word.as_bytes())).collect();
            let words = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default();
            format!("executes {} as: {words}{cwd}", shown(program))
        }
        WorkPlan::Workload { .. } => format!("executes the workload {}", variant.work.describe()),
    });
    let env = variant.env.iter();
    lines.extend(env.map(|(key, value)| format!("env: {}", printable(&format!("{key}={value}")))));
    lines.extend(variant.input.iter().map(|path| format!("input: {}", shown(path))));
    let output = variant.output.iter().map(|output| output.text());
    lines.extend(output.map(|output| format!("output: {}", printable(&output))));
    lines.extend(variant.tree.iter().map(|path| format!("tree: {}", shown(path))));
    if let Some(guest) = &variant.guest {
        lines.extend(guest.kernel.iter().map(kernel));
        lines.extend(
            guest.disk.iter().map(|disk| format!("disk: {}", printable(&disk.to_string()))),
        );
        lines.extend(guest.root.iter().map(|path| format!("root: {}", shown(path))));
        let service = guest.service.iter();
        lines.extend(
            service.map(|service| format!("service in the root: {}", printable(&service.line))),
        );
        lines.push(format!(
            "boots with: {} {}",
            printable(&guest.cpu_model),
            printable(&guest.boot)
        ));
    }
    lines
}

/// A kernel with every path and program of its build.
fn kernel(spec: &KernelSpec) -> String {
    let text = serde_json::to_string(spec).unwrap_or_else(|error| error.to_string());
    format!("kernel: {}", printable(&text))
}

fn shown(path: &Path) -> String {
    printable_bytes(path.as_os_str().as_bytes())
}
