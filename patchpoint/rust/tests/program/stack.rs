//! Sites in functions that would be leaves: live locals where the red zone would be, vector registers
//! across sites, the stack's alignment at the operation, and sites that the compiler copies. A
//! program of its own, which is built in many ways, and a module of the test that builds it.

use patchpoint::{Branch, Call, Value, call, call_saved, unlikely, value};
use std::hint::black_box;

/// Returns its stack's misalignment (0 by the ABI) after overwriting 512 bytes below it and
/// registers that a callee may overwrite.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[unsafe(naked)]
extern "C" fn scribble(_: i64) -> i64 {
    std::arch::naked_asm!(
        "lea rax, [rsp + 8]",
        "and eax, 15",
        "mov rcx, -512",
        "2: mov qword ptr [rsp + rcx], -1",
        "add rcx, 8",
        "jne 2b",
        "mov rdx, -1",
        "mov rsi, rdx",
        "mov rdi, rdx",
        "mov r8, rdx",
        "mov r9, rdx",
        "mov r10, rdx",
        "mov r11, rdx",
        "pcmpeqd xmm0, xmm0",
        "pcmpeqd xmm1, xmm1",
        "pcmpeqd xmm2, xmm2",
        "pcmpeqd xmm3, xmm3",
        "pcmpeqd xmm7, xmm7",
        "pcmpeqd xmm15, xmm15",
        "ret",
    )
}
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
extern "C" fn scribble(_: i64) -> i64 {
    0
}
extern "C" fn scribble_plain() {
    scribble(0);
}
extern "C" fn identity(a: i64) -> i64 {
    a
}

static OPERATION: Call<extern "C" fn(i64) -> i64> = Call::new(c"operation", scribble);
static PLAIN: Call<extern "C" fn()> = Call::new(c"plain", scribble_plain);
static FACTOR: Value<i32> = Value::new(c"factor", 3);
static EXTRA: Branch = Branch::new(c"extra", false);

#[inline(never)]
fn red_zone(a: i64) -> i64 {
    let mut locals = [0i64; 8];
    for (local, i) in locals.iter_mut().zip(0..) {
        *local = black_box(a) + i;
    }
    black_box(&mut locals);
    let result = call!(OPERATION, a);
    for (local, i) in locals.iter().zip(0..) {
        assert_eq!(*local, a + i);
    }
    result
}

#[inline(never)]
fn red_zone_saved(a: i64, b: i64, c: i64) -> i64 {
    let mut locals = [a, b, c, 1];
    black_box(&mut locals);
    let result = call_saved!(OPERATION, a);
    assert_eq!(locals, [a, b, c, 1]);
    assert_eq!(a * b * c, 24);
    result
}

#[inline(never)]
fn vectors(a: [i64; 2], b: f64, c: f32) -> i64 {
    let (kept, real) = ([a[0] + a[0], a[1] + a[1]], b * 2.0);
    let result = call!(OPERATION, 1) + call_saved!(OPERATION, 0);
    assert_eq!([kept[0] - a[0], kept[1] - a[1]], a);
    assert!(real == b * 2.0 && c == 0.5);
    result
}

/// Thirty-two sums, in vector registers and their spills, are live across the site.
#[inline(never)]
fn spills(numbers: &[f64; 64]) -> (f64, i64) {
    let mut sums = [0.0f64; 32];
    let mut result = 0;
    for half in numbers.chunks_exact(32) {
        for (sum, number) in sums.iter_mut().zip(half) {
            *sum += number * number;
        }
        result += call!(OPERATION, 2);
    }
    (sums.iter().sum(), result)
}

/// Only one path has a site: a prologue moved there must come before it.
#[inline(never)]
fn one_path(a: i64, b: i64) -> i64 {
    if a > b {
        return a - b;
    }
    call!(OPERATION, b) + if a == b { 0 } else { 1000 }
}

#[inline(never)]
fn tail(a: i64) -> i64 {
    call!(OPERATION, a)
}

#[inline(never)]
fn copies(numbers: [i64; 4]) -> i64 {
    let mut sum = 0;
    for number in numbers {
        sum += number * i64::from(value!(FACTOR));
        if unlikely!(EXTRA) {
            sum += 1000;
        }
        call!(PLAIN);
    }
    sum
}

/// One site in the source, and one in the program for each type.
#[inline(always)]
fn generic<T: Into<i64>>(number: T) -> i64 {
    call!(OPERATION, number.into())
}

fn check(is_identity: bool, factor: i64, extra: i64) {
    let expected = |argument: i64| if is_identity { argument } else { 0 };
    assert_eq!(red_zone(40), expected(40));
    assert_eq!(red_zone_saved(2, 3, 4), expected(2));
    assert_eq!(vectors([5, 6], 1.5, 0.5), expected(1));
    assert_eq!(spills(&std::array::from_fn(|i| i as f64)), (85_344.0, 2 * expected(2)));
    assert_eq!(one_path(9, 4), 5);
    assert_eq!(one_path(4, 4), expected(4));
    assert_eq!(one_path(3, 4), 1000 + expected(4));
    assert_eq!(tail(6), expected(6));
    assert_eq!(copies([1, 2, 3, 4]), 10 * factor + 4 * extra);
    assert_eq!(generic(1i32) + generic(2u8) + generic(3i64), expected(6));
}

pub(crate) fn main() {
    check(false, 3, 0);
    patchpoint::init().unwrap();
    check(false, 3, 0);
    OPERATION.set(identity).unwrap();
    FACTOR.set(7).unwrap();
    EXTRA.set(true).unwrap();
    check(true, 7, 1000);
    OPERATION.set(scribble).unwrap();
    check(false, 7, 1000);
    let status = patchpoint::status().unwrap();
    println!("{} sites, writer {}", status.sites, status.writer);
}
