//! Guests that really boot: they send what the host sees of the same work.

use crate::boot::{boot, boot_in, machine};
use opcost_lab::machine::emulated::initramfs::{CommandPack, Initramfs, PackItem, WorkloadPack};
use opcost_record::Report;
use opcost_record::channel::{Frame, FrameKind, GuestExit};
use opcost_record::request::{GuestOutput, GuestRequest};
use opcost_work::WorkloadSpec;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The text of the only frame of a kind.
fn text(frames: &[Frame], kind: FrameKind) -> String {
    let found: Vec<&Frame> = frames.iter().filter(|frame| frame.kind == kind).collect();
    match found.as_slice() {
        [frame] => frame.text(),
        other => panic!("{} frames {:?}: {frames:?}", other.len(), kind),
    }
}

fn exit(frames: &[Frame]) -> GuestExit {
    let exits = frames.iter().filter_map(|frame| match frame.kind {
        FrameKind::Exit(exit) => Some(exit),
        _ => None,
    });
    let [exit] = exits.collect::<Vec<_>>()[..] else { panic!("{frames:?}") };
    exit
}

/// The only report.
fn report(frames: &[Frame]) -> Report {
    let sent = frames.iter().find(|frame| frame.kind == FrameKind::Report).unwrap();
    Report::decode(&sent.body).unwrap()
}

fn command(program: &str, argv: &[&str], cwd: &Path) -> CommandPack {
    CommandPack {
        program: program.into(),
        argv: argv.iter().map(Into::into).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: cwd.into(),
        pack: Vec::new(),
        used: Vec::new(),
        input: None,
        output: GuestOutput::Kept,
        sends: true,
    }
}

fn item(text: &str) -> PackItem {
    PackItem::parse(OsStr::new(text)).unwrap()
}

#[test]
fn workloads_do_in_the_guest_what_they_do_on_the_host() {
    let Some((kernel, guest)) = machine() else { return };
    for (name, ops) in [("mmap", "5000"), ("syscall", "5000")] {
        let params = [("ops".to_string(), ops.to_string())];
        let initramfs =
            Initramfs::for_workload(&guest, name, &params, 7, &WorkloadPack::default()).unwrap();
        let frames = boot(&kernel, &initramfs);
        assert_eq!(exit(&frames), GuestExit::Code(0), "{frames:?}");

        let request = tempfile::NamedTempFile::new().unwrap();
        fs::write(request.path(), GuestRequest::from(initramfs.job().clone()).encode()).unwrap();
        let host = Command::new(&guest).arg("work").arg(request.path()).output().unwrap();
        let host = Report::decode(&host.stdout).unwrap();
        assert!(host.invariants.iter().any(|one| one.name == "op-stream-hash"), "{host:?}");
        assert_eq!(report(&frames), host);
        assert!(!frames.iter().any(|frame| frame.kind == FrameKind::Note), "{frames:?}");
    }
}

#[test]
fn a_compiler_makes_the_same_objects_in_the_guest_as_on_the_host() {
    let Some((kernel, guest)) = machine() else { return };
    let spec = WorkloadSpec::find("build").unwrap();
    let params: Vec<(String, String)> =
        [("files", "2"), ("functions", "1"), ("optimise", "0"), ("jobs", "2")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into();
    let env: Vec<(OsString, OsString)> = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let programs = spec.programs.unwrap()(&spec.resolve(&params).unwrap(), &env);
    let Ok(programs) = programs else {
        crate::skip::skip!("no C compiler here: {}", programs.unwrap_err());
        return;
    };
    let pack = WorkloadPack { programs, env, cwd: "/".into(), pack: Vec::new() };
    let initramfs = Initramfs::for_workload(&guest, "build", &params, 7, &pack).unwrap();
    let frames = boot(&kernel, &initramfs);
    assert_eq!(exit(&frames), GuestExit::Code(0), "{frames:?}");

    let request = tempfile::NamedTempFile::new().unwrap();
    fs::write(request.path(), GuestRequest::from(initramfs.job().clone()).encode()).unwrap();
    let mut host = Command::new(&guest);
    host.arg("work").arg(request.path()).env_clear().env("PATH", "/usr/bin:/bin");
    let here = Report::decode(&host.output().unwrap().stdout).unwrap();
    // Page faults and switches belong to each machine and are not compared.
    let there = report(&frames);
    assert!(here.invariants.iter().any(|invariant| invariant.name == "objects-hash"), "{here:?}");
    assert_eq!((here.ops, here.invariants), (there.ops, there.invariants));
}

#[test]
fn a_workload_that_fails_says_why() {
    let Some((kernel, guest)) = machine() else { return };
    let initramfs =
        Initramfs::for_workload(&guest, "lunch", &[], 7, &WorkloadPack::default()).unwrap();
    let frames = boot(&kernel, &initramfs);
    assert_eq!(exit(&frames), GuestExit::Code(1));
    assert!(text(&frames, FrameKind::Error).contains("unknown workload 'lunch'"), "{frames:?}");
}

#[test]
fn the_kernel_describes_itself() {
    let Some((kernel, guest)) = machine() else { return };
    let frames = boot(&kernel, &Initramfs::for_symbols(&guest).unwrap());
    let symbols = text(&frames, FrameKind::Kallsyms);
    for name in ["_stext", "do_syscall_64", "handle_mm_fault"] {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}")));
        let line = line.unwrap_or_else(|| panic!("no {name}"));
        assert!(line.starts_with("ffffffff8"), "{line}");
    }
    assert!(text(&frames, FrameKind::Cpuinfo).contains("flags"), "{frames:?}");
    assert!(!text(&frames, FrameKind::Uname).is_empty());
}

