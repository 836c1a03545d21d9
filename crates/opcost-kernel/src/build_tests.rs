//! Builds of a mock kernel: its makefile has the targets of Linux and records each build.

use super::{Builder, build, build_revision};
use crate::cache::Cache;
use crate::error::KernelError;
use crate::git::tests::{commit, run};
use crate::spec::{KernelSpec, Recipe, Toolchain};
use crate::{Kernel, find_revision, functions, image};
use opcost_record::Architecture;
use opcost_sys::interrupt::Interrupt;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAKEFILE: &str = r#"
tinyconfig:
	printf 'CONFIG_TINY=y\n# CONFIG_ASKED is not set\n' > $(O)/.config
olddefconfig:
	grep -v UNKNOWN $(O)/.config > $(O)/new
	mv $(O)/new $(O)/.config
bzImage:
	@echo build >> $(O)/../../builds
	@mkdir -p $(O)/arch/x86/boot
	@cp $(O)/.config $(O)/vmlinux
	@cp note $(O)/System.map
	@echo '  CC      mm/mmap.o'
	@if [ -f mmap.o ]; then mkdir -p $(O)/mm; cp mmap.o $(O)/mm/; cp mmap.o $(O)/mm/none.o; fi
	@echo "$(CC)$(if $(LLVM), and LLVM=$(LLVM))" > $(O)/../../compiler
	@if grep -q BREAK=y $(O)/.config; then echo 'mm/mmap.c:7:1: error: broken'; exit 1; fi
	@cat image note $(O)/.config > $(O)/arch/x86/boot/bzImage
	@if grep -q FORGET=y $(O)/.config; then rm $(O)/vmlinux; fi
"#;

/// A mock source with fragments and tools in a temporary folder.
struct Mock {
    folder: tempfile::TempDir,
}

impl Mock {
    /// `None`, with a message, if the machine lacks make, patch, tar or xz.
    fn new() -> Option<Mock> {
        for program in ["make", "patch", "tar", "xz"] {
            if Command::new(program).arg("--version").output().is_err() {
                crate::skip::skip!("there is no {program} here");
                return None;
            }
        }
        let mock = Mock { folder: tempfile::tempdir().unwrap() };
        mock.write("linux/Makefile", MAKEFILE);
        mock.write("linux/Kconfig", "config UNKNOWN\n\tdepends on WISDOM\n");
        mock.write("linux/note", "as it was\n");
        fs::write(mock.path("linux/image"), image::tests::made("6.1.99")).unwrap();
        mock.write("base.config", "CONFIG_ASKED=y\n");
        mock.write("more.config", "CONFIG_MORE=7\n");
        for tool in ["gcc", "ld", "flex", "bison", "bc"] {
            mock.tool(tool, &format!("#!/bin/sh\necho {tool} 1.0\n"));
        }
        Some(mock)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn tool(&self, name: &str, text: &str) {
        self.write(&format!("bin/{name}"), text);
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path(&format!("bin/{name}")), executable).unwrap();
    }

    fn recipe(&self, config: &[&str], patches: &[&str]) -> Recipe {
        Recipe {
            name: "mock".into(),
            source: Some(self.path("linux")),
            config: config.iter().map(|name| self.path(name)).collect(),
            patches: patches.iter().map(|name| self.path(name)).collect(),
            toolchain: Toolchain::Gcc,
        }
    }

    fn build_telling(&self, recipe: &Recipe) -> (Result<Kernel, KernelError>, Vec<String>) {
        let mut told: Vec<String> = Vec::new();
        let mut search: OsString = self.path("bin").into();
        search.push(":/usr/bin:/bin");
        let result = build(
            &mut Builder {
                architecture: Architecture::X86_64,
                cache: Cache::new(&self.path("cache")),
                system: self.folder.path().into(),
                path_env: Some(search),
                interrupt: &Interrupt::none(),
                progress: &mut |phase, _| told.push(phase.to_string()),
            },
            recipe,
        );
        (result, told)
    }

    fn build(&self, config: &[&str], patches: &[&str]) -> Result<Kernel, KernelError> {
        self.build_telling(&self.recipe(config, patches)).0
    }

    /// How many times make built an image.
    fn builds(&self) -> usize {
        fs::read_to_string(self.path("cache/builds")).map_or(0, |text| text.lines().count())
    }

