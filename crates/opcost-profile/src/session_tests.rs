//! Tests of sessions.

use super::*;
use crate::event::{CONTEXT_KERNEL, Mapping, UserStack};
use proptest::prelude::*;

const KERNEL_TEXT: u64 = 0xffff_ffff_8100_0000;

fn map<'a>(pid: i32, address: u64, path: &'a [u8]) -> Event<'a> {
    let bytes = 0x1000;
    let file_offset = 0;
    let mapping =
        Mapping { pid, address, bytes, file_offset, path, build_id: None, executable: true };
    Event::Mapping(mapping)
}

fn sample(pid: i32, address: u64, chain: &[u64]) -> Sample<'_> {
    Sample {
        time_ns: None,
        pid,
        tid: pid,
        cpu: None,
        event: 0,
        period: 10,
        address,
        in_kernel: address >= KERNEL_TEXT,
        chain,
        user_stack: None,
    }
}

/// Returns each stack as `path+offset`, outermost first, with its samples and cost.
fn stacks(recorded: &Recorded) -> Vec<(String, u64, u64)> {
    let nodes = recorded.tree.nodes();
    let mut names: Vec<String> = Vec::new();
    for node in nodes {
        let place = recorded.tree.places()[node.place as usize];
        let path = String::from_utf8_lossy(&recorded.files[place.file as usize].path);
        let name = format!("{path}+{:x}", place.offset);
        names.push(match node.parent {
            Some(parent) => format!("{} {name}", names[parent as usize]),
            None => name,
        });
    }
    let named = names.into_iter().zip(nodes);
    named
        .filter(|(_, node)| node.samples > 0)
        .map(|(name, node)| (name, node.samples, node.cost))
        .collect()
}

fn session() -> Session {
    let mut session = Session::new(0, FRAMES_MAX);
    session.take(&map(7, 0x1000, b"/bin/a"));
    session.take(&map(7, 0x5000, b"/lib/b"));
    session
}

#[test]
fn a_stack_is_there_once_with_its_sum() {
    let mut session = session();
    let chain = [CONTEXT_USER, 0x1010, 0x5021, 0x1101];
    for _ in 0..3 {
        session.take(&Event::Sample(sample(7, 0x1010, &chain)));
    }
    let other = [CONTEXT_USER, 0x1018, 0x5021, 0x1101];
    session.take(&Event::Sample(sample(7, 0x1018, &other)));
    let recorded = session.finish();
    assert_eq!(recorded.tree.nodes().len(), 4);
    // Callers are at the call; the interrupted instruction is at its own address.
    let expected = [
        ("/bin/a+100 /lib/b+20 /bin/a+10".to_string(), 3, 30),
        ("/bin/a+100 /lib/b+20 /bin/a+18".to_string(), 1, 10),
    ];
    assert_eq!(stacks(&recorded), expected);
    assert_eq!(recorded.losses, Losses::default());
}

#[test]
fn what_was_interrupted_below_the_kernel_is_no_return_address() {
    let mut session = session();
    let inside = KERNEL_TEXT + 0x50;
    let chain = [CONTEXT_KERNEL, inside, KERNEL_TEXT + 9, CONTEXT_USER, 0x5000, 0x1101];
    session.take(&Event::Sample(sample(7, inside, &chain)));
    let [(stack, 1, 10)] = &stacks(&session.finish())[..] else { panic!("not one stack") };
    assert_eq!(stack, "/bin/a+100 /lib/b+0 [kernel]+ffffffff81000008 [kernel]+ffffffff81000050");
}

