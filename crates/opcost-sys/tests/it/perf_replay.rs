//! Transcripts of machines that are not at hand.

use crate::transcript::{
    Answer, Call, Line, RecordingPerf, ReplayError, ReplayPerf, Target, Transcript,
};
use opcost_sys::perf::{
    CounterId, CounterReading, EventAttr, OpenContext, PerfKernel, ShortRead, explain,
    generic_events,
};
use std::collections::BTreeMap;
use std::io;

fn replay(lines: &str) -> ReplayPerf {
    ReplayPerf::new(format!("opcost-perf 1\n{lines}").parse().unwrap())
}

const CYCLES: EventAttr = EventAttr {
    kind: 0,
    config: 0,
    config1: 0,
    config2: 0,
    config3: 0,
    exclude_user: false,
    exclude_kernel: true,
    exclude_hv: false,
    inherit: true,
    enable_on_exec: false,
    disabled: true,
    pinned: true,
};

#[test]
fn every_kind_of_answer_is_given() {
    let perf = replay(
        "# multiplexed, then pinned without a place, then an error, then out of counters\n\
         open kind=0 config=0 exclude=k inherit disabled pinned pid=child -> 7\n\
         \n\
         enable 7 group -> ok\n\
         read 7 -> value=9223372036854775808 enabled=1000 running=250\n\
         read 7 -> short=0\n\
         reset 7 -> EIO\n\
         open kind=0 config=0 exclude=k inherit disabled pinned leader=7 cpu=1 pid=any -> EBUSY\n\
         disable 7 -> errno=524\n\
         close 7 -> ok\n",
    );
    let id = perf.open(&CYCLES, 4321, -1, None).unwrap();
    assert_eq!(id, CounterId(7));
    perf.enable(id, true).unwrap();
    let reading = CounterReading { value: 1 << 63, time_enabled_ns: 1000, time_running_ns: 250 };
    assert_eq!(perf.read(id).unwrap(), reading);
    assert!(reading.time().multiplexed());
    assert_eq!(ShortRead::of(&perf.read(id).unwrap_err()), Some(ShortRead { bytes: 0 }));
    assert_eq!(perf.reset(id, false).unwrap_err().raw_os_error(), Some(libc::EIO));
    let busy = perf.open(&CYCLES, -1, 1, Some(id)).unwrap_err();
    assert_eq!(busy.raw_os_error(), Some(libc::EBUSY));
    assert_eq!(perf.disable(id, false).unwrap_err().raw_os_error(), Some(524));
    perf.close(id);
    perf.finish().unwrap();
}

#[test]
fn a_call_that_differs_names_the_line_and_what_was_expected() {
    let perf = replay("# one\nread 1 -> value=1 enabled=1 running=1\n");
    let error = perf.enable(CounterId(1), true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3 of the transcript expects 'read 1', the program called 'enable 1 group'"
    );
    // From then on the replay answers nothing, not even the expected call.
    let after = perf.read(CounterId(1)).unwrap_err();
    assert_eq!(ReplayError::of(&after), ReplayError::of(&error));
    assert!(ReplayError::of(&after).is_some());
    assert!(matches!(perf.finish(), Err(ReplayError::Differs { line: 3, .. })));
}

#[test]
fn one_flag_makes_a_different_call() {
    let perf = replay("open kind=0 config=0 exclude=k inherit disabled -> 1\n");
    let error = perf.open(&CYCLES, 0, -1, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2 of the transcript expects 'open kind=0 config=0x0 exclude=k inherit disabled \
         pid=self cpu=-1 leader=-', the program called 'open kind=0 config=0x0 exclude=k inherit \
         disabled pinned pid=self cpu=-1 leader=-'"
    );
}

#[test]
fn too_many_and_too_few_calls_are_errors() {
    let perf = replay("close 1 -> ok\n\n");
    perf.close(CounterId(1));
    let error = perf.read(CounterId(1)).unwrap_err();
    let ended = "the transcript ends after line 3, the program called 'read 1'";
    assert_eq!(error.to_string(), ended);

    let perf = replay("close 1 -> ok\nclose 2 -> ok\n");
    perf.close(CounterId(1));
    assert_eq!(
        perf.finish().unwrap_err().to_string(),
        "line 3 of the transcript expects 'close 2', the program made no more calls"
    );
    // A close that differs cannot return an error, but is not forgotten.
    let perf = replay("close 1 -> ok\n");
    perf.close(CounterId(2));
    assert!(matches!(perf.finish(), Err(ReplayError::Differs { line: 2, .. })));
}

