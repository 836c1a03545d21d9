//! Sessions: for any events in any order, every sample is in the tree or counted as missing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_profile::event::{CONTEXT_KERNEL, CONTEXT_USER, Event, Mapping, Sample};
use opcost_profile::session::{FRAMES_MAX, Session};

fuzz_target!(|bytes: &[u8]| {
    let mut session = Session::new(0, FRAMES_MAX);
    let mut samples = 0;
    for step in bytes.chunks_exact(8) {
        let pid = i32::from(step[1] % 4);
        let address = u64::from(step[2]) << 12 | u64::from(step[3]);
        let chain =
            [CONTEXT_KERNEL, address, !u64::from(step[4]), CONTEXT_USER, u64::from(step[5]) << 12];
        let path = [b'/', step[6]];
        match step[0] % 6 {
            0 => session.take(&Event::Mapping(Mapping {
                pid,
                address,
                bytes: u64::from(step[7]) << 12,
                file_offset: address,
                path: &path,
                build_id: None,
                executable: step[6] % 4 != 0,
            })),
            1 => session.take(&Event::Fork { pid, parent_pid: i32::from(step[4] % 4), tid: pid }),
            2 => session.take(&Event::Name { pid, tid: pid, name: b"x", exec: step[4] % 2 == 0 }),
            3 => session.take(&Event::Exit { pid, tid: pid }),
            _ => {
                samples += 1;
                session.take(&Event::Sample(Sample {
                    time_ns: None,
                    pid,
                    tid: pid,
                    cpu: None,
                    event: 0,
                    period: u64::from(step[7]),
                    address,
                    in_kernel: false,
                    chain: &chain[..usize::from(step[7] % 6)],
                    user_stack: None,
                }));
            }
        }
    }
    let nodes = session.finish().tree;
    let found: u64 = nodes.nodes().iter().map(|node| node.samples).sum();
    assert_eq!(found, samples);
    let earlier =
        |(at, parent): (usize, Option<u32>)| parent.is_none_or(|parent| (parent as usize) < at);
    assert!(nodes.nodes().iter().map(|node| node.parent).enumerate().all(earlier));
});
