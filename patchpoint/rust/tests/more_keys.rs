//! Tests real numbers, switches, keys in arrays and structs, and operations that hold sites themselves, as
//! the C library's conformance.c and frozen.c do.
//!
//! A program of its own, as conformance.rs: it also tests sites before the first `init`.

use patchpoint::{
    Branch, Call, Error, Missing, Switch, Transaction, Value, call, call_saved, init, likely,
    switch, unlikely, value,
};
use std::sync::{Mutex, MutexGuard};

/// The keys belong to one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static KEYS: Mutex<()> = Mutex::new(());
    KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs a check before sites are patched, and after.
fn both(check: fn()) {
    let _alone = alone();
    check();
    init().unwrap();
    check();
}

extern "C" fn half() -> f64 {
    0.5
}
extern "C" fn same_real(a: f32) -> f32 {
    a
}
extern "C" fn double_real(a: f32) -> f32 {
    a + a
}
extern "C" fn greater(a: f64, b: f32) -> bool {
    a > b.into()
}
extern "C" fn quotient(a: i32, b: i8) -> f64 {
    f64::from(a) / f64::from(b)
}
extern "C" fn six_mixed(a: f64, b: i32, c: f32, d: *const u8, e: bool, f: f64) -> f64 {
    // SAFETY: the test passes a text.
    let digit = f64::from(unsafe { *d } - b'0');
    let words = f64::from(b) * 10.0 + digit * 1000.0 + f64::from(u8::from(e)) * 10_000.0;
    a + words + f64::from(c) * 100.0 + f * 100_000.0
}
extern "C" fn six_reals(a: f64, b: f64, c: f64, d: f64, e: f64, f: f64) -> f64 {
    a + 10.0 * b + 100.0 * c + 1000.0 * d + 10_000.0 * e + 100_000.0 * f
}
extern "C" fn three(a: i64, b: f64, c: i32) -> f64 {
    a as f64 + 10.0 * b + 100.0 * f64::from(c)
}
extern "C" fn three_back(a: i64, b: f64, c: i32) -> f64 {
    f64::from(c) + 10.0 * b + 100.0 * a as f64
}

type Mixed = extern "C" fn(f64, i32, f32, *const u8, bool, f64) -> f64;
type Reals = extern "C" fn(f64, f64, f64, f64, f64, f64) -> f64;

static NO_ARGUMENT: Call<extern "C" fn() -> f64> = Call::new(c"no_argument", half);
static ONE_REAL: Call<extern "C" fn(f32) -> f32> = Call::or(c"one_real", same_real, Missing::Zero);
static TO_WORD: Call<extern "C" fn(f64, f32) -> bool> = Call::new(c"to_word", greater);
static FROM_WORDS: Call<extern "C" fn(i32, i8) -> f64> = Call::new(c"from_words", quotient);
static MIXED: Call<Mixed> = Call::new(c"mixed", six_mixed);
static REALS: Call<Reals> = Call::new(c"reals", six_reals);
static THREE: Call<extern "C" fn(i64, f64, i32) -> f64> = Call::new(c"three", three);
static MISSING: Call<extern "C" fn(f64) -> f64> = Call::missing(c"missing", Missing::Zero);

