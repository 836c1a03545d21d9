//! Functions that are compiled once for each combination of their keys, before and after sites are
//! patched, and while a thread changes the keys.

use patchpoint::{Branch, Call, Error, Switch, Transaction, call, init, likely, sites, status};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

static SMP: Branch = Branch::new(c"smp", true);
static MODE: Switch<3> = Switch::new(c"mode", 2);
static DEBUG: Branch = Branch::new(c"debug", false);

patchpoint::variants! {
    /// All the keys' values in one number.
    pub(crate) static COMBINED: fn(a: u64, b: f64) -> u64 = |SMP: bool, MODE: usize, DEBUG: bool| {
        let smp = if SMP { 100 } else { 0 };
        // A site names the key by a path, since the bare name is the constant.
        let agree = u64::from(likely!(crate::DEBUG) == DEBUG);
        a * 10_000 + (b as u64) * 1000 + smp + 10 * MODE as u64 + u64::from(DEBUG) + agree - 1
    }
}

patchpoint::variants! {
    static NOTHING_UNLESS_DEBUG: fn(count: *mut u32) = |DEBUG: bool| {
        if DEBUG {
            // SAFETY: the test passes a number of its own.
            unsafe { *count += 1 };
        }
    }
}

fn seen() -> u64 {
    call!(COMBINED, 7, 5.0) - 75_000
}

fn change_all() -> Result<(), Error> {
    let mut count = 0;
    assert_eq!(seen(), 120);
    SMP.set(false)?;
    assert_eq!(seen(), 20);
    MODE.set(1)?;
    assert_eq!(seen(), 10);
    DEBUG.inc()?;
    assert_eq!(seen(), 11);
    call!(NOTHING_UNLESS_DEBUG, &mut count);
    let mut change = Transaction::new();
    change.set_branch(&SMP, true).set_branch(&DEBUG, false);
    assert_eq!(change.commit(), Err(Error::Busy));
    assert_eq!(seen(), 11);
    DEBUG.dec()?;
    call!(NOTHING_UNLESS_DEBUG, &mut count);
    assert_eq!((seen(), count), (10, 1));
    let mut change = Transaction::new();
    change.set_branch(&SMP, true).set_switch(&MODE, 2);
    change.commit()?;
    assert_eq!(seen(), 120);
    Ok(())
}

#[test]
fn callers_execute_the_variant_for_the_keys() {
    change_all().unwrap();
    init().unwrap();
    change_all().unwrap();
    assert_eq!(status().unwrap().variants, 2);
    let sites = sites().unwrap();
    let of = |key: &'static str| sites.iter().filter(move |site| site.name == key);
    assert!(of("COMBINED").all(|site| site.variant == "smp=1 mode=2 debug=0"), "{sites:?}");
    assert!(of("mode").all(|site| site.variant.is_empty()));
    assert_eq!(of("COMBINED").count() > 0, cfg!(patchpoint_native));

    // Only its keys change it.
    extern "C" fn other(_: u64, _: f64) -> u64 {
        0
    }
    static AS_CALL: &Call<extern "C" fn(u64, f64) -> u64> = &COMBINED;
    assert_eq!(AS_CALL.set(other), Err(Error::NotAKey));

    // Both keys change together, so no call finds one of them changed alone.
    let (begun, stop) = (Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begun.wait();
            while !stop.load(Ordering::Relaxed) {
                let combination = seen();
                assert!([120, 0].contains(&combination), "{combination}");
            }
        });
        // Changes that are cheap end before another thread begins.
        begun.wait();
        for round in 0..500 {
            let mut change = Transaction::new();
            let on = round % 2 == 1;
            change.set_branch(&SMP, on).set_switch(&MODE, if on { 2 } else { 0 });
            change.commit().unwrap();
            assert_eq!(seen(), if on { 120 } else { 0 });
        }
        stop.store(true, Ordering::Relaxed);
    });
}
