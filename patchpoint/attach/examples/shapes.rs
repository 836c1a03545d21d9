//! A program to try `opcost attach` on: two threads that measure shapes until they are stopped.
//!
//! Its keys: `area`, a call (rectangle, ellipse or width); `limit`, a value; `tracing`, a branch.

use patchpoint::{Branch, Call, Value, call, unlikely, value};
use std::hint::black_box;
use std::thread;

#[unsafe(no_mangle)]
extern "C" fn rectangle(w: i64, h: i64) -> i64 {
    w * h
}

#[unsafe(no_mangle)]
extern "C" fn ellipse(w: i64, h: i64) -> i64 {
    w * h * 355 / 452
}

// The function is simple enough that its body replaces calls of it.
#[unsafe(no_mangle)]
extern "C" fn width(w: i64, _: i64) -> i64 {
    w
}

static AREA: Call<extern "C" fn(i64, i64) -> i64> = Call::new(c"area", rectangle);
static LIMIT: Value<i32> = Value::new(c"limit", 20_000);
static TRACING: Branch = Branch::new(c"tracing", false);

/// The operations that a thread adds to the counter at a time.
const BATCH: i64 = 1000;

#[inline(never)]
fn fits(w: i64, h: i64) -> bool {
    if unlikely!(TRACING) {
        // The cost of a trace.
        for line in 0..100 {
            black_box(line);
        }
    }
    call!(AREA, w, h) <= value!(LIMIT).into()
}

fn measure() {
    loop {
        for side in 0..BATCH {
            black_box(fits(black_box(side), 30));
        }
        patchpoint::ops_add(BATCH as u64);
    }
}

fn main() -> Result<(), patchpoint::Error> {
    // The linker would drop functions that are reached by name only.
    black_box([ellipse as extern "C" fn(i64, i64) -> i64, width]);
    patchpoint::init()?;
    println!("process {}: keys area, limit, tracing; Ctrl-C ends it", std::process::id());
    let other = thread::spawn(measure);
    measure();
    let _ = other.join();
    Ok(())
}
