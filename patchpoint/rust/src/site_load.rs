//! Sites that are no patched instruction on arm64 and in the portable form.

/// The same as [`call!`](crate::call): on arm64 the caller keeps no registers, and where nothing is patched the compiler keeps them
/// anyway.
#[macro_export]
macro_rules! call_saved {
    ($key:path $(, $argument:expr)* $(,)?) => {
        $crate::call!($key $(, $argument)*)
    };
}

/// Reads a [`Value`](crate::Value): `value!(KEY)`, `value!(KEYS[2])`, `value!(TABLE[2].limit)`.
///
/// `KEY`: the path of a static that is a key, an array of keys, or an array of structs with keys. Result: the
/// value, which is loaded: no instruction of arm64 that may be exchanged while others execute it holds a number.
#[macro_export]
macro_rules! value {
    ($key:path $([ $index:expr ] $(. $field:ident)*)?) => {{
        $key $([$index] $(.$field)*)? .count_op();
        $key $([$index] $(.$field)*)? .load()
    }};
}
