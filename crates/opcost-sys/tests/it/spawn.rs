//! Commands started on the real system.

use opcost_sys::interrupt::Interrupt;
use opcost_sys::scheduling::{NoRealTime, no_real_time};
use opcost_sys::spawn::{
    Aslr, EndedBy, Exit, Output, Spawn, SpawnError, Spawner, Stage, Status, WaitError,
};
use opcost_sys::{affinity, personality};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const VARIABLE: &str = "OPCOST_SYS_SPAWN_CASE";

fn sh(script: &str) -> Spawn {
    Spawn::new("/bin/sh", ["sh".into(), "-c".into(), script.into()])
}

fn run(spawn: &Spawn) -> Exit {
    let mut running = spawn.hold().unwrap().release().unwrap();
    running.wait(None, &Interrupt::none()).unwrap()
}

/// Runs a command and returns its standard output.
fn output(mut spawn: Spawn) -> String {
    let mut file = tempfile::tempfile().unwrap();
    spawn.stdout = Output::File(file.try_clone().unwrap().into());
    let exit = run(&spawn);
    assert_eq!(exit.status, Status::Code(0), "{spawn:?}");
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

fn step(error: &SpawnError) -> (Stage, Option<i32>) {
    match error {
        SpawnError::Step { stage, source, .. } => (*stage, source.raw_os_error()),
        other => panic!("{other}"),
    }
}

/// Returns the error of starting a command, at whichever step it comes.
fn refused(spawn: &Spawn) -> SpawnError {
    match spawn.hold() {
        Err(error) => error,
        Ok(held) => held.release().map(drop).unwrap_err(),
    }
}

#[test]
fn ends_are_reported_as_they_were() {
    for (script, status) in [
        ("exit 0", Status::Code(0)),
        ("exit 255", Status::Code(255)),
        ("kill -TERM $$", Status::Signal(libc::SIGTERM)),
        ("kill -KILL $$", Status::Signal(libc::SIGKILL)),
    ] {
        let exit = run(&sh(script));
        assert_eq!((exit.status, exit.ended_by), (status, EndedBy::Itself), "{script}");
        assert!(exit.rusage.minor_faults > 0);
        assert!(exit.started_ns > 0 && exit.ended_ns >= exit.started_ns);
    }
}

#[test]
fn a_held_command_has_done_nothing_yet() {
    let directory = tempfile::tempdir().unwrap();
    let mut spawn = sh("echo ran > ran");
    spawn.cwd = Some(directory.path().to_path_buf());
    let ran = directory.path().join("ran");

    let held = spawn.hold().unwrap();
    let pid = held.pid();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    drop(held);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "dropping ends it");
    assert!(!ran.exists());

    assert_eq!(run(&spawn).status, Status::Code(0));
    assert_eq!(fs::read_to_string(ran).unwrap(), "ran\n");
}

#[test]
fn arguments_and_environment_arrive_unchanged() {
    let odd = "with space, 'quotes' and ü".to_string();
    let script = "printf '%s|' \"$0\" \"$@\"; printf '%s' \"$ODD\"";
    let arguments = ["sh", "-c", script, "zero", "", &odd].map(Into::into);
    let mut spawn = Spawn::new("/bin/sh", arguments);
    spawn.env = Some(vec![("ODD".into(), odd.clone().into())]);
    assert_eq!(output(spawn), format!("zero||{odd}|{odd}"));

    let mut bare = Spawn::new("/usr/bin/env", ["env".into()]);
    bare.env = Some(vec![("A".into(), "1".into()), ("B".into(), "".into())]);
    assert_eq!(output(bare), "A=1\nB=\n");
    let inherited = output(Spawn::new("/usr/bin/env", ["env".into()]));
    let path = format!("PATH={}", std::env::var("PATH").unwrap());
    assert!(inherited.lines().any(|line| line == path), "{inherited}");
}

#[test]
fn streams_go_where_they_are_told() {
    assert_eq!(output(sh("cat; readlink /proc/self/fd/0")), "/dev/null\n");
    assert_eq!(output(sh("readlink /proc/$$/fd/2")), "/dev/null\n");
    let mut spawn = sh("echo out; echo error >&2");
    let mut file = tempfile::tempfile().unwrap();
    spawn.stdout = Output::File(file.try_clone().unwrap().into());
    spawn.stderr = Output::File(file.try_clone().unwrap().into());
    run(&spawn);
    file.rewind().unwrap();
    assert_eq!(io::read_to_string(file).unwrap(), "out\nerror\n");
}

