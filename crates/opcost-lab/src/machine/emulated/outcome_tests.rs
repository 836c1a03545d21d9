//! Tests of every way in which a run on an emulated machine can end.

use super::{Traces, guest_died, of_guest, of_program};
use crate::machine::RunEnd;
use opcost_model::plan::IgnoredStatuses;
use opcost_record::channel::{ChannelWriter, FrameKind, GuestExit};
use opcost_record::emulation::{Emulation, RegionCost};
use opcost_record::{Context, Domain, Failure, Function, Outcome, Profile, Report, WORK};
use opcost_sys::rusage::Rusage;
use opcost_sys::spawn::{EndedBy, Exit, Status};

fn exit(status: Status, ended_by: EndedBy) -> Exit {
    Exit {
        status,
        rusage: Rusage::default(),
        rss_bytes_max: None,
        started_ns: 0,
        ended_ns: 1,
        ended_by,
    }
}

fn ended(status: Status) -> Exit {
    exit(status, EndedBy::Itself)
}

fn channel<B: AsRef<[u8]>>(frames: &[(FrameKind, B)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ChannelWriter::new(&mut bytes);
    for (kind, body) in frames {
        writer.send(*kind, body.as_ref()).unwrap();
    }
    writer.end().unwrap();
    bytes
}

fn costs() -> Vec<u8> {
    Emulation::from(regions()).encode()
}

fn regions() -> Vec<RegionCost> {
    vec![
        RegionCost {
            region: "twin".into(),
            counts: vec![("instructions".into(), Domain::All, 3)],
            profile: Profile::default(),
        },
        RegionCost {
            region: WORK.into(),
            counts: vec![("instructions".into(), Domain::Kernel, 42)],
            profile: Profile {
                functions: vec![Function::new("f", "[kernel]")],
                contexts: vec![Context { parent: None, function: 0, calls: 1, cost: 42 }],
                ..Profile::default()
            },
        },
    ]
}

fn report() -> Vec<u8> {
    Report { ops: Some(7), ..Report::default() }.encode()
}

/// The traces of a run, with defaults for the rest.
struct Left<'a> {
    exit: Exit,
    stderr: &'a str,
    console: &'a str,
    plugin: Option<&'a [u8]>,
}

impl Left<'_> {
    fn traces(&self) -> Traces<'_> {
        Traces {
            exit: &self.exit,
            limit_ms: Some(5000),
            stderr: self.stderr,
            console: self.console,
            plugin: self.plugin,
            modules: None,
        }
    }
}

fn guest(console: &str, status: Status, channel: &[u8], plugin: Option<&[u8]>) -> RunEnd {
    let left = Left { exit: ended(status), stderr: "", console, plugin };
    one(of_guest(&left.traces(), channel, &IgnoredStatuses::None, 1, 11))
}

fn one(ends: Vec<RunEnd>) -> RunEnd {
    let [end] = <[RunEnd; 1]>::try_from(ends).unwrap();
    end
}