    fn left_in(&self, folder: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache").join(folder)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn text(path: Option<&PathBuf>) -> String {
    fs::read_to_string(path.unwrap()).unwrap()
}

#[test]
fn a_kernel_is_built_once() {
    let Some(mock) = Mock::new() else { return };
    let (kernel, told) = mock.build_telling(&mock.recipe(&["base.config", "more.config"], &[]));
    let kernel = kernel.unwrap();
    assert_eq!(kernel.name, "mock");
    assert_eq!(kernel.release.as_deref(), Some("6.1.99"));
    assert_eq!(kernel.digest, image::digest(&fs::read(&kernel.image).unwrap()));
    assert_eq!(text(kernel.config.as_ref()), "CONFIG_TINY=y\nCONFIG_ASKED=y\nCONFIG_MORE=7\n");
    assert_eq!(text(kernel.system_map.as_ref()), "as it was\n");
    assert!(kernel.vmlinux.is_some());
    assert!(told.contains(&"configuring mock".into()) && told.contains(&"building mock".into()));
    assert_eq!(mock.builds(), 1);
    let (again, told) = mock.build_telling(&mock.recipe(&["base.config", "more.config"], &[]));
    assert_eq!(again.unwrap(), kernel);
    assert_eq!(mock.builds(), 1, "{told:?}");
    assert!(mock.left_in("building").is_empty() && mock.left_in("logs").is_empty());
    assert!(!mock.path("linux/.config").exists(), "the user's tree was written to");
}

#[test]
fn every_input_changes_the_key() {
    let Some(mock) = Mock::new() else { return };
    mock.write("a.patch", "--- a/note\n+++ b/note\n@@ -1 +1 @@\n-as it was\n+patched\n");
    let mut images: Vec<PathBuf> = Vec::new();
    let mut built = |what: &str, config: &[&str], patches: &[&str]| {
        let image = mock.build(config, patches).unwrap().image;
        assert!(!images.contains(&image), "{what} did not change the key");
        images.push(image);
    };
    built("nothing", &["base.config"], &[]);
    built("another fragment", &["base.config", "more.config"], &[]);
    mock.write("asked.config", "CONFIG_ASKED=m\n");
    built("a fragment's text", &["asked.config"], &[]);
    built("a patch", &["base.config"], &["a.patch"]);
    mock.tool("gcc", "#!/bin/sh\necho gcc 2.0\n");
    built("the compiler", &["base.config"], &[]);
    mock.tool("ld", "#!/bin/sh\necho ld 2.0\n");
    built("the linker", &["base.config"], &[]);
    mock.write("linux/note", "another\n");
    built("the source", &["base.config"], &[]);
}

#[test]
fn inputs_that_configure_the_same_kernel_share_one() {
    let Some(mock) = Mock::new() else { return };
    let kernel = mock.build(&["base.config", "more.config"], &[]).unwrap();
    mock.write("comment.config", "# only a comment\nCONFIG_ASKED=y\n");
    mock.write("all.config", "CONFIG_MORE=7\nCONFIG_ASKED=y\n");
    for config in [&["comment.config", "more.config"][..], &["all.config"], &["all.config"]] {
        assert_eq!(mock.build(config, &[]).unwrap(), kernel, "{config:?}");
    }
    assert_eq!(mock.builds(), 1);
    assert!(mock.left_in("building").is_empty());
    // Sources with other bytes may give the same image.
    mock.write("linux/mm/new.c", "");
    assert_eq!(mock.build(&["base.config", "more.config"], &[]).unwrap(), kernel);
    assert_eq!(mock.build(&["base.config", "more.config"], &[]).unwrap(), kernel);
    assert_eq!(mock.builds(), 2);
    let entries = Cache::new(&mock.path("cache")).entries();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].1.names, ["mock"]);
}

