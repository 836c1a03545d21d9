//! Tests every function and macro of the API, on every build, as the C library's conformance.c does.
//!
//! A program of its own: it also tests sites before the first `init`, which patches a whole process.

use patchpoint::{
    Branch, Call, Cpu, Error, Kind, Missing, Transaction, Value, call, call_saved, init, likely,
    sites, status, unlikely, value,
};
use std::ffi::c_char;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard};

type Transform = extern "C" fn(i64) -> i64;
type Six = extern "C" fn(i64, i64, i64, i64, i64, Transform) -> i64;

static RAN: AtomicI32 = AtomicI32::new(0);

extern "C" fn count() {
    RAN.fetch_add(1, Ordering::Relaxed);
}
extern "C" fn count_twice() {
    RAN.fetch_add(2, Ordering::Relaxed);
}
extern "C" fn five_of_them() -> i32 {
    5
}
extern "C" fn counted() -> i32 {
    RAN.load(Ordering::Relaxed)
}
extern "C" fn identity(a: i64) -> i64 {
    a
}
extern "C" fn twice(a: i64) -> i64 {
    a.wrapping_mul(2)
}
extern "C" fn add(a: u8, b: i16) -> u32 {
    (i32::from(a) + i32::from(b)) as u32
}
unsafe extern "C" fn at(text: *const c_char, offset: i32, _unused: i8) -> *const c_char {
    // SAFETY: the caller's offset is inside its text.
    unsafe { text.offset(offset as isize) }
}
extern "C" fn ascending(a: i64, b: i64, c: i64, d: i64) -> bool {
    a < b && b < c && c < d
}
extern "C" fn never(_: i64, _: i64, _: i64, _: i64) -> bool {
    false
}
extern "C" fn digits(a: i32, b: i32, c: i32, d: i32, e: i32) -> i64 {
    (a + 10 * b + 100 * c + 1000 * d + 10_000 * e).into()
}
extern "C" fn apply(a: i64, b: i64, c: i64, d: i64, e: i64, f: Transform) -> i64 {
    f(a + b + c + d + e)
}
extern "C" fn last(_: i64, _: i64, _: i64, _: i64, e: i64, _: Transform) -> i64 {
    e
}

static NONE: Call<extern "C" fn()> = Call::or(c"none", count, Missing::Nothing);
static NO_ARGUMENT: Call<extern "C" fn() -> i32> = Call::new(c"no_argument", five_of_them);
static ONE: Call<Transform> = Call::or(c"one", twice, Missing::Zero);
static TWO: Call<extern "C" fn(u8, i16) -> u32> = Call::new(c"two", add);
static THREE: Call<unsafe extern "C" fn(*const c_char, i32, i8) -> *const c_char> =
    Call::new(c"three", at);
static FOUR: Call<extern "C" fn(i64, i64, i64, i64) -> bool> = Call::new(c"four", ascending);
static FIVE: Call<extern "C" fn(i32, i32, i32, i32, i32) -> i64> = Call::new(c"five", digits);
static SIX: Call<Six> = Call::new(c"six", apply);
static MISSING_TRAP: Call<Transform> = Call::missing(c"missing_trap", Missing::Trap);
static MISSING_ZERO: Call<Transform> = Call::missing(c"missing_zero", Missing::Zero);
static MISSING_NOTHING: Call<extern "C" fn(i64)> =
    Call::missing(c"missing_nothing", Missing::Nothing);
static VALUE_8: Value<i8> = Value::new(c"value_8", -8);
static VALUE_16: Value<u16> = Value::new(c"value_16", 65_535);
static VALUE_32: Value<i32> = Value::new(c"value_32", -32);
static VALUE_64: Value<i64> = Value::new(c"value_64", i64::MIN);
static VALUE_BOOL: Value<bool> = Value::new(c"value_bool", true);
static FIRST: c_char = 1;
static SECOND: c_char = 2;
static VALUE_POINTER: Value<*const c_char> = Value::new(c"value_pointer", &raw const FIRST);
static ON: Branch = Branch::new(c"on", true);
static OFF: Branch = Branch::new(c"off", false);