#[test]
fn only_the_descriptors_named_are_passed() {
    // A descriptor without close-on-exec, as a careless parent leaves it.
    let leaked = File::open("/dev/null").unwrap();
    // SAFETY: sets a flag of a descriptor of this test.
    let set = unsafe { libc::fcntl(leaked.as_raw_fd(), libc::F_SETFD, 0) };
    assert_eq!(set, 0);
    let listed = output(sh("ls /proc/$$/fd"));
    // dash keeps a copy of the terminal only when interactive, so the list is complete.
    assert_eq!(listed, "0\n1\n2\n");

    // The targets collide with the numbers of the sources.
    let files: Vec<File> = ["three", "four"]
        .iter()
        .map(|text| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            file
        })
        .collect();
    let (first, second) = (files[0].as_raw_fd(), files[1].as_raw_fd());
    let mut spawn = sh(&format!("cat /proc/self/fd/{second} /proc/self/fd/{first}"));
    let targets = [second, first];
    spawn.pass_fds = files.into_iter().map(OwnedFd::from).zip(targets).collect();
    assert_eq!(output(spawn), "threefour");
}

#[test]
fn a_passed_number_above_all_of_ours_hangs_nobody() {
    // Every descriptor of the parent, including its socket to the child, has a number below the target.
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"passed").unwrap();
    file.rewind().unwrap();
    let mut spawn = sh("cat /proc/self/fd/1000");
    spawn.pass_fds = vec![(OwnedFd::from(file), 1000)];
    assert_eq!(output(spawn), "passed");
}

#[test]
fn signals_are_as_a_program_expects_them() {
    // Rust's runtime ignores SIGPIPE; the thread blocks one more signal.
    let thread = std::thread::spawn(|| {
        // SAFETY: a set on this stack, initialised before it is used; this thread's mask only.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGUSR1);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        let ours = || fs::read_to_string("/proc/thread-self/status").unwrap();
        let before = ours();
        let arguments = ["cat", "/proc/self/status"].map(Into::into);
        let theirs = output(Spawn::new("/bin/cat", arguments));
        (before, theirs, ours())
    });
    let (before, theirs, after) = thread.join().unwrap();
    let mask = |status: &str, field: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        u64::from_str_radix(value.unwrap().trim(), 16).unwrap()
    };
    assert_ne!(mask(&before, "SigIgn:") & 1 << (libc::SIGPIPE - 1), 0);
    assert_ne!(mask(&before, "SigBlk:") & 1 << (libc::SIGUSR1 - 1), 0);
    for field in ["SigBlk:", "SigIgn:"] {
        assert_eq!(mask(&theirs, field), 0, "{field}");
        assert_eq!(mask(&after, field), mask(&before, field), "ours is untouched: {field}");
    }
}

#[test]
fn cpu_and_randomisation_are_set_in_the_command_only() {
    let allowed = affinity::allowed_cpus().unwrap();
    let last = *allowed.last().unwrap();
    let mut bound = sh("grep Cpus_allowed_list /proc/self/status");
    bound.cpu = Some(last);
    assert_eq!(output(bound), format!("Cpus_allowed_list:\t{last}\n"));
    assert_eq!(affinity::allowed_cpus().unwrap(), allowed);

    let before = personality::aslr().unwrap();
    for (aslr, flag) in [(Aslr::Fixed, true), (Aslr::Randomised, false), (Aslr::Inherit, !before)] {
        let mut spawn = sh("cat /proc/self/personality");
        spawn.aslr = aslr;
        let persona = i32::from_str_radix(output(spawn).trim(), 16).unwrap();
        assert_eq!(persona & libc::ADDR_NO_RANDOMIZE != 0, flag, "{aslr:?}");
    }
    assert_eq!(personality::aslr().unwrap(), before);
}

#[test]
fn the_command_leads_its_own_group() {
    let text = output(sh("cut -d' ' -f1,5 /proc/$$/stat"));
    let (pid, group) = text.trim().split_once(' ').unwrap();
    assert_eq!(pid, group);
}