#[test]
fn commands_bring_output_and_status_back() {
    let Some((kernel, guest)) = machine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let run =
        |command: &CommandPack| boot(&kernel, &Initramfs::for_command(&guest, command).unwrap());

    let mut shell = command("/bin/sh", &["sh", "-c", "/bin/ls /; echo oh >&2; exit 3"], &cwd);
    shell.pack = vec![item("/bin/ls")];
    let frames = run(&shell);
    assert_eq!(exit(&frames), GuestExit::Code(3), "{frames:?}");
    let listed = text(&frames, FrameKind::Stdout);
    for name in ["bin", "dev", "etc", "init", "lib64", "opcost", "proc", "sys", "tmp"] {
        assert!(listed.lines().any(|line| line == name), "{listed}");
    }
    assert_eq!(text(&frames, FrameKind::Stderr), "oh\n");

    let plain: String = (0..2000).map(|number| format!("line {number}\n")).collect();
    fs::write(cwd.join("plain"), &plain).unwrap();
    let frames = run(&command("/bin/gzip", &["gzip", "-9", "-n", "-c", "plain"], &cwd));
    assert_eq!(exit(&frames), GuestExit::Code(0), "{frames:?}");
    let found = frames.iter().find(|frame| frame.kind == FrameKind::Stdout).unwrap();
    let host = Command::new("gzip").args(["-9", "-n", "-c", "plain"]).current_dir(&cwd).output();
    assert_eq!(found.body, host.unwrap().stdout);
}

#[test]
fn a_command_that_is_killed_for_its_memory_is_told_of() {
    let Some((kernel, guest)) = machine() else { return };
    // tail keeps the last line in memory, and this line never ends.
    let mut command = command("/usr/bin/tail", &["tail", "/dev/zero"], Path::new("/"));
    command.sends = false;
    let frames = boot_in(96, &kernel, &Initramfs::for_command(&guest, &command).unwrap());
    assert_eq!(exit(&frames), GuestExit::Signal(9), "{frames:?}");
    assert!(text(&frames, FrameKind::Note).contains("Out of memory"), "{frames:?}");
    // What a failed program printed on standard error comes unasked.
    let of = |kind| frames.iter().filter(|frame| frame.kind == kind).count();
    assert_eq!([FrameKind::Stdout, FrameKind::Stderr].map(of), [0, 1], "{frames:?}");
}

#[test]
fn output_that_is_too_long_is_cut_with_a_note() {
    let Some((kernel, guest)) = machine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let long = vec![b'x'; (1 << 20) + 5];
    fs::write(cwd.join("long"), &long).unwrap();
    let frames = boot(
        &kernel,
        &Initramfs::for_command(&guest, &command("/bin/cat", &["cat", "long"], &cwd)).unwrap(),
    );
    let note = text(&frames, FrameKind::Note);
    assert!(note.starts_with("5 bytes of stdout were dropped"), "{note}");
    assert!(text(&frames, FrameKind::Stdout).bytes().eq(long[..1 << 20].iter().copied()));
}
