//! Revisions of a user's repository, checked out and built in opcost's cache.
//!
//! opcost only reads the user's repository. A repository of opcost's own borrows the user's objects
//! (`objects/info/alternates`) and has the worktrees, so git's list of the user's worktrees stays as it is. Builds
//! are kept by the revision's tree, the build command, the compiler's version and the variables that builds read.
//!
//! ```text
//! gate/REPOSITORY/git                 the repository that has the worktrees
//! gate/REPOSITORY/trees/KEY/tree      a worktree, built
//! gate/REPOSITORY/trees/KEY/built     there once the build has ended well
//! gate/REPOSITORY/trees/KEY.log       what the build printed
//! gate/REPOSITORY/counted/DIGEST      the recording of a count's inputs, and the tree that was counted
//! gate/REPOSITORY/locks/KEY           locked while somebody builds (alone) or runs (shared)
//! ```
//!
//! **A gate has worktrees of a repository of its own.** opcost's repository borrows the user's objects
//! (`objects/info/alternates`). The user's repository knows nothing of the worktrees, even if opcost is killed.

use anyhow::{Context, Result};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail, in_words, status_of};
use opcost_base::phases::Phases;
use opcost_gate::gate::fixup::{CommitRange, Fixup, FixupChange};
use opcost_kernel::{
    GIT_QUIET, GIT_VARIABLES, Repository, RepositoryCommit, digest, lock, short_commit,
};
use opcost_record::Architecture;
use opcost_record::printable::printable_bytes;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::{EndedBy, Output, Spawn, Status as ProcessStatus};
use opcost_sys::xdg;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes};
use std::io::{ErrorKind, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// The most built trees of a repository that are kept; the least recently used are removed first.
const KEPT_MAX: usize = 12;
/// Lines of a failed build's log that an error shows.
const LINES_SHOWN: usize = 12;
/// The least room on disk that a build needs.
const ROOM_BYTES: usize = 64 << 10;
/// Digits of a key: enough to tell trees apart, and always the same number, so that paths have one length.
const KEY_DIGITS: usize = 16;

/// The settings of the user's repository that opcost's own repository has, too.
const SETTINGS_TAKEN: &str = r"^(remote\..*\.(url|pushurl|fetch|promisor|partialclonefilter)|submodule\..*\.url|url\..*\.(insteadof|pushinsteadof))$";

/// Variables that common builds read.
const BUILD_VARIABLES: [&str; 10] = [
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "RUSTFLAGS",
    "RUSTC",
    "MAKEFLAGS",
    "GOFLAGS",
];

/// The place in the cache for one repository.
pub(crate) struct Trees<'a> {
    repository: &'a Repository,
    home: PathBuf,
    interrupt: &'a Interrupt,
    /// The version of each compiler, by the compiler's name.
    compilers: RefCell<BTreeMap<String, String>>,
    /// The reason why each failed build failed, by key: cases with the same build need not try again.
    failed: RefCell<BTreeMap<String, String>>,
    /// The commits of the ends of fixups, by the names that the suite gives them.
    ends: RefCell<BTreeMap<String, String>>,
}

/// The place of a build, whether it is built or not.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The revision's tree.
    pub(crate) folder: PathBuf,
    /// The key that tells the build from other builds.
    pub(crate) key: String,
    /// The version of the compiler; `None` if nothing is built.
    pub(crate) compiler: Option<String>,
    /// The fixups that are applied to the revision, for reports.
    pub(crate) fixups: Vec<String>,
    /// The revision's role in the guest.
    pub(crate) role: Role,
}

/// The role of a revision in the guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// The revision is the tree that has the program.
    Tree,
    /// The revision is the kernel, at this commit; nothing is built in the site's folder.
    Kernel(String),
    /// The revision has no role: something else is under test.
    NotTested,
}

impl Site {
    /// A sentence about the fixups of this revision; `None` if it has none.
    pub(crate) fn fixups_in_words(&self, side: &str) -> Option<String> {
        let names = self.fixups.join(", ");
        (!names.is_empty()).then(|| format!("fixups of {side}: {names}"))
    }