#[test]
fn a_chain_means_what_is_mapped_when_it_is_taken() {
    let mut session = session();
    let chain = [CONTEXT_USER, 0x1010, 0x5021];
    session.take(&Event::Sample(sample(7, 0x1010, &chain)));
    session.take(&map(7, 0x5000, b"/lib/other"));
    session.take(&Event::Sample(sample(7, 0x1010, &chain)));
    session.take(&Event::Fork { pid: 8, parent_pid: 7, tid: 8 });
    session.take(&Event::Sample(sample(8, 0x1010, &chain)));
    session.take(&Event::Name { pid: 8, tid: 8, name: b"new", exec: true });
    session.take(&Event::Sample(sample(8, 0x1010, &chain)));
    let recorded = session.finish();
    let expected = [
        ("/lib/b+20 /bin/a+10".to_string(), 1, 10),
        ("/lib/other+20 /bin/a+10".to_string(), 2, 20),
        ("[unmapped]+0 [unmapped]+0".to_string(), 1, 10),
    ];
    assert_eq!(stacks(&recorded), expected);
    assert_eq!((recorded.losses.unmapped_samples, recorded.losses.unmapped_callers), (1, 1));
}

#[test]
fn what_is_missing_is_counted() {
    let mut session = Session::new(0, 4);
    session.take(&map(7, 0x1000, b"/bin/a"));
    session.take(&Event::Lost { events: 5 });
    session.take(&Event::Lost { events: 2 });
    session.take(&Event::Throttled);
    session.take(&Event::Sample(Sample { event: 1, ..sample(7, 0x1000, &[]) }));
    let guest = [CONTEXT_GUEST[1], 0x1000];
    session.take(&Event::Sample(sample(7, 0x1000, &guest)));
    let long = [CONTEXT_USER, 0x1010, 0x1020, 0x1030, 0x1040];
    session.take(&Event::Sample(sample(7, 0x1010, &long)));
    let short = [CONTEXT_USER, 0x1010, 0x1020, 0x1030];
    session.take(&Event::Sample(sample(7, 0x1010, &short)));
    let stack = UserStack { registers_mask: 0, registers: &[], bytes: &[0; 8] };
    session.take(&Event::Sample(Sample { user_stack: Some(stack), ..sample(7, 0x1010, &[]) }));
    let losses = Losses {
        lost_events: 7,
        throttles: 1,
        stacks_cut: 1,
        stacks_not_unwound: 1,
        guest_samples: 1,
        other_events: 1,
        ..Losses::default()
    };
    let recorded = session.finish();
    assert_eq!(recorded.losses, losses);
    assert_eq!(recorded.tree.nodes().iter().map(|node| node.samples).sum::<u64>(), 3);
}

#[test]
fn a_stack_that_is_told_later_is_no_address() {
    let mut session = session();
    let chain = [CONTEXT_KERNEL, KERNEL_TEXT, CONTEXT_USER_DEFERRED, 0x1234];
    session.take(&Event::Sample(sample(7, KERNEL_TEXT, &chain)));
    let recorded = session.finish();
    assert_eq!(stacks(&recorded)[0].0, "[kernel]+ffffffff81000000");
    assert_eq!(recorded.losses, Losses::default());
}

proptest! {
    /// Remembered chains lead to the same places as without memory.
    #[test]
    fn memory_changes_nothing(
        taken in prop::collection::vec(
            (7i32..9, 0u64..4, prop::collection::vec(0x0ffeu64..0x1004, 0..4), any::<bool>()),
            0..40,
        )
    ) {
        let mut remembering = session();
        let mut forgetting = session();
        for (pid, address, frames, remap) in &taken {
            // Markers within a chain change the meaning of the frame behind them.
            let frames = frames.iter().map(|frame| match frame {
                0x0ffe => CONTEXT_USER_DEFERRED,
                0x1003 => CONTEXT_KERNEL,
                0x1002 => KERNEL_TEXT + 0x10,
                frame => *frame,
            });
            let chain: Vec<u64> =
                [CONTEXT_USER, 0x1000 + address].into_iter().chain(frames).collect();
            forgetting.trails.clear();
            forgetting.found.clear();
            for session in [&mut remembering, &mut forgetting] {
                if *remap {
                    session.take(&map(*pid, 0x1000, format!("/{address}").as_bytes()));
                }
                session.take(&Event::Sample(sample(*pid, 0x1000 + address, &chain)));
            }
        }
        let (one, two) = (remembering.finish(), forgetting.finish());
        prop_assert_eq!(stacks(&one), stacks(&two));
        prop_assert_eq!(one.losses, two.losses);
    }
}