/// The keys belong to one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static KEYS: Mutex<()> = Mutex::new(());
    KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn check_initial() {
    RAN.store(0, Ordering::Relaxed);
    call!(NONE);
    assert_eq!(counted(), 1);
    assert_eq!(call!(NO_ARGUMENT), 5);
    assert_eq!(call!(ONE, 21), 42);
    assert_eq!(call_saved!(ONE, 4), 8);
    assert_eq!(call!(TWO, 250, -20), 230);
    let text = c"abc".as_ptr();
    // SAFETY: an offset inside the text.
    assert_eq!(unsafe { *call!(THREE, text, 2, 7) }, b'c' as c_char);
    // SAFETY: as above.
    assert_eq!(unsafe { call_saved!(THREE, text, 1, 7) }, text.wrapping_add(1));
    assert!(call!(FOUR, 1, 2, 3, 4));
    assert!(!call!(FOUR, 1, 2, 4, 3));
    assert_eq!(call!(FIVE, 1, 2, 3, 4, 5), 54_321);
    assert_eq!(call!(SIX, 1, 2, 3, 4, 5, twice), 30);
    assert_eq!(call!(MISSING_ZERO, 9), 0);
    call!(MISSING_NOTHING, 9);
    assert_eq!(value!(VALUE_8), -8);
    assert_eq!(value!(VALUE_16), 65_535);
    assert_eq!(value!(VALUE_32), -32);
    assert_eq!(value!(VALUE_64), i64::MIN);
    assert!(value!(VALUE_BOOL));
    assert_eq!(value!(VALUE_POINTER), &raw const FIRST);
    assert!(likely!(ON) && unlikely!(ON));
    assert!(!likely!(OFF) && !unlikely!(OFF));
}

fn check_sets() -> Result<(), Error> {
    NONE.set(count_twice)?;
    RAN.store(0, Ordering::Relaxed);
    call!(NONE);
    assert_eq!(counted(), 2);
    NONE.remove()?;
    call!(NONE);
    assert_eq!(counted(), 2);
    NO_ARGUMENT.set(counted)?;
    assert_eq!(call!(NO_ARGUMENT), 2);
    ONE.set(identity)?;
    assert_eq!(call!(ONE, i64::MIN), i64::MIN);
    assert_eq!(call_saved!(ONE, -1), -1);
    assert_eq!(ONE.function() as usize, identity as *const () as usize);
    ONE.remove()?;
    assert_eq!(call!(ONE, 7), 0);
    FOUR.set(never)?;
    assert!(!call!(FOUR, 1, 2, 3, 4));
    SIX.set(last)?;
    assert_eq!(call!(SIX, 1, 2, 3, 4, 55, twice), 55);
    for value in i8::MIN..=i8::MAX {
        VALUE_8.set(value)?;
        assert_eq!((value!(VALUE_8), VALUE_8.load()), (value, value));
    }
    VALUE_16.set(1)?;
    assert_eq!(value!(VALUE_16), 1);
    VALUE_32.set(i32::MIN)?;
    assert_eq!((value!(VALUE_32), VALUE_32.load()), (i32::MIN, i32::MIN));
    VALUE_64.set(0x0123_4567_89ab_cdef)?;
    assert_eq!((value!(VALUE_64), VALUE_64.load()), (0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef));
    VALUE_BOOL.set(false)?;
    assert!(!value!(VALUE_BOOL));
    VALUE_POINTER.set(&raw const SECOND)?;
    // SAFETY: the pointer is one of the two statics'.
    assert_eq!(unsafe { *value!(VALUE_POINTER) }, 2);
    ON.set(false)?;
    assert!(!likely!(ON) && !unlikely!(ON) && !ON.load());
    OFF.set(true)?;
    assert!(likely!(OFF) && unlikely!(OFF) && OFF.load());
    Ok(())
}

fn restore() -> Result<(), Error> {
    let mut change = Transaction::new();
    change
        .set_call(&NONE, count)
        .set_call(&NO_ARGUMENT, five_of_them)
        .set_call(&ONE, identity)
        .set_call(&ONE, twice) // the last one counts
        .set_call(&FOUR, ascending)
        .set_call(&SIX, apply)
        .set_value(&VALUE_8, -8)
        .set_value(&VALUE_16, 65_535)
        .set_value(&VALUE_32, -32)
        .set_value(&VALUE_64, i64::MIN)
        .set_value(&VALUE_BOOL, true)
        .set_value(&VALUE_POINTER, &raw const FIRST)
        .set_branch(&ON, true)
        .set_branch(&OFF, false);
    change.commit()
}

#[test]
fn sites_do_what_their_keys_say_before_and_after_they_are_patched() {
    let _alone = alone();
    check_initial();
    check_sets().unwrap();
    restore().unwrap();
    check_initial();
    init().unwrap();
    init().unwrap();
    check_initial();
    check_sets().unwrap();
    restore().unwrap();
    check_initial();
}