    /// The path of a folder of the revision.
    pub(crate) fn below(&self, folder: Option<&Path>) -> PathBuf {
        self.folder.join(folder.unwrap_or(Path::new("")))
    }

    /// The tree that guests see, if the revision is one; guests have no use for a kernel's source.
    pub(crate) fn tree(&self) -> Option<PathBuf> {
        (self.role == Role::Tree).then(|| self.folder.clone())
    }

    /// The commit of the kernel, if the revision is one.
    pub(crate) fn kernel(&self) -> Option<&str> {
        match &self.role {
            Role::Kernel(commit) => Some(commit),
            _ => None,
        }
    }
}

/// A revision that is built.
pub(crate) struct Built {
    /// The place of the build.
    pub(crate) site: Site,
    /// The lock that shows others that the build is in use.
    _in_use: Option<File>,
}

impl Built {
    /// A revision that needs no building.
    pub(crate) fn ready(site: Site) -> Built {
        Built { site, _in_use: None }
    }
}

/// How a case is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) build: Option<&'a str>,
    pub(crate) compiler: Option<&'a str>,
    /// The architecture that the build makes programs for.
    pub(crate) architecture: Architecture,
    pub(crate) artifacts: &'a [String],
    /// Files that configure the revision, if the revision is a kernel.
    pub(crate) kernel_config: &'a [PathBuf],
    /// What is changed in the files of some commits before they are built.
    pub(crate) fixups: &'a [Fixup],
}

