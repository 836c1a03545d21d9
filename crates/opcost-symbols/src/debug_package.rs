//! Names the package with the symbols of a stripped program that Debian or Ubuntu ships.

use super::elf;
use opcost_sys::budget::LIMIT_BYTES;
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
    /// Asks dpkg for the packages of the first few stripped files; of a file that has symbols itself or that no package ships
    /// nothing is said, nor of any where dpkg is not the package manager.
    pub fn of_files<'f>(files: impl Iterator<Item = &'f str>) -> Vec<DebugPackage> {
        let mut stripped: Vec<(&str, [String; 2])> = Vec::new();
        for file in files {
            if stripped.len() < FILES_MAX
                && stripped.iter().all(|(known, _)| *known != file)
                && is_stripped(file)
            {
                stripped.push((file, [file.to_owned(), other_name(file)]));
            }
        }
        let Some(shipped) = query(&["--search"], stripped.iter().flat_map(|(_, names)| names))
        else {
            return Vec::new();
        };
        let shippers = stripped.iter().filter_map(|(file, names)| {
            Some((*file, names.iter().find_map(|name| shipper(&shipped, name))?))
        });
        let shippers: Vec<(&str, &str)> = shippers.collect();
        let asked = shippers.iter().flat_map(|(_, shipper)| {
            [shipper.to_string(), dbgsym(shipper), OLD_GLIBC_SYMBOLS.to_owned()]
        });
        let format =
            "${Package}\t${binary:Package}\t${Version}\t${source:Package}\t${db:Status-Status}\n";
        let Some(known) = query(&["--show", "--showformat", format], asked) else {
            return Vec::new();
        };
        let packages = shippers.iter().filter_map(|(file, shipper)| {
            let found = known.lines().filter_map(Known::of_line).find(|row| row.is(shipper))?;
            let package = match (found.source, found.name) {
                // Its symbols had a package before there were -dbgsym ones.
                ("glibc", "libc6") => OLD_GLIBC_SYMBOLS.to_owned(),
                (_, _) => dbgsym(shipper),
            };
            let of_symbols = known.lines().filter_map(Known::of_line).find(|row| row.is(&package));
            let installed = of_symbols.filter(|row| row.status == "installed");
            Some(DebugPackage {
                file: (*file).into(),
                package,
                version: found.version.into(),
                installed: installed.map(|row| row.version.into()),
            })
        });
        packages.collect()
    }
}

/// The package with the C library's symbols.
const OLD_GLIBC_SYMBOLS: &str = "libc6-dbg";

/// The package with the symbols of what another package ships: `gzip-dbgsym`.
fn dbgsym(shipper: &str) -> String {
    let name = shipper.split(':').next().unwrap_or(shipper);
    format!("{name}-dbgsym")
}

/// A package as dpkg knows it.
struct Known<'t> {
    name: &'t str,
    /// The name with its architecture where several can be installed: `zlib1g:amd64`.
    qualified: &'t str,
    version: &'t str,
    source: &'t str,
    status: &'t str,
}

impl Known<'_> {
    fn of_line(line: &str) -> Option<Known<'_>> {
        let mut fields = line.split('\t');
        Some(Known {
            name: fields.next()?,
            qualified: fields.next()?,
            version: fields.next()?,
            source: fields.next()?,
            status: fields.next()?,
        })
    }

    fn is(&self, package: &str) -> bool {
        self.qualified == package || self.name == package
    }
}

/// Whether functions of a file have no names in it, as far as can be read.
fn is_stripped(file: &str) -> bool {
    let path = Path::new(file);
    // dpkg-query would take these characters for a pattern.
    if !path.is_absolute() || file.contains(['*', '?', '[', '\\', '\n']) {
        return false;
    }
    let excerpt = elf::excerpt(path, &[], LIMIT_BYTES);
    excerpt.is_ok_and(|excerpt| elf::has_symbol_table(&excerpt) == Ok(false))
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

/// The package that ships a file, in what `dpkg-query --search` prints: `zlib1g:amd64: /lib/…`; of several packages the first.
fn shipper<'t>(found: &'t str, file: &str) -> Option<&'t str> {
    let lines = found.lines().filter(|line| !line.starts_with("diversion "));
    let mut rows = lines.filter_map(|line| line.split_once(": "));
    let (packages, _) = rows.find(|(_, shipped)| *shipped == file)?;
    packages.split(", ").next()
}

/// What dpkg-query prints. One of several names that it does not know fails it, but not the others.
fn query(
    options: &[&str],
    names: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
) -> Option<String> {
    let mut names = names.into_iter().peekable();
    names.peek()?;
    let mut command = Command::new("dpkg-query");
    command.args(options).args(names).env("LC_ALL", "C").stdin(Stdio::null());
    let asked = command.output().ok()?;
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
        assert_eq!(shipper("zlib1g:amd64: /lib/x\n", "/lib/x"), Some("zlib1g:amd64"));
        assert_eq!(shipper("c: /y\ndiversion by a from: /x\na, b: /x\n", "/x"), Some("a"));
        assert_eq!(shipper("c: /y\n", "/x"), None);
        assert_eq!(dbgsym("zlib1g:amd64"), "zlib1g-dbgsym");
        let not_asked = ["gzip", "/bin/*", "/no/such/file", "/proc/self/exe", "/etc/passwd"];
        assert_eq!(DebugPackage::of_files(not_asked.into_iter()), []);
    }

    #[test]
    fn a_stripped_program_s_package_is_what_dpkg_says() {
        let asked = Command::new("dpkg-query").args(["-W", "-f", "${Version}", "gzip"]).output();
        let version = match asked {
            Ok(asked) if asked.status.success() => String::from_utf8(asked.stdout).unwrap(),
            other => return crate::skip::skip!("gzip is not from Debian: {other:?}"),
        };
        for file in ["/bin/gzip", "/usr/bin/gzip"] {
            let found = DebugPackage::of_files(["/no/such/file", file, file].into_iter());
            let [found] = &found[..] else {
                return crate::skip::skip!("{file} is not stripped, or not there");
            };
            assert_eq!(found.file, file);
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
