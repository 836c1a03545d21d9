//! Keys, on which sites depend.

use crate::abi::{self, BRANCH, CALL, RawKey, SWITCH, VALUE};
use crate::error::Error;
use crate::signature::Signature;
use crate::word::{Outcome, Word};
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The action of a site whose operation is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Missing {
    /// It stops the program: `ud2`.
    Trap = 0,
    /// Its result is 0, false or null.
    Zero = 1,
    /// It does nothing; its result is an arbitrary number.
    Nothing = 2,
}

impl Missing {
    const fn slot(self, real: bool) -> *mut c_void {
        match self {
            Missing::Trap => abi::patchpoint_null_trap as *mut c_void,
            Missing::Zero if real => abi::patchpoint_null_zero_real as *mut c_void,
            Missing::Zero => abi::patchpoint_null_zero as *mut c_void,
            Missing::Nothing => abi::patchpoint_null_nothing as *mut c_void,
        }
    }

    /// `enum patchpoint_null`.
    const fn policy(self, real: bool) -> u8 {
        match self {
            Missing::Zero if real => 3,
            _ => self as u8,
        }
    }
}

macro_rules! raw_key {
    ($([$($generic:tt)*] $key:ty)*) => { $(
        impl<$($generic)*> $key {
            /// The key as C sees it, for comparing with [`Site::key`](crate::Site::key).
            pub fn raw(&self) -> *const RawKey {
                &self.raw
            }

            #[doc(hidden)]
            pub const fn raw_key(&'static self) -> &'static RawKey {
                &self.raw
            }

            /// Returns the executions of those sites of the key that were compiled to count them:
            /// in Rust with the feature `ops`, in C with `PATCHPOINT_OPS`.
            pub fn ops(&self) -> u64 {
                self.raw.ops_counter().load(Ordering::Relaxed)
            }

            #[doc(hidden)]
            #[inline(always)]
            pub fn count_op(&self) {
                if cfg!(feature = "ops") {
                    self.raw.ops_counter().fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    )* };
}
raw_key!([F: Signature] Call<F> [T: Outcome] Value<T> [] Branch [const WAYS: usize] Switch<WAYS>);

impl RawKey {
    fn ops_counter(&self) -> &AtomicU64 {
        // SAFETY: the field is aligned, lives as long as `self` and is only accessed atomically.
        unsafe { AtomicU64::from_ptr(self.ops.get()) }
    }

    /// Loads the slot with acquire semantics: a thread that sees a change also sees what was
    /// written before the change.
    #[inline(always)]
    pub(crate) fn load(&self) -> *mut c_void {
        // SAFETY: the slot is aligned, lives as long as `self` and is only accessed atomically.
        unsafe { AtomicPtr::from_ptr(self.slot.get()) }.load(Ordering::Acquire)
    }

    /// Changes this key alone.
    pub(crate) fn set(&'static self, value: u64) -> Result<(), Error> {
        // SAFETY: a key that lives as long as the program; the callers' types ensure that the value
        // is of the key's kind.
        Error::check(unsafe { abi::patchpoint_key_set(self, value) }).map(drop)
    }
}

/// A key whose sites call a function; `F` is its type.
#[repr(transparent)]
pub struct Call<F: Signature> {
    pub(crate) raw: RawKey,
    operation: PhantomData<F>,
}

/// The bits of a function pointer in a constant.
union Pointer<F: Copy> {
    function: F,
    slot: *mut c_void,
}

impl<F: Signature> Call<F> {
    /// A key for a `static`.
    ///
    /// `name` is what tools show, `function` the first operation. If the operation is removed
    /// later, sites trap.
    pub const fn new(name: &'static CStr, function: F) -> Self {
        Self::or(name, function, Missing::Trap)
    }

    /// As [`new`](Self::new); `missing` is what sites do if the operation is removed.
    pub const fn or(name: &'static CStr, function: F, missing: Missing) -> Self {
        // SAFETY: a Signature is a function pointer, of the size of any other pointer.
        let slot = unsafe { Pointer { function }.slot };
        Self::with(name, slot, missing)
    }

    /// A key whose operation is missing at first.
    pub const fn missing(name: &'static CStr, missing: Missing) -> Self {
        Self::with(name, missing.slot(F::Result::REAL), missing)
    }

    /// A key that only the library changes, of a function with variants.
    #[doc(hidden)]
    pub const fn bound(name: &'static str, function: F) -> Self {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            panic!("patchpoint: the name of a function ends with the only NUL")
        };
        let mut key = Self::new(name, function);
        key.raw.flags = abi::VARIANTS;
        key
    }

    const fn with(name: &'static CStr, slot: *mut c_void, missing: Missing) -> Self {
        let raw = RawKey::new(CALL, name.as_ptr(), slot, 8, missing.policy(F::Result::REAL));
        Call { raw, operation: PhantomData }
    }

    /// Makes every site call `function`, or execute its body if that is one instruction.
    ///
    /// # Errors
    /// [`Error`] as [`Transaction::commit`](crate::Transaction::commit): then nothing has changed.
    pub fn set(&'static self, function: F) -> Result<(), Error> {
        self.raw.set(function.to_slot() as u64)
    }

    /// Removes the operation: sites do what the key's [`Missing`] says.
    ///
    /// # Errors
    /// [`Error`] as [`set`](Self::set).
    pub fn remove(&'static self) -> Result<(), Error> {
        self.raw.set(0)
    }

    /// Returns the function that sites execute now, or the stand-in for a missing operation.
    #[inline(always)]
    pub fn function(&self) -> F {
        // SAFETY: a slot holds a function of the key's type, or one of the library's that can be
        // called as any type.
        unsafe { F::from_slot(self.raw.load()) }
    }

    /// Whether sites pass or return real numbers.
    #[doc(hidden)]
    pub const fn has_reals(&self) -> bool {
        F::HAS_REALS
    }

    /// Picks the result from the two registers that may hold it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn outcome(&self, word: u64, real: f64) -> F::Result {
        F::Result::from_word(if F::Result::REAL { real.to_bits() } else { word })
    }
}

/// A key whose sites read a number, truth value or pointer that seldom changes.
#[repr(transparent)]
pub struct Value<T: Outcome> {
    pub(crate) raw: RawKey,
    content: PhantomData<T>,
}

// SAFETY: as RawKey; a pointer is handed out as a plain number.
unsafe impl<T: Outcome> Sync for Value<T> {}

impl<T: Outcome> Value<T> {
    /// Reads the value by a plain load, where code cannot be patched or need not be fast.
    #[inline(always)]
    pub fn load(&self) -> T {
        T::from_word(self.raw.load() as u64)
    }

    /// Whether sites need the wide instruction.
    #[doc(hidden)]
    pub const fn is_wide(&self) -> bool {
        size_of::<T>() == 8
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn outcome(&self, word: u64) -> T {
        T::from_word(word)
    }
}

/// The bits of a value in a constant: a pointer's, or a number's in the slot's low bytes.
union Content<T: Copy> {
    value: T,
    slot: *mut c_void,
    number: usize,
}

impl<T: Word> Value<T> {
    /// A key for a `static`: `name` is what tools show, `initial` the first value.
    pub const fn new(name: &'static CStr, initial: T) -> Self {
        let () = T::IS_WORD;
        let mut content = Content { number: 0 };
        content.value = initial;
        let slot = if size_of::<T>() == 8 {
            // SAFETY: all bytes are the value's.
            unsafe { content.slot }
        } else {
            let unused = if cfg!(target_endian = "big") { 64 - 8 * size_of::<T>() } else { 0 };
            // SAFETY: all bytes are written, and what is smaller than a pointer is a number.
            std::ptr::without_provenance_mut(unsafe { content.number } >> unused)
        };
        let raw = RawKey::new(VALUE, name.as_ptr(), slot, size_of::<T>(), 0);
        Value { raw, content: PhantomData }
    }

    /// Puts another value into every site.
    ///
    /// # Errors
    /// [`Error`] as [`Transaction::commit`](crate::Transaction::commit): then nothing has changed.
    pub fn set(&'static self, value: T) -> Result<(), Error> {
        self.raw.set(value.to_word())
    }
}

/// A key whose sites go one of two ways.
#[repr(transparent)]
pub struct Branch {
    pub(crate) raw: RawKey,
}

impl Branch {
    /// A key for a `static`: `name` is what tools show, `initial` the first answer.
    pub const fn new(name: &'static CStr, initial: bool) -> Self {
        let slot = std::ptr::without_provenance_mut(initial as usize);
        Branch { raw: RawKey::new(BRANCH, name.as_ptr(), slot, 1, 0) }
    }

    #[doc(hidden)]
    pub const fn ways(&self) -> usize {
        2
    }

    /// Sets the answer of every site.
    ///
    /// # Errors
    /// [`Error::Busy`] also if the branch has users and would become false; else [`Error`] as
    /// [`Transaction::commit`](crate::Transaction::commit): then nothing has changed.
    pub fn set(&'static self, truth: bool) -> Result<(), Error> {
        self.raw.set(truth.into())
    }

    /// Adds a user: the answer is true while the branch has users, or if it was set to true.
    ///
    /// ```
    /// use patchpoint::{Branch, Error, unlikely};
    ///
    /// static TRACING: Branch = Branch::new(c"tracing", false);
    ///
    /// TRACING.inc()?; // one tool
    /// TRACING.inc()?; // and another one
    /// TRACING.dec()?;
    /// assert!(unlikely!(TRACING));
    /// assert_eq!(TRACING.set(false), Err(Error::Busy));
    /// TRACING.dec()?;
    /// assert!(!unlikely!(TRACING));
    /// assert_eq!(TRACING.dec(), Err(Error::Users));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Users`] if there is no room for another user; else as
    /// [`Transaction::commit`](crate::Transaction::commit): then nothing has changed.
    pub fn inc(&'static self) -> Result<(), Error> {
        // SAFETY: a key that lives as long as the program.
        Error::check(unsafe { abi::patchpoint_key_inc(&self.raw) }).map(drop)
    }

    /// Removes a user. Without users the answer is false, unless it was set to true.
    ///
    /// # Errors
    /// [`Error::Users`] if there is no user; else as [`inc`](Self::inc).
    pub fn dec(&'static self) -> Result<(), Error> {
        // SAFETY: a key that lives as long as the program.
        Error::check(unsafe { abi::patchpoint_key_dec(&self.raw) }).map(drop)
    }

    /// Returns the number of users.
    pub fn users(&'static self) -> u32 {
        // SAFETY: a key that lives as long as the program.
        unsafe { abi::patchpoint_key_users(&self.raw) }
    }

    /// Reads the answer by a plain load.
    #[inline(always)]
    pub fn load(&self) -> bool {
        !self.raw.load().is_null()
    }
}

/// A key whose sites go one of several ways, 2 to 8.
///
/// ```
/// use patchpoint::{Switch, switch};
///
/// static POLICY: Switch<3> = Switch::new(c"policy", 0);
///
/// fn next(now: u32) -> u32 {
///     match switch!(POLICY) {
///         0 => now + 1, // a nop leads here
///         1 => now * 2, // or a jump
///         _ => now,
///     }
/// }
///
/// assert_eq!(next(5), 6);
/// POLICY.set(1)?;
/// assert_eq!(next(5), 10);
/// # Ok::<(), patchpoint::Error>(())
/// ```
#[repr(transparent)]
pub struct Switch<const WAYS: usize> {
    pub(crate) raw: RawKey,
}

impl<const WAYS: usize> Switch<WAYS> {
    /// A key for a `static`: `name` is what tools show, `initial` the first way.
    pub const fn new(name: &'static CStr, initial: usize) -> Self {
        assert!(WAYS >= 2 && WAYS <= 8, "patchpoint: a switch has 2 to 8 ways");
        assert!(initial < WAYS, "patchpoint: the ways of a switch are 0 to WAYS - 1");
        let slot = std::ptr::without_provenance_mut(initial);
        Switch { raw: RawKey::new(SWITCH, name.as_ptr(), slot, WAYS, 0) }
    }

    /// Makes every site go `way`.
    ///
    /// # Errors
    /// [`Error::NotAKey`] if the switch has no such way; else as
    /// [`Transaction::commit`](crate::Transaction::commit): then nothing has changed.
    pub fn set(&'static self, way: usize) -> Result<(), Error> {
        self.raw.set(way as u64)
    }

    /// Reads the way by a plain load.
    #[inline(always)]
    pub fn load(&self) -> usize {
        self.raw.load().addr()
    }

    #[doc(hidden)]
    pub const fn ways(&self) -> usize {
        WAYS
    }
}

impl<F: Signature> std::fmt::Debug for Call<F> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.raw.fmt(to)
    }
}

impl<T: Outcome + std::fmt::Debug> std::fmt::Debug for Value<T> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Value")
            .field("name", &self.raw.name())
            .field("value", &self.load())
            .finish()
    }
}

impl std::fmt::Debug for Branch {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.raw.fmt(to)
    }
}

impl<const WAYS: usize> std::fmt::Debug for Switch<WAYS> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.raw.fmt(to)
    }
}
