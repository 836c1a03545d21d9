//! Threads execute sites of every kind while others change the keys, for two seconds. Each
//! observation must be one of the values that were ever set: old or new, never a mixture.
//!
//! A program of its own: a transaction of another test would make these wait until they give up as busy.

use patchpoint::{
    Branch, Call, Missing, Transaction, Value, call, call_saved, likely, unlikely, value,
};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const READERS: usize = 3;
const WRITERS: usize = 2;

type Work = extern "C" fn(i64, i64) -> i64;
type Notify = unsafe extern "C" fn(*mut i64);

/// Each result tells which function ran, and that arguments arrived and nothing else was disturbed.
extern "C" fn first(a: i64, _: i64) -> i64 {
    a
}
extern "C" fn second(_: i64, b: i64) -> i64 {
    b
}
extern "C" fn sum(a: i64, b: i64) -> i64 {
    a.wrapping_mul(3).wrapping_add(b)
}
extern "C" fn seven(_: i64, _: i64) -> i64 {
    7
}
unsafe extern "C" fn silent(_: *mut i64) {}
unsafe extern "C" fn store(place: *mut i64) {
    // SAFETY: the site's caller passes a place of its own.
    unsafe { *place = 1 }
}
unsafe extern "C" fn loud(place: *mut i64) {
    // SAFETY: as above.
    unsafe { *place += 2 }
}

static WORK: Call<Work> = Call::or(c"work", first, Missing::Zero);
static NOTIFY: Call<Notify> = Call::new(c"notify", silent);
static WIDE: Value<u64> = Value::new(c"wide", 0);
static NARROW: Value<u32> = Value::new(c"narrow", 0);
static MODE: Branch = Branch::new(c"mode", false);
static VERSION: Value<i64> = Value::new(c"version", 0);
static STOP: AtomicBool = AtomicBool::new(false);

fn pattern_64(i: u64) -> u64 {
    (i & 0xff) * 0x0101_0101_0101_0101
}
fn pattern_32(i: u64) -> u32 {
    (i & 0xff) as u32 * 0x0101_0101
}

fn check_work(a: i64, b: i64, result: i64) {
    assert!([a, b, sum(a, b), 7, 0].contains(&result), "{result:#x} of {a:#x}, {b:#x}");
}

/// A function that would be a leaf without its sites, with locals in the place of the red zone and a value in a
/// vector register.
#[inline(never)]
fn observe(a: i64, b: i64) {
    let (mut noise, mut told) = ([a, b, a ^ b, !a], 0i64);
    let real = a as f64 * 0.5;
    black_box(&mut noise);
    check_work(a, b, call!(WORK, a, b));
    check_work(b, a, call_saved!(WORK, b, a));
    // SAFETY: a local variable.
    unsafe { call!(NOTIFY, &raw mut told) };
    assert!((0..=2).contains(&told));
    let wide = value!(WIDE);
    assert_eq!(wide, pattern_64(wide));
    let narrow = value!(NARROW);
    assert_eq!(narrow, pattern_32(narrow.into()));
    if unlikely!(MODE) {
        noise[0] = black_box(!black_box(!noise[0]));
    }
    if likely!(MODE) {
        noise[1] = black_box(!black_box(!noise[1]));
    }
    assert_eq!(noise, [a, b, a ^ b, !a]);
    assert!(real == a as f64 * 0.5);
}

fn read() -> u64 {
    let (mut rounds, mut before) = (0u64, 0);
    while !STOP.load(Ordering::Relaxed) {
        observe(rounds.wrapping_mul(2_654_435_761) as i64, rounds as i64);
        // One writer raises this key: a thread never sees a lower value than before.
        let now = value!(VERSION);
        assert!(now >= before, "{now} after {before}");
        before = now;
        rounds += 1;
    }
    rounds
}

fn write(leader: bool) -> u64 {
    const WORKS: [Option<Work>; 5] = [Some(first), Some(sum), Some(second), Some(seven), None];
    const NOTICES: [Notify; 3] = [silent, loud, store];
    let mut round = 0u64;
    while !STOP.load(Ordering::Relaxed) {
        let mut change = Transaction::new();
        match WORKS[(round % 5) as usize] {
            Some(work) => change.set_call(&WORK, work),
            None => change.remove_call(&WORK),
        };
        change
            .set_call(&NOTIFY, NOTICES[(round % 3) as usize])
            .set_value(&WIDE, pattern_64(round * 37))
            .set_value(&NARROW, pattern_32(round * 41))
            .set_branch(&MODE, round & 1 == 1);
        if leader {
            change.set_value(&VERSION, round as i64);
        }
        change.commit().unwrap();
        if leader {
            assert_eq!(value!(VERSION), round as i64);
        }
        NARROW.set(pattern_32(round)).unwrap();
        round += 1;
    }
    2 * round
}

#[test]
fn threads_see_old_or_new_and_never_a_mixture() {
    patchpoint::init().unwrap();
    let readers: Vec<_> = (0..READERS).map(|_| thread::spawn(read)).collect();
    let writers: Vec<_> =
        (0..WRITERS).map(|index| thread::spawn(move || write(index == 0))).collect();
    thread::sleep(Duration::from_secs(2));
    STOP.store(true, Ordering::Relaxed);
    let rounds: u64 = readers.into_iter().map(|thread| thread.join().unwrap()).sum();
    let changes: u64 = writers.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(rounds > 0 && changes > 0);
    let status = patchpoint::status().unwrap();
    println!(
        "{rounds} rounds of 8 sites, {changes} changes, writer {}, {} sites written, {} traps",
        status.writer, status.sites_written, status.traps
    );
}
