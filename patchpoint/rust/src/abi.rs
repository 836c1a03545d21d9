//! The declarations of `patchpoint.h` in Rust; a test compares the sizes.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};

/// `enum patchpoint_kind`.
pub(crate) const CALL: u8 = 1;
pub(crate) const VALUE: u8 = 2;
pub(crate) const BRANCH: u8 = 3;
pub(crate) const SWITCH: u8 = 4;

/// `PATCHPOINT_KEY_VARIANTS`.
pub(crate) const VARIANTS: u8 = 4;

/// `PATCHPOINT_BODY_SIZE`.
pub(crate) const BODY_SIZE: usize = 7;
/// The length of the longest possible site, in bytes (`PATCHPOINT_LENGTH_MAX`).
pub const LENGTH_MAX: usize = 16;

/// `struct patchpoint_key`: the slot that sites as compiled read, and the library's data of a key.
#[repr(C)]
pub struct RawKey {
    /// Comes first: sites as compiled read it by the key's symbol.
    pub(crate) slot: UnsafeCell<*mut c_void>,
    pub(crate) name: *const c_char,
    pub(crate) ops: UnsafeCell<u64>,
    origin: *const *const RawKey,
    imports: UnsafeCell<*mut RawKey>,
    object: UnsafeCell<*mut c_void>,
    first: UnsafeCell<u32>,
    kind: u8,
    size: u8,
    null: u8,
    pub(crate) flags: u8,
    form: UnsafeCell<u8>,
    body: UnsafeCell<[u8; BODY_SIZE]>,
    mark: UnsafeCell<u8>,
    reserved: [u8; 3],
    users: UnsafeCell<u32>,
}

impl RawKey {
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: the key's definition names it by a string that lives as long as the key.
        unsafe { CStr::from_ptr(self.name) }
    }
}

impl std::fmt::Debug for RawKey {
    /// The name and what sites do now: the rest is the library's.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const KINDS: [&str; 5] = ["Key", "Call", "Value", "Branch", "Switch"];
        let kind = KINDS.get(usize::from(self.kind)).unwrap_or(&KINDS[0]);
        let now = self.load();
        let mut fields = to.debug_struct(kind);
        fields.field("name", &self.name());
        match self.kind {
            CALL => fields.field("operation", &now),
            BRANCH => fields.field("value", &!now.is_null()),
            _ => fields.field("value", &now.addr()),
        };
        fields.finish()
    }
}

// SAFETY: Rust never writes a field but `ops`, atomically; the library guards the others by its
// lock and writes the slot and the users atomically.
unsafe impl Sync for RawKey {}

impl RawKey {
    pub(crate) const fn new(
        kind: u8,
        name: *const c_char,
        slot: *mut c_void,
        size: usize,
        null: u8,
    ) -> RawKey {
        RawKey {
            slot: UnsafeCell::new(slot),
            name,
            ops: UnsafeCell::new(0),
            origin: std::ptr::null(),
            imports: UnsafeCell::new(std::ptr::null_mut()),
            object: UnsafeCell::new(std::ptr::null_mut()),
            first: UnsafeCell::new(0),
            kind,
            size: size as u8,
            null,
            flags: 0,
            form: UnsafeCell::new(0),
            body: UnsafeCell::new([0; BODY_SIZE]),
            mark: UnsafeCell::new(0),
            reserved: [0; 3],
            users: UnsafeCell::new(0),
        }
    }
}

/// `PATCHPOINT_VARIANT_KEYS_MAX`.
pub(crate) const VARIANT_KEYS_MAX: usize = 4;

/// `struct patchpoint_variants`: a function and the keys that decide which variant it is.
#[doc(hidden)]
#[repr(C)]
#[derive(Debug)]
pub struct RawVariants {
    pub(crate) next: UnsafeCell<*mut RawVariants>,
    pub(crate) function: *const RawKey,
    pub(crate) keys: [*const RawKey; VARIANT_KEYS_MAX],
    pub(crate) functions: *const c_void,
    pub(crate) combinations: u32,
    pub(crate) count: u16,
    pub(crate) registered: UnsafeCell<u16>,
}

// SAFETY: Rust changes nothing after the construction; the library guards its fields by its lock.
unsafe impl Sync for RawVariants {}

/// `struct patchpoint_txn`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RawTransaction {
    changes: *mut c_void,
    count: usize,
    capacity: usize,
    error: c_int,
}

impl RawTransaction {
    /// A transaction as `patchpoint_txn_begin` makes it: all zero.
    pub(crate) const fn begun() -> RawTransaction {
        RawTransaction { changes: std::ptr::null_mut(), count: 0, capacity: 0, error: 0 }
    }
}

/// `struct patchpoint_status`.
#[repr(C)]
pub(crate) struct RawStatus {
    pub(crate) writer: c_int,
    pub(crate) fallback: bool,
    pub(crate) sync_core: bool,
    pub(crate) writer_name: *const c_char,
    pub(crate) reason: *const c_char,
    pub(crate) stub_reason: *const c_char,
    pub(crate) objects: usize,
    pub(crate) sites: usize,
    pub(crate) stubs: usize,
    pub(crate) transactions: u64,
    pub(crate) sites_written: u64,
    pub(crate) traps: u64,
    pub(crate) protocol: c_int,
    pub(crate) protocol_name: *const c_char,
    pub(crate) protocol_reason: *const c_char,
    pub(crate) variants: usize,
    pub(crate) text_reason: *const c_char,
}

