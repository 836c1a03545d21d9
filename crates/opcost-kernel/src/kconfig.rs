//! Explains from the source's Kconfig files why an option did not take effect.

use opcost_record::Architecture;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The `depends on` lines of an option, and the options that select it.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Declared {
    depends: Vec<String>,
    selected_by: Vec<String>,
}

/// One line for each option that is not as asked: name, value asked for, resulting value.
///
/// `folder`: that of the architecture ([`folder_of`]).
pub(super) fn explain(
    source: &Path,
    folder: &str,
    wrong: &[(String, String, String)],
) -> Vec<String> {
    explain_those(source, folder, wrong, true)
}

/// Does the same, but only for options that the source has.
pub(super) fn explain_known(
    source: &Path,
    folder: &str,
    wrong: &[(String, String, String)],
) -> Vec<String> {
    explain_those(source, folder, wrong, false)
}

/// The name of an architecture's folder below `arch`.
pub(super) fn folder_of(architecture: Architecture) -> &'static str {
    architecture.row().image.split('/').nth(1).unwrap_or_default()
}

fn explain_those(
    source: &Path,
    folder: &str,
    wrong: &[(String, String, String)],
    unknown_too: bool,
) -> Vec<String> {
    let declared = declared(source, folder, wrong.iter().map(|(name, ..)| name.as_str()));
    wrong
        .iter()
        .filter(|(name, ..)| unknown_too || declared.contains_key(name.as_str()))
        .map(|(name, asked, came)| {
            let why = match declared.get(name.as_str()) {
                None => "this source has no such option".to_string(),
                Some(found) => found.reason(asked),
            };
            format!("CONFIG_{name}={asked} was asked for, but it is {came}: {why}")
        })
        .collect()
}

/// The declarations of options in the source's Kconfig files; undeclared options are left out.
pub(super) fn declared<'a>(
    source: &Path,
    folder: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<&'a str, Declared> {
    let mut found: BTreeMap<&str, Option<Declared>> =
        names.into_iter().map(|name| (name, None)).collect();
    if !found.is_empty() {
        for text in kconfig_files(source, folder) {
            look_up(&text, &mut found);
        }
    }
    found.into_iter().filter_map(|(name, found)| Some((name, found?))).collect()
}

impl Declared {
    fn reason(&self, asked: &str) -> String {
        let list = |names: &[String], by: &str| {
            let mut shown = names.to_vec();
            shown.dedup();
            let rest = shown.len().saturating_sub(6);
            shown.truncate(6);
            let more = if rest > 0 { format!("{by}{rest} more") } else { String::new() };
            shown.join(by) + &more
        };
        if asked == "n" && !self.selected_by.is_empty() {
            format!("selected by {}", list(&self.selected_by, ", "))
        } else if !self.depends.is_empty() {
            format!("it depends on {}", list(&self.depends, " and on "))
        } else {
            "another option decides it (make menuconfig, then / and its name)".to_string()
        }
    }
}

/// The texts of all Kconfig files except those of other architectures.
fn kconfig_files(source: &Path, own: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut folders = vec![source.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder {
                let foreign = folder == source.join("arch") && name != own;
                if !foreign && name != ".git" && name != "Documentation" {
                    folders.push(path);
                }
            } else if name.to_string_lossy().starts_with("Kconfig") {
                texts.extend(fs::read_to_string(&path));
            }
        }
    }
    texts
}

fn look_up(text: &str, declared: &mut BTreeMap<&str, Option<Declared>>) {
    let mut option: Option<&str> = None;
    for line in text.lines().map(str::trim) {
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "config" | "menuconfig" => {
                option = Some(rest);
                if let Some(found) = declared.get_mut(rest) {
                    found.get_or_insert_default();
                }
            }
            "choice" | "endchoice" | "menu" | "endmenu" | "if" | "endif" | "source" => {
                option = None;
            }
            "depends" => {
                let found = option.and_then(|option| declared.get_mut(option));
                if let (Some(Some(found)), Some(on)) = (found, rest.strip_prefix("on ")) {
                    found.depends.push(on.trim().to_string());
                }
            }
            "select" => {
                let selected = rest.split(' ').next().unwrap_or_default();
                if let (Some(by), Some(found)) = (option, declared.get_mut(selected)) {
                    found.get_or_insert_default().selected_by.push(by.to_string());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_what_kconfig_says() {
        let source = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = source.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "mm/Kconfig",
            "config SWAP\n\tbool \"Swap\"\n\tdepends on MMU && BLOCK\n\tdepends on !ARCH_NO_SWAP\n\
             \nconfig HASTY\n\tselect THERMAL if X86\n\nmenuconfig THERMAL\n\tbool\n",
        );
        write("arch/arm/Kconfig", "config ARM_ONLY\n\tbool\n");
        write("arch/x86/Kconfig", "config LONELY\n\tbool\nif A\ndepends on NOBODY\n");
        let wrong = |name: &str, asked: &str, came: &str| (name.into(), asked.into(), came.into());
        let lines = explain(
            source.path(),
            "x86",
            &[
                wrong("SWAP", "y", "n"),
                wrong("THERMAL", "n", "y"),
                wrong("ARM_ONLY", "y", "n"),
                wrong("LONELY", "y", "n"),
            ],
        );
        assert_eq!(
            lines,
            [
                "CONFIG_SWAP=y was asked for, but it is n: it depends on MMU && BLOCK and on !ARCH_NO_SWAP",
                "CONFIG_THERMAL=n was asked for, but it is y: selected by HASTY",
                "CONFIG_ARM_ONLY=y was asked for, but it is n: this source has no such option",
                "CONFIG_LONELY=y was asked for, but it is n: another option decides it (make menuconfig, then / and its name)",
            ]
        );
    }
}
