//! The function types that an operation may have.

use crate::word::{Argument, Outcome};
use std::ffi::c_void;

/// A type of operations: `extern "C" fn` or `unsafe extern "C" fn`, of up to six [`Argument`]s.
///
/// # Safety
/// The type is a function pointer, and its convention is C's.
pub unsafe trait Signature: Copy + 'static {
    #[doc(hidden)]
    type Result: Outcome;

    /// Whether an argument or the result is a real number.
    #[doc(hidden)]
    const HAS_REALS: bool;

    #[doc(hidden)]
    fn to_slot(self) -> *mut c_void;

    /// # Safety
    /// `slot` is a function of this type.
    #[doc(hidden)]
    unsafe fn from_slot(slot: *mut c_void) -> Self;
}

macro_rules! signature {
    ([$($safety:ident)?] $count:literal $($argument:ident)*) => {
        // SAFETY: a function pointer with C's convention.
        unsafe impl<R: Outcome + 'static, $($argument: Argument + 'static),*> Signature
            for $($safety)? extern "C" fn($($argument),*) -> R
        {
            type Result = R;

            const HAS_REALS: bool = R::REAL $(|| $argument::REAL)*;

            #[inline(always)]
            fn to_slot(self) -> *mut c_void {
                self as *mut c_void
            }

            #[inline(always)]
            unsafe fn from_slot(slot: *mut c_void) -> Self {
                // SAFETY: the caller's promise.
                unsafe { std::mem::transmute(slot) }
            }
        }

        // SAFETY: a function pointer is a register's content.
        unsafe impl<R: Outcome, $($argument: Argument),*> Argument
            for $($safety)? extern "C" fn($($argument),*) -> R
        {
            #[inline(always)]
            fn to_word(self) -> u64 {
                (self as *const ()).expose_provenance() as u64
            }
        }
    };
}

/// Calls a macro for each type: its safety, the number of its arguments, and their names.
macro_rules! each_signature {
    ($macro:ident) => {
        $macro!([] 0);
        $macro!([] 1 A);
        $macro!([] 2 A B);
        $macro!([] 3 A B C);
        $macro!([] 4 A B C D);
        $macro!([] 5 A B C D E);
        $macro!([] 6 A B C D E F);
        $macro!([unsafe] 0);
        $macro!([unsafe] 1 A);
        $macro!([unsafe] 2 A B);
        $macro!([unsafe] 3 A B C);
        $macro!([unsafe] 4 A B C D);
        $macro!([unsafe] 5 A B C D E);
        $macro!([unsafe] 6 A B C D E F);
    };
}
pub(crate) use each_signature;

each_signature!(signature);
