//! Reports on sites and on the library itself.

use crate::abi::{self, RawKey, RawSite, RawStatus};
use crate::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The way of writing code that is in use, why no better way is, and counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// `proc-mem`, `memfd`, `mprotect` (only while the process has one thread) or `none`.
    pub writer: String,
    /// Some keys are or may stay plain data.
    pub fallback: bool,
    /// `membarrier` can make other threads see new code.
    pub sync_core: bool,
    /// Why each better way was refused; empty if none was.
    pub reason: String,
    /// Why a far target was last left to the indirect form; empty if it never was.
    pub stub_reason: String,
    /// Programs and shared objects with sites.
    pub objects: usize,
    /// Sites of these programs and shared objects.
    pub sites: usize,
    /// Jumps to targets further than 2 GiB from their sites.
    pub stubs: usize,
    /// Transactions that were made.
    pub transactions: u64,
    /// Sites that these transactions wrote.
    pub sites_written: u64,
    /// Traps of threads that met a site during a change.
    pub traps: u64,
    /// The protocol of the last change of a site: `none`, `direct` (the process had one thread),
    /// `store`, `move`, `trap` or `copy`.
    pub protocol: String,
    /// Why each better protocol was refused then, with the thread that was the cause; empty if none was.
    pub protocol_reason: String,
    /// Functions that are bound to the variant for their keys' values.
    pub variants: usize,
    /// Why sites are not what was compiled, or may not be what runs, because another tool changed the text; empty if none did.
    pub text_reason: String,
}

/// The kind of key that a site depends on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A [`Call`](crate::Call).
    Call,
    /// A [`Value`](crate::Value).
    Value,
    /// A [`Branch`](crate::Branch).
    Branch,
    /// A [`Switch`](crate::Switch).
    Switch,
}

/// One site, as [`sites`] found it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Site {
    /// The key's name.
    pub name: String,
    /// The key itself, to be compared with [`Call::raw`](crate::Call::raw).
    pub key: *const RawKey,
    /// The kind of the key.
    pub kind: Kind,
    /// The address of the instruction.
    pub address: usize,
    /// The file that the site is in; empty if it is not known.
    pub object: String,
    /// `data`, `call`, `stub`, `thunk`, `nop`, `move`, `constant`, `inline`, `trap`, `immediate`,
    /// `jump` or `foreign`.
    pub state: String,
    /// The instruction as compiled.
    pub bytes_original: Vec<u8>,
    /// The instruction now.
    pub bytes_now: Vec<u8>,
    /// The number of the key's users, if it is a branch ([`Branch::inc`](crate::Branch::inc)).
    pub users: u32,
    /// The keys' values for which a function with variants is compiled (`smp=1 debug=0`); else empty.
    pub variant: String,
}

/// Turns every site into its patched form, and every site of objects loaded later.
///
/// Optional: a key's sites read the key until this or the key's first change. Safe to call again.
/// If nothing can be patched it succeeds, too, and [`status`] says why.
///
/// # Errors
/// [`Error`] as [`Transaction::commit`](crate::Transaction::commit).
pub fn init() -> Result<(), Error> {
    // SAFETY: no conditions.
    Error::check(unsafe { abi::patchpoint_init() }).map(drop)
}

/// Reports which way of writing code is in use, and why no better way is.
///
/// # Errors
/// [`Error::Nested`], [`Error::BorrowedMemory`].
pub fn status() -> Result<Status, Error> {
    let mut raw = std::mem::MaybeUninit::<RawStatus>::zeroed();
    // SAFETY: the library fills what it is given.
    Error::check(unsafe { abi::patchpoint_status(raw.as_mut_ptr()) })?;
    // SAFETY: filled, as there was no error.
    let raw = unsafe { raw.assume_init() };
    // SAFETY: texts of the library, which live as long as the program.
    let text = |text| unsafe { owned(text) };
    Ok(Status {
        writer: text(raw.writer_name),
        fallback: raw.fallback,
        sync_core: raw.sync_core,
        reason: text(raw.reason),
        stub_reason: text(raw.stub_reason),
        objects: raw.objects,
        sites: raw.sites,
        stubs: raw.stubs,
        transactions: raw.transactions,
        sites_written: raw.sites_written,
        traps: raw.traps,
        protocol: text(raw.protocol_name),
        protocol_reason: text(raw.protocol_reason),
        variants: raw.variants,
        text_reason: text(raw.text_reason),
    })
}

/// Returns every site of every registered program and shared object, of Rust and of C.
///
/// # Errors
/// [`Error::Nested`], [`Error::BorrowedMemory`].
pub fn sites() -> Result<Vec<Site>, Error> {
    let mut sites: Vec<Site> = Vec::new();
    let list: *mut Vec<Site> = &mut sites;
    // SAFETY: `collect` is called with sites and this list, before the function returns.
    Error::check(unsafe { abi::patchpoint_site_iterate(collect, list.cast()) })?;
    Ok(sites)
}

/// Adds to the program's own count of operations: requests, packets, rounds of its loop.
///
/// A tool that watches the process (`opcost attach`) divides its measurements by the count. A call is
/// one atomic addition to a word that all threads share: add many at a time where operations are short.
pub fn ops_add(count: u64) {
    abi::patchpoint_ops_add(count);
}

/// # Safety
/// `list` is a `Vec<Site>` that nobody else uses.
unsafe extern "C" fn collect(raw: *const RawSite, list: *mut c_void) -> c_int {
    // SAFETY: the library passes a site, and `sites` its list.
    let (raw, list) = unsafe { (&*raw, &mut *list.cast::<Vec<Site>>()) };
    let kind = match raw.kind {
        1 => Kind::Call,
        2 => Kind::Value,
        3 => Kind::Branch,
        _ => Kind::Switch,
    };
    // SAFETY: the library's texts live until this function returns.
    let (name, object, state, variant) =
        unsafe { (owned(raw.name), owned(raw.object), owned(raw.state), owned(raw.variant)) };
    list.push(Site {
        name,
        key: raw.key,
        kind,
        address: raw.address.addr(),
        object,
        state,
        bytes_original: raw.bytes_original[..raw.length].to_vec(),
        bytes_now: raw.bytes_now[..raw.length].to_vec(),
        users: raw.users,
        variant,
    });
    0
}

/// # Safety
/// `text` ends with a NUL byte.
unsafe fn owned(text: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
