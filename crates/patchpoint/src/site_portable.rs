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

/// As [`call!`], which it is where sites are not patched.
#[macro_export]
macro_rules! call_saved {
    ($key:path $(, $argument:expr)* $(,)?) => {
        $crate::call!($key $(, $argument)*)
    };
}

/// Reads a [`Value`](crate::Value): `value!(KEY)`.
///
/// `KEY`: the path of a static. Result: the value.
#[macro_export]
macro_rules! value {
    ($key:path) => {{
        $key.count_op();
        $key.load()
    }};
}

/// Asks a [`Branch`](crate::Branch) whose usual answer is yes: `if likely!(KEY) { … }`.
///
/// `KEY`: the path of a static. Result: the answer.
#[macro_export]
macro_rules! likely {
    ($key:path) => {{
        $key.count_op();
        $key.load()
    }};
}

/// Asks a [`Branch`](crate::Branch) whose usual answer is no: `if unlikely!(KEY) { … }`.
///
/// `KEY`: the path of a static. Result: the answer.
#[macro_export]
macro_rules! unlikely {
    ($key:path) => {{
        $key.count_op();
        $key.load()
    }};
}
