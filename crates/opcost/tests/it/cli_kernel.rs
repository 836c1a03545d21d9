//! `opcost kernel` as a user runs it, on a mock of Linux's makefile.

use crate::lab::{Ended, Lab, Started, wait_gone, wait_until};
use crate::needs;
use std::fs;
use std::process::Command;

const MAKEFILE: &str = "
tinyconfig:
\tprintf 'CONFIG_TINY=y\\n' > $(O)/.config
olddefconfig:
\ttouch $(O)/.config
bzImage:
\tmkdir -p $(O)/arch/x86/boot
\tcp image $(O)/arch/x86/boot/bzImage
\ttouch $(O)/vmlinux $(O)/System.map
\t@echo '  CC      a.o'
\t[ -e $(O)/../../free ] || { echo $$$$ > $(O)/../../building-by; exec sleep 1000; }
";

/// A file with the header of a bzImage (Documentation/arch/x86/boot.rst) and a release.
fn image() -> Vec<u8> {
    let mut bytes = vec![0; 0x1000];
    bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
    bytes[0x20e..0x210].copy_from_slice(&[0x00, 0x01]);
    bytes[0x236] = 1;
    bytes[0x300..0x310].copy_from_slice(b"6.1.7-mock #1 x\0");
    bytes
}

/// A lab with a source tree and tools; a skip message and `None` without make.
fn kernel_lab() -> Option<Lab> {
    if !needs::programs(&["make"]) {
        return None;
    }
    let lab = Lab::new();
    lab.write("linux/Makefile", MAKEFILE);
    lab.write("linux/Kconfig", "");
    lab.write("linux/image", image());
    lab.write("tiny.config", "CONFIG_TINY=y\n");
    for tool in ["gcc", "ld", "flex", "bison", "bc", "tar"] {
        lab.script(&format!("bin/{tool}"), &format!("echo {tool} 1.0"));
    }
    Some(lab)
}

fn command(lab: &Lab, args: &[&str]) -> Command {
    let mut command = lab.command(args);
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{}:{path}", lab.path("bin").display()))
        .env("XDG_CACHE_HOME", lab.path("cache"));
    command
}

fn run(lab: &Lab, args: &[&str]) -> Ended {
    command(lab, args).spawn().unwrap().end()
}

const BUILD: [&str; 8] =
    ["kernel", "build", "--source", "linux", "--name", "mock", "--config", "tiny.config"];

#[test]
fn an_interrupted_build_ends_its_processes_and_is_not_taken_for_a_kernel() {
    let Some(lab) = kernel_lab() else { return };
    let building = command(&lab, &BUILD).spawn().unwrap();
    let inner = lab.wait_for("cache/opcost/kernels/building-by");
    building.signal(libc::SIGINT);
    building.end().expect(130).says(&["interrupted"]);
    wait_gone(&inner);
    let list = run(&lab, &["kernel", "list"]).expect(0).stdout;
    assert!(list.contains("no kernels yet"), "{list}");
    lab.write("cache/opcost/kernels/free", "");
    let built = run(&lab, &BUILD).expect(0);
    assert!(built.stdout.starts_with("mock: Linux 6.1.7-mock of "), "{}", built.stdout);
    assert!(built.stderr.contains("opcost: building mock\n"), "{}", built.stderr);
    assert_eq!(run(&lab, &[&BUILD[..], &["-q"]].concat()).expect(0).stderr, "");
}

#[test]
fn a_waiting_builder_can_be_interrupted_too() {
    let Some(lab) = kernel_lab() else { return };
    let first = command(&lab, &BUILD).spawn().unwrap();
    let inner = lab.wait_for("cache/opcost/kernels/building-by");
    let said = fs::File::create(lab.path("said")).unwrap();
    let second = command(&lab, &BUILD).stderr(said).spawn().unwrap();
    wait_until("the second to wait", || lab.read("said").contains("waiting").then_some(()));
    second.signal(libc::SIGTERM);
    second.end().expect(130);
    first.signal(libc::SIGTERM);
    first.end().expect(130);
    wait_gone(&inner);
}

