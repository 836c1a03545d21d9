//! A C and a Rust file of one program: one registry, one transaction, either way round.

use crate::alone;
use patchpoint::{Branch, Call, Error, Transaction, Value, call, likely, sites, unlikely, value};
use std::ffi::{c_int, c_long};

type Job = extern "C" fn(c_long) -> c_long;

#[unsafe(export_name = "patchpoint_key_rust_job")]
static RUST_JOB: Call<Job> = Call::new(c"rust_job", same);
#[unsafe(export_name = "patchpoint_key_rust_number")]
static RUST_NUMBER: Value<c_int> = Value::new(c"rust_number", 3);
#[unsafe(export_name = "patchpoint_key_rust_flag")]
static RUST_FLAG: Branch = Branch::new(c"rust_flag", true);

#[link(name = "peer", kind = "static")]
unsafe extern "C" {
    #[link_name = "patchpoint_key_c_job"]
    safe static C_JOB: Call<Job>;
    #[link_name = "patchpoint_key_c_number"]
    safe static C_NUMBER: Value<c_int>;
    #[link_name = "patchpoint_key_c_flag"]
    safe static C_FLAG: Branch;

    safe fn peer_c_keys(a: c_long) -> c_long;
    safe fn peer_rust_keys(a: c_long) -> c_long;
    safe fn peer_change(number: c_int, flag: bool) -> c_int;
}

extern "C" fn same(a: c_long) -> c_long {
    a
}
extern "C" fn negate(a: c_long) -> c_long {
    a.wrapping_neg()
}

/// Combines the results of Rust's sites in the same number as those of C's.
#[inline(never)]
fn own_c_keys(a: c_long) -> c_long {
    let flag = c_long::from(unlikely!(C_FLAG));
    call!(C_JOB, a) * 10_000 + c_long::from(value!(C_NUMBER)) * 10 + flag
}

#[inline(never)]
fn own_rust_keys(a: c_long) -> c_long {
    let flag = c_long::from(likely!(RUST_FLAG));
    call!(RUST_JOB, a) * 10_000 + c_long::from(value!(RUST_NUMBER)) * 10 + flag
}

fn check(c_keys: c_long, rust_keys: c_long) {
    assert_eq!((peer_c_keys(4), own_c_keys(4)), (c_keys, c_keys));
    assert_eq!((peer_rust_keys(4), own_rust_keys(4)), (rust_keys, rust_keys));
}

fn set(job: Job, number: c_int, flag: bool) -> Result<(), Error> {
    let mut change = Transaction::new();
    change.set_call(&C_JOB, job).set_value(&C_NUMBER, number).set_branch(&C_FLAG, flag);
    change.set_call(&RUST_JOB, job).set_value(&RUST_NUMBER, number).set_branch(&RUST_FLAG, flag);
    change.commit()
}

#[test]
fn one_transaction_changes_keys_and_sites_of_both() {
    let _alone = alone();
    set(same, 2, false).unwrap();
    check(40_020, 40_020);
    set(negate, 7, true).unwrap();
    check(-40_000 + 71, -40_000 + 71);
    assert_eq!(peer_change(9, false), 0);
    check(-40_000 + 90, -40_000 + 90);
    set(same, 1, true).unwrap();
    check(40_011, 40_011);
}

#[test]
fn one_registry_has_the_sites_of_both() {
    if cfg!(not(patchpoint_native)) {
        assert!(sites().unwrap().is_empty());
        return;
    }
    let sites = sites().unwrap();
    let values = [C_NUMBER.raw(), RUST_NUMBER.raw()];
    // On arm64 values are loads.
    let values = if cfg!(target_arch = "x86_64") { &values[..] } else { &[] };
    for &key in [C_JOB.raw(), RUST_JOB.raw(), C_FLAG.raw()].iter().chain(values) {
        let of_key = sites.iter().filter(|site| site.key == key);
        assert!(of_key.count() >= 2, "sites in Rust and in C");
    }
    assert_eq!(patchpoint::status().unwrap().objects, 1);
}

/// The instruction that debuggers write: int3; brk #0.
#[cfg(patchpoint_native)]
const TRAP: &[u8] = if cfg!(target_arch = "aarch64") { &[0, 0, 0x20, 0xd4] } else { &[0xcc] };

/// A foreign breakpoint in the one site of a key, for as long as this value lives.
#[cfg(patchpoint_native)]
struct Breakpoint {
    site: usize,
    first: Vec<u8>,
}

#[cfg(patchpoint_native)]
impl Breakpoint {
    fn at(site: usize) -> Self {
        // SAFETY: a site is executable and readable code.
        let first = unsafe { std::slice::from_raw_parts(site as *const u8, TRAP.len()) }.to_vec();
        let breakpoint = Breakpoint { site, first };
        breakpoint.write(TRAP);
        breakpoint
    }

    fn write(&self, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
        memory.write_all_at(bytes, self.site as u64).unwrap();
    }
}

#[cfg(patchpoint_native)]
impl Drop for Breakpoint {
    fn drop(&mut self) {
        self.write(&self.first);
    }
}

#[test]
#[cfg(patchpoint_native)]
fn one_foreign_byte_in_c_refuses_the_changes_of_both() {
    let _alone = alone();
    set(same, 5, false).unwrap();
    let (own, peer) = (peer_c_keys as *const () as usize, own_c_keys as *const () as usize);
    let sites = sites().unwrap();
    // The site in C is the one nearest to the C function.
    let site = sites
        .iter()
        .filter(|site| site.key == C_FLAG.raw())
        .min_by_key(|site| site.address.abs_diff(own))
        .unwrap();
    assert!(site.address.abs_diff(own) < site.address.abs_diff(peer));
    let breakpoint = Breakpoint::at(site.address);
    assert_eq!(set(negate, 6, true), Err(Error::Busy));
    drop(breakpoint);
    check(40_050, 40_050);
    set(negate, 6, true).unwrap();
    check(-40_000 + 61, -40_000 + 61);
}
