//! Sites of arm64 Linux: one instruction each, as in `site_aarch64.h`. Values are loads and no sites.
//!
//! As compiled a site branches to code behind its function, which reads the key and changes only `x16`, as any call may. The
//! record's `aux` is that code's address. There is no red zone, and the stack is always aligned.

/// Executes a site of a [`Call`](crate::Call): `call!(KEY, arguments…)`.
///
/// `KEY`: the path of a static. Result: the operation's. A key of unsafe operations needs an
/// `unsafe` block.
#[macro_export]
macro_rules! call {
    ($key:path $(,)?) => {
        $crate::__call!($key, registers [], [0u64,], [0.0f64,])
    };
    ($key:path, $a:expr $(,)?) => {
        $crate::__call!($key, registers [$a], [registers.words[0],], [registers.reals[0],])
    };
    ($key:path, $a:expr, $b:expr $(,)?) => {
        $crate::__call!($key, registers [$a, $b], [registers.words[0], in("x1") registers.words[1],], [registers.reals[0], in("v1") registers.reals[1],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr $(,)?) => {
        $crate::__call!($key, registers [$a, $b, $c], [registers.words[0], in("x1") registers.words[1], in("x2") registers.words[2],], [registers.reals[0], in("v1") registers.reals[1], in("v2") registers.reals[2],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr, $d:expr $(,)?) => {
        $crate::__call!($key, registers [$a, $b, $c, $d], [registers.words[0], in("x1") registers.words[1], in("x2") registers.words[2], in("x3") registers.words[3],], [registers.reals[0], in("v1") registers.reals[1], in("v2") registers.reals[2], in("v3") registers.reals[3],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr $(,)?) => {
        $crate::__call!($key, registers [$a, $b, $c, $d, $e], [registers.words[0], in("x1") registers.words[1], in("x2") registers.words[2], in("x3") registers.words[3], in("x4") registers.words[4],], [registers.reals[0], in("v1") registers.reals[1], in("v2") registers.reals[2], in("v3") registers.reals[3], in("v4") registers.reals[4],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr $(,)?) => {
        $crate::__call!($key, registers [$a, $b, $c, $d, $e, $f], [registers.words[0], in("x1") registers.words[1], in("x2") registers.words[2], in("x3") registers.words[3], in("x4") registers.words[4], in("x5") registers.words[5],], [registers.reals[0], in("v1") registers.reals[1], in("v2") registers.reals[2], in("v3") registers.reals[3], in("v4") registers.reals[4], in("v5") registers.reals[5],])
    };
}

/// Real numbers are operands only if the key's type has real numbers: a constant decides.
#[doc(hidden)]
#[macro_export]
macro_rules! __call {
    ($key:path, $registers:ident [$($argument:expr),*], [$word:expr, $($words:tt)*], [$real:expr, $($reals:tt)*]) => {{
        $key.count_op();
        let $registers = $key.registers($($argument),*);
        let word: u64;
        let real: f64;
        // SAFETY: one call of a function of the key's type, with its arguments and C's convention;
        // an operation that unwinds ends the program.
        unsafe {
            if const { $key.has_reals() } {
                $crate::__call_site!($key, word, [$word, $($words)*], $($reals)* inlateout("v0") $real => real,)
            } else {
                $crate::__call_site!($key, word, [$word, $($words)*],);
                real = 0.0;
            }
        };
        let _ = $registers;
        $key.outcome(word, real)
    }};
}

/// The first argument and the result share a register.
#[doc(hidden)]
#[macro_export]
macro_rules! __call_site {
    ($key:path, $result:ident, [$word:expr, $($words:tt)*], $($reals:tt)*) => {
        ::core::arch::asm!(
            $crate::site_begin!(),
            "bl 663f\n662:",
            $crate::__read_key!("ldar x16"),
            "br x16",
            $crate::__unpatched_end!(),
            $crate::site_record!("1", "0", "663b - ."),
            key = sym $key,
            offset = const 0,
            inlateout("x0") $word => $result,
            $($words)*
            $($reals)*
            clobber_abi("C"),
        )
    };
}

/// The beginning of the code that a site leads to as compiled. After it follows `__unpatched_end!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __read_key {
    ($load:literal) => {
        concat!(
            $crate::__unpatched!(),
            "\nadrp x16, {key} + {offset}\n",
            "add x16, x16, :lo12:{key} + {offset}\n",
            $load,
            ", [x16]",
        )
    };
}

/// As compiled a branch leads to: ldarb of the key; cbz or cbnz over the next instruction; b to the
/// other side; b back.
#[doc(hidden)]
#[macro_export]
macro_rules! __branch {
    ($usual:ident, $flags:literal, $other:literal, $key:path $([ $index:expr ] $(. $field:ident)*)?) => {
        'site: {
            $key $([$index] $(.$field)*)? .count_op();
            // SAFETY: tests the key's slot, or not even that, and goes on at one of two places.
            unsafe {
                ::core::arch::asm!(
                    $crate::site_begin!(),
                    "b 663f\n662:",
                    $crate::__read_key!("ldarb w16"),
                    concat!($crate::__condition!($usual), " w16, .+8"),
                    "b {other}",
                    "b 662b",
                    $crate::__unpatched_end!(),
                    $crate::site_record!("3", $flags, "663b - ."),
                    key = sym $key,
                    offset = const $crate::__offset!($key $(, [$index] $(.$field)*)?),
                    other = label {
                        $crate::seldom();
                        break 'site $other
                    },
                    out("x16") _,
                    options(nomem, nostack, preserves_flags),
                )
            };
            !$other
        }
    };
}

/// The branch over the one to the other side.
#[doc(hidden)]
#[macro_export]
macro_rules! __condition {
    (likely) => {
        "cbnz"
    };
    (unlikely) => {
        "cbz"
    };
}

/// Asks a [`Switch`](crate::Switch): `match switch!(KEY) { … }`.
///
/// `KEY`: as in [`value!`](crate::value). Result: the number of the way, by which the compiler finds
/// the arm of a `match`.
#[macro_export]
macro_rules! switch {
    ($key:path $([ $index:expr ] $(. $field:ident)*)?) => {
        'site: {
            $key $([$index] $(.$field)*)? .count_op();
            // SAFETY: compares the key's slot, or not even that, and goes on at one of its ways;
            // no code leads to a way that the switch does not have.
            unsafe {
                ::core::arch::asm!(
                    $crate::site_begin!(),
                    "b 663f\n662:",
                    $crate::__read_key!("ldarb w16"),
                    $crate::__way!("1"),
                    $crate::__way!("2"),
                    $crate::__way!("3"),
                    $crate::__way!("4"),
                    $crate::__way!("5"),
                    $crate::__way!("6"),
                    $crate::__way!("7"),
                    "b 662b",
                    $crate::__unpatched_end!(),
                    $crate::site_record!("4", "0", "663b - ."),
                    key = sym $key,
                    offset = const $crate::__offset!($key $(, [$index] $(.$field)*)?),
                    count = const $key $([$index] $(.$field)*)? .ways(),
                    way_1 = label { break 'site 1usize },
                    way_2 = label { break 'site 2usize },
                    way_3 = label { break 'site 3usize },
                    way_4 = label { break 'site 4usize },
                    way_5 = label { break 'site 5usize },
                    way_6 = label { break 'site 6usize },
                    way_7 = label { break 'site 7usize },
                    out("x16") _,
                    options(nomem, nostack),
                )
            };
            0usize
        }
    };
}

/// One comparison of a switch: cmp; b.ne over the next instruction; b to the way.
#[doc(hidden)]
#[macro_export]
macro_rules! __way {
    ($way:literal) => {
        concat!(
            ".if {count} > ",
            $way,
            "\ncmp w16, #",
            $way,
            "\nb.ne .+8\nb {way_",
            $way,
            "}\n.endif",
        )
    };
}
