//! Reads kernel configurations, merges fragments, and checks the resulting options.

use super::error::KernelError;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Options by name without `CONFIG_`; values as in the file, `n` for options that are not set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Config(pub(super) BTreeMap<String, String>);

impl Config {
    /// Reads a `.config` or a fragment.
    pub(super) fn read(path: &Path) -> Result<Config, KernelError> {
        let text =
            std::fs::read_to_string(path).map_err(KernelError::input("configuration", path))?;
        Config::parse(&text).map_err(|(line, text)| {
            KernelError::Usage(format!(
                "{}:{line}: '{text}' is neither CONFIG_NAME=VALUE nor '# CONFIG_NAME is not set' nor a comment",
                path.display()
            ))
        })
    }

    /// Parses the text of a configuration or fragment; the error has a line's number and text.
    pub(super) fn parse(text: &str) -> Result<Config, (usize, String)> {
        let mut options = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            // Other comments than `is not set` are free text.
            let unset = line
                .strip_prefix("# CONFIG_")
                .and_then(|rest| rest.strip_suffix(" is not set"))
                .filter(|name| is_option_name(name));
            if let Some(name) = unset {
                options.insert(name.to_string(), "n".to_string());
            } else if !line.is_empty() && !line.starts_with('#') {
                let option = line.strip_prefix("CONFIG_").and_then(|rest| rest.split_once('='));
                let (name, value) = option
                    .filter(|(name, value)| is_option_name(name) && !value.is_empty())
                    .ok_or_else(|| (index + 1, line.to_string()))?;
                options.insert(name.to_string(), value.to_string());
            }
        }
        Ok(Config(options))
    }

    /// The options of a sequence of fragments; the last value of an option counts.
    pub(super) fn asked(fragments: &[Config]) -> Config {
        let all = fragments.iter().flat_map(|fragment| &fragment.0);
        Config(all.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The text of this configuration with fragments on top.
    ///
    /// The build believes the last of options that exclude one another. Therefore options of later
    /// fragments come last, and set options follow unset ones.
    pub(super) fn text_with(&self, fragments: &[Config]) -> String {
        let mut text = String::new();
        let groups: Vec<&Config> = std::iter::once(self).chain(fragments).collect();
        for (index, group) in groups.iter().enumerate() {
            let later = Config::asked(fragments.get(index..).unwrap_or_default());
            let last_word = group.0.iter().filter(|(name, _)| !later.0.contains_key(*name));
            let (unset, set): (Vec<_>, Vec<_>) = last_word.partition(|(_, value)| *value == "n");
            for (name, _) in unset {
                let _ = writeln!(text, "# CONFIG_{name} is not set");
            }
            for (name, value) in set {
                let _ = writeln!(text, "CONFIG_{name}={value}");
            }
        }
        text
    }

    /// The options of `asked` that differ here: name, value asked for, value here.
    pub(super) fn unfulfilled(&self, asked: &Config) -> Vec<(String, String, String)> {
        let here = |name: &str| self.0.get(name).map_or("n", String::as_str);
        let wrong = asked.0.iter().filter(|(name, value)| here(name) != *value);
        wrong.map(|(name, value)| (name.clone(), value.clone(), here(name).to_string())).collect()
    }
}

fn is_option_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text).unwrap()
    }

    #[test]
    fn a_configuration_is_read() {
        let read = config(
            "# a comment\n\nCONFIG_SMP=y\n# CONFIG_NUMA is not set\nCONFIG_HZ=100\n\
             # CONFIG_X is what is not set\nCONFIG_LOCALVERSION=\"-a=b\"\nCONFIG_SMP=n\n",
        );
        let expected = [("HZ", "100"), ("LOCALVERSION", "\"-a=b\""), ("NUMA", "n"), ("SMP", "n")];
        let expected = expected.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(read.0, expected.into());
    }

    #[test]
    fn a_line_that_means_nothing_is_named() {
        for line in ["SMP=y", "CONFIG_SMP", "CONFIG_SMP=", "CONFIG_=y", "CONFIG_A B=y"] {
            let text = format!("# first\n{line}\n");
            assert_eq!(Config::parse(&text), Err((2, line.to_string())));
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\nSMP=y\n").unwrap();
        let error = Config::read(file.path()).unwrap_err().to_string();
        let expected = format!("{}:2: 'SMP=y' is neither", file.path().display());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn a_later_fragment_wins_and_is_written_last() {
        let base = config("CONFIG_SLOB=y\nCONFIG_B=y\nCONFIG_Z=y\n");
        let first = config("CONFIG_SLUB=y\n# CONFIG_SLOB is not set\n# CONFIG_B is not set\n");
        let second = config("CONFIG_B=y\nCONFIG_A=y\n");
        let fragments = [first, second];
        assert_eq!(
            base.text_with(&fragments),
            "CONFIG_Z=y\n# CONFIG_SLOB is not set\nCONFIG_SLUB=y\nCONFIG_A=y\nCONFIG_B=y\n"
        );
        let asked = config("CONFIG_A=y\nCONFIG_B=y\n# CONFIG_SLOB is not set\nCONFIG_SLUB=y\n");
        assert_eq!(Config::asked(&fragments), asked);
        assert_eq!(base.text_with(&[]), "CONFIG_B=y\nCONFIG_SLOB=y\nCONFIG_Z=y\n");
    }

    #[test]
    fn what_did_not_come_about_is_found() {
        let made = config("CONFIG_A=y\nCONFIG_HZ=250\n# CONFIG_C is not set\nCONFIG_D=y\n");
        let asked = config(
            "CONFIG_A=y\nCONFIG_HZ=100\nCONFIG_C=y\n# CONFIG_D is not set\nCONFIG_E=m\n# CONFIG_F is not set\n",
        );
        let wrong = made.unfulfilled(&asked);
        let wrong: Vec<_> =
            wrong.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        assert_eq!(
            wrong,
            [("C", "y", "n"), ("D", "n", "y"), ("E", "m", "n"), ("HZ", "100", "250")]
        );
    }
}
