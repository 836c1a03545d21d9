//! Every transcript is read as it was written.

use crate::transcript::*;
use opcost_sys::perf::{CounterId, CounterReading, EventAttr, ShortRead};
use proptest::prelude::*;

fn id() -> impl Strategy<Value = CounterId> {
    any::<u32>().prop_map(CounterId)
}

fn attr() -> impl Strategy<Value = EventAttr> {
    (any::<u32>(), any::<[u64; 4]>(), any::<[bool; 7]>()).prop_map(|(kind, configs, flags)| {
        let [config, config1, config2, config3] = configs;
        let [exclude_user, exclude_kernel, exclude_hv, inherit, on_exec, disabled, pinned] = flags;
        EventAttr {
            kind,
            config,
            config1,
            config2,
            config3,
            exclude_user,
            exclude_kernel,
            exclude_hv,
            inherit,
            enable_on_exec: on_exec,
            disabled,
            pinned,
        }
    })
}

fn exchange() -> impl Strategy<Value = (Call, Answer)> {
    let errno = || (1..4096i32).prop_map(Answer::Errno);
    let target = prop::sample::select(vec![Target::Caller, Target::Any, Target::Child]);
    let open = (attr(), target, any::<i32>(), prop::option::of(id()))
        .prop_map(|(attr, target, cpu, leader)| Call::Open { attr, target, cpu, leader });
    let group_call = (0..3, id(), any::<bool>()).prop_map(|(which, id, whole_group)| match which {
        0 => Call::Enable { id, whole_group },
        1 => Call::Disable { id, whole_group },
        _ => Call::Reset { id, whole_group },
    });
    let read = prop_oneof![
        any::<[u64; 3]>().prop_map(|[value, time_enabled_ns, time_running_ns]| {
            Answer::Reading(CounterReading { value, time_enabled_ns, time_running_ns })
        }),
        (0..24usize).prop_map(|bytes| Answer::Short(ShortRead { bytes })),
        errno(),
    ];
    prop_oneof![
        (open, prop_oneof![id().prop_map(Answer::Opened), errno()]),
        (group_call, prop_oneof![Just(Answer::Done), errno()]),
        (id().prop_map(|id| Call::Read { id }), read),
        (id().prop_map(|id| Call::Close { id }), Just(Answer::Done)),
    ]
}

fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        1 => Just(Line::Blank),
        1 => "([!-~]([ -~]{0,30}[!-~])?)?".prop_map(Line::Note),
        4 => exchange().prop_map(|(call, answer)| Line::Exchange(call, answer)),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(lines in prop::collection::vec(line(), 0..20)) {
        let transcript = Transcript { lines };
        prop_assert_eq!(transcript.to_string().parse::<Transcript>().unwrap(), transcript);
    }

    #[test]
    fn no_text_makes_it_panic(
        text in "\\PC{0,200}",
        lines in prop::collection::vec(
            "(open|enable|read|close|#)( (kind=|config=|exclude=|cpu=|leader=|)[0-9a-zx+=-]{0,9}){0,5}( -> (value=|short=|errno=|E)?[0-9A-Za-z]{0,9}){0,2}",
            0..6,
        ),
    ) {
        let _ = text.parse::<Transcript>();
        let _ = format!("{HEADER}\n{}", lines.join("\n")).parse::<Transcript>();
    }
}

/// Returns the single exchange of a transcript without its first line.
fn only(line: &str) -> (Call, Answer) {
    let transcript: Transcript = format!("{HEADER}\n{line}").parse().unwrap();
    match transcript.lines.as_slice() {
        [Line::Exchange(call, answer)] => (*call, *answer),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_open_as_people_write_it() {
    let (call, answer) =
        only("  open kind=0 config=0x10 exclude=k inherit pid=child cpu=-1 leader=7 -> ENOENT");
    assert_eq!(answer, Answer::Errno(libc::ENOENT));
    let expected =
        EventAttr { config: 16, exclude_kernel: true, inherit: true, ..EventAttr::default() };
    assert_eq!(
        call,
        Call::Open { attr: expected, target: Target::Child, cpu: -1, leader: Some(CounterId(7)) }
    );
}

#[test]
fn hard_answers_can_be_written() {
    assert_eq!(only("open kind=4 config=1 pinned -> EBUSY").1, Answer::Errno(libc::EBUSY));
    assert_eq!(only("read 3 -> short=0").1, Answer::Short(ShortRead { bytes: 0 }));
    assert_eq!(only("read 3 -> errno=524").1, Answer::Errno(524));
    assert_eq!(
        only("read 3 -> value=0x7fffffffffffffff enabled=18446744073709551615 running=1").1,
        Answer::Reading(CounterReading {
            value: i64::MAX as u64,
            time_enabled_ns: u64::MAX,
            time_running_ns: 1,
        })
    );
}

#[test]
fn errors_name_the_line_and_what_is_wrong() {
    let wrong = [
        ("read 3", "no answer after ' -> '"),
        ("peek 3 -> ok", "unknown call or wrong number of fields"),
        ("read x -> ok", "a counter is a number"),
        ("read 3 -> ok", "not an answer to read"),
        ("read 3 -> short=24", "a short read has fewer than 24 bytes"),
        ("read 3 -> value=1 running=1 enabled=1", "a reading is value=, enabled=, running="),
        ("read 3 -> value=-1 enabled=1 running=1", "not a number of 64 bits"),
        ("read 3 -> value=0x+1 enabled=1 running=1", "not a number of 64 bits"),
        ("enable 3 all -> ok", "only 'group' may follow the counter"),
        ("enable 3 -> 3", "not an answer to this call"),
        ("enable 3 -> errno=0", "an error number is 1 to 4095"),
        ("close 3 -> EBADF", "close is always answered by 'ok'"),
        ("open kind=0 -> 1", "open needs kind= and config="),
        ("open kind=0 config=1 kind=0 -> 1", "a field is given twice"),
        ("open kind=4294967296 config=1 -> 1", "kind is too large"),
        ("open kind=0 config=1 exclude=x -> 1", "exclude takes the letters u, k and h"),
        ("open kind=0 config=1 pid=12 -> 1", "pid is self, any or child"),
        ("open kind=0 config=1 cpu=two -> 1", "cpu is not a number"),
        ("open kind=0 config=1 pinned=1 -> 1", "unknown field of open"),
        ("open kind=0 config=1 -> ENOPE", "a counter is a number"),
    ];
    for (text, what) in wrong {
        let error = format!("{HEADER}\n# fine\n{text}\n").parse::<Transcript>().unwrap_err();
        let expected = TranscriptError::Line { line: 3, what, text: text.to_string() };
        assert_eq!(error, expected);
    }
    assert_eq!(
        "".parse::<Transcript>().unwrap_err().to_string(),
        "the transcript starts with '', expected 'opcost-perf 1'"
    );
}
