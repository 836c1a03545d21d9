//! Matches files that play the same part on several sides.
//!
//! The criteria apply in this order, each only to files that are still unmatched: the same path; the user's word; the programs to
//! be measured; the same file name, the paths with the longest common end first; the same soname; the same name without a version
//! (`libfoo.so.1.2`, `libfoo.so.1.3`). A name shared by several files of a side matches nothing.

use super::Side;
use opcost_model::plan::SameFile;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The evidence that two files are the same.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleMatch {
    /// Their path.
    Path,
    /// The user (`--match`).
    Told,
    /// Both are the program that was to be measured.
    Program,
    /// The last part of their path.
    FileName,
    /// The name under which others link them.
    Soname,
    /// Their name without a version.
    Stem,
}

/// A file of one side.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct File<'a> {
    pub(super) path: &'a str,
    soname: Option<&'a str>,
    program: bool,
}

impl File<'_> {
    /// The last part of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }

    pub(super) fn is_file(&self) -> bool {
        is_file(self.path)
    }

    /// Whether a user's `name` may refer to this file.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.is_file() && (self.path == name || self.name() == name)
    }
}

/// Whether a module is a file rather than the kernel or code without a file.
pub(super) fn is_file(path: &str) -> bool {
    !(path.is_empty() || path.starts_with('['))
}

/// The files of a side, by path.
pub(super) fn files<'a>(side: &Side<'a>) -> Vec<File<'a>> {
    let known: HashMap<&str, _> =
        side.modules.iter().map(|module| (module.path.as_str(), *module)).collect();
    let paths: BTreeSet<&str> = side.functions.iter().map(|one| one.module.as_str()).collect();
    let has_program = known.values().any(|module| module.program);
    let file = |path| {
        let module = known.get(path);
        File {
            path,
            soname: module.and_then(|module| module.soname.as_deref()),
            program: match has_program {
                true => module.is_some_and(|module| module.program),
                false => side.program == Some(path),
            },
        }
    };
    paths.into_iter().map(file).collect()
}

/// One file, by side.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// The path on each side that has the file.
    pub(super) paths: Vec<Option<String>>,
    /// The evidence on each side.
    pub(super) by: Vec<ModuleMatch>,
}

/// Matches the files of all sides, each side's with those of the sides before.
pub(super) fn match_files(sides: &[Vec<File<'_>>], told: &[SameFile]) -> Vec<Class> {
    let mut classes: Vec<Vec<Option<(usize, ModuleMatch)>>> = Vec::new();
    let mut members: Vec<Vec<&File<'_>>> = Vec::new();
    for (side, files) in sides.iter().enumerate() {
        let open = (0..files.len()).collect();
        let mut state = Joining { sides, side, classes: &mut classes, members: &mut members, open };
        state.by_key(ModuleMatch::Path, |file| Some(file.path.to_string()));
        for SameFile { old, new } in told {
            state.by_two(old, new);
        }
        state.by_key(ModuleMatch::Program, |file| file.program.then(String::new));
        state.by_file_name();
        state.by_key(ModuleMatch::Soname, |file| {
            Some(file.soname.unwrap_or(file.name()).to_string()).filter(|_| file.is_file())
        });
        state
            .by_key(ModuleMatch::Stem, |file| file.is_file().then(|| without_version(file.name())));
        let alone = state.open;
        for file in alone {
            let mut class = vec![None; sides.len()];
            class[side] = Some((file, ModuleMatch::Path));
            classes.push(class);
            members.push(vec![&sides[side][file]]);
        }
    }
    let class = |class: Vec<Option<(usize, ModuleMatch)>>| Class {
        paths: class
            .iter()
            .enumerate()
            .map(|(side, file)| file.map(|(file, _)| sides[side][file].path.to_string()))
            .collect(),
        by: class.iter().map(|file| file.map_or(ModuleMatch::Path, |(_, by)| by)).collect(),
    };
    classes.into_iter().map(class).collect()
}

/// The matching of one side's files that have no class yet.
struct Joining<'c, 's, 'a> {
    sides: &'s [Vec<File<'a>>],
    side: usize,
    classes: &'c mut Vec<Vec<Option<(usize, ModuleMatch)>>>,
    /// The files of each class that differ.
    members: &'c mut Vec<Vec<&'s File<'a>>>,
    open: Vec<usize>,
}

