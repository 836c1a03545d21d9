//! Sites as plain loads, tests and indirect calls, on any architecture.

/// Executes a site of a [`Call`](crate::Call): `call!(KEY, arguments…)`.
///
/// `KEY`: the path of a static. Result: the operation's. A key of unsafe operations needs an
/// `unsafe` block.
#[macro_export]
macro_rules! call {
    ($key:path $(, $argument:expr)* $(,)?) => {{
        $key.count_op();
        ($key.function())($($argument),*)
    }};
}

/// Asks a [`Branch`](crate::Branch) whose usual answer is yes: `if likely!(KEY) { … }`.
///
/// `KEY`: as in [`value!`](crate::value). Result: the answer.
#[macro_export]
macro_rules! likely {
    ($($key:tt)+) => {
        $crate::value!($($key)+)
    };
}

/// Asks a [`Branch`](crate::Branch) whose usual answer is no: `if unlikely!(KEY) { … }`.
///
/// `KEY`: as in [`value!`](crate::value). Result: the answer.
#[macro_export]
macro_rules! unlikely {
    ($($key:tt)+) => {
        $crate::value!($($key)+)
    };
}

/// Asks a [`Switch`](crate::Switch): `match switch!(KEY) { … }`.
///
/// `KEY`: as in [`value!`](crate::value). Result: the number of the way.
#[macro_export]
macro_rules! switch {
    ($($key:tt)+) => {
        $crate::value!($($key)+)
    };
}
