//! Files that results are exported to: a flag `--export-NAME FILE` for each format of a table.

use crate::output::print_bytes;
use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_report::render::{FORMATS, Style, View, render};
use opcost_sys::access::may_write;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// A table of formats.
pub trait FormatTable: Clone + Debug + Default + Send + Sync + 'static {
    /// The heading of the table's flags in the help.
    const HEADING: &'static str;

    /// The name of each format, and the help of its flag.
    fn rows() -> Vec<(&'static str, String)>;
}

/// Files to export to, in the formats of a table.
#[derive(Clone, Debug, Default)]
pub struct ExportFiles<T: FormatTable> {
    files: Vec<(&'static str, PathBuf)>,
    table: PhantomData<T>,
}

impl<T: FormatTable> ExportFiles<T> {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Fails early if a file could not be written later.
    ///
    /// `other`: the option that already uses standard output, if there is one.
    ///
    /// # Errors
    /// Names the file that cannot be written, or the formats that would share a file or standard output.
    pub fn check(&self, other: Option<&str>) -> Result<()> {
        let mut printed = other.map(str::to_string);
        for (index, (name, path)) in self.files.iter().enumerate() {
            if !is_standard_output(path) {
                check_file(&format!("--export-{name}"), path)?;
                for (earlier, other) in &self.files[..index] {
                    let options = (format!("--export-{earlier}"), format!("--export-{name}"));
                    check_apart((&options.0, other), (&options.1, path))?;
                }
                continue;
            }
            if let Some(first) = printed.replace(format!("--export-{name} -")) {
                let text = format!(
                    "{first} and --export-{name} -: standard output takes one of them; give \
                     --export-{name} a file"
                );
                return Err(fail(Status::Usage, text));
            }
        }
        Ok(())
    }

    /// The option with which a format uses standard output, so that nothing else may go there.
    pub fn printing(&self) -> Option<String> {
        let (name, _) = self.files.iter().find(|(_, path)| is_standard_output(path))?;
        Some(format!("--export-{name} -"))
    }

    /// Writes every file.
    ///
    /// `render`: returns the bytes in the format of this name.
    ///
    /// # Errors
    /// `render` fails, or a file cannot be written; the error names the file.
    pub fn write_each(&self, render: impl Fn(&'static str) -> Result<Vec<u8>>) -> Result<()> {
        for (name, path) in &self.files {
            let bytes = render(name)?;
            if is_standard_output(path) {
                print_bytes(&bytes)?;
                continue;
            }
            std::fs::write(path, bytes)
                .with_context(|| format!("cannot write '{}'", path.display()))
                .status(Status::Missing)?;
        }
        Ok(())
    }
}

/// Files that a comparison is exported to.
pub type Exports = ExportFiles<Comparisons>;

/// The formats of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparisons;

impl FormatTable for Comparisons {
    const HEADING: &'static str = "Output";

    fn rows() -> Vec<(&'static str, String)> {
        let help = |help| format!("Write {help} to FILE; - prints it in place of the table");
        FORMATS.iter().map(|format| (format.name, help(format.help))).collect()
    }
}

impl Exports {
    /// Writes every file.
    ///
    /// # Errors
    /// Names the file that cannot be written.
    pub fn write(&self, view: &View<'_>) -> Result<()> {
        let style = Style::plain().with_full_names(view.style.full_names).with_all(view.style.all);
        let plain = View { style: &style, ..*view };
        self.write_each(|name| render(name, &plain).map(String::into_bytes))
    }
}

/// The option that chooses what is printed.
pub fn printed_by(format: Option<&str>, json: bool) -> Option<String> {
    format.map(|name| format!("--format {name}")).or(json.then(|| "--json".to_string()))
}

pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Fails if an option names a file that could not be written.
pub fn check_file(option: &str, path: &Path) -> Result<()> {
    let refuse =
        |why: String| Err(fail(Status::Usage, format!("{option} {}: {why}", path.display())));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return refuse(format!("there is no folder '{}'", folder.display()));
    }
    if path.is_dir() {
        return refuse("it is a folder; name a file".into());
    }
    let (written, what) = match path.exists() {
        true => (path, "the file"),
        false => (folder, "its folder"),
    };
    match may_write(written) {
        Ok(()) => Ok(()),
        Err(error) => refuse(format!("{what} cannot be written: {error}; name another file")),
    }
}

/// Fails if two options name one file, in which the second would replace the first. Devices such as `/dev/null` take both.
pub fn check_apart(first: (&str, &Path), second: (&str, &Path)) -> Result<()> {
    let is_file = first.1.is_file() || !first.1.exists();
    if first.1 != second.1 || !is_file {
        return Ok(());
    }
    let (path, one, two) = (first.1.display(), first.0, second.0);
    let why = format!("{one} and {two} both name '{path}': give each a file of its own");
    Err(fail(Status::Usage, why))
}

// Implemented by hand, so that a new row of a table gets its flag.
impl<T: FormatTable> clap::FromArgMatches for ExportFiles<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut exports = ExportFiles { files: Vec::new(), table: PhantomData };
        exports.update_from_arg_matches(matches)?;
        Ok(exports)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for (name, _) in T::rows() {
            if let Some(path) = matches.get_one::<PathBuf>(&format!("export-{name}")) {
                self.files.push((name, path.clone()));
            }
        }
        Ok(())
    }
}

impl<T: FormatTable> clap::Args for ExportFiles<T> {
    fn augment_args(command: Command) -> Command {
        T::rows().into_iter().fold(command, |command, (name, help)| {
            let name = format!("export-{name}");
            let argument = Arg::new(name.clone())
                .long(name)
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help(help)
                .help_heading(T::HEADING);
            command.arg(argument)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