fn detail(end: &RunEnd) -> String {
    assert_eq!(end.report, Report::default(), "nothing half-counted is kept");
    assert_eq!(end.profile, None);
    match &end.outcome {
        Outcome::Failed(Failure::Work { detail }) => detail.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_workload_gives_counts_and_a_profile() {
    let sent = channel(&[(FrameKind::Note, b"odd".to_vec()), (FrameKind::Report, report())]);
    let end = guest("", Status::Code(0), &sent, Some(&costs()));
    assert_eq!((end.outcome, end.exit_code), (Outcome::Finished, Some(0)));
    assert_eq!((end.report.ops, end.started_unix_ns), (Some(7), 11));
    let readings: Vec<String> = end
        .report
        .readings
        .iter()
        .map(|reading| {
            let key = &reading.key;
            format!("{} {} {} {}", key.label(), key.source, key.region, reading.value)
        })
        .collect();
    assert_eq!(readings, ["instructions emulator twin 3", "instructions:k emulator work 42"]);
    assert_eq!(end.profile.unwrap().total(), 42);
}

#[test]
fn a_command_ends_as_it_would_on_the_host() {
    let with =
        |exit| guest("", Status::Code(0), &channel(&[(FrameKind::Exit(exit), "")]), Some(&costs()));
    assert_eq!(with(GuestExit::Code(0)).outcome, Outcome::Finished);
    let three = with(GuestExit::Code(3));
    assert_eq!(three.outcome, Outcome::Failed(Failure::ExitStatus { code: 3, stderr: None }));
    assert_eq!((three.exit_code, three.report), (Some(3), Report::default()));
    assert_eq!(
        with(GuestExit::Signal(9)).outcome,
        Outcome::Failed(Failure::Signal { signal: 9, stderr: None })
    );
    let left =
        Left { exit: ended(Status::Code(0)), stderr: "", console: "", plugin: Some(&costs()) };
    let sent = channel(&[(FrameKind::Exit(GuestExit::Code(3)), "")]);
    let end = one(of_guest(&left.traces(), &sent, &IgnoredStatuses::All, 1, 0));
    assert_eq!((end.outcome, end.exit_code), (Outcome::Finished, Some(3)));
}

#[test]
fn a_panic_is_named_with_the_consoles_last_lines() {
    let console = "Run /init\nKernel panic - not syncing: VFS: no root\nRebooting\n";
    for sent in [Vec::new(), channel(&[(FrameKind::Report, report())])] {
        let text = detail(&guest(console, Status::Code(0), &sent, Some(&costs())));
        assert!(text.contains("panicked - not syncing: VFS: no root"), "{text}");
        assert!(text.ends_with("Rebooting"), "{text}");
    }
}

#[test]
fn a_guest_that_hangs_is_named_with_the_limit() {
    let left = Left {
        exit: exit(Status::Signal(9), EndedBy::Timeout),
        stderr: "",
        console: "calibrating\n",
        plugin: None,
    };
    let text = detail(&one(of_guest(&left.traces(), &[], &IgnoredStatuses::None, 1, 0)));
    assert!(text.contains("did not end within 5 s"), "{text}");
    assert!(text.contains("calibrating"), "{text}");
}

#[test]
fn an_emulator_that_fails_is_named_with_what_it_said() {
    let left = Left {
        exit: ended(Status::Code(1)),
        stderr: "qemu: no such CPU model\n",
        console: "",
        plugin: None,
    };
    let text = detail(&one(of_guest(&left.traces(), &[], &IgnoredStatuses::None, 1, 0)));
    assert!(text.contains("status 1") && text.contains("no such CPU model"), "{text}");
    let killed = Left { exit: ended(Status::Signal(11)), ..left };
    let text = detail(&one(of_guest(&killed.traces(), &[], &IgnoredStatuses::None, 1, 0)));
    assert!(text.contains("signal 11 ended the emulator"), "{text}");
}

#[test]
fn a_channel_with_foreign_or_missing_words_is_refused() {
    let whole = channel(&[(FrameKind::Report, report())]);
    for sent in [&whole[..whole.len() - 4], b"hello", b""] {
        detail(&guest("", Status::Code(0), sent, Some(&costs())));
    }
    let text = detail(&guest("", Status::Code(0), b"", Some(&costs())));
    assert!(text.contains("said nothing"), "{text}");
    let text = detail(&guest("", Status::Code(0), &channel::<&str>(&[]), Some(&costs())));
    assert!(text.contains("neither report"), "{text}");
    let text = detail(&guest("", Status::Code(0), b"lunch", Some(&costs())));
    assert!(text.contains("lunch"), "{text}");
}

#[test]
fn an_error_of_the_guest_comes_with_its_notes() {
    let sent =
        channel(&[(FrameKind::Note, "Out of memory: killed\n"), (FrameKind::Error, "it died\n")]);
    let text = detail(&guest("", Status::Code(0), &sent, Some(&costs())));
    assert_eq!(text, "it died (Out of memory: killed)");
}

#[test]
fn counts_that_are_missing_or_cut_short_are_no_result() {
    let sent = channel(&[(FrameKind::Report, report())]);
    let cut = &costs()[..37];
    let twin_only = Emulation::from(regions()[..1].to_vec()).encode();
    let refused = Emulation::encode_error("no marker seen");
    for (plugin, why) in [
        (None, "wrote no report"),
        (Some(cut), "cut short"),
        (Some(&*twin_only), "no marker of the work was seen"),
        (Some(&*refused), "no marker seen"),
    ] {
        let text = detail(&guest("", Status::Code(0), &sent, plugin));
        assert!(text.contains(why), "{text}");
    }
}

/// The plugin's report of `runs` runs, which cost 42, 43, … instructions.
fn costs_of_runs(runs: u64) -> Vec<u8> {
    let run = |extra| {
        let mut regions = regions();
        regions[1].counts[0].2 += extra;
        regions
    };
    Emulation { runs: (0..runs).map(run).collect(), ..Emulation::default() }.encode()
}

#[test]
fn the_runs_of_a_process_have_each_their_own_counts_or_none_of_them_has() {
    let of = |sent: &[u8], plugin: &[u8], runs: usize| {
        let exit = ended(Status::Code(0));
        let left = Left { exit, stderr: "", console: "", plugin: Some(plugin) };
        of_guest(&left.traces(), sent, &IgnoredStatuses::None, runs, 11)
    };
    let sent = channel(&[(FrameKind::Report, report().repeat(4))]);
    let ends = of(&sent, &costs_of_runs(4), 4);
    let values: Vec<u64> = ends.iter().map(|end| end.report.readings[1].value).collect();
    assert_eq!(values, [42, 43, 44, 45]);
    assert!(ends.iter().all(|end| end.outcome == Outcome::Finished && end.report.ops == Some(7)));
    let cut = &costs_of_runs(4)[..costs_of_runs(4).len() - 8];
    let three = channel(&[(FrameKind::Report, report().repeat(3))]);
    let torn = report().repeat(4);
    let torn = channel(&[(FrameKind::Report, &torn[..torn.len() - 1])]);
    for (sent, plugin, why) in [
        (&sent, &*costs_of_runs(3), "the emulator counted 3 of 4 runs"),
        (&sent, cut, "cut short"),
        (&sent, &Emulation::encode_error("a run ended inside region 'work'"), "inside region"),
        (&three, &costs_of_runs(4), "the guest reported 3 of 4 runs"),
        (&torn, &costs_of_runs(4), "cut short"),
        (
            &channel(&[(FrameKind::Exit(GuestExit::Code(0)), "")]),
            &costs_of_runs(4),
            "reported 0 of 4 runs",
        ),
    ] {
        let ends = of(sent, plugin, 4);
        assert_eq!(ends.len(), 4);
        for end in ends {
            let text = detail(&end);
            assert!(text.contains(why), "{text}");
        }
    }
}

#[test]
fn a_program_in_user_mode_ends_as_it_would_on_the_host() {
    let program = |exit: Exit, stderr: &str, plugin: Option<&[u8]>| {
        of_program(&Left { exit, stderr, console: "", plugin }.traces(), &IgnoredStatuses::None, 0)
            .0
    };
    let costs = costs();
    let done = program(ended(Status::Code(0)), "", Some(&costs));
    assert_eq!((done.outcome, done.exit_code), (Outcome::Finished, Some(0)));
    let failed = program(ended(Status::Code(2)), "", Some(&costs));
    assert_eq!(failed.outcome, Outcome::Failed(Failure::ExitStatus { code: 2, stderr: None }));
    let killed = program(ended(Status::Signal(11)), "", None);
    assert_eq!(killed.outcome, Outcome::Failed(Failure::Signal { signal: 11, stderr: None }));
    let late = program(exit(Status::Signal(9), EndedBy::Timeout), "", None);
    assert_eq!(late.outcome, Outcome::Failed(Failure::Timeout { limit_ms: 5000, stderr: None }));
    let text = detail(&program(ended(Status::Code(1)), "bad CPU model\n", None));
    assert!(text.contains("counted nothing") && text.contains("bad CPU model"), "{text}");
    let threads = Emulation::encode_error("a second thread was started; use --kernel");
    for status in [Status::Code(0), Status::Code(1), Status::Signal(6)] {
        let text = detail(&program(ended(status), "", Some(&threads)));
        assert_eq!(text, "a second thread was started; use --kernel");
    }
}

#[test]
fn modules_that_are_elsewhere_are_an_error() {
    let run = |asked: Option<&str>, found: Option<&str>| {
        let (report, costs) = (report(), costs());
        let exit = FrameKind::Exit(GuestExit::Code(0));
        let mut frames = vec![(FrameKind::Report, &*report), (exit, &[])];
        frames.extend(found.map(|found| (FrameKind::Modules, found.as_bytes())));
        let end = ended(Status::Code(0));
        let left = Left { exit: end, stderr: "", console: "", plugin: Some(&costs) };
        let traces = Traces { modules: asked, ..left.traces() };
        match one(of_guest(&traces, &channel(&frames), &IgnoredStatuses::None, 1, 11)).outcome {
            Outcome::Finished => "finished".to_string(),
            Outcome::Failed(Failure::Work { detail }) => detail,
            other => panic!("{other:?}"),
        }
    };
    let (here, there) = ("brd 0x10\next4 0x20\n", "brd 0x10\next4 0x30\n");
    assert_eq!(run(None, None), "finished");
    assert_eq!(run(Some(here), Some(here)), "finished");
    let error = run(Some(here), Some(there));
    assert!(error.contains("brd 0x10, ext4 0x30 instead of brd 0x10, ext4 0x20;"), "{error}");
    assert!(run(Some(here), None).contains("symbols: none instead of"));
    assert!(run(None, Some(there)).contains("ext4 0x30 instead of none;"));
}

#[test]
fn a_guest_that_fails_its_work_has_not_died() {
    let said = channel(&[(FrameKind::Error, "no such program")]);
    let died = |exit: &Exit, console: &str, channel: &[u8]| {
        let (limit_ms, plugin, modules) = (None, None, None);
        guest_died(&Traces { exit, limit_ms, stderr: "", console, plugin, modules }, channel)
    };
    let (well, timeout) = (ended(Status::Code(0)), exit(Status::Signal(9), EndedBy::Timeout));
    assert!(!died(&well, "", &said) && !died(&timeout, "", &[]));
    assert!(died(&well, "", &said[..said.len() - 1]));
    assert!(died(&well, "", &[]) && died(&ended(Status::Signal(9)), "", &said));
    assert!(died(&well, "Kernel panic - not syncing: x\n", &said));
}