#[test]
fn an_answer_of_the_wrong_form_is_never_a_reading() {
    // The parser refuses this answer, but a program can also build such a transcript.
    let id = CounterId(1);
    let lines = vec![Line::Exchange(Call::Read { id }, Answer::Done)];
    let error = ReplayPerf::new(Transcript { lines }).read(id).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(error.to_string(), "'ok' is no answer to 'read 1'");
}

#[test]
fn a_replay_can_be_recorded_and_its_own_errors_are_no_answers() {
    let text = "opcost-perf 1\nread 1 -> short=0\nreset 1 group -> ok\nclose 1 -> ok\n";
    let recorder = RecordingPerf::new(ReplayPerf::new(text.parse().unwrap()));
    assert!(recorder.read(CounterId(1)).is_err());
    recorder.reset(CounterId(1), true).unwrap();
    recorder.close(CounterId(1));
    assert!(recorder.read(CounterId(1)).is_err());
    assert_eq!(recorder.into_transcript().to_string(), text);
}

/// Recorded by `cargo run --example record_perf` in a virtual machine without a PMU.
const VM: &str = include_str!("../transcripts/vm-without-pmu.txt");

#[test]
fn a_machine_without_a_pmu_refuses_what_it_must() {
    let transcript: Transcript = VM.parse().unwrap();
    assert_eq!(transcript.to_string(), VM);
    let mut answers = BTreeMap::new();
    for line in &transcript.lines {
        if let Line::Exchange(Call::Open { attr, target, cpu, leader }, answer) = line {
            assert_eq!((*target, *cpu), (Target::Caller, -1));
            answers.entry((attr.kind, attr.config)).or_insert((*attr, *leader, *answer));
        }
    }
    let vm = OpenContext {
        perf_event_paranoid: Some(2),
        privileged: true,
        has_cpu_pmu: false,
        in_vm: true,
    };
    for row in generic_events() {
        let (attr, _, answer) = answers[&(row.event.kind, row.event.config)];
        match (row.event.kind, answer) {
            // PERF_TYPE_SOFTWARE needs no hardware.
            (1, Answer::Opened(_)) => {}
            (0 | 3, Answer::Errno(errno)) => {
                assert_eq!(errno, libc::ENOENT, "{}", row.name);
                let refusal = explain(errno, &attr, &vm);
                assert!(refusal.reason.starts_with("no hardware counters here"), "{refusal}");
            }
            other => panic!("{}: {other:?}", row.name),
        }
    }
}

#[test]
fn the_vm_transcript_replays_to_its_end() {
    let transcript: Transcript = VM.parse().unwrap();
    let again = RecordingPerf::new(ReplayPerf::new(transcript.clone()));
    for line in &transcript.lines {
        match line {
            Line::Blank => {}
            Line::Note(text) => again.note(text),
            Line::Exchange(call, answer) => assert_eq!(ask(&again, call), Some(*answer)),
        }
    }
    assert_eq!(again.into_transcript(), transcript);
}

/// Makes a transcript's call; returns the answer, or `None` for an error that does not come from a kernel.
fn ask(perf: &dyn PerfKernel, call: &Call) -> Option<Answer> {
    let result = match *call {
        Call::Open { attr, target, cpu, leader } => {
            let pid = match target {
                Target::Caller => 0,
                Target::Any => -1,
                Target::Child => 1,
            };
            perf.open(&attr, pid, cpu, leader).map(Answer::Opened)
        }
        Call::Enable { id, whole_group } => perf.enable(id, whole_group).map(|()| Answer::Done),
        Call::Disable { id, whole_group } => perf.disable(id, whole_group).map(|()| Answer::Done),
        Call::Reset { id, whole_group } => perf.reset(id, whole_group).map(|()| Answer::Done),
        Call::Read { id } => perf.read(id).map(Answer::Reading),
        Call::Close { id } => {
            perf.close(id);
            Ok(Answer::Done)
        }
    };
    match result {
        Ok(answer) => Some(answer),
        Err(error) => match ShortRead::of(&error) {
            Some(short) => Some(Answer::Short(short)),
            None => error.raw_os_error().map(Answer::Errno),
        },
    }
}