fn check_reals() {
    assert_eq!(call!(NO_ARGUMENT), 0.5);
    assert_eq!((call!(ONE_REAL, 1.25), call_saved!(ONE_REAL, 4.5)), (1.25, 4.5));
    assert!(call!(TO_WORD, 2.0, 1.0) && !call!(TO_WORD, 1.0, 2.0));
    assert_eq!((call!(FROM_WORDS, 48, 3), call_saved!(FROM_WORDS, -9, 2)), (16.0, -4.5));
    assert_eq!(call!(MIXED, 1.0, 2, 3.0, c"4".as_ptr().cast(), true, 6.0), 614_321.0);
    assert_eq!(call!(REALS, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 654_321.0);
    assert_eq!((call!(THREE, 1, 0.5, 3), call_saved!(THREE, 1, 0.5, 3)), (306.0, 306.0));
    assert_eq!(call!(MISSING, 3.5), 0.0);
    THREE.set(three_back).unwrap();
    ONE_REAL.set(double_real).unwrap();
    assert_eq!((call!(THREE, 1, 0.5, 3), call_saved!(THREE, 1, 0.5, 3)), (108.0, 108.0));
    assert_eq!((call!(ONE_REAL, 1.25), call_saved!(ONE_REAL, 4.5)), (2.5, 9.0));
    ONE_REAL.remove().unwrap();
    assert_eq!((call!(ONE_REAL, 1.25), call_saved!(ONE_REAL, 4.5)), (0.0, 0.0));
    THREE.set(three).unwrap();
    ONE_REAL.set(same_real).unwrap();
}

#[test]
fn real_numbers_are_passed_in_their_registers() {
    both(check_reals);
}

static TWO: Switch<2> = Switch::new(c"two", 1);
static EIGHT: Switch<8> = Switch::new(c"eight", 0);

#[inline(never)]
fn way_of_eight() -> u32 {
    match switch!(EIGHT) {
        0 => 100,
        1 => 101,
        2 => 102,
        3 => 103,
        4 => 104,
        5 => 105,
        6 => 106,
        _ => 107,
    }
}

fn check_switches() {
    assert_eq!((switch!(TWO), TWO.load()), (1, 1));
    for way in 0..8 {
        EIGHT.set(way).unwrap();
        assert_eq!((way_of_eight(), switch!(EIGHT)), (100 + way as u32, way));
    }
    assert_eq!(EIGHT.set(8), Err(Error::NotAKey));
    assert_eq!(way_of_eight(), 107);
    let mut change = Transaction::new();
    change.set_switch(&EIGHT, 3).set_switch(&TWO, 0);
    change.commit().unwrap();
    assert_eq!((way_of_eight(), switch!(TWO)), (103, 0));
    TWO.set(1).unwrap();
    EIGHT.set(0).unwrap();
}

#[test]
fn switches_go_each_of_their_ways() {
    both(check_switches);
}

struct Category {
    title: &'static str,
    enabled: Branch,
    level: Value<i64>,
    policy: Switch<3>,
}

const fn category(title: &'static str, level: i64) -> Category {
    Category {
        title,
        enabled: Branch::new(c"enabled", false),
        level: Value::new(c"level", level),
        policy: Switch::new(c"policy", 2),
    }
}

const DISK: usize = 1;
static CATEGORIES: [Category; 3] = [category("net", 1), category("disk", 2), category("cpu", 3)];
static FLAGS: [Branch; 2] = [Branch::new(c"flag_0", false), Branch::new(c"flag_1", true)];

fn check_members() {
    assert!(!unlikely!(CATEGORIES[DISK].enabled) && !likely!(CATEGORIES[2].enabled));
    assert_eq!((value!(CATEGORIES[0].level), value!(CATEGORIES[DISK].level)), (1, 2));
    assert_eq!(switch!(CATEGORIES[DISK].policy), 2);
    assert!(!unlikely!(FLAGS[0]) && likely!(FLAGS[1]));
    for (index, category) in CATEGORIES.iter().enumerate() {
        category.enabled.set(index == DISK).unwrap();
    }
    CATEGORIES[DISK].level.set(i64::MIN).unwrap();
    CATEGORIES[DISK].policy.set(1).unwrap();
    FLAGS[0].set(true).unwrap();
    assert!(unlikely!(CATEGORIES[DISK].enabled) && !likely!(CATEGORIES[2].enabled));
    assert_eq!((value!(CATEGORIES[0].level), value!(CATEGORIES[DISK].level)), (1, i64::MIN));
    assert_eq!(switch!(CATEGORIES[DISK].policy), 1);
    assert!(unlikely!(FLAGS[0]) && likely!(FLAGS[1]));
    assert_eq!(CATEGORIES[DISK].title, "disk");
    CATEGORIES[DISK].enabled.set(false).unwrap();
    CATEGORIES[DISK].level.set(2).unwrap();
    CATEGORIES[DISK].policy.set(2).unwrap();
    FLAGS[0].set(false).unwrap();
}

#[test]
fn keys_may_be_parts_of_arrays_and_structs() {
    both(check_members);
}

extern "C" fn with_branch(_: i64) -> i64 {
    if unlikely!(TRACING) { 1000 } else { 5 }
}
extern "C" fn with_value(_: i64) -> i64 {
    value!(NUMBER).into()
}
extern "C" fn with_wide(_: i64) -> i64 {
    value!(WIDE)
}
extern "C" fn with_switch(a: i64) -> i64 {
    match switch!(WAY) {
        0 => 5,
        1 => a,
        _ => 1000,
    }
}
extern "C" fn with_call(a: i64) -> i64 {
    call!(INNER, a)
}
extern "C" fn with_saved(a: i64) -> i64 {
    call_saved!(INNER, a)
}
extern "C" fn five(_: i64) -> i64 {
    5
}
extern "C" fn same(a: i64) -> i64 {
    a
}

type Unary = extern "C" fn(i64) -> i64;

static TRACING: Branch = Branch::new(c"tracing", false);
static NUMBER: Value<i32> = Value::new(c"number", 5);
static WIDE: Value<i64> = Value::new(c"wide", 5);
static WAY: Switch<3> = Switch::new(c"way", 0);
static INNER: Call<Unary> = Call::new(c"inner", five);
static OUTER: Call<Unary> = Call::new(c"outer", same);

fn set_inner(other: bool) {
    let mut change = Transaction::new();
    change.set_branch(&TRACING, other).set_switch(&WAY, if other { 2 } else { 0 });
    change.set_value(&NUMBER, if other { 1000 } else { 5 });
    change.set_value(&WIDE, if other { 1000 } else { 5 });
    change.set_call(&INNER, if other { same } else { five });
    change.commit().unwrap();
}

/// An operation's own site may be patched or as compiled: in neither case may its present instruction take
/// the place of a call.
fn check_operations() {
    for operation in [with_branch, with_value, with_wide, with_switch, with_call, with_saved] {
        for other in [true, false] {
            OUTER.set(operation).unwrap();
            let before = call!(OUTER, 7);
            assert_eq!(before, operation(7));
            set_inner(other);
            assert_eq!(call!(OUTER, 7), operation(7));
            assert_ne!(call!(OUTER, 7), before);
        }
    }
    OUTER.set(same).unwrap();
}

#[test]
fn an_operation_with_sites_of_its_own_is_called() {
    both(check_operations);
}

#[test]
fn a_key_shows_its_name_and_what_its_sites_do() {
    static MODE: patchpoint::Switch<3> = patchpoint::Switch::new(c"mode", 2);
    static DEPTH: patchpoint::Value<i8> = patchpoint::Value::new(c"depth", -8);
    static SHOWN: patchpoint::Branch = patchpoint::Branch::new(c"shown", false);
    assert_eq!(format!("{MODE:?}"), r#"Switch { name: "mode", value: 2 }"#);
    assert_eq!(format!("{DEPTH:?}"), r#"Value { name: "depth", value: -8 }"#);
    SHOWN.set(true).unwrap();
    assert_eq!(format!("{SHOWN:?}"), r#"Branch { name: "shown", value: true }"#);
    let call = format!("{OUTER:?}");
    assert!(call.starts_with(r#"Call { name: "outer", operation: 0x"#), "{call}");
}
