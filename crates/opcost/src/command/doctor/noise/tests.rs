use super::*;
use opcost_report::render::Style;
use std::fs;

fn heard(lost_ns: u64, longest_ns: u64) -> Heard {
    let gaps = Gaps { turn_ns: 100, listened_ns: 1_000_000_000, gaps: 40, longest_ns, lost_ns };
    let source = |name: &str, count| Source { name: name.into(), count };
    Heard {
        gaps,
        switches: Some(0),
        stolen_ns: Some(0),
        interrupts: vec![source("Local timer", 250), source("virtio1-req.0", 4)],
        softirqs: vec![source("TIMER", 100)],
    }
}

fn cpu(cpu: usize, heard: Option<Heard>) -> CpuNoise {
    let refused = heard.is_none().then(|| "Invalid argument".to_string());
    CpuNoise { cpu, isolated: false, nohz_full: false, siblings: vec![], heard, refused }
}

#[test]
fn the_cpu_that_takes_least_is_the_quietest() {
    let cpus = [
        cpu(0, Some(heard(3_000_000, 50_000))),
        cpu(1, None),
        cpu(2, Some(heard(2_000_000, 90_000))),
        cpu(3, Some(heard(2_000_000, 80_000))),
    ];
    assert_eq!(quietest(&cpus), Some(3));
    assert_eq!(quietest(&cpus[1..2]), None);
}

#[test]
fn a_disturbed_cpu_comes_with_who_disturbs_it() {
    assert!(!heard(9_000_000, 1_000_000).disturbed());
    assert!(heard(11_000_000, 1_000_000).disturbed(), "1.1 % of the time");
    assert!(heard(3_000_000, 3_000_000).disturbed(), "one gap of 3 ms");
    let mut loud = heard(11_000_000, 1_000_000);
    loud.switches = Some(12);
    loud.stolen_ns = Some(20_000_000);
    let expected = [
        "the hypervisor (20 ms stolen)",
        "other tasks (12 turns/s)",
        "Local timer (250/s)",
        "virtio1-req.0 (4/s)",
    ];
    assert_eq!(loud.causes(), expected);
    // More gaps than the kernel accounts for.
    loud.gaps.gaps = 300;
    let last = "34 gaps/s without an interrupt: firmware or hypervisor";
    assert_eq!(loud.causes().last().unwrap(), last);
}

#[test]
fn the_kernels_words_on_a_cpu_are_read() {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("isolated", "2-3\n"),
        ("nohz_full", "3\n"),
        ("cpu3/topology/thread_siblings_list", "3,7\n"),
    ] {
        let path = dir.path().join("sys/devices/system/cpu").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let three = place(dir.path(), 3, Err(std::io::Error::from_raw_os_error(22)));
    assert_eq!((three.isolated, three.nohz_full, three.siblings), (true, true, vec![7]));
    assert!(three.heard.is_none() && three.refused.unwrap().starts_with("Invalid argument"));
    // Kernels without nohz_full= say "(null)".
    fs::write(dir.path().join("sys/devices/system/cpu/nohz_full"), "(null)\n").unwrap();
    assert!(!place(dir.path(), 3, Ok(heard(1, 1))).nohz_full);
    assert_eq!(probe::switches("Name:\tx\nnonvoluntary_ctxt_switches:\t17\n"), Some(17));
    assert_eq!(probe::stolen_ns("cpu 9 9\ncpu3 1 2 3 4 5 6 7 8 0 0\n", 3), Some(80_000_000));
    assert_eq!((probe::switches(""), probe::stolen_ns("cpu3 1 2", 3)), (None, None));
}

#[test]
fn the_page_shows_every_cpu_and_recommends_one() {
    let style = Style::plain();
    let mut cpus = vec![
        cpu(0, Some(heard(31_000_000, 12_000_000))),
        cpu(1, Some(heard(1_200_000, 80_000))),
        cpu(5, None),
    ];
    cpus[1].isolated = true;
    cpus[1].siblings = vec![3];
    let map = NoiseMap { schema: 1, seconds: 1.0, quietest: quietest(&cpus), cpus };
    let expected = "\
each CPU kept busy by one thread for 1 s, one after the other

  CPU  time lost  longest gap  gaps/s  switches/s  interrupts/s  stolen
  0       3.10 %        12 ms      40           0           254     0 %
  1       0.12 %        80 µs      40           0           254     0 %
      isolated, shares its core with 3
  5
      not listened to: Invalid argument

! CPU 0 is disturbed, probably by Local timer (250/s), virtio1-req.0 (4/s)
→ CPU 1 is the quietest: --cpu 1
";
    assert_eq!(text(&page::document(&map), &style), expected);
    let cpus = vec![cpu(0, Some(heard(31_000_000, 12_000_000)))];
    let alone = NoiseMap { schema: 1, seconds: 0.5, quietest: Some(0), cpus };
    assert!(
        text(&page::document(&alone), &style)
            .contains("→ CPU 0 is the only one this process may use")
    );
}
