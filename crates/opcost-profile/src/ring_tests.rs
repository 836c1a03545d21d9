use super::*;
use proptest::prelude::*;

const CHAIN: Layout = Layout { call_chain: true, user_registers_mask: 0 };
const STACK: Layout = Layout { call_chain: true, user_registers_mask: 0b1_0011 };

/// Makes a record of these words, with a header.
fn record(kind: u32, misc: u16, body: &[u64]) -> Vec<u64> {
    let bytes = (body.len() + 1) * 8;
    let header = u64::from(kind) | u64::from(misc) << 32 | (bytes as u64) << 48;
    [&[header], body].concat()
}

fn pair(first: i32, second: i32) -> u64 {
    u64::from(first as u32) | u64::from(second as u32) << 32
}

/// Returns text with its terminating zero, filled up to whole words.
fn padded(text: &str) -> Vec<u64> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() / 8 * 8 + 8, 0);
    let words = bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    words.collect()
}

/// Thread, time and CPU, the end of every record except samples.
const TRAILER: [u64; 3] = [7 | 8 << 32, 1234, 1];

#[test]
fn a_sample_with_its_chain() {
    let words = record(9, 1, &[0xffff_8000, pair(7, 8), 99, pair(3, 0), 1_000_000, 2, 5, 6]);
    let expected = Sample {
        time_ns: Some(99),
        pid: 7,
        tid: 8,
        cpu: Some(3),
        event: 0,
        period: 1_000_000,
        address: 0xffff_8000,
        in_kernel: true,
        chain: &[5, 6],
        user_stack: None,
    };
    let read = read(&words, CHAIN).unwrap();
    assert_eq!(read, Record { time_ns: 99, event: Some(Event::Sample(expected)) });
}

#[test]
fn a_sample_with_registers_and_what_was_copied_of_the_stack() {
    let head = [0x1000, pair(7, 8), 99, pair(3, 0), 1, 0];
    let body = [&head[..], &[2, 11, 12, 13, 16, 0x0807_0605_0403_0201, 42, 9]].concat();
    let words = record(9, 2, &body);
    let Some(Event::Sample(sample)) = read(&words, STACK).unwrap().event else { panic!() };
    let stack = sample.user_stack.unwrap();
    assert_eq!((stack.registers, stack.registers_mask), (&[11, 12, 13][..], 0b1_0011));
    assert_eq!(stack.bytes, [1, 2, 3, 4, 5, 6, 7, 8, 42]);
    assert!(!sample.in_kernel);
    // A kernel thread has neither registers nor a stack.
    let words = record(9, 1, &[&head[..], &[0, 0]].concat());
    let Some(Event::Sample(sample)) = read(&words, STACK).unwrap().event else { panic!() };
    assert_eq!(sample.user_stack, None);
}

#[test]
fn a_mapping_with_and_without_build_id() {
    let place = [0x5000, 0x2000, 0x1000];
    let id = [0x0403_0201_0000_0003, 0, 0];
    let body = [&[pair(7, 8)], &place[..], &id, &[pair(5, 2)], &padded("/bin/work"), &TRAILER];
    let words = record(10, 1 << 14, &body.concat());
    let expected = Mapping {
        pid: 7,
        address: 0x5000,
        bytes: 0x2000,
        file_offset: 0x1000,
        path: b"/bin/work",
        build_id: Some(&[1, 2, 3]),
        executable: true,
    };
    let event = Some(Event::Mapping(expected.clone()));
    assert_eq!(read(&words, CHAIN).unwrap(), Record { time_ns: 1234, event });
    let words = record(10, 0, &body.concat());
    let Some(Event::Mapping(without)) = read(&words, CHAIN).unwrap().event else { panic!() };
    assert_eq!(without, Mapping { build_id: None, ..expected });
}