#[test]
fn what_fails_is_named_with_its_stage() {
    let missing = refused(&Spawn::new("/no/such/program", ["x".into()]));
    assert_eq!(step(&missing), (Stage::Exec, Some(libc::ENOENT)));
    let text = missing.to_string();
    assert!(text.starts_with("cannot run '/no/such/program': executing it failed: "), "{text}");
    assert!(text.ends_with("dynamic loader), is not there"), "{text}");

    let directory = refused(&Spawn::new("/", ["x".into()]));
    assert_eq!(step(&directory), (Stage::Exec, Some(libc::EACCES)));

    let mut chdir = sh("true");
    chdir.cwd = Some("/no/such/directory".into());
    assert_eq!(step(&refused(&chdir)), (Stage::Chdir, Some(libc::ENOENT)));

    for cpu in [affinity::CPU_MAX, usize::MAX] {
        let mut spawn = sh("true");
        spawn.cpu = Some(cpu);
        assert_eq!(step(&refused(&spawn)), (Stage::Affinity, Some(libc::EINVAL)));
    }

    let long = "x".repeat(1 << 20);
    let too_long = refused(&Spawn::new("/bin/true", ["true".into(), long.into()]));
    assert_eq!(step(&too_long), (Stage::Exec, Some(libc::E2BIG)));

    let nul = refused(&Spawn::new("/bin/true", ["a\0b".into()]));
    assert!(matches!(nul, SpawnError::Nul { what: "an argument", .. }), "{nul}");
    for numbers in [vec![2], vec![-1], vec![70_000], vec![5, 5]] {
        let mut spawn = sh("true");
        let null = || OwnedFd::from(File::open("/dev/null").unwrap());
        spawn.pass_fds = numbers.iter().map(|number| (null(), *number)).collect();
        let error = refused(&spawn);
        let expected = *numbers.last().unwrap();
        assert!(
            matches!(error, SpawnError::Descriptor { number, .. } if number == expected),
            "{error}"
        );
    }
}

#[test]
fn a_script_without_interpreter_line_is_refused_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    // Another process writes the script: commands that other tests start at this moment would inherit the open file from this
    // process, and a file open for writing cannot be executed.
    let mut write = sh("echo 'echo hello' > script; chmod +x script");
    write.cwd = Some(directory.path().to_path_buf());
    assert_eq!(run(&write).status, Status::Code(0));
    let error = refused(&Spawn::new(&script, ["script".into()]));
    assert_eq!(step(&error), (Stage::Exec, Some(libc::ENOEXEC)));
    assert!(error.to_string().contains("'#!' line"), "{error}");
}