/// The mock's source as a git repository of one commit; a skip message and `None` without git.
fn git_lab() -> Option<Lab> {
    let lab = kernel_lab()?;
    if !needs::programs(&["git"]) {
        return None;
    }
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(lab.path("linux")).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        assert!(git.args(words).status().unwrap().success(), "git {words:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "first"]);
    Some(lab)
}

const REVISION: [&str; 8] =
    ["kernel", "build", "--source", "linux", "--revision", "HEAD", "--config", "tiny.config"];

#[test]
fn a_killed_build_of_a_revision_is_not_taken_for_a_kernel() {
    let Some(lab) = git_lab() else { return };
    let building = command(&lab, &REVISION).spawn().unwrap();
    let inner = lab.wait_for("cache/opcost/kernels/building-by");
    building.signal(libc::SIGKILL);
    building.end();
    // The processes of the killed build continue, and do not block another build.
    let list = run(&lab, &["kernel", "list"]).expect(0).stdout;
    assert!(list.contains("no kernels yet"), "{list}");
    lab.write("cache/opcost/kernels/free", "");
    let built = run(&lab, &REVISION).expect(0);
    Command::new("kill").arg(inner.trim()).status().unwrap();
    wait_gone(&inner);
    assert!(built.stdout.starts_with("HEAD: Linux 6.1.7-mock of "), "{}", built.stdout);
    assert!(built.stderr.contains("opcost: building HEAD\n"), "{}", built.stderr);
    let again = run(&lab, &REVISION).expect(0);
    assert!(!again.stderr.contains("building"), "{}", again.stderr);
    let list = run(&lab, &["kernel", "list"]).expect(0).stdout;
    assert!(list.contains("/linux at ") && list.contains("tiny.config"), "{list}");

    // HEAD may be another commit by now: the list has the commit, and only the commit names the kernel.
    let mut git = Command::new("git");
    let asked = git.arg("-C").arg(lab.path("linux")).args(["rev-parse", "HEAD"]).output().unwrap();
    let head = String::from_utf8(asked.stdout).unwrap();
    let commit = &head[..12];
    assert!(list.contains(&format!("\n{commit} (HEAD) ")), "{list}");
    let json = run(&lab, &["kernel", "list", "--json"]).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[0]["revision"], &json[0]["commit"]), (&"HEAD".into(), &head.trim().into()));
    run(&lab, &["kernel", "forget", "HEAD"]).expect(5).says(&["no kernel 'HEAD' in the cache"]);
    let gone = run(&lab, &["kernel", "forget", commit]).expect(0).stdout;
    assert!(gone.starts_with(&format!("removed kernel {commit} (HEAD) (")), "{gone}");
}

#[test]
fn revisions_that_cannot_be_booted_are_named_before_anything_runs() {
    let Some(lab) = git_lab() else { return };
    let work = ["compare", "--machine", "emulated", "-w", "syscall", "-w", "syscall:ops=7"];
    let refused = |args: &[&str], said: &[&str]| {
        run(&lab, &[&work[..], args].concat()).expect(2).says(said);
    };
    refused(&["--kernel-tree", "linux", "--kernel", "v9"], &["git knows no revision 'v9'"]);
    refused(&["--kernel-tree", "bin/..", "--kernel", "HEAD"], &["not a git repository"]);
    refused(&["--kernel-tree", "linux"], &["--kernel-tree linux: say which revisions to boot"]);
    refused(&["--kernel-config", "tiny.config", "--kernel", "x"], &["add that, or build"]);
    let absent = ["--kernel-tree", "linux", "--kernel", "HEAD", "--kernel-config", "none"];
    refused(&absent, &["--kernel-config", "none: there is no such file"]);
    let host = ["compare", "true", "true ", "--kernel-tree", "linux"];
    run(&lab, &host).expect(2).says(&["'kernel-tree' is for the emulated machine"]);
}

#[test]
fn the_list_says_what_there_is() {
    let Some(lab) = kernel_lab() else { return };
    lab.write("cache/opcost/kernels/free", "");
    run(&lab, &BUILD).expect(0);
    let text = run(&lab, &["kernel", "list"]).expect(0).stdout;
    let row = text.lines().nth(1).unwrap();
    assert!(row.starts_with("mock ") && row.contains(" 6.1.7-mock "), "{text}");
    assert!(text.ends_with("/linux, tiny.config\n"), "{text}");
    let json = run(&lab, &["kernel", "list", "--json"]).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["name"], "mock");
    assert_eq!(json[0]["image_bytes"], 0x1000);
    assert_eq!(json[0]["compiler"], "gcc 1.0; ld 1.0");
    let folder = json[0]["folder"].as_str().unwrap();
    assert!(fs::exists(format!("{folder}/System.map")).unwrap());
}

#[test]
fn bad_input_is_named() {
    let Some(lab) = kernel_lab() else { return };
    run(&lab, &["kernel", "build"]).expect(2).says(&["--config"]);
    let absent = ["kernel", "build", "--config", "none.config", "--source", "linux"];
    run(&lab, &absent).expect(2).says(&["cannot read the configuration 'none.config'"]);
    lab.write("odd.config", "SMP=y\n");
    let odd = ["kernel", "build", "--config", "odd.config", "--source", "linux"];
    run(&lab, &odd).expect(2).says(&["odd.config:1: 'SMP=y' is neither"]);
    let nowhere = ["kernel", "build", "--config", "tiny.config", "--source", "nowhere"];
    run(&lab, &nowhere).expect(2).says(&["--source nowhere: there is no such folder"]);
    let named = [&BUILD[..4], &["--config", "tiny.config", "--name", "a/b"]].concat();
    run(&lab, &named).expect(2).says(&["'a/b' cannot be a kernel's name"]);
}