#[test]
fn a_transaction_that_is_dropped_or_empty_changes_nothing() {
    let _alone = alone();
    restore().unwrap();
    Transaction::new().commit().unwrap();
    let mut change = Transaction::default();
    for value in 0..1000 {
        change.set_value(&VALUE_32, value);
    }
    change.remove_call(&ONE).set_branch(&OFF, true);
    // Nothing happens before the commit, and nothing without one.
    assert!(!unlikely!(OFF));
    drop(change);
    assert!(!unlikely!(OFF));
    assert_eq!(value!(VALUE_32), -32);
    assert_eq!(call!(ONE, 4), 8);
    // Built in one thread and committed in another.
    let mut change = Transaction::new();
    change.remove_call(&ONE).set_value(&VALUE_32, 4);
    std::thread::spawn(move || change.commit()).join().unwrap().unwrap();
    assert_eq!((call!(ONE, 4), value!(VALUE_32)), (0, 4));
    restore().unwrap();
}

#[test]
fn alternatives_are_chosen_by_feature() {
    let _alone = alone();
    // No processor has all 32 features.
    let alternatives =
        [(Cpu::ALL, identity as Transform), (Cpu::POPCNT, identity), (Cpu::NONE, twice)];
    let best = if Cpu::here().include(Cpu::POPCNT) { 1 } else { 2 };
    assert_eq!(ONE.choose(&alternatives, Cpu::ALL), Ok(best));
    assert_eq!(call!(ONE, 5), if best == 1 { 5 } else { 10 });
    assert_eq!(ONE.choose(&alternatives, Cpu::NONE), Ok(2));
    assert_eq!(call!(ONE, 5), 10);
    assert_eq!(ONE.choose(&alternatives[..1], Cpu::ALL), Err(Error::NoAlternative));
    assert_eq!(call!(ONE, 5), 10);
    assert!((Cpu::ERMS | Cpu::FSRM).include(Cpu::FSRM));
}

#[test]
fn executions_are_counted_where_they_are_to_be() {
    let _alone = alone();
    let before = (VALUE_32.ops(), ONE.ops(), ON.ops());
    for _ in 0..10 {
        std::hint::black_box(value!(VALUE_32));
    }
    call!(ONE, 1);
    std::hint::black_box(likely!(ON));
    let after = (VALUE_32.ops() - before.0, ONE.ops() - before.1, ON.ops() - before.2);
    assert_eq!(after, if cfg!(feature = "ops") { (10, 1, 1) } else { (0, 0, 0) });
}

/// Whether values are sites, and not loads.
const VALUE_SITES: bool = cfg!(target_arch = "x86_64");

#[test]
fn sites_and_status_can_be_looked_at() {
    let _alone = alone();
    let (sites, status) = (sites().unwrap(), status().unwrap());
    assert_eq!(sites.len(), status.sites);
    if cfg!(not(patchpoint_native)) {
        assert!(sites.is_empty() && status.fallback);
        assert_eq!((status.writer.as_str(), status.reason.as_str()), ("none", "portable build"));
        return;
    }
    assert!(sites.len() > if VALUE_SITES { 50 } else { 30 }, "{}", sites.len());
    assert_eq!(status.objects, 1);
    assert!(status.writer != "none" && !status.fallback && status.sync_core, "{status:?}");
    for site in &sites {
        let lengths = if VALUE_SITES { 6..=11 } else { 4..=4 };
        assert!(lengths.contains(&site.bytes_now.len()), "{site:?}");
        assert_ne!(site.state, "foreign", "{site:?}");
        assert!(site.object.contains("conformance"), "{site:?}");
    }
    let of = |key| sites.iter().filter(move |site| site.key == key);
    assert!(of(ONE.raw()).all(|site| site.name == "one" && site.kind == Kind::Call));
    assert!(of(ONE.raw()).count() > 5);
    assert!(of(VALUE_64.raw()).all(|site| site.bytes_now.len() == 11 && site.kind == Kind::Value));
    assert_eq!(of(VALUE_64.raw()).count() > 0, VALUE_SITES);
    let branch_bytes = if VALUE_SITES { 6 } else { 4 };
    assert!(
        of(ON.raw()).all(|site| site.bytes_now.len() == branch_bytes && site.kind == Kind::Branch)
    );
}

#[test]
fn a_missing_operation_traps() {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os("PATCHPOINT_TRAP").is_some() {
        call!(MISSING_TRAP, 1);
        return;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_missing_operation_traps"])
        .env("PATCHPOINT_TRAP", "1")
        .output()
        .unwrap()
        .status;
    // SIGILL of ud2, SIGTRAP of brk.
    let signal = if cfg!(target_arch = "aarch64") { 5 } else { 4 };
    assert_eq!(status.signal(), Some(signal), "{status:?}");
}