impl<'a> Trees<'a> {
    /// Makes the place of a repository, and removes what a killed opcost left there.
    pub(crate) fn open(repository: &'a Repository, interrupt: &'a Interrupt) -> Result<Trees<'a>> {
        let cache = xdg::cache_folder().status(Status::Usage)?;
        let id = digest(repository.top.as_os_str().as_bytes());
        let home = cache.join("gate").join(&id[..KEY_DIGITS]);
        for folder in ["trees", "locks"] {
            make_folder(&home.join(folder))?;
        }
        // Guests have the folder that links lead to, so resolve the links.
        let home = home.canonicalize().unwrap_or(home);
        let trees = Trees {
            repository,
            home,
            interrupt,
            compilers: RefCell::default(),
            failed: RefCell::default(),
            ends: RefCell::default(),
        };
        trees.begin_repository()?;
        trees.sweep();
        Ok(trees)
    }

    /// The store for recordings unless the user names another: beside the builds.
    pub(crate) fn store(&self) -> PathBuf {
        self.home.join("recordings.sqlite")
    }

    /// The folder with a file for the inputs of each count, which is called after their digest and names the recording.
    pub(crate) fn counted(&self) -> PathBuf {
        self.home.join("counted")
    }

    fn own_repository(&self) -> PathBuf {
        self.home.join("git")
    }

    fn begin_repository(&self) -> Result<()> {
        let own = self.own_repository();
        let _lock = self.lock("git", &mut Phases::new(true))?;
        let format = self.git_of_user(&["rev-parse", "--show-object-format"]).unwrap_or_default();
        let format = if format.is_empty() { "sha1" } else { format.as_str() };
        git(
            &self.home,
            &[&"init", &"--quiet", &"--bare", &format!("--object-format={format}"), &own],
            &[],
        )?;
        let alternates = own.join("objects/info/alternates");
        let mut text = self.repository.objects.as_os_str().as_bytes().to_vec();
        text.push(b'\n');
        write(&alternates, &text)?;
        self.take_settings(&own)?;
        self.take_tags(&own)
    }

    /// Takes over what builds ask git about: where remotes and submodules are (relative addresses of submodules begin at the
    /// remote's), and where a shallow history ends.
    fn take_settings(&self, own: &Path) -> Result<()> {
        let words = ["config", "--local", "-z", "--get-regexp", SETTINGS_TAKEN];
        // git fails if there are none.
        let listed = self.git_of_user(&words).unwrap_or_default();
        let mut text = String::new();
        for (key, value) in listed.split('\0').filter_map(|entry| entry.split_once('\n')) {
            let (Some((section, rest)), Some((_, name))) =
                (key.split_once('.'), key.rsplit_once('.'))
            else {
                continue;
            };
            let subsection = rest.strip_suffix(name).and_then(|rest| rest.strip_suffix('.'));
            let is_relative = name.ends_with("url")
                && [".", ".."].iter().any(|dots| {
                    value
                        .strip_prefix(dots)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                });
            // An address relative to the user's checkout.
            let value = match is_relative {
                true => self.repository.top.join(value).to_string_lossy().into_owned(),
                false => value.to_string(),
            };
            let quoted =
                |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let subsection = quoted(subsection.unwrap_or_default());
            text += &format!("[{section} \"{subsection}\"]\n\t{name} = \"{}\"\n", quoted(&value));
        }
        let settings = own.join("settings");
        if fs::read_to_string(&settings).ok().as_ref() != Some(&text) {
            write(&settings, text.as_bytes())?;
            let words = ["config", "--replace-all", "include.path", "settings"];
            git(own, &words.each_ref().map(|word| word as &dyn AsRef<OsStr>), &[])?;
        }
        let shallow = self.git_of_user(&["rev-parse", "--git-path", "shallow"])?;
        match fs::read(self.repository.top.join(shallow)) {
            Ok(ends) => write(&own.join("shallow"), &ends),
            Err(_) => {
                // A clone that was made whole has no such file any more.
                let _ = fs::remove_file(own.join("shallow"));
                Ok(())
            }
        }
    }

    /// Takes over the user's tags, by which `git describe` names versions.
    fn take_tags(&self, own: &Path) -> Result<()> {
        let list = |folder: &Path| {
            let words = ["for-each-ref", "--format=%(refname) %(objectname)", "refs/tags"];
            git(folder, &words.each_ref().map(|word| word as &dyn AsRef<OsStr>), &[])
        };
        let (wanted, known) = (list(&self.repository.top)?, list(own)?);
        if wanted == known {
            return Ok(());
        }
        let tags = |text: &str| -> BTreeMap<String, String> {
            let tags = text.lines().filter_map(|line| line.split_once(' '));
            tags.map(|(tag, object)| (tag.to_string(), object.to_string())).collect()
        };
        let (wanted, known) = (tags(&wanted), tags(&known));
        let gone = known.keys().filter(|tag| !wanted.contains_key(*tag));
        let mut orders: String = gone.map(|tag| format!("delete {tag}\n")).collect();
        for (tag, object) in wanted.iter().filter(|(tag, object)| known.get(*tag) != Some(object)) {
            orders += &format!("update {tag} {object}\n");
        }
        git_told(own, &[&"update-ref", &"--stdin"], &[], Some(&orders)).map(drop)
    }

    fn git_of_user(&self, words: &[&str]) -> Result<String> {
        let words: Vec<&dyn AsRef<OsStr>> =
            words.iter().map(|word| word as &dyn AsRef<OsStr>).collect();
        git(&self.repository.top, &words, &[])
    }

    fn lock(&self, id: &str, phases: &mut Phases) -> Result<File> {
        lock(&self.home.join("locks"), id, self.interrupt, &mut |phase, done| {
            phases.report(phase, done)
        })
        .map_err(HasStatus::carried)
    }

    /// Marks a tree as in use, unless somebody builds it. Both sides of a comparison may use one tree.
    fn try_use(&self, key: &str) -> Option<File> {
        let lock =
            File::options().create(true).append(true).open(self.home.join("locks").join(key));
        lock.ok().filter(|lock| lock.try_lock_shared().is_ok())
    }

    /// Removes trees whose build did not end, and the least recently used trees.
    fn sweep(&self) {
        let mut built: Vec<(SystemTime, String)> = Vec::new();
        for entry in fs::read_dir(self.home.join("trees")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !entry.path().is_dir() {
                continue;
            }
            match fs::metadata(entry.path().join("built")).and_then(|built| built.modified()) {
                Ok(used) => built.push((used, name)),
                Err(_) => self.remove_unless_used(&name),
            }
        }
        built.sort();
        let surplus = built.len().saturating_sub(KEPT_MAX);
        built.iter().take(surplus).for_each(|(_, name)| self.remove_unless_used(name));
    }

    /// Removes a tree that nobody builds or runs.
    fn remove_unless_used(&self, key: &str) {
        let lock =
            File::options().create(true).append(true).open(self.home.join("locks").join(key));
        let Ok(lock) = lock else { return };
        if lock.try_lock().is_ok() {
            // The next opcost tries again.
            let _ = self.remove(key);
        }
    }

    fn remove(&self, key: &str) -> Result<()> {
        let folder = self.home.join("trees").join(key);
        if folder.exists() {
            // Compilers of a killed opcost may still be writing to their folder.
            let left = folder.with_file_name(format!("left-{key}-{}", std::process::id()));
            fs::rename(&folder, &left)
                .with_context(|| format!("cannot remove '{}'", folder.display()))
                .status(Status::Missing)?;
            // The next opcost tries again.
            let _ = fs::remove_dir_all(left);
        }
        git(&self.own_repository(), &[&"worktree", &"prune"], &[]).map(drop)
    }

    /// Makes a commit in opcost's own repository of what is in the checkout now, including new
    /// files unless git ignores them.
    pub(crate) fn snapshot(&self) -> Result<RepositoryCommit> {
        let _lock = self.lock("git", &mut Phases::new(true))?;
        let own = self.own_repository();
        let index = self.home.join("index");
        // The user's index knows which files did not change.
        let _ = fs::copy(&self.repository.index, &index);
        let env: [(&str, &OsStr); 3] = [
            ("GIT_DIR", own.as_os_str()),
            ("GIT_WORK_TREE", self.repository.top.as_os_str()),
            ("GIT_INDEX_FILE", index.as_os_str()),
        ];
        let top = &self.repository.top;
        git(top, &[&"add", &"--all", &"--", &"."], &env)?;
        let tree = git(top, &[&"write-tree"], &env)?;
        let nobody =
            ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
        let nobody = nobody.map(|name| (name, OsStr::new("opcost")));
        let dates =
            ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].map(|name| (name, OsStr::new("@0 +0000")));
        let env = [&env[..], &nobody, &dates].concat();
        let subject = "the working tree";
        let id = git(top, &[&"commit-tree", &tree, &"-m", &subject], &env)?;
        Ok(RepositoryCommit { id, tree, subject: subject.into(), author: "opcost".into() })
    }

    /// The place where a revision is built, or would be.
    ///
    /// # Errors
    /// The compiler that the case names does not say its version: status "work failed". A fixup's patch cannot be read, or git does
    /// not know its commits: status "usage".
    pub(crate) fn site(&self, commit: &RepositoryCommit, recipe: Recipe<'_>) -> Result<Site> {
        if !recipe.kernel_config.is_empty() {
            return self.kernel_site(commit, recipe.kernel_config);
        }
        let compiler = match recipe.build {
            Some(_) => Some(self.compiler(recipe.compiler, recipe.architecture)?),
            None => None,
        };
        let variables = BUILD_VARIABLES.iter().filter_map(|name| {
            Some(format!("{name}={}", std::env::var_os(name)?.to_string_lossy()))
        });
        let mut parts = vec![commit.tree.clone()];
        if let (Some(build), Some(compiler)) = (recipe.build, &compiler) {
            parts.extend([build.to_string(), compiler.clone()]);
            parts.extend(variables);
        }
        let fixups = self.fixups_of(commit, recipe.fixups)?;
        for fixup in &fixups {
            parts.push(content_of(fixup)?);
        }
        let key = digest(parts.join("\0").as_bytes())[..KEY_DIGITS].to_string();
        let folder = self.home.join("trees").join(&key).join("tree");
        let fixups = fixups.into_iter().map(ToString::to_string).collect();
        Ok(Site { folder, key, compiler, fixups, role: Role::Tree })
    }

    /// Checks the fixups of a case before anything is built.
    ///
    /// # Errors
    /// git does not know a fixup's commits, or its patch cannot be read: status "usage".
    pub(crate) fn check_fixups(&self, fixups: &[Fixup]) -> Result<()> {
        for fixup in fixups {
            let CommitRange { after, last } = &fixup.commits;
            for end in after.iter().chain(last) {
                self.end_of(end, fixup)?;
            }
            content_of(fixup)?;
        }
        Ok(())
    }

    /// The fixups that apply to a commit.
    fn fixups_of<'b>(
        &self,
        commit: &RepositoryCommit,
        fixups: &'b [Fixup],
    ) -> Result<Vec<&'b Fixup>> {
        let mut found = Vec::new();
        for fixup in fixups {
            let is_within = |end: &Option<String>| match end {
                None => Ok(None),
                Some(name) => {
                    let end = self.end_of(name, fixup)?;
                    Ok::<_, anyhow::Error>(Some(self.repository.is_ancestor(&commit.id, &end)))
                }
            };
            let (after, last) = (is_within(&fixup.commits.after)?, is_within(&fixup.commits.last)?);
            if after != Some(true) && last != Some(false) {
                found.push(fixup);
            }
        }
        Ok(found)
    }

    fn end_of(&self, name: &str, fixup: &Fixup) -> Result<String> {
        if let Some(known) = self.ends.borrow().get(name) {
            return Ok(known.clone());
        }
        let commit = self.repository.commit(name).map_err(HasStatus::carried);
        let id = commit.with_context(|| format!("fixup {fixup}"))?.id;
        self.ends.borrow_mut().insert(name.into(), id.clone());
        Ok(id)
    }

    /// The place of a kernel: opcost builds it where all kernels are, when it is booted.
    fn kernel_site(&self, commit: &RepositoryCommit, config: &[PathBuf]) -> Result<Site> {
        let mut parts = commit.tree.as_bytes().to_vec();
        for path in config {
            let text = fs::read(path)
                .with_context(|| format!("cannot read the configuration '{}'", path.display()))
                .status(Status::Usage)?;
            parts.extend(digest(&text).as_bytes());
        }
        Ok(Site {
            folder: self.repository.top.clone(),
            key: digest(&parts)[..KEY_DIGITS].to_string(),
            compiler: None,
            fixups: Vec::new(),
            role: Role::Kernel(short_commit(&commit.id).to_string()),
        })
    }

    /// Builds a revision, unless it is built already.
    ///
    /// `side`: the user's word for the revision.
    ///
    /// # Errors
    /// The build fails, or does not make its artifacts: status "work failed".
    pub(crate) fn built(
        &self,
        commit: &RepositoryCommit,
        side: &str,
        recipe: Recipe<'_>,
        phases: &mut Phases,
    ) -> Result<Built> {
        let site = self.site(commit, recipe)?;
        if site.kernel().is_some() {
            return Ok(Built::ready(site));
        }
        let Site { folder, key, .. } = &site;
        if let Some(why) = self.failed.borrow().get(key) {
            return Err(fail(Status::WorkFailed, why));
        }
        let place = self.home.join("trees").join(key);
        let shown = format!("{side} {} ({})", short_commit(&commit.id), commit.subject);
        let missing = |folder: &Path| {
            let mut artifacts = recipe.artifacts.iter();
            artifacts.find(|artifact| !folder.join(artifact).exists())
        };
        let mark = place.join("built");
        let is_built = || mark.is_file() && missing(folder).is_none();
        if let Some(in_use) = self.try_use(key).filter(|_| is_built()) {
            // A tree that was used lately is kept.
            let used = FileTimes::new().set_modified(SystemTime::now());
            let _ = File::options().append(true).open(&mark).and_then(|mark| mark.set_times(used));
            return Ok(Built { site, _in_use: Some(in_use) });
        }
        let in_use = self.lock(key, phases)?;
        // Another opcost may have built it meanwhile.
        if !is_built() {
            self.remove(key)?;
            self.build(commit, recipe, key, &shown, phases).inspect_err(|error| {
                // Report the build's error, not an error of the removal.
                let _ = self.remove(key);
                if status_of(error) == Some(Status::WorkFailed) {
                    self.failed.borrow_mut().insert(key.clone(), in_words(error));
                }
            })?;
            if let Some(artifact) = missing(folder) {
                let _ = self.remove(key);
                let build = recipe.build.unwrap_or("nothing");
                let why = format!("{shown}: its tree has no '{artifact}' after '{build}'");
                return Err(fail(Status::WorkFailed, why));
            }
            write(&mark, format!("{}\n", commit.id).as_bytes())?;
        }
        // Others may run the build as well, and nobody removes it meanwhile.
        in_use
            .lock_shared()
            .with_context(|| format!("cannot lock '{key}' for running"))
            .status(Status::Missing)?;
        Ok(Built { site, _in_use: Some(in_use) })
    }

    fn build(
        &self,
        commit: &RepositoryCommit,
        recipe: Recipe<'_>,
        key: &str,
        shown: &str,
        phases: &mut Phases,
    ) -> Result<()> {
        let folder = self.home.join("trees").join(key).join("tree");
        phases.report(&format!("checking out {shown}"), None);
        {
            let _lock = self.lock("git", phases)?;
            make_folder(folder.parent().unwrap_or(&folder))?;
            let words: [&dyn AsRef<OsStr>; 7] =
                [&"worktree", &"add", &"--quiet", &"--force", &"--detach", &folder, &commit.id];
            git(&self.own_repository(), &words, &[])?;
        }
        let log = self.home.join("trees").join(format!("{key}.log"));
        for fixup in self.fixups_of(commit, recipe.fixups)? {
            phases.report(&format!("applying a fixup to {shown}: {fixup}"), None);
            match &fixup.change {
                FixupChange::Run(command) => {
                    self.run(&format!("{shown}: the fixup"), command, &folder, &log)?;
                }
                FixupChange::Patch(path) => {
                    let words: [&dyn AsRef<OsStr>; 3] = [&"apply", &"--whitespace=nowarn", path];
                    git(&folder, &words, &[]).map_err(|error| {
                        let why = format!(
                            "{shown}: the fixup {fixup} does not apply: {}; change its commits, or the patch",
                            in_words(&error)
                        );
                        fail(Status::WorkFailed, why)
                    })?;
                }
            }
        }
        let Some(build) = recipe.build else { return Ok(()) };
        phases.report(&format!("building {shown}: {build}"), None);
        self.run(&format!("{shown}: the build"), build, &folder, &log)
    }

    /// Runs a command of the shell in a revision's tree.
    ///
    /// `what`: the command's part in the work, for errors.
    ///
    /// # Errors
    /// The command fails: status "work failed", with the last lines of its output. `log` has all of them.
    fn run(&self, what: &str, command: &str, folder: &Path, log: &Path) -> Result<()> {
        let file = File::create(log)
            .with_context(|| format!("cannot write '{}'", log.display()))
            .status(Status::Missing)?;
        let output = || Ok::<_, std::io::Error>(Output::File(file.try_clone()?.into()));
        let words = ["sh", "-c", command].map(OsString::from);
        let variables = std::env::vars_os();
        let env = variables.filter(|(name, _)| GIT_VARIABLES.iter().all(|git| name != git));
        let spawn = Spawn {
            cwd: Some(folder.to_path_buf()),
            env: Some(env.collect()),
            stdout: output().status(Status::Missing)?,
            stderr: output().status(Status::Missing)?,
            ..Spawn::new("/bin/sh", words)
        };
        let running = spawn.hold().and_then(|held| held.release()).status(Status::Missing)?;
        let exit = { running }.wait(None, self.interrupt).status(Status::Missing)?;
        let how = match (exit.ended_by, exit.status) {
            (EndedBy::Interrupt, _) => return Err(fail(Status::Interrupted, "interrupted")),
            (_, ProcessStatus::Code(0)) => return Ok(()),
            (_, ProcessStatus::Code(code)) => format!("ended with status {code}"),
            (_, ProcessStatus::Signal(signal)) => format!("was killed by signal {signal}"),
        };
        self.check_room()?;
        let said = fs::read(log).unwrap_or_default();
        let said: Vec<&[u8]> = said
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
            .collect();
        let last = said.len().saturating_sub(LINES_SHOWN);
        let lines: Vec<String> =
            said[last..].iter().map(|line| format!("\n    {}", printable_bytes(line))).collect();
        let why = format!(
            "{what} '{command}' {how}{}\n  all that it printed is in {}",
            lines.concat(),
            log.display()
        );
        Err(fail(Status::WorkFailed, why))
    }

    /// Fails if the disk is full: a build may have failed for this reason, and its log may be lost, too.
    fn check_room(&self) -> Result<()> {
        let probe = self.home.join("room");
        let written = fs::write(&probe, vec![0; ROOM_BYTES]);
        let _ = fs::remove_file(&probe);
        match written {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                let why = format!(
                    "the disk that has '{}' is full, so no revision can be built there; make room, or set \
                     XDG_CACHE_HOME to a folder of another disk",
                    self.home.display()
                );
                Err(fail(Status::Missing, why))
            }
            _ => Ok(()),
        }
    }

    /// The version of a compiler: the first line of its `--version`. Programs of another architecture than this computer's are made
    /// by GNU's cross compiler, unless the suite or `CC` names another.
    fn compiler(&self, given: Option<&str>, wanted: Architecture) -> Result<String> {
        let usual = || std::env::var("CC").ok().filter(|cc| !cc.trim().is_empty());
        let own = Architecture::of_machine(std::env::consts::ARCH) == Some(wanted);
        let cross = || if own { "cc".into() } else { format!("{}-gcc", wanted.row().triple) };
        let name = given.map(String::from).or_else(usual).unwrap_or_else(cross);
        if let Some(known) = self.compilers.borrow().get(&name) {
            return Ok(known.clone());
        }
        let words = shlex::split(&name).filter(|words| !words.is_empty());
        let words =
            words.ok_or_else(|| fail(Status::Usage, format!("compiler '{name}' is no command")))?;
        let said = Command::new(&words[0])
            .args(&words[1..])
            .arg("--version")
            .stdin(Stdio::null())
            .output();
        let line = said.ok().filter(|said| said.status.success()).and_then(|said| {
            let text = String::from_utf8_lossy(&said.stdout).into_owned();
            text.lines().next().map(|line| line.trim().to_string()).filter(|line| !line.is_empty())
        });
        let version = match (line, given) {
            (Some(line), _) => line,
            // A build without a C compiler need not name one.
            (None, None) => "none".into(),
            (None, Some(_)) => {
                let why = format!(
                    "compiler '{name}': '{name} --version' does not say which version it is; name another \
                     in opcost.toml"
                );
                return Err(fail(Status::WorkFailed, why));
            }
        };
        self.compilers.borrow_mut().insert(name, version.clone());
        Ok(version)
    }
}