#[test]
fn a_word_that_means_several_kernels_is_refused_with_their_keys() {
    let Some(mock) = Mock::new() else { return };
    let Some(commit) = mock.repository() else { return };
    let find = |name: &str| Cache::new(&mock.path("cache")).find_built(name);
    let small = mock.build_commit("HEAD", &["base.config"]).unwrap();
    assert_eq!(find(&commit).unwrap().image, small.image);
    assert_eq!(find(&format!("{} (HEAD)", &commit[..12])).unwrap().image, small.image);
    let large = mock.build_commit("HEAD", &["base.config", "more.config"]).unwrap();
    let error = find(&commit[..12]).unwrap_err();
    assert!(matches!(error, KernelError::Ambiguous { .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("means 2 kernels"), "{error}");
    for kernel in [small, large] {
        let key = kernel.image.parent().unwrap().file_name().unwrap().to_str().unwrap();
        assert!(error.contains(&key[..12]), "{error}");
        assert_eq!(find(&key[..12]).unwrap().image, kernel.image);
    }
    // A commit that builds a kernel that is there selects it, too.
    mock.write("mine.config", "# opcost\nCONFIG_ASKED=y\n");
    run(&mock.path("linux"), &["commit", "-q", "--allow-empty", "-m", "nothing"]);
    let again = mock.build_commit("HEAD", &["mine.config"]).unwrap();
    let now = run(&mock.path("linux"), &["rev-parse", "HEAD"]).unwrap();
    assert_eq!(find(&now).unwrap().image, again.image);
    assert_eq!(mock.builds(), 2);
}

#[test]
fn the_toolchain_is_the_one_asked_for() {
    let Some(mock) = Mock::new() else { return };
    let build = |toolchain: Toolchain| {
        let recipe = Recipe { toolchain, ..mock.recipe(&["base.config"], &[]) };
        mock.build_telling(&recipe).0
    };
    // Whether this machine has ccache must not matter.
    mock.tool("ccache", "#!/bin/sh\nexec \"$@\"\n");
    mock.tool("other-cc", "#!/bin/sh\necho other 3.0\n");
    let gcc = build(Toolchain::Gcc).unwrap();
    let other = build(Toolchain::Cc("other-cc".into())).unwrap();
    assert_ne!(gcc.image, other.image);
    assert_eq!(text(Some(&mock.path("cache/compiler"))), "ccache other-cc\n");
    let missing = build(Toolchain::Cc("no-such-cc".into())).unwrap_err().to_string();
    let why = "building a kernel needs what is missing here: no-such-cc; on Debian: apt-get install no-such-cc";
    assert_eq!(missing, why);
    let llvm =
        ["clang", "ld.lld", "llvm-ar", "llvm-nm", "llvm-objcopy", "llvm-objdump", "llvm-readelf"];
    for tool in llvm {
        mock.tool(tool, &format!("#!/bin/sh\necho {tool} 14\n"));
    }
    build(Toolchain::Llvm).unwrap();
    assert_eq!(text(Some(&mock.path("cache/compiler"))), "ccache clang and LLVM=1\n");
    let compilers: Vec<Option<String>> = Cache::new(&mock.path("cache"))
        .entries()
        .into_iter()
        .map(|(_, entry)| entry.compiler)
        .collect();
    assert!(compilers.contains(&Some("clang 14; ld.lld 14".into())), "{compilers:?}");
}

#[test]
fn a_patch_is_applied_to_a_copy() {
    let Some(mock) = Mock::new() else { return };
    mock.write("a.patch", "--- a/note\n+++ b/note\n@@ -1 +1 @@\n-as it was\n+patched\n");
    let kernel = mock.build(&["base.config"], &["a.patch"]).unwrap();
    assert_eq!(text(kernel.system_map.as_ref()), "patched\n");
    assert_eq!(text(Some(&mock.path("linux/note"))), "as it was\n");
    mock.write("bad.patch", "--- a/note\n+++ b/note\n@@ -1 +1 @@\n-not so\n+patched\n");
    let error = mock.build(&["base.config"], &["bad.patch"]).unwrap_err().to_string();
    assert!(
        error.starts_with("applying bad.patch failed: ") && error.contains("FAILED"),
        "{error}"
    );
    assert!(mock.left_in("building").is_empty());
}

#[test]
fn debians_tarball_is_unpacked_once_and_stays_as_it_was() {
    let Some(mock) = Mock::new() else { return };
    mock.write("a.patch", "--- a/note\n+++ b/note\n@@ -1 +1 @@\n-as it was\n+patched\n");
    fs::create_dir_all(mock.path("usr/src")).unwrap();
    let packed = Command::new("tar")
        .args(["-cJf", "usr/src/linux-source-6.1.tar.xz", "linux"])
        .current_dir(mock.folder.path())
        .status();
    assert!(packed.unwrap().success());
    let mut recipe = Recipe { source: None, ..mock.recipe(&["base.config"], &["a.patch"]) };
    let (kernel, told) = mock.build_telling(&recipe);
    assert_eq!(text(kernel.unwrap().system_map.as_ref()), "patched\n");
    assert!(told.contains(&"unpacking linux-source-6.1.tar.xz".into()), "{told:?}");
    recipe.patches.clear();
    let (kernel, told) = mock.build_telling(&recipe);
    assert_eq!(text(kernel.unwrap().system_map.as_ref()), "as it was\n");
    assert!(!told.iter().any(|text| text.starts_with("unpacking")), "{told:?}");
}

#[test]
fn options_that_do_not_take_are_named() {
    let Some(mock) = Mock::new() else { return };
    mock.write("odd.config", "CONFIG_UNKNOWN=y\nCONFIG_ASKED=m\n");
    let error = mock.build(&["odd.config"], &[]).unwrap_err();
    let expected = "CONFIG_UNKNOWN=y was asked for, but it is n: it depends on WISDOM".to_string();
    match &error {
        KernelError::Options(lines) => assert_eq!(*lines, [expected]),
        other => panic!("{other}"),
    }
    assert_eq!(mock.builds(), 0);
    assert!(mock.left_in("building").is_empty());
}

#[test]
fn a_failing_build_shows_why_and_leaves_nothing() {
    let Some(mock) = Mock::new() else { return };
    mock.write("break.config", "CONFIG_BREAK=y\n");
    let error = mock.build(&["break.config"], &[]).unwrap_err();
    let KernelError::Step { what, lines, log } = &error else { panic!("{error}") };
    assert_eq!(
        (what.as_str(), &lines[..]),
        ("building mock", &["mm/mmap.c:7:1: error: broken".to_string()][..])
    );
    assert!(text(Some(log)).contains("CC      mm/mmap.o"));
    assert!(mock.left_in("building").is_empty());
    assert!(Cache::new(&mock.path("cache")).entries().is_empty());
    mock.write("forget.config", "CONFIG_FORGET=y\n");
    let error = mock.build(&["forget.config"], &[]).unwrap_err().to_string();
    assert!(error.contains("make succeeded, but vmlinux is missing"), "{error}");
}

#[test]
fn what_is_not_whole_is_built_again() {
    let Some(mock) = Mock::new() else { return };
    let kernel = mock.build(&["base.config"], &[]).unwrap();
    let entry = kernel.image.parent().unwrap();
    // This is what a killed build of an older opcost leaves behind.
    let key = entry.file_name().unwrap();
    let stale = mock.path("cache/building").join(key);
    fs::create_dir_all(&stale).unwrap();
    fs::write(stale.join("vmlinux"), "half").unwrap();
    for damage in ["kernel.json", "bzImage"] {
        let path = entry.join(damage);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let before = mock.builds();
        assert_eq!(mock.build(&["base.config"], &[]).unwrap(), kernel, "{damage}");
        assert_eq!(mock.builds(), before + 1, "{damage}");
    }
    assert!(!stale.exists());
}

#[test]
fn two_at_once_build_one() {
    let Some(mock) = Mock::new() else { return };
    let kernels: Vec<Kernel> = std::thread::scope(|scope| {
        let builders: Vec<_> =
            (0..4).map(|_| scope.spawn(|| mock.build(&["base.config"], &[]).unwrap())).collect();
        builders.into_iter().map(|builder| builder.join().unwrap()).collect()
    });
    assert!(kernels.iter().all(|kernel| *kernel == kernels[0]));
    assert_eq!(mock.builds(), 1);
}

#[test]
fn missing_tools_are_named_at_once() {
    let Some(mock) = Mock::new() else { return };
    mock.write("lz4.config", "CONFIG_KERNEL_LZ4=y\n");
    // The compiler finds no header; PATH has only the mock tools.
    mock.tool("gcc", "#!/bin/sh\nexit 1\n");
    for gone in ["flex", "bc"] {
        fs::remove_file(mock.path("bin").join(gone)).unwrap();
    }
    let result = build(
        &mut Builder {
            architecture: Architecture::X86_64,
            cache: Cache::new(&mock.path("cache")),
            system: mock.folder.path().into(),
            path_env: Some(mock.path("bin").into()),
            interrupt: &Interrupt::none(),
            progress: &mut |_, _| {},
        },
        &mock.recipe(&["lz4.config"], &[]),
    );
    assert_eq!(
        result.unwrap_err().to_string(),
        "building a kernel needs what is missing here: make, flex, bc, tar, lz4, libelf's headers; \
         on Debian: apt-get install bc flex libelf-dev lz4 make tar"
    );
}

#[test]
fn a_name_is_the_kernel_last_built_under_it() {
    let Some(mock) = Mock::new() else { return };
    let find = |name: &str| Cache::new(&mock.path("cache")).find_built(name);
    let first = mock.build(&["base.config"], &[]).unwrap();
    let second = mock.build(&["more.config"], &[]).unwrap();
    assert_ne!(first, second);
    assert_eq!(find("mock").unwrap(), second);
    mock.build(&["base.config"], &[]).unwrap();
    assert_eq!(find("mock").unwrap(), first);
    let key = second.image.parent().unwrap().file_name().unwrap().to_str().unwrap();
    assert_eq!(find(&key[..12]).unwrap().image, second.image);
    let error = find("mok").unwrap_err().to_string();
    assert!(error.contains("no kernel 'mok' has been built (did you mean mock?)"), "{error}");
    let bad = Recipe { name: "../x".into(), ..mock.recipe(&["base.config"], &[]) };
    assert!(
        mock.build_telling(&bad).0.unwrap_err().to_string().contains("cannot be a kernel's name")
    );
    assert!(matches!(KernelSpec::parse("mock", Path::new("/")), Ok(KernelSpec::Built(_))));
}

impl Mock {
    /// Turns the source into a git repository with one commit.
    fn repository(&self) -> Option<String> {
        let linux = self.path("linux");
        if Command::new("git").arg("--version").output().is_err() {
            crate::skip::skip!("there is no git here");
            return None;
        }
        run(&linux, &["init", "--quiet", "-b", "main"])?;
        Some(commit(&linux, "first"))
    }

    fn build_commit(&self, name: &str, config: &[&str]) -> Result<Kernel, KernelError> {
        let config: Vec<PathBuf> = config.iter().map(|name| self.path(name)).collect();
        let revision = find_revision(&self.path("linux"), name, &config)?;
        let mut search: OsString = self.path("bin").into();
        search.push(":/usr/bin:/bin");
        build_revision(
            &mut Builder {
                architecture: Architecture::X86_64,
                cache: Cache::new(&self.path("cache")),
                system: self.folder.path().into(),
                path_env: Some(search),
                interrupt: &Interrupt::none(),
                progress: &mut |_, _| (),
            },
            &revision,
        )
    }
}

#[test]
fn a_commit_is_built_once_and_the_users_checkout_stays_as_it_was() {
    let Some(mock) = Mock::new() else { return };
    let Some(first) = mock.repository() else { return };
    let linux = mock.path("linux");
    mock.write("linux/note", "as it is now\n");
    commit(&linux, "second");
    // Uncommitted changes are not built.
    mock.write("linux/note", "not committed\n");
    let built = |name: &str| mock.build_commit(name, &[]).unwrap();
    let old = built(&first);
    assert_eq!(old.name, first);
    assert_eq!(text(old.system_map.as_ref()), "as it was\n");
    let now = built("main");
    assert_eq!(text(now.system_map.as_ref()), "as it is now\n");
    assert_eq!(text(Some(&linux.join("note"))), "not committed\n");
    assert_eq!(run(&linux, &["status", "--porcelain"]).unwrap(), "M note");
    assert_eq!(run(&linux, &["symbolic-ref", "HEAD"]).unwrap(), "refs/heads/main");
    let options = text(now.config.as_ref());
    assert!(options.contains("CONFIG_BLK_DEV_INITRD=y"), "opcost's own: {options}");
    // The same files in another commit give the same kernel.
    run(&linux, &["commit", "-q", "--allow-empty", "-m", "nothing"]);
    assert_eq!((built("HEAD").image, mock.builds()), (now.image.clone(), 2));
    // Neither the lock of a killed git nor a deleted cache prevents a build.
    let lock = linux.join(".git/worktrees");
    let lock = fs::read_dir(lock).unwrap().next().unwrap().unwrap().path().join("index.lock");
    let again = |what: &str| {
        mock.write("linux/note", what);
        commit(&linux, what);
        assert_eq!(text(built("HEAD").system_map.as_ref()), what);
    };
    fs::write(&lock, "").unwrap();
    again("with a lock");
    let worktree = mock.left_in("trees").remove(0);
    fs::write(worktree.join("note"), "half written").unwrap();
    fs::write(worktree.join(".config"), "").unwrap();
    again("with leftovers");
    fs::remove_dir_all(&worktree).unwrap();
    again("without its folder");
    fs::write(worktree.join(".git"), "gitdir: /nonexistent").unwrap();
    again("with a worktree that is none");
    assert!(mock.left_in("building").is_empty() && mock.left_in("logs").is_empty());
}

#[test]
fn a_commit_that_does_not_build_leaves_nothing() {
    let Some(mock) = Mock::new() else { return };
    if mock.repository().is_none() {
        return;
    }
    mock.write("break.config", "CONFIG_BREAK=y\n");
    let error = mock.build_commit("main", &["break.config"]).unwrap_err();
    let KernelError::Step { what, lines, log } = &error else { panic!("{error}") };
    assert_eq!((what.as_str(), lines.len()), ("building main", 1));
    assert!(text(Some(log)).contains("CC      mm/mmap.o"));
    assert!(mock.left_in("building").is_empty());
    assert!(mock.build_commit("main", &["base.config"]).is_ok());
}

#[test]
fn a_whole_configuration_is_taken_as_it_is() {
    let Some(mock) = Mock::new() else { return };
    if mock.repository().is_none() {
        return;
    }
    let head = "# Automatically generated file; DO NOT EDIT.\n";
    let needed = "CONFIG_BLK_DEV_INITRD=y\nCONFIG_BINFMT_ELF=y\nCONFIG_PROC_FS=y\n";
    let keys = "CONFIG_SYSTEM_TRUSTED_KEYS=\"debian/certs/none.pem\"\n";
    // An option that this Linux does not have is dropped, as in Linux itself.
    mock.write("mine.config", &format!("{head}{needed}{keys}CONFIG_UNKNOWN=y\n"));
    let kernel = mock.build_commit("main", &["mine.config"]).unwrap();
    let options = text(kernel.config.as_ref());
    assert!(options.contains("CONFIG_SYSTEM_TRUSTED_KEYS=\"\"\n"), "{options}");
    assert!(!options.contains("UNKNOWN") && !options.contains("TINY"), "{options}");
    mock.write("small.config", &format!("{head}CONFIG_PROC_FS=y\nCONFIG_BINFMT_ELF=m\n"));
    let why = mock.build_commit("main", &["small.config"]).unwrap_err().to_string();
    assert!(why.contains("CONFIG_BINFMT_ELF=y is missing: the guest runs ELF programs"), "{why}");
    assert!(why.contains("CONFIG_BLK_DEV_INITRD=y is missing"), "{why}");
    let why = mock.build_commit("main", &["mine.config", "base.config"]).unwrap_err().to_string();
    assert!(why.contains("this is a whole configuration; give it alone"), "{why}");
}

#[test]
fn ccache_compiles_where_it_is_installed() {
    let Some(mock) = Mock::new() else { return };
    if mock.repository().is_none() {
        return;
    }
    mock.tool("ccache", "#!/bin/sh\nexec \"$@\"\n");
    mock.build_commit("main", &[]).unwrap();
    assert_eq!(text(Some(&mock.path("cache/compiler"))), "ccache gcc\n");
}

#[test]
fn two_builds_of_one_commit_make_one_kernel() {
    let Some(mock) = Mock::new() else { return };
    if mock.repository().is_none() {
        return;
    }
    let kernels: Vec<Kernel> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..2).map(|_| scope.spawn(|| mock.build_commit("main", &[]).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((kernels[0] == kernels[1], mock.builds()), (true, 1));
}

#[test]
fn functions_are_known_by_their_source_files() {
    use object::write::{Object, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, SymbolFlags, SymbolKind, SymbolScope};
    let Some(mock) = Mock::new() else { return };
    let mut made = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let section = made.section_id(object::write::StandardSection::Text);
    let offset = made.append_section_data(section, &[0x90; 16], 16);
    for (name, kind) in [("do_mmap", SymbolKind::Text), ("table", SymbolKind::Data)] {
        made.add_symbol(Symbol {
            name: name.into(),
            value: offset,
            size: 16,
            kind,
            scope: SymbolScope::Compilation,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
    }
    fs::write(mock.path("linux/mmap.o"), made.write().unwrap()).unwrap();
    mock.write("linux/mm/mmap.c", "");
    if mock.repository().is_none() {
        return;
    }
    let kernel = mock.build_commit("main", &[]).unwrap();
    let entry = kernel.image.parent().unwrap();
    let found = functions::read(&entry.join("functions")).unwrap();
    assert_eq!(found, [("do_mmap".to_string(), vec!["mm/mmap.c".to_string()])].into());
    assert_eq!(crate::functions_of(&mock.path("cache"), &kernel.digest), Some(found));
}