#[test]
fn names_forks_exits_and_losses() {
    let event = |kind, misc, body: &[&[u64]]| {
        let words = record(kind, misc, &[&body.concat()[..], &TRAILER].concat());
        format!("{:?}", read(&words, CHAIN).unwrap().event)
    };
    let check = |found: String, expected: Option<Event<'_>>| {
        assert_eq!(found, format!("{expected:?}"));
    };
    let name = |exec| Some(Event::Name { pid: 7, tid: 8, name: b"a long comm", exec });
    check(event(3, 0, &[&[pair(7, 8)], &padded("a long comm")]), name(false));
    check(event(3, 1 << 13, &[&[pair(7, 8)], &padded("a long comm")]), name(true));
    let tasks = [pair(9, 7), pair(10, 8), 55];
    check(event(7, 0, &[&tasks]), Some(Event::Fork { pid: 9, parent_pid: 7, tid: 10 }));
    check(event(4, 0, &[&tasks]), Some(Event::Exit { pid: 9, tid: 10 }));
    check(event(2, 0, &[&[77, 5]]), Some(Event::Lost { events: 5 }));
    check(event(13, 0, &[&[6]]), Some(Event::Lost { events: 6 }));
    check(event(5, 0, &[&[1, 2, 3]]), Some(Event::Throttled));
    // PERF_RECORD_UNTHROTTLE, and an unknown kind.
    check(event(6, 0, &[&[1, 2, 3]]), None);
    check(event(99, 0, &[]), None);
}

#[test]
fn records_are_told_apart_and_what_is_left_over_is_an_error() {
    let (one, two) = (record(6, 0, &TRAILER), record(99, 0, &[1, 2, 3, 4]));
    let both = [one.clone(), two.clone()].concat();
    let split: Result<Vec<&[u64]>, RingError> = records(&both).collect();
    assert_eq!(split.unwrap(), [&one[..], &two[..]]);
    let cut: Vec<_> = records(&both[..both.len() - 1]).collect();
    assert_eq!(cut, [Ok(&one[..]), Err(RingError::Length { words: 5, left: 4 })]);
    assert_eq!(records(&[9]).last(), Some(Err(RingError::Length { words: 0, left: 1 })));
}

#[test]
fn a_record_that_ends_early_names_its_type() {
    for (kind, words) in [(9, 8), (10, 11), (3, 4), (7, 6), (4, 6), (2, 5), (13, 4)] {
        let body = vec![1; words];
        assert!(read(&record(kind, 0, &body), CHAIN).is_ok(), "{kind}");
        for shorter in 0..words {
            let read = read(&record(kind, 0, &body[..shorter]), CHAIN).map(|_| ());
            // The chain of the sample has length 1; the second word behind its length is not read.
            if (kind, shorter) != (9, 7) {
                assert_eq!(read, Err(RingError::Fields { kind }), "{shorter} words");
            }
        }
    }
}

proptest! {
    #[test]
    fn no_words_make_it_panic(
        mut words in prop::collection::vec(prop_oneof![0..40u64, any::<u64>()], 1..60),
        kind in 0..25u32, misc: u16, exact: bool, mask: u64,
    ) {
        let bytes = words.len() as u64 * 8;
        if exact {
            words[0] = u64::from(kind) | u64::from(misc) << 32 | bytes << 48;
        }
        for record in records(&words).flatten() {
            for layout in [Layout::default(), CHAIN, STACK, Layout { user_registers_mask: mask, ..CHAIN }] {
                let read = read(record, layout);
                if let Ok(read) = read {
                    prop_assert_eq!(Ok(read.time_ns), time_ns(record));
                }
            }
        }
    }

    #[test]
    fn chains_come_back_as_they_were(chain in prop::collection::vec(any::<u64>(), 0..200), time: u64) {
        let head = [1, pair(2, 3), time, pair(4, 0), 5, chain.len() as u64];
        let words = record(9, 2, &[&head[..], &chain].concat());
        let read = read(&words, CHAIN).unwrap();
        let Some(Event::Sample(sample)) = read.event else { panic!() };
        prop_assert_eq!(sample.chain, &chain[..]);
        prop_assert_eq!(sample.time_ns, Some(time));
    }
}