impl<'s, 'a> Joining<'_, 's, 'a> {
    /// Classes without a file of this side, each with its files; none if each file has its class.
    fn open_classes(&self) -> impl Iterator<Item = (usize, &[&'s File<'a>])> {
        let all = if self.open.is_empty() { &[][..] } else { &self.classes[..] };
        let all = all.iter().zip(self.members.iter()).enumerate();
        let open = all.filter(|(_, (class, _))| class[self.side].is_none());
        open.map(|(number, (_, members))| (number, members.as_slice()))
    }

    fn join(&mut self, pairs: &[(usize, usize)], by: ModuleMatch) {
        for (file, class) in pairs {
            self.classes[*class][self.side] = Some((*file, by));
            let (file, members) = (&self.sides[self.side][*file], &mut self.members[*class]);
            if members.last() != Some(&file) && !members.contains(&file) {
                members.push(file);
            }
        }
        self.open.retain(|open| !pairs.iter().any(|(file, _)| file == open));
    }

    /// Joins a file and a class with the same key, if no other open file or class has the key.
    fn by_key(&mut self, by: ModuleMatch, key: impl Fn(&File<'_>) -> Option<String>) {
        let mut files: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for at in &self.open {
            if let Some(key) = key(&self.sides[self.side][*at]) {
                files.entry(key).or_default().push(*at);
            }
        }
        let mut classes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (class, members) in self.open_classes() {
            let keys: BTreeSet<String> = members.iter().filter_map(|file| key(file)).collect();
            for key in keys {
                classes.entry(key).or_default().push(class);
            }
        }
        let mut pairs = Vec::new();
        for (key, files) in files {
            if let ([file], Some([class])) = (&files[..], classes.get(&key).map(Vec::as_slice))
                && !pairs.iter().any(|(_, taken)| taken == class)
            {
                pairs.push((*file, *class));
            }
        }
        self.join(&pairs, by);
    }

    /// Joins the file that a user calls `new` with the file called `old` on an earlier side.
    fn by_two(&mut self, old: &str, new: &str) {
        let file = self.open.iter().find(|at| self.sides[self.side][**at].is_called(new)).copied();
        let mut classes = self.open_classes();
        let class = classes
            .find(|(_, members)| members.iter().any(|file| file.is_called(old)))
            .map(|(class, _)| class);
        drop(classes);
        if let Some((file, class)) = file.zip(class) {
            self.join(&[(file, class)], ModuleMatch::Told);
        }
    }

    /// Joins files of the same name. Pairs whose paths share more of their last parts are joined first; if several pairs share
    /// equally many, none is joined.
    fn by_file_name(&mut self) {
        let classes: Vec<_> = self.open_classes().collect();
        let mut close: Vec<(usize, usize, usize)> = Vec::new();
        for at in &self.open {
            let file = &self.sides[self.side][*at];
            for (class, members) in &classes {
                let alike = members.iter().filter(|_| file.is_file());
                let alike = alike.map(|member| parts_in_common(file.path, member.path)).max();
                close.extend(alike.filter(|alike| *alike > 0).map(|alike| (alike, *at, *class)));
            }
        }
        close.sort_unstable_by_key(|(alike, ..)| usize::MAX - alike);
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for equals in close.chunk_by(|one, other| one.0 == other.0) {
            let free = |(_, file, class): &&(usize, usize, usize)| {
                !pairs.iter().any(|(taken, with)| taken == file || with == class)
            };
            let free: Vec<&(usize, usize, usize)> = equals.iter().filter(free).collect();
            let only = |(_, file, class): &(usize, usize, usize)| {
                let same = free.iter().filter(|other| other.1 == *file || other.2 == *class);
                same.count() == 1
            };
            let found = free.iter().filter(|one| only(one)).map(|(_, file, class)| (*file, *class));
            let found: Vec<(usize, usize)> = found.collect();
            pairs.extend(found);
        }
        self.join(&pairs, ModuleMatch::FileName);
    }
}

/// The number of last parts that two paths share.
fn parts_in_common(one: &str, two: &str) -> usize {
    one.rsplit('/').zip(two.rsplit('/')).take_while(|(one, two)| one == two).count()
}

/// A file's name without its version: `libfoo.so` of `libfoo.so.1.2` and `libfoo-1.2.so`,
/// `python` of `python3.11`.
fn without_version(name: &str) -> String {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = |text: &str| text.split('.').all(digits);
    let is_hash =
        |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some((stem, rest)) = name.split_once(".so")
        && (rest.is_empty() || rest.strip_prefix('.').is_some_and(is_version))
    {
        let unversioned = |(stem, version): (&str, &str)| {
            (is_version(version) || is_hash(version)).then(|| stem.to_string())
        };
        let stem = stem.rsplit_once('-').and_then(unversioned).unwrap_or_else(|| stem.to_string());
        return stem + ".so";
    }
    let stem = name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
    let version = &name[stem.len()..];
    match stem.strip_suffix('-') {
        Some(stem) if is_version(version) && !stem.is_empty() => stem.to_string(),
        // A number alone may distinguish programs, so only a version with a dot is removed.
        None if version.contains('.') && is_version(version) && !stem.is_empty() => {
            stem.to_string()
        }
        _ => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_left_out_of_names() {
        for (name, stem) in [
            ("libfoo.so.1.2", "libfoo.so"),
            ("libfoo.so", "libfoo.so"),
            ("libc-2.31.so", "libc.so"),
            ("libstd-0123456789abcdef.so", "libstd.so"),
            ("lib1.so", "lib1.so"),
            ("libfoo.so.debug", "libfoo.so.debug"),
            ("python3.11", "python"),
            ("gcc-12", "gcc"),
            ("prog1", "prog1"),
            ("prog", "prog"),
            ("3.11", "3.11"),
            ("-12", "-12"),
        ] {
            assert_eq!(without_version(name), stem, "{name}");
        }
    }
}