/// `struct patchpoint_site_info`.
#[repr(C)]
pub(crate) struct RawSite {
    pub(crate) key: *const RawKey,
    pub(crate) kind: c_int,
    pub(crate) address: *const c_void,
    pub(crate) object: *const c_char,
    pub(crate) state: *const c_char,
    pub(crate) length: usize,
    pub(crate) bytes_original: [u8; 16],
    pub(crate) bytes_now: [u8; 16],
    pub(crate) name: *const c_char,
    pub(crate) users: u32,
    pub(crate) variant: *const c_char,
}

/// `struct patchpoint_alternative`.
#[repr(C)]
pub(crate) struct RawAlternative {
    pub(crate) needs: u32,
    pub(crate) function: *mut c_void,
}

/// `struct patchpoint_place`.
#[repr(C)]
pub(crate) struct RawPlace {
    pub(crate) code: u64,
    pub(crate) key: u64,
    pub(crate) aux: u64,
    pub(crate) kind: u8,
    pub(crate) length: u8,
    pub(crate) flags: u8,
}

/// `struct patchpoint_state`.
#[repr(C)]
pub(crate) struct RawState {
    pub(crate) value: u64,
    pub(crate) form: u8,
    pub(crate) body: [u8; BODY_SIZE],
}

pub(crate) type Reader = unsafe extern "C" fn(*mut c_void, u64, *mut u8) -> bool;
pub(crate) type Visit = unsafe extern "C" fn(*const RawSite, *mut c_void) -> c_int;

unsafe extern "C" {
    pub(crate) fn patchpoint_init() -> c_int;
    pub(crate) fn patchpoint_status(status: *mut RawStatus) -> c_int;
    pub(crate) fn patchpoint_site_iterate(visit: Visit, argument: *mut c_void) -> c_int;
    pub(crate) fn patchpoint_txn_commit(transaction: *mut RawTransaction) -> c_int;
    pub(crate) fn patchpoint_txn_abort(transaction: *mut RawTransaction) -> c_int;
    pub(crate) fn patchpoint_txn_set(
        transaction: *mut RawTransaction,
        key: *const RawKey,
        value: u64,
    ) -> c_int;
    pub(crate) fn patchpoint_key_set(key: *const RawKey, value: u64) -> c_int;
    pub(crate) fn patchpoint_variants_register(variants: *const RawVariants);
    pub(crate) fn patchpoint_variants_unregister(variants: *const RawVariants);
    pub(crate) fn patchpoint_combination(keys: *const *const RawKey, count: usize) -> u32;
    pub(crate) fn patchpoint_key_inc(key: *const RawKey) -> c_int;
    pub(crate) fn patchpoint_key_dec(key: *const RawKey) -> c_int;
    pub(crate) fn patchpoint_key_users(key: *const RawKey) -> u32;
    pub(crate) safe fn patchpoint_ops_add(count: u64);
    pub(crate) fn patchpoint_cpu_features() -> u32;
    pub(crate) fn patchpoint_choose(
        key: *const RawKey,
        alternatives: *const RawAlternative,
        count: usize,
        permitted: u32,
    ) -> c_int;
    pub(crate) fn patchpoint_body(
        read: Reader,
        context: *mut c_void,
        function: u64,
        body: *mut [u8; BODY_SIZE],
    ) -> c_int;
    pub(crate) fn patchpoint_place_compiled(
        read: Reader,
        context: *mut c_void,
        place: *const RawPlace,
        now: *const u8,
        bytes: *mut [u8; LENGTH_MAX],
    ) -> c_int;
    pub(crate) fn patchpoint_place_patched(
        read: Reader,
        context: *mut c_void,
        place: *const RawPlace,
        now: *const u8,
        state: *const RawState,
        stub: u64,
        bytes: *mut [u8; LENGTH_MAX],
    ) -> c_int;
    pub(crate) fn patchpoint_place_word(
        read: Reader,
        context: *mut c_void,
        place: *const RawPlace,
        now: *const u8,
        state: *const RawState,
        stub: u64,
    ) -> *const c_char;
    pub(crate) fn patchpoint_null_nothing();
    pub(crate) fn patchpoint_null_zero();
    pub(crate) fn patchpoint_null_zero_real();
    pub(crate) fn patchpoint_null_trap();
    fn patchpoint_object_of_rust();
}

/// Makes the linker keep the object's entry in the registry, which nothing calls.
#[used]
static OBJECT: unsafe extern "C" fn() = patchpoint_object_of_rust;

#[cfg(test)]
mod tests {
    use super::*;

    #[link(name = "peer_sizes", kind = "static")]
    unsafe extern "C" {
        safe fn peer_size(of: c_int) -> usize;
    }

    #[test]
    fn types_have_the_size_that_c_gives_them() {
        let sizes = [
            size_of::<RawKey>(),
            size_of::<RawTransaction>(),
            size_of::<RawStatus>(),
            size_of::<RawSite>(),
            size_of::<RawAlternative>(),
            size_of::<RawPlace>(),
            size_of::<RawState>(),
            size_of::<RawVariants>(),
        ];
        for (of, size) in (0..).zip(sizes) {
            assert_eq!(peer_size(of), size, "type {of}");
        }
    }
}
