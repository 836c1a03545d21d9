//! Functions that are compiled once for each combination of their keys.

use crate::abi::{self, RawKey, RawVariants, VARIANT_KEYS_MAX as KEYS_MAX};
use std::cell::UnsafeCell;

/// `PATCHPOINT_COMBINATIONS_MAX`.
const COMBINATIONS_MAX: usize = 16;

impl RawVariants {
    /// `functions` has one function for each of the `ways` of the keys, of the type of `function`.
    pub const fn new<F: Copy>(
        function: &'static RawKey,
        keys: &[&'static RawKey],
        ways: &[usize],
        functions: &'static [F; COMBINATIONS_MAX],
    ) -> RawVariants {
        let mut listed = [std::ptr::null(); KEYS_MAX];
        let mut index = 0;
        while index < keys.len() {
            listed[index] = std::ptr::from_ref(keys[index]);
            index += 1;
        }
        RawVariants {
            next: UnsafeCell::new(std::ptr::null_mut()),
            function,
            keys: listed,
            functions: functions.as_ptr().cast(),
            combinations: combinations(ways) as u32,
            count: keys.len() as u16,
            registered: UnsafeCell::new(0),
        }
    }

    /// Binds the function to the variant for its keys' values, from now on.
    pub fn register(&'static self) {
        // SAFETY: a record that lives as long as its object, whose functions have the call key's type.
        unsafe { abi::patchpoint_variants_register(self) }
    }

    /// Forgets the function, before its object is closed.
    pub fn unregister(&'static self) {
        // SAFETY: as above.
        unsafe { abi::patchpoint_variants_unregister(self) }
    }
}

/// Returns the number of combinations of keys with so many values.
#[doc(hidden)]
pub const fn combinations(ways: &[usize]) -> usize {
    assert!(
        !ways.is_empty() && ways.len() <= KEYS_MAX,
        "patchpoint: variants depend on 1 to 4 keys"
    );
    let (mut product, mut index) = (1, 0);
    while index < ways.len() {
        product *= ways[index];
        index += 1;
    }
    assert!(
        product <= COMBINATIONS_MAX,
        "patchpoint: the keys of variants have at most 16 combinations"
    );
    product
}

/// Returns the value of key `number` in a combination; combinations beyond the last one are the first.
#[doc(hidden)]
pub const fn answer(ways: &[usize], combination: usize, number: usize) -> usize {
    let (mut rest, mut index) = (combination, 0);
    if combination >= combinations(ways) {
        return 0;
    }
    while index < number {
        rest /= ways[index];
        index += 1;
    }
    rest % ways[number]
}

/// Returns the number of the combination that keys have now.
#[doc(hidden)]
pub fn combination(keys: &[&'static RawKey]) -> usize {
    // SAFETY: keys that live as long as the program.
    unsafe { abi::patchpoint_combination(keys.as_ptr().cast(), keys.len()) as usize }
}

/// Defines a function that is compiled once for each combination of its keys.
///
/// The function is a [`Call`](crate::Call) that only the library changes: in the same transaction as
/// one of its keys. In the body each key's name is a constant, a `bool` for a [`Branch`](crate::Branch)
/// and a `usize` for a [`Switch`](crate::Switch), so tests of keys disappear. One to four keys, named as
/// they are in scope, have at most 16 combinations. Arguments and result are those of a call.
///
/// ```
/// use patchpoint::{Branch, Error, Switch, call};
///
/// static SMP: Branch = Branch::new(c"smp", false);
/// static POLICY: Switch<3> = Switch::new(c"policy", 0);
///
/// patchpoint::variants! {
///     /// Returns the time to wait.
///     pub static WAIT: fn(rounds: u64) -> u64 = |SMP: bool, POLICY: usize| {
///         let one = if SMP { 4 } else { 1 };
///         rounds * one + POLICY as u64
///     }
/// }
///
/// assert_eq!(call!(WAIT, 10), 10);
/// SMP.set(true)?;
/// POLICY.set(2)?;
/// assert_eq!(call!(WAIT, 10), 42); // a call of the sixth variant
/// # Ok::<(), Error>(())
/// ```
#[macro_export]
macro_rules! variants {
    (
        $(#[$meta:meta])*
        $visible:vis static $name:ident:
            fn($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? =
            |$($key:ident: $answer:tt),+ $(,)?| $body:block $(;)?
    ) => {
        $(#[$meta])*
        $visible static $name: $crate::Call<extern "C" fn($($type),*) $(-> $result)?> = {
            type Function = extern "C" fn($($type),*) $(-> $result)?;
            const WAYS: &[usize] = &[$($key.ways()),+];
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Number { $($key),+ }

            #[allow(clippy::too_many_arguments)]
            extern "C" fn run<$(const $key: $answer),+>($($argument: $type),*) $(-> $result)? $body

            static FUNCTIONS: [Function; 16] = [
                $crate::__variant!(0 $($key $answer)+), $crate::__variant!(1 $($key $answer)+),
                $crate::__variant!(2 $($key $answer)+), $crate::__variant!(3 $($key $answer)+),
                $crate::__variant!(4 $($key $answer)+), $crate::__variant!(5 $($key $answer)+),
                $crate::__variant!(6 $($key $answer)+), $crate::__variant!(7 $($key $answer)+),
                $crate::__variant!(8 $($key $answer)+), $crate::__variant!(9 $($key $answer)+),
                $crate::__variant!(10 $($key $answer)+), $crate::__variant!(11 $($key $answer)+),
                $crate::__variant!(12 $($key $answer)+), $crate::__variant!(13 $($key $answer)+),
                $crate::__variant!(14 $($key $answer)+), $crate::__variant!(15 $($key $answer)+),
            ];

            // Until the object's constructor has run, calls go here.
            #[allow(clippy::too_many_arguments)]
            extern "C" fn unbound($($argument: $type),*) $(-> $result)? {
                FUNCTIONS[$crate::__combination(&[$($key.raw_key()),+])]($($argument),*)
            }

            static RECORD: $crate::RawVariants =
                $crate::RawVariants::new($name.raw_key(), &[$($key.raw_key()),+], WAYS, &FUNCTIONS);
            #[cfg(target_os = "linux")]
            const _: () = {
                extern "C" fn bind() {
                    RECORD.register();
                }
                extern "C" fn unbind() {
                    RECORD.unregister();
                }
                #[used]
                #[unsafe(link_section = ".init_array.00101")]
                static BIND: extern "C" fn() = bind;
                #[used]
                #[unsafe(link_section = ".fini_array.00101")]
                static UNBIND: extern "C" fn() = unbind;
            };

            $crate::Call::bound(concat!(stringify!($name), "\0"), unbound as Function)
        };
    };
}

/// The function for one combination, inside [`variants!`](crate::variants).
#[doc(hidden)]
#[macro_export]
macro_rules! __variant {
    ($i:literal $($key:ident $answer:tt)+) => {
        run::<$({ $crate::__constant!($answer, $crate::__answer(WAYS, $i, Number::$key as usize)) }),+>
    };
}

/// A key's value in the type of its constant.
#[doc(hidden)]
#[macro_export]
macro_rules! __constant {
    (bool, $value:expr) => {
        $value != 0
    };
    (usize, $value:expr) => {
        $value
    };
    ($other:tt, $value:expr) => {
        compile_error!("patchpoint: the constant of a branch is a bool, that of a switch a usize")
    };
}
