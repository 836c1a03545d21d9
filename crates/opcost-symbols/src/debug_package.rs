//! Names the package with the symbols of a stripped program that Debian or Ubuntu ships.

use super::elf;
use memchr::memmem::{self, Finder};
use opcost_sys::budget::LIMIT_BYTES;
use opcost_sys::foreign_file;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

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

/// The most files whose package is looked for.
const FILES_MAX: usize = 3;

/// What dpkg knows of this computer (dpkg(1), `--admindir`).
const DATABASE: &str = "/var/lib/dpkg";

/// The longest list of a package's files, and the longest list of packages.
const LIST_BYTES_MAX: u64 = 64 << 20;

impl DebugPackage {
    /// Finds the packages of the first few stripped files; of a file that has symbols itself or that no package ships
    /// nothing is said, nor of any where dpkg is not the package manager.
    ///
    /// dpkg's lists are read here: two calls of `dpkg-query` take longer than all else that a profile needs.
    pub fn of_files<'f>(files: impl Iterator<Item = &'f str>) -> Vec<DebugPackage> {
        let mut stripped: Vec<&str> = Vec::new();
        for file in files {
            if stripped.len() < FILES_MAX && !stripped.contains(&file) && is_stripped(file) {
                stripped.push(file);
            }
        }
        if stripped.is_empty() {
            return Vec::new();
        }
        DebugPackage::of_stripped(&stripped, Path::new(DATABASE))
    }

    fn of_stripped(files: &[&str], database: &Path) -> Vec<DebugPackage> {
        let shippers = shippers(files, &database.join("info")).unwrap_or_default();
        let status = foreign_file::read(&database.join("status"), LIST_BYTES_MAX);
        let status = status.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let status = status.unwrap_or_default();
        let known = |package: &str, architecture: Option<&str>| {
            let rows = Known::all(&status, package);
            let is_of = |row: &Known<'_>| architecture.is_none_or(|it| row.architecture == it);
            rows.into_iter().find(is_of)
        };
        let packages = files.iter().zip(&shippers).filter_map(|(file, shipper)| {
            let shipper = shipper.as_ref()?;
            let (name, architecture) = match shipper.split_once(':') {
                Some((name, architecture)) => (name, Some(architecture)),
                None => (shipper.as_str(), None),
            };
            let found = known(name, architecture)?;
            let package = match (found.source, found.name) {
                // Its symbols had a package before there were -dbgsym ones.
                ("glibc", "libc6") => OLD_GLIBC_SYMBOLS.to_owned(),
                (_, _) => format!("{name}-dbgsym"),
            };
            let installed = known(&package, Some(found.architecture));
            let installed = installed.filter(|row| row.is_installed);
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

/// The package that ships each of these files; of several packages the first by name.
///
/// `info`: the folder with a list of files for each package, `gzip.list`, or `zlib1g:amd64.list` where several architectures can be
/// installed.
fn shippers(files: &[&str], info: &Path) -> io::Result<Vec<Option<String>>> {
    let line = |file: &str| format!("\n{file}\n").into_bytes();
    let lines: Vec<[Vec<u8>; 2]> =
        files.iter().map(|file| [line(file), line(&other_name(file))]).collect();
    let finders: Vec<[Finder<'_>; 2]> =
        lines.iter().map(|[one, other]| [Finder::new(one), Finder::new(other)]).collect();
    let mut found = vec![[None, None]; files.len()];
    for entry in fs::read_dir(info)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(package) = name.to_str().and_then(|name| name.strip_suffix(".list")) else {
            continue;
        };
        let Ok(mut list) = foreign_file::read(&entry.path(), LIST_BYTES_MAX) else { continue };
        list.insert(0, b'\n');
        for (found, finders) in found.iter_mut().zip(&finders) {
            for (found, finder) in found.iter_mut().zip(finders) {
                let is_first = found.as_deref().is_none_or(|known: &str| package < known);
                if is_first && finder.find(&list).is_some() {
                    *found = Some(package.to_owned());
                }
            }
        }
    }
    Ok(found.into_iter().map(|[one, other]| one.or(other)).collect())
}

/// A package as dpkg knows it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Known<'t> {
    name: &'t str,
    architecture: &'t str,
    version: &'t str,
    source: &'t str,
    is_installed: bool,
}

impl<'t> Known<'t> {
    /// The packages of this name, one for each architecture, in dpkg's list of packages (deb-control(5)).
    fn all(status: &'t str, name: &str) -> Vec<Known<'t>> {
        let field = format!("Package: {name}\n");
        let places = memmem::find_iter(status.as_bytes(), &field);
        let is_line = |at: &usize| *at == 0 || status.as_bytes()[at - 1] == b'\n';
        let paragraph = |at: usize| status[at..].split("\n\n").next().unwrap_or_default();
        places.filter(is_line).map(|at| Known::of(paragraph(at))).collect()
    }

    fn of(paragraph: &'t str) -> Known<'t> {
        let mut known = Known::default();
        for (field, value) in paragraph.lines().filter_map(|line| line.split_once(": ")) {
            match field {
                "Package" => known.name = value,
                "Architecture" => known.architecture = value,
                "Version" => known.version = value,
                // The source's version follows where it is another.
                "Source" => known.source = value.split(' ').next().unwrap_or_default(),
                "Status" => known.is_installed = value.ends_with(" installed"),
                _ => {}
            }
        }
        if known.source.is_empty() {
            known.source = known.name;
        }
        known
    }
}

/// Whether functions of a file have no names in it, as far as can be read.
fn is_stripped(file: &str) -> bool {
    let path = Path::new(file);
    if !path.is_absolute() || file.contains('\n') {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_file_has_two_names() {
        assert_eq!(other_name("/bin/gzip"), "/usr/bin/gzip");
        assert_eq!(other_name("/usr/bin/gzip"), "/bin/gzip");
        assert_eq!(other_name("/usrlocal"), "/usr/usrlocal");
        let not_asked = ["gzip", "/bin/*", "/no/such/file", "/proc/self/exe", "/etc/passwd"];
        assert_eq!(DebugPackage::of_files(not_asked.into_iter()), []);
    }

    #[test]
    fn packages_are_found_in_dpkgs_lists() {
        let database = tempfile::tempdir().unwrap();
        let info = database.path().join("info");
        fs::create_dir(&info).unwrap();
        for (list, text) in [
            ("zlib1g:amd64", "/.\n/lib/x\n/usr/lib/libz.so\n"),
            ("libc6:amd64", "/lib/libc.so\n"),
            ("b", "/usr/bin/both\n/bin/xy"),
            ("a", "/usr/bin/both\n"),
            ("gone", "/bin/gone\n"),
        ] {
            fs::write(info.join(format!("{list}.list")), text).unwrap();
        }
        fs::write(info.join("c.md5sums"), "\n/y\n").unwrap();
        let status = "Package: zlib1g\nStatus: install ok installed\nArchitecture: i386\nVersion: 1\n\n\
            Package: zlib1g\nStatus: install ok installed\nArchitecture: amd64\nSource: zlib (3)\nVersion: 2\n\n\
            Package: zlib1g-dbgsym\nStatus: install ok installed\nArchitecture: i386\nVersion: 1\n\n\
            Package: zlib1g-dbgsym\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 2\n\n\
            Package: libc6\nArchitecture: amd64\nSource: glibc\nVersion: 5\nDescription: a\n Version: 6\n\n\
            Package: libc6-dbg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 4\n\n\
            Package: a\nArchitecture: amd64\nVersion: 7\n";
        fs::write(database.path().join("status"), status).unwrap();
        let asked = ["/usr/lib/x", "/lib/libc.so", "/usr/bin/both", "/bin/gone", "/y", "/bin/x"];
        let found = DebugPackage::of_stripped(&asked, database.path());
        let row =
            |file: &str, package: &str, version: &str, installed: Option<&str>| DebugPackage {
                file: file.into(),
                package: package.into(),
                version: version.into(),
                installed: installed.map(str::to_owned),
            };
        let expected = [
            row("/usr/lib/x", "zlib1g-dbgsym", "2", None),
            row("/lib/libc.so", "libc6-dbg", "5", Some("4")),
            row("/usr/bin/both", "a-dbgsym", "7", None),
        ];
        assert_eq!(found, expected);
        assert_eq!(DebugPackage::of_stripped(&asked, Path::new("/no/such/folder")), []);
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
