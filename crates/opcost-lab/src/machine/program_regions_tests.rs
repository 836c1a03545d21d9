use super::*;
use std::cell::Cell;

/// A source whose sums grow by one with each reading.
struct Growing {
    reads: Cell<u64>,
    /// The reading at which the event is not on the hardware.
    absent: Option<u64>,
}

impl Source for Growing {
    fn now(&self, sums: &mut Vec<Option<Reading>>) -> Result<()> {
        self.reads.set(self.reads.get() + 1);
        let value = self.reads.get();
        let time = CountingTime { enabled_ns: 10 * value, running_ns: 10 * value };
        let clock = MetricKey::new("wall", Domain::All, "clock");
        let counter = MetricKey::new("cycles", Domain::User, "perf_event");
        sums.push(Some(Reading::plain(clock, 100 * value)));
        let counted = Reading { key: counter, value, time: Some(time) };
        sums.push((self.absent != Some(value)).then_some(counted));
        Ok(())
    }

    fn read(
        &mut self,
        _: &str,
        _: Option<&opcost_sys::spawn::Exit>,
        _: &mut Vec<Reading>,
    ) -> Result<()> {
        Ok(())
    }
}

/// The readings that result from messages, each sent over its own connection.
fn served(messages: &[&[u8]], absent: Option<u64>) -> Result<Vec<String>, String> {
    let socket = Socket::open().unwrap();
    let sources: Vec<Box<dyn Source>> = vec![Box::new(Growing { reads: Cell::new(0), absent })];
    let mut serving = Serving::new(&socket, &sources);
    for message in messages {
        let mut stream = UnixStream::connect(&socket.path).unwrap();
        stream.write_all(message).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        serving.attend().unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    let line = |reading: &Reading| format!("{} {}", reading.key, reading.value);
    serving.end().map(|readings| readings.iter().map(line).collect())
}

#[test]
fn regions_have_what_came_between_their_marks() {
    let messages: [&[u8]; 6] =
        [b"b0 outer\0", b"b0 a\0", b"e5 a\0", b"b0 a\0", b"e7 a\0", b"e0 outer\0"];
    // Each message reads the sums twice, and counts from the second reading to the next message's first.
    let expected = [
        "outer/wall 500",
        "outer/cycles:u 5",
        "outer/region-entries 1",
        "a/wall 200",
        "a/cycles:u 2",
        "a/region-entries 2",
        "a/region-ops 12",
    ];
    assert_eq!(served(&messages, None).unwrap(), expected);
}

#[test]
fn a_counter_that_was_not_there_all_the_time_has_no_figure() {
    let messages: [&[u8]; 4] = [b"b0 a\0", b"e0 a\0", b"b0 b\0", b"e0 b\0"];
    let expected =
        ["a/wall 100", "a/region-entries 1", "b/wall 100", "b/cycles:u 1", "b/region-entries 1"];
    assert_eq!(served(&messages, Some(3)).unwrap(), expected);
}

#[test]
fn wrong_messages_are_named() {
    let many = [b"b0 ".to_vec(), vec![b'x'; 240], vec![0]].concat();
    for (messages, part) in [
        (&[&b"b0 a\0"[..]][..], "region 'a' was begun and never ended"),
        (&[b"e0 a\0"], "region 'a' was ended, but it was not open"),
        (&[b"b0 a\0", b"b0 a\0", b"e0 a\0"], "'a' was begun again"),
        (&[b"b0 fib 20\0"], "a blank"),
        (&[&many], "longer than 200 bytes"),
        (&[b"hello\0"], "does not understand"),
        (&[b""], "does not understand"),
        (&[b"e-1 a\0"], "does not understand"),
        (&[b"c0 a\0"], "does not understand"),
    ] {
        let error = served(messages, None).unwrap_err();
        assert!(error.contains(part), "{messages:?}: {error}");
    }
}

#[test]
fn sums_that_run_backwards_are_no_figures() {
    let key = || MetricKey::new("cycles", Domain::User, "perf_event");
    let sums = |value| Sums(vec![Some(Reading::plain(key(), value))]);
    let mut sum = Sums::default();
    sum.add_between(&sums(u64::MAX), &sums(4));
    assert_eq!(sum.0[0].as_ref().unwrap().value, 5);
    sum.add_between(&sums(5), &sums(4));
    assert_eq!(sum.0, [None]);
    sum.add_between(&sums(5), &sums(9));
    assert_eq!(sum.0, [None]);
}

#[test]
fn a_run_without_regions_has_failed() {
    let mut end = RunEnd {
        started_unix_ns: 0,
        outcome: Outcome::Finished,
        exit_code: Some(0),
        report: opcost_record::Report::default(),
        profile: None,
    };
    end.report.readings.push(Reading::plain(MetricKey::new("wall", Domain::All, "clock"), 1));
    require(&mut end);
    let Outcome::Failed(Failure::Work { detail }) = &end.outcome else { panic!("{end:?}") };
    assert!(detail.contains("marked no region"), "{detail}");
}