#[test]
fn a_command_over_its_time_is_killed_with_its_group() {
    // The shell's child holds the pipe open as long as the child lives.
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    assert_eq!(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: both descriptors are new and belong to this process alone.
    let [reader, writer] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let mut spawn = sh("sleep 1000 & echo started; wait");
    spawn.stdout = Output::File(writer);
    let mut running = spawn.hold().unwrap().release().unwrap();
    let mut reader = BufReader::new(File::from(reader));
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");

    let limit = Some(Duration::from_millis(1));
    let exit = running.wait(limit, &Interrupt::none()).unwrap();
    assert_eq!(exit.ended_by, EndedBy::Timeout);
    assert_eq!(exit.status, Status::Signal(libc::SIGKILL));
    let again = running.wait(None, &Interrupt::none()).unwrap_err();
    let is_known = |error: &io::Error| error.kind() == io::ErrorKind::InvalidInput;
    assert!(matches!(&again, WaitError::System(error) if is_known(error)), "{again}");
    // The pipe ends only if `sleep` is dead as well.
    drop(spawn);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_limit_that_is_not_reached_changes_nothing() {
    for limit in [Duration::from_secs(3600), Duration::MAX] {
        let mut running = sh("exit 4").hold().unwrap().release().unwrap();
        let exit = running.wait(Some(limit), &Interrupt::none()).unwrap();
        assert_eq!((exit.status, exit.ended_by), (Status::Code(4), EndedBy::Itself));
    }
}

#[test]
fn a_stopped_command_is_ended_and_its_signal_named() {
    let mut running = sh("kill -STOP $$").hold().unwrap().release().unwrap();
    let exit = running.wait(Some(Duration::from_secs(3600)), &Interrupt::none()).unwrap();
    assert_eq!(exit.ended_by, EndedBy::Stop { signal: libc::SIGSTOP });
    assert_eq!(exit.status, Status::Signal(libc::SIGKILL));
}

#[test]
fn a_command_leads_a_session_of_its_own_if_asked_to() {
    let session = |stat: &str| {
        stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap().to_string()
    };
    let ours = session(&fs::read_to_string("/proc/self/stat").unwrap());
    let spawner = Spawner::start().unwrap();
    for own_session in [true, false] {
        for by_spawner in [true, false] {
            let mut file = tempfile::tempfile().unwrap();
            let mut spawn = sh("exec cat /proc/self/stat");
            spawn.own_session = own_session;
            spawn.stdout = Output::File(file.try_clone().unwrap().into());
            match by_spawner {
                true => run_by(&spawner, &spawn),
                false => run(&spawn),
            };
            file.rewind().unwrap();
            let stat = io::read_to_string(file).unwrap();
            let pid = stat.split(' ').next().unwrap();
            let expected = match (own_session, by_spawner) {
                (true, _) => pid.to_string(),
                (false, true) => spawner.pid().to_string(),
                (false, false) => ours.clone(),
            };
            assert_eq!(session(&stat), expected, "{own_session} {by_spawner}: {stat}");
        }
    }
}

#[test]
fn left_over_members_of_the_group_live_on() {
    let text = output(sh("sleep 1000 >/dev/null & echo $!"));
    let pid: i32 = text.trim().parse().unwrap();
    // SAFETY: signal 0 only checks; then the process that this test started is killed.
    unsafe {
        assert_eq!(libc::kill(pid, 0), 0);
        libc::kill(pid, libc::SIGKILL);
    }
}

#[test]
fn an_interrupt_ends_the_command() {
    if std::env::var_os(VARIABLE).is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "spawn::an_interrupt_ends_the_command", "--nocapture"]);
        let done = command.env(VARIABLE, "1").output().unwrap();
        assert!(done.status.success(), "{done:?}");
        return;
    }
    let interrupt = Interrupt::install().unwrap();
    let mut running = sh("exit 0").hold().unwrap().release().unwrap();
    let exit = running.wait(None, &interrupt).unwrap();
    assert_eq!((exit.status, exit.ended_by), (Status::Code(0), EndedBy::Itself));
    // The command itself sends the signal, so the signal comes during the wait.
    let ours = std::process::id();
    let mut running =
        sh(&format!("kill -INT {ours}; sleep 1000")).hold().unwrap().release().unwrap();
    let exit = running.wait(Some(Duration::from_secs(600)), &interrupt).unwrap();
    assert_eq!(exit.ended_by, EndedBy::Interrupt);
    assert_eq!(exit.status, Status::Signal(libc::SIGKILL));
    assert_eq!(interrupt.signal(), Some(libc::SIGINT));
    // A signal that has already come ends the next command at once.
    let mut running = sh("sleep 1000").hold().unwrap().release().unwrap();
    assert_eq!(running.wait(None, &interrupt).unwrap().ended_by, EndedBy::Interrupt);
}