/// What tells a fixup from others: its command, or the digest of its patch.
fn content_of(fixup: &Fixup) -> Result<String> {
    match &fixup.change {
        FixupChange::Run(command) => Ok(command.clone()),
        FixupChange::Patch(path) => match fs::read(path) {
            Ok(patch) => Ok(digest(&patch)),
            Err(error) => {
                let why = format!("fixup {fixup}: cannot read '{}': {error}", path.display());
                Err(fail(Status::Usage, why))
            }
        },
    }
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder '{}'", folder.display()))
        .status(Status::Missing)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)
        .with_context(|| format!("cannot write '{}'", path.display()))
        .status(Status::Missing)
}

/// A temporary file with a text, from its beginning.
fn file_of(text: &str) -> std::io::Result<Stdio> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// Runs git in a folder; returns git's output.
fn git(folder: &Path, words: &[&dyn AsRef<OsStr>], env: &[(&str, &OsStr)]) -> Result<String> {
    git_told(folder, words, env, None)
}

/// Runs git in a folder with a text as its standard input.
fn git_told(
    folder: &Path,
    words: &[&dyn AsRef<OsStr>],
    env: &[(&str, &OsStr)],
    input: Option<&str>,
) -> Result<String> {
    let mut git = Command::new("git");
    for name in GIT_VARIABLES {
        git.env_remove(name);
    }
    git.arg("-C").arg(folder).args(GIT_QUIET).args(words).envs(env.iter().copied());
    git.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").stdin(match input {
        Some(text) => {
            file_of(text).context("cannot write what git reads").status(Status::Missing)?
        }
        None => Stdio::null(),
    });
    let output = git.output().context("cannot run git").status(Status::Missing)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_string());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    let what: Vec<_> = words.iter().take(2).map(|word| word.as_ref().to_string_lossy()).collect();
    let why = format!("git {} in {}: {said}", what.join(" "), folder.display());
    Err(fail(Status::Missing, why))
}
