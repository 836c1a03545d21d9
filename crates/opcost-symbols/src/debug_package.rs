//! Names the package with the symbols of a stripped program that Debian or Ubuntu ships.

use super::elf;
use opcost_sys::budget::LIMIT_BYTES;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The package that would give a program's functions names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DebugPackage {
    /// The program or library.
    pub file: String,
    /// The package with its symbols: `gzip-dbgsym`.
    pub package: String,
    /// The version that fits.
    pub version: String,
    /// The version that is installed, if any is.
    pub installed: Option<String>,
}

/// The most files that dpkg is asked about.
const FILES_MAX: usize = 3;

impl DebugPackage {
    /// Asks dpkg for the packages of a few stripped files.
    pub fn of_files<'f>(files: impl Iterator<Item = &'f str>) -> Vec<DebugPackage> {
        let files: BTreeSet<&str> = files.collect();
        files.into_iter().take(FILES_MAX).filter_map(DebugPackage::of).collect()
    }

    /// Asks dpkg for the package that ships a file; `None` for a file that has symbols itself, that no package ships, or where dpkg
    /// is not the package manager.
    pub fn of(file: &str) -> Option<DebugPackage> {
        let path = Path::new(file);
        // dpkg-query would take these characters for a pattern.
        if !path.is_absolute() || file.contains(['*', '?', '[', '\\', '\n']) {
            return None;
        }
        let excerpt = elf::excerpt(path, &[], LIMIT_BYTES).ok()?;
        if elf::has_symbol_table(&excerpt) != Ok(false) {
            return None;
        }
        let shipped = query(&["--search", file, &other_name(file)])?;
        let shipper = shipper(&shipped)?;
        let source = "${Version}\n${source:Package}";
        let found = query(&["--show", "--showformat", source, shipper])?;
        let (version, source) = found.split_once('\n')?;
        let package = match (source, shipper.split(':').next()?) {
            // Its symbols had a package before there were -dbgsym ones.
            ("glibc", "libc6") => "libc6-dbg".to_owned(),
            (_, name) => format!("{name}-dbgsym"),
        };
        let state = query(&["--show", "--showformat", "${db:Status-Status} ${Version}", &package]);
        let installed = state.and_then(|state| state.strip_prefix("installed ").map(str::to_owned));
        Some(DebugPackage { file: file.into(), package, version: version.into(), installed })
    }
}

impl fmt::Display for DebugPackage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DebugPackage { file, package, version, installed } = self;
        write!(to, "{file} is stripped, so functions have no names; ")?;
        match installed {
            Some(installed) if installed == version => {
                write!(to, "{package} is installed and names them from the next recording on")
            }
            Some(installed) => {
                write!(to, "{package} {installed} is of another build: install {version}")
            }
            None => write!(
                to,
                "install {package} ({version}, from Debian's archive of debug symbols), or name a server with DEBUGINFOD_URLS"
            ),
        }
    }
}

/// The name that a file has where `/bin` and `/lib` lead to `/usr`: packages know one of the two.
fn other_name(file: &str) -> String {
    match file.strip_prefix("/usr") {
        Some(rest) if rest.starts_with('/') => rest.to_owned(),
        _ => format!("/usr{file}"),
    }
}

/// The package in what `dpkg-query --search` prints: `zlib1g:amd64: /lib/…`; of several packages the first.
fn shipper(found: &str) -> Option<&str> {
    let lines = found.lines().filter(|line| !line.starts_with("diversion "));
    let (packages, _) = { lines }.next()?.split_once(": ")?;
    packages.split(", ").next()
}

/// What dpkg-query prints. One of several names that it does not know fails it, but not the others.
fn query(args: &[&str]) -> Option<String> {
    let mut command = Command::new("dpkg-query");
    let asked = command.args(args).env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    String::from_utf8(asked.stdout).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_by_either_name_of_a_file() {
        assert_eq!(other_name("/bin/gzip"), "/usr/bin/gzip");
        assert_eq!(other_name("/usr/bin/gzip"), "/bin/gzip");
        assert_eq!(other_name("/usrlocal"), "/usr/usrlocal");
        assert_eq!(shipper("zlib1g:amd64: /lib/x\n"), Some("zlib1g:amd64"));
        assert_eq!(shipper("diversion by a from: /x\na, b: /x\n"), Some("a"));
        assert_eq!(shipper(""), None);
        for file in ["gzip", "/bin/*", "/no/such/file", "/proc/self/exe", "/etc/passwd"] {
            assert_eq!(DebugPackage::of(file), None, "{file}");
        }
    }

    #[test]
    fn a_stripped_program_s_package_is_what_dpkg_says() {
        let asked = Command::new("dpkg-query").args(["-W", "-f", "${Version}", "gzip"]).output();
        let version = match asked {
            Ok(asked) if asked.status.success() => String::from_utf8(asked.stdout).unwrap(),
            other => return crate::skip::skip!("gzip is not from Debian: {other:?}"),
        };
        for file in ["/bin/gzip", "/usr/bin/gzip"] {
            let Some(found) = DebugPackage::of(file) else {
                return crate::skip::skip!("{file} is not stripped, or not there");
            };
            assert_eq!((found.package.as_str(), &found.version), ("gzip-dbgsym", &version));
            let says = |installed: Option<&str>| {
                DebugPackage { installed: installed.map(str::to_owned), ..found.clone() }
                    .to_string()
            };
            assert!(says(None).contains(&format!("install gzip-dbgsym ({version}")));
            assert!(says(Some("0.1")).ends_with(&format!("of another build: install {version}")));
            assert!(says(Some(&version)).contains("from the next recording on"));
        }
    }
}
