//! Translates options that newer releases of Linux renamed, so that one fragment serves all releases.

use super::config::Config;
use super::kconfig;
use std::path::Path;

/// Old name, new name, and whether the values are inverted.
const RENAMED: [(&str, &str, bool); 4] = [
    // Linux 6.9
    ("PAGE_TABLE_ISOLATION", "MITIGATION_PAGE_TABLE_ISOLATION", false),
    ("RETPOLINE", "MITIGATION_RETPOLINE", false),
    ("SLS", "MITIGATION_SLS", false),
    // Linux 6.10
    ("BASE_FULL", "BASE_SMALL", true),
];

/// An option, and an option that must not be set with it; tinyconfig sets the second since Linux 6.2.
const EXCLUDES: [(&str, &str); 1] = [("SLUB_CPU_PARTIAL", "SLUB_TINY")];

/// Translates fragments for a source: an option that the source does not have gets its later name.
pub(super) fn in_words_of(source: &Path, folder: &str, fragments: &mut [Config]) {
    let asked = Config::asked(fragments).0;
    let mentioned = |name: &str| asked.contains_key(name);
    let renamed = RENAMED.iter().filter(|(old, ..)| mentioned(old));
    let excludes = EXCLUDES.iter().filter(|(wanted, other)| {
        asked.get(*wanted).is_some_and(|value| value == "y") && !mentioned(other)
    });
    let names = renamed.clone().flat_map(|(old, new, _)| [*old, *new]);
    let known =
        kconfig::declared(source, folder, names.chain(excludes.clone().map(|(_, other)| *other)));
    for (old, new, opposite) in renamed {
        if known.contains_key(old) || !known.contains_key(new) {
            continue;
        }
        for Config(options) in fragments.iter_mut() {
            if let Some(value) = options.remove(*old) {
                let value = match (opposite, value.as_str()) {
                    (true, "y") => "n".into(),
                    (true, "n") => "y".into(),
                    _ => value,
                };
                options.entry((*new).to_string()).or_insert(value);
            }
        }
    }
    for (wanted, other) in excludes.filter(|(_, other)| known.contains_key(other)) {
        for Config(options) in fragments.iter_mut().filter(|one| one.0.contains_key(*wanted)) {
            options.insert((*other).to_string(), "n".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_of(kconfig: &str, fragment: &str) -> String {
        let source = tempfile::tempdir().unwrap();
        std::fs::write(source.path().join("Kconfig"), kconfig).unwrap();
        let mut fragments = [Config::parse(fragment).unwrap()];
        in_words_of(source.path(), "x86", &mut fragments);
        Config::default().text_with(&fragments)
    }

    const FRAGMENT: &str = "CONFIG_BASE_FULL=y\nCONFIG_RETPOLINE=y\n# CONFIG_SLS is not set\nCONFIG_SLUB_CPU_PARTIAL=y\n";

    #[test]
    fn newer_sources_are_asked_in_their_words() {
        let newer = "config MITIGATION_RETPOLINE\nconfig MITIGATION_SLS\nconfig BASE_SMALL\n\
                     config SLUB_CPU_PARTIAL\nconfig SLUB_TINY\n";
        let expected = "# CONFIG_BASE_SMALL is not set\n# CONFIG_MITIGATION_SLS is not set\n\
                        # CONFIG_SLUB_TINY is not set\nCONFIG_MITIGATION_RETPOLINE=y\n\
                        CONFIG_SLUB_CPU_PARTIAL=y\n";
        assert_eq!(asked_of(newer, FRAGMENT), expected);
        // An option asked for by its later name stays.
        let said = "CONFIG_RETPOLINE=y\n# CONFIG_MITIGATION_RETPOLINE is not set\n";
        assert_eq!(asked_of(newer, said), "# CONFIG_MITIGATION_RETPOLINE is not set\n");
        let tiny = "CONFIG_SLUB_CPU_PARTIAL=y\nCONFIG_SLUB_TINY=y\n";
        assert_eq!(asked_of(newer, tiny), tiny);
    }

    #[test]
    fn sources_that_have_an_option_or_neither_are_asked_as_written() {
        let as_written = Config::default().text_with(&[Config::parse(FRAGMENT).unwrap()]);
        // Linux 6.1 has a number with the later name.
        let older = "config BASE_FULL\nconfig BASE_SMALL\nconfig RETPOLINE\nconfig SLS\n\
                     config SLUB_CPU_PARTIAL\n";
        for kconfig in [older, "config OTHER\n"] {
            assert_eq!(asked_of(kconfig, FRAGMENT), as_written);
        }
    }
}
