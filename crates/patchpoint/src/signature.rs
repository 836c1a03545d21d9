//! The function types that an operation may have.

use crate::key::Call;
use crate::word::{Argument, Outcome, Registers};
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

        impl<R: Outcome + 'static, $($argument: Argument + 'static),*>
            Call<$($safety)? extern "C" fn($($argument),*) -> R>
        {
            /// Checks and converts the arguments of one site.
            ///
            /// # Safety
            /// Of an unsafe operation: whatever every operation that the key may hold asks for.
            #[doc(hidden)]
            #[inline(always)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub $($safety)? fn registers(&self, $($argument: $argument),*) -> Registers<$count> {
                #[allow(unused_mut)]
                let mut registers = Registers::new();
                $(registers.push($argument);)*
                registers
            }
        }
    };
}

signature!([] 0);
signature!([] 1 A);
signature!([] 2 A B);
signature!([] 3 A B C);
signature!([] 4 A B C D);
signature!([] 5 A B C D E);
signature!([] 6 A B C D E F);
signature!([unsafe] 0);
signature!([unsafe] 1 A);
signature!([unsafe] 2 A B);
signature!([unsafe] 3 A B C);
signature!([unsafe] 4 A B C D);
signature!([unsafe] 5 A B C D E);
signature!([unsafe] 6 A B C D E F);