#[test]
fn commands_die_with_us() {
    if std::env::var_os(VARIABLE).is_some() {
        // One command runs and one is held; then this process is killed.
        let running = sh("exec sleep 1000").hold().unwrap().release().unwrap();
        let held = sh("exec sleep 1000").hold().unwrap();
        println!("\npids {} {}", running.pid(), held.pid());
        std::io::stdout().flush().unwrap();
        let _ = std::io::stdin().read(&mut [0]);
        // SAFETY: ends this process, which exists for that.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "spawn::commands_die_with_us", "--nocapture"]);
    command.env(VARIABLE, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut parent = command.spawn().unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with("pids ")).unwrap();
    let pidfds: Vec<OwnedFd> = line["pids ".len()..]
        .split(' ')
        .map(|pid| {
            let pid: i32 = pid.parse().unwrap();
            // SAFETY: integers only; the descriptor is new and belongs to this process alone.
            unsafe {
                let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
                assert!(fd >= 0, "{}", io::Error::last_os_error());
                OwnedFd::from_raw_fd(fd as i32)
            }
        })
        .collect();
    drop(parent.stdin.take());
    assert_eq!(parent.wait().unwrap().signal(), Some(libc::SIGKILL));
    for fd in pidfds {
        let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // A guard against hanging, not a measurement.
        let guard_ms = 60_000;
        // SAFETY: one valid entry.
        let ended = unsafe { libc::poll(&raw mut entry, 1, guard_ms) };
        assert_eq!(ended, 1, "it lives on");
    }
}

#[test]
fn a_process_killed_while_held_is_reported_by_its_signal() {
    let held = sh("exit 0").hold().unwrap();
    // SAFETY: the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(held.pid(), libc::SIGKILL) }, 0);
    let mut running = held.release().unwrap();
    let exit = running.wait(None, &Interrupt::none()).unwrap();
    assert_eq!(exit.status, Status::Signal(libc::SIGKILL));
}

#[test]
fn peak_memory_is_the_commands_own_or_unknown() {
    // Far above a test program's own needs; the shell's pipeline holds this much in memory.
    let bytes = 256u64 << 20;
    let large = run(&sh(&format!("head -c {bytes} /dev/zero | tail -c {bytes} | wc -c")));
    assert!(large.rss_bytes_max.is_some_and(|peak| peak >= bytes), "{large:?}");
    // This process becomes larger than `true` could ever be.
    let ours = vec![1u8; 64 << 20];
    let small = run(&Spawn::new("/bin/true", ["true".into()]));
    assert_eq!(ours.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 64 << 20);
    assert_eq!(small.rss_bytes_max, None, "{small:?}");
}

/// Runs a command that a spawner starts.
fn run_by(spawner: &Spawner, spawn: &Spawn) -> Exit {
    let held = spawner.hold(spawn).unwrap().expect("nothing is passed on");
    held.release().unwrap().wait(None, &Interrupt::none()).unwrap()
}

#[test]
fn a_spawner_makes_peaks_below_our_own_visible() {
    let ours = vec![1u8; 64 << 20];
    let spawner = Spawner::start().unwrap();
    let small = run_by(&spawner, &Spawn::new("/bin/true", ["true".into()]));
    assert_eq!(ours.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 64 << 20);
    assert!(small.rss_bytes_max.is_some_and(|peak| peak < 32 << 20), "{small:?}");
    let bytes = 256u64 << 20;
    let large = sh(&format!("head -c {bytes} /dev/zero | tail -c {bytes} | wc -c"));
    let large = run_by(&spawner, &large);
    assert!(large.rss_bytes_max.is_some_and(|peak| peak >= bytes), "{large:?}");
    // The spawner's own peak stays below its documented limit.
    let status = fs::read_to_string(format!("/proc/{}/status", spawner.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 512, "{kib} KiB");
}

#[test]
fn a_spawner_starts_commands_as_they_are_started_without_one() {
    let spawner = Spawner::start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("told");
    let script = "{ pwd; printf '%s|' \"$0\" \"$@\" \"$ODD\"; echo; ls /proc/$$/fd; \
                  readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2; echo; cat /proc/$$/personality; \
                  while read -r line; do case $line in \
                  SigBlk*|SigIgn*|SigCgt*|Cpus_allowed_list*) echo \"$line\";; esac; done </proc/$$/status; \
                  cut -d' ' -f4 /proc/$$/stat; } >told";
    let cpu = affinity::allowed_cpus().unwrap()[0];
    let make = |aslr| {
        let mut spawn = sh(script);
        spawn.argv.extend(["zero", "", "ü '"].map(Into::into));
        spawn.env =
            Some(vec![("ODD".into(), "a=b ".into()), ("PATH".into(), "/usr/bin:/bin".into())]);
        spawn.cwd = Some(directory.path().to_path_buf());
        spawn.cpu = Some(cpu);
        spawn.aslr = aslr;
        spawn
    };
    for aslr in [Aslr::Inherit, Aslr::Fixed, Aslr::Randomised] {
        let spawn = make(aslr);
        assert_eq!(run(&spawn).status, Status::Code(0));
        let alone = fs::read_to_string(&told).unwrap();
        assert_eq!(run_by(&spawner, &spawn).status, Status::Code(0));
        assert_eq!(fs::read_to_string(&told).unwrap(), alone);
        assert!(alone.contains("|ü '|a=b |"), "{alone}");
    }
}

#[test]
fn real_time_priority_is_set_with_its_limit_or_refused() {
    let spawner = Spawner::start().unwrap();
    // Field 40 of /proc/PID/stat is the priority, field 41 the policy (proc(5)).
    let script = "cut -d' ' -f40,41 /proc/$$/stat; ulimit -R";
    for by_spawner in [true, false] {
        let mut file = tempfile::tempfile().unwrap();
        let mut spawn = Spawn::new("/bin/bash", ["bash".into(), "-c".into(), script.into()]);
        spawn.real_time_max = Some(Duration::from_millis(1500));
        spawn.stdout = Output::File(file.try_clone().unwrap().into());
        let allowed = no_real_time() != Some(NoRealTime::Forbidden);
        let ended = match by_spawner {
            true => {
                let held = spawner.hold(&spawn).unwrap().unwrap();
                held.release().unwrap().wait(None, &Interrupt::none())
            }
            false => match spawn.hold().unwrap().release() {
                Ok(mut running) => running.wait(None, &Interrupt::none()),
                Err(error) => Err(error.into()),
            },
        };
        match ended {
            Ok(exit) => assert!(allowed && exit.status == Status::Code(0), "{exit:?}"),
            Err(WaitError::Start(error)) => {
                assert!(!allowed, "{error}");
                assert_eq!(step(&error), (Stage::Priority, Some(libc::EPERM)));
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        file.rewind().unwrap();
        assert_eq!(io::read_to_string(file).unwrap(), "1 1\n1500000\n");
    }
}

#[test]
fn a_command_that_computes_too_long_under_real_time_priority_is_ended() {
    if no_real_time() == Some(NoRealTime::Forbidden) {
        crate::skip::skip!("this user may not set real-time priority");
        return;
    }
    let mut spawn = sh("while :; do :; done");
    spawn.real_time_max = Some(Duration::from_millis(100));
    spawn.cpu = affinity::allowed_cpus().unwrap().last().copied();
    let exit = run(&spawn);
    assert_eq!((exit.status, exit.ended_by), (Status::Signal(libc::SIGXCPU), EndedBy::Itself));
}

#[test]
fn standard_streams_are_files_with_and_without_a_spawner() {
    let spawner = Spawner::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("in"), "one\ntwo\n").unwrap();
    let script = "cat; echo odd >&2; ls /proc/$$/fd";
    for (stdin, stdout, stderr) in
        [(true, true, true), (true, false, false), (false, true, false), (false, false, true)]
    {
        let make = || {
            let created = |name| Output::File(fs::File::create(path(name)).unwrap().into());
            let mut spawn = sh(script);
            spawn.stdin = stdin.then(|| fs::File::open(path("in")).unwrap().into());
            spawn.stdout = if stdout { created("out") } else { Output::Null };
            spawn.stderr = if stderr { created("err") } else { Output::Null };
            spawn
        };
        let read = || ["out", "err"].map(|name| fs::read_to_string(path(name)).unwrap_or_default());
        assert_eq!(run(&make()).status, Status::Code(0));
        let alone = read();
        assert_eq!(run_by(&spawner, &make()).status, Status::Code(0));
        assert_eq!(read(), alone);
        assert_eq!(alone[0].starts_with("one\ntwo\n"), stdin && stdout, "{alone:?}");
        assert_eq!(alone[1], if stderr { "odd\n" } else { "" }, "{alone:?}");
        for name in ["out", "err"] {
            let _ = fs::remove_file(path(name));
        }
    }
    // A pipe ends with the command: neither side keeps it open.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut spawn = sh("echo through");
    spawn.stdout = Output::File(writer.into());
    assert_eq!(run_by(&spawner, &spawn).status, Status::Code(0));
    drop(spawn);
    assert_eq!(std::io::read_to_string(&mut reader).unwrap(), "through\n");
}

#[test]
fn a_spawner_names_the_step_that_failed_and_goes_on() {
    let spawner = Spawner::start().unwrap();
    let fails = |spawn: &Spawn| {
        let mut running = spawner.hold(spawn).unwrap().unwrap().release().unwrap();
        match running.wait(None, &Interrupt::none()) {
            Err(WaitError::Start(error)) => step(&error),
            other => panic!("{other:?}"),
        }
    };
    let missing = Spawn::new("/bin/no-such-program", ["x".into()]);
    assert_eq!(fails(&missing), (Stage::Exec, Some(libc::ENOENT)));
    let mut nowhere = sh("true");
    nowhere.cwd = Some("/no-such-folder".into());
    assert_eq!(fails(&nowhere), (Stage::Chdir, Some(libc::ENOENT)));
    let mut elsewhere = sh("true");
    elsewhere.cpu = Some(affinity::CPU_MAX);
    assert_eq!(fails(&elsewhere), (Stage::Affinity, Some(libc::EINVAL)));
    // A command dropped before it is let go, and a command killed meanwhile.
    drop(spawner.hold(&sh("exit 1")).unwrap().unwrap());
    let held = spawner.hold(&sh("exit 2")).unwrap().unwrap();
    // SAFETY: the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(held.pid(), libc::SIGKILL) }, 0);
    let exit = held.release().unwrap().wait(None, &Interrupt::none()).unwrap();
    assert_eq!(exit.status, Status::Signal(libc::SIGKILL));
    assert_eq!(run_by(&spawner, &sh("exit 3")).status, Status::Code(3));
    // A failure that nobody waited for is not that of the next command.
    drop(spawner.hold(&missing).unwrap().unwrap().release().unwrap());
    assert_eq!(run_by(&spawner, &sh("exit 4")).status, Status::Code(4));
    // The spawner's memory is a command's until the command has ended.
    let running = spawner.hold(&sh("exec sleep 1000")).unwrap().unwrap().release().unwrap();
    assert!(spawner.hold(&sh("exit 5")).unwrap().is_none());
    drop(running);
    assert_eq!(run_by(&spawner, &sh("exit 5")).status, Status::Code(5));
    // The spawner declines commands that it cannot start.
    let mut passing = sh("true");
    passing.pass_fds = vec![(tempfile::tempfile().unwrap().into(), 5)];
    assert!(spawner.hold(&passing).unwrap().is_none());
    let mut long = sh("true");
    long.argv.push("x".repeat(200_000).into());
    assert!(spawner.hold(&long).unwrap().is_none());
    // SAFETY: the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(spawner.pid(), libc::SIGKILL) }, 0);
    let gone = spawner.hold(&sh("true"));
    assert!(matches!(gone, Err(SpawnError::Step { stage: Stage::Clone, .. })), "{gone:?}");
}

#[test]
fn nothing_of_ours_wakes_up_while_a_command_runs() {
    let spawner = Spawner::start().unwrap();
    let turns = |path: &str| {
        let status = fs::read_to_string(path).unwrap();
        let of = |line: &str| line.contains("ctxt_switches").then(|| line.to_string());
        status.lines().filter_map(of).collect::<Vec<_>>()
    };
    let spawners = format!("/proc/{}/status", spawner.pid());
    let asleep = || fs::read_to_string(&spawners).unwrap().contains("State:\tS");
    let mut file = tempfile::tempfile().unwrap();
    let mut spawn = sh(&format!("grep ctxt_switches {spawners}"));
    spawn.stdout = Output::File(file.try_clone().unwrap().into());
    let held = spawner.hold(&spawn).unwrap().unwrap();
    while !asleep() {
        std::thread::yield_now();
    }
    let before = turns(&spawners);
    let sleeps = || -> u64 {
        let line = &turns("/proc/thread-self/status")[0];
        line.split_whitespace().last().unwrap().parse().unwrap()
    };
    let slept = sleeps();
    let exit = held.release().unwrap().wait(None, &Interrupt::none()).unwrap();
    assert_eq!(exit.status, Status::Code(0));
    // This thread sleeps at most once, until the command's end.
    assert!(sleeps() - slept <= 1);
    file.rewind().unwrap();
    assert_eq!(io::read_to_string(file).unwrap().lines().collect::<Vec<_>>(), before);
}

#[test]
fn many_threads_can_start_commands_at_once() {
    std::thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                for round in 0..20 {
                    let code = (number * 20 + round) % 256;
                    let exit = run(&sh(&format!("exit {code}")));
                    assert_eq!(exit.status, Status::Code(code));
                }
            });
        }
    });
}

#[test]
fn commands_held_at_the_same_time_do_not_wait_for_each_other() {
    // Each thread holds a command until the commands of all earlier threads have ended.
    let threads = 4;
    let step = std::sync::Barrier::new(threads);
    std::thread::scope(|scope| {
        for me in 0..threads {
            let step = &step;
            scope.spawn(move || {
                for _ in 0..50 {
                    step.wait();
                    let mut held = Some(sh("exit 0").hold().unwrap());
                    for turn in 0..threads {
                        step.wait();
                        if let Some(held) = held.take_if(|_| turn == me) {
                            let mut running = held.release().unwrap();
                            let exit = running.wait(None, &Interrupt::none()).unwrap();
                            assert_eq!(exit.status, Status::Code(0));
                        }
                    }
                }
            });
        }
    });
}
