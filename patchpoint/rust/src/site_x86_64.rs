//! Sites of x86-64 Linux: one instruction each, as in `site_x86_64.h`.
//!
//! All forms of a site begin with the same byte, which means nothing; `site_x86_64.h` says why.
//!
//! A call needs nothing more: assembly without `nostack` finds the stack aligned and the red zone
//! unused (Rust reference, inline assembly, `nostack`).

/// Executes a site of a [`Call`](crate::Call): `call!(KEY, arguments…)`.
///
/// `KEY`: the path of a static. Result: the operation's. A key of unsafe operations needs an
/// `unsafe` block.
#[macro_export]
macro_rules! call {
    ($key:path $(,)?) => {
        $crate::__call!($key, registers real [], [], [])
    };
    ($key:path, $a:expr $(,)?) => {
        $crate::__call!($key, registers real [$a], [in("rdi") registers.words[0],],
            [in registers.reals[0],])
    };
    ($key:path, $a:expr, $b:expr $(,)?) => {
        $crate::__call!($key, registers real [$a, $b],
            [in("rdi") registers.words[0], in("rsi") registers.words[1],],
            [in registers.reals[0], in("xmm1") registers.reals[1],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr $(,)?) => {
        $crate::__call!($key, registers real [$a, $b, $c],
            [in("rdi") registers.words[0], in("rsi") registers.words[1],
             in("rdx") registers.words[2],],
            [in registers.reals[0], in("xmm1") registers.reals[1],
             in("xmm2") registers.reals[2],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr, $d:expr $(,)?) => {
        $crate::__call!($key, registers real [$a, $b, $c, $d],
            [in("rdi") registers.words[0], in("rsi") registers.words[1],
             in("rdx") registers.words[2], in("rcx") registers.words[3],],
            [in registers.reals[0], in("xmm1") registers.reals[1],
             in("xmm2") registers.reals[2], in("xmm3") registers.reals[3],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr $(,)?) => {
        $crate::__call!($key, registers real [$a, $b, $c, $d, $e],
            [in("rdi") registers.words[0], in("rsi") registers.words[1],
             in("rdx") registers.words[2], in("rcx") registers.words[3],
             in("r8") registers.words[4],],
            [in registers.reals[0], in("xmm1") registers.reals[1],
             in("xmm2") registers.reals[2], in("xmm3") registers.reals[3],
             in("xmm4") registers.reals[4],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr $(,)?) => {
        $crate::__call!($key, registers real [$a, $b, $c, $d, $e, $f],
            [in("rdi") registers.words[0], in("rsi") registers.words[1],
             in("rdx") registers.words[2], in("rcx") registers.words[3],
             in("r8") registers.words[4], in("r9") registers.words[5],],
            [in registers.reals[0], in("xmm1") registers.reals[1],
             in("xmm2") registers.reals[2], in("xmm3") registers.reals[3],
             in("xmm4") registers.reals[4], in("xmm5") registers.reals[5],])
    };
}

/// Real numbers are operands only if the key's type has real numbers: a constant decides.
#[doc(hidden)]
#[macro_export]
macro_rules! __call {
    ($key:path, $registers:ident $real:ident [$($argument:expr),*], [$($words:tt)*], [$($reals:tt)*]) => {{
        $key.count_op();
        let $registers = $key.registers($($argument),*);
        let word: u64;
        let $real: f64;
        // SAFETY: one call of a function of the key's type, with its arguments and C's convention;
        // an operation that unwinds ends the program.
        unsafe {
            if const { $key.has_reals() } {
                $crate::__call_with_reals!($key, word, [$($words)*], $real $($reals)*)
            } else {
                ::core::arch::asm!(
                    $crate::site_begin!(),
                    ".byte 0x40, 0xff, 0x15\n.long {key} + {offset} - . - 4\n662:",
                    $crate::site_record!("1", "0", "0"),
                    key = sym $key,
                    offset = const 0,
                    $($words)*
                    lateout("rax") word,
                    clobber_abi("sysv64"),
                    options(att_syntax),
                );
                $real = 0.0;
            }
        };
        let _ = $registers;
        $key.outcome(word, $real)
    }};
}

/// The first real argument and a real result share a register.
#[doc(hidden)]
#[macro_export]
macro_rules! __call_with_reals {
    ($key:path, $word:ident, [$($words:tt)*], $real:ident $(in $first:expr, $($others:tt)*)?) => {
        ::core::arch::asm!(
            $crate::site_begin!(),
            ".byte 0x40, 0xff, 0x15\n.long {key} + {offset} - . - 4\n662:",
            $crate::site_record!("1", "0", "0"),
            key = sym $key,
            offset = const 0,
            $($words)*
            $($($others)*)?
            inlateout("xmm0") $crate::__first!($($first)?) => $real,
            lateout("rax") $word,
            clobber_abi("sysv64"),
            options(att_syntax),
        )
    };
}

/// As [`call!`], but the caller keeps its general registers, all but the result's.
///
/// For loops in which the usual operation is trivial. A function that needs a real call is called
/// through a thunk that belongs to the site and saves these registers. Vector registers and flags
/// are not preserved. Up to three arguments.
#[macro_export]
macro_rules! call_saved {
    ($key:path $(,)?) => {
        $crate::__call_saved!($key, registers [], [], [])
    };
    ($key:path, $a:expr $(,)?) => {
        $crate::__call_saved!($key, registers [$a], [in("rdi") registers.words[0],],
            [registers.reals[0]])
    };
    ($key:path, $a:expr, $b:expr $(,)?) => {
        $crate::__call_saved!($key, registers [$a, $b],
            [in("rdi") registers.words[0], in("rsi") registers.words[1],],
            [registers.reals[0], registers.reals[1]])
    };
    ($key:path, $a:expr, $b:expr, $c:expr $(,)?) => {
        $crate::__call_saved!($key, registers [$a, $b, $c],
            [in("rdi") registers.words[0], in("rsi") registers.words[1],
             in("rdx") registers.words[2],],
            [registers.reals[0], registers.reals[1], registers.reals[2]])
    };
}

/// The thunk's own call is a plain site. It saves no vector registers: the site declares them as lost.
#[doc(hidden)]
#[macro_export]
macro_rules! __call_saved {
    ($key:path, $registers:ident [$($argument:expr),*], [$($words:tt)*], [$($real:expr),*]) => {{
        #[unsafe(naked)]
        unsafe extern "C" fn thunk() {
            ::core::arch::naked_asm!(
                ".cfi_startproc",
                "pushq %rcx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rcx, 0",
                "pushq %rdx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rdx, 0",
                "pushq %rsi\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rsi, 0",
                "pushq %rdi\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rdi, 0",
                "pushq %r8\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r8, 0",
                "pushq %r9\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r9, 0",
                "pushq %r10\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r10, 0",
                "pushq %r11\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r11, 0",
                "subq $8, %rsp\n.cfi_adjust_cfa_offset 8",
                $crate::site_begin!(),
                ".byte 0x40, 0xff, 0x15\n.long {key} + {offset} - . - 4\n662:",
                $crate::site_record!("1", "0", "0"),
                "addq $8, %rsp\n.cfi_adjust_cfa_offset -8",
                "popq %r11\n.cfi_adjust_cfa_offset -8\n.cfi_restore r11",
                "popq %r10\n.cfi_adjust_cfa_offset -8\n.cfi_restore r10",
                "popq %r9\n.cfi_adjust_cfa_offset -8\n.cfi_restore r9",
                "popq %r8\n.cfi_adjust_cfa_offset -8\n.cfi_restore r8",
                "popq %rdi\n.cfi_adjust_cfa_offset -8\n.cfi_restore rdi",
                "popq %rsi\n.cfi_adjust_cfa_offset -8\n.cfi_restore rsi",
                "popq %rdx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rdx",
                "popq %rcx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rcx",
                "ret",
                ".cfi_endproc",
                key = sym $key,
                offset = const 0,
                options(att_syntax),
            )
        }
        $key.count_op();
        let $registers = $key.registers($($argument),*);
        let word: u64;
        let real: f64;
        // SAFETY: as a call; the thunk and the single instructions that may stand here keep the
        // registers that are not listed.
        unsafe {
            if const { $key.has_reals() } {
                $crate::__saved_site!($key, thunk, word, real, [$($words)*], [$($real),*])
            } else {
                $crate::__saved_site!($key, thunk, word, real, [$($words)*], [])
            }
        };
        let _ = $registers;
        $key.outcome(word, real)
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __saved_site {
    ($key:path, $thunk:ident, $word:ident, $real:ident, [$($words:tt)*], []) => {
        $crate::__saved_site!(@ $key, $thunk, $word, [$($words)*
            lateout("xmm0") $real, lateout("xmm1") _, lateout("xmm2") _,])
    };
    ($key:path, $thunk:ident, $word:ident, $real:ident, [$($words:tt)*], [$a:expr]) => {
        $crate::__saved_site!(@ $key, $thunk, $word, [$($words)*
            inlateout("xmm0") $a => $real, lateout("xmm1") _, lateout("xmm2") _,])
    };
    ($key:path, $thunk:ident, $word:ident, $real:ident, [$($words:tt)*], [$a:expr, $b:expr]) => {
        $crate::__saved_site!(@ $key, $thunk, $word, [$($words)*
            inlateout("xmm0") $a => $real, inlateout("xmm1") $b => _, lateout("xmm2") _,])
    };
    ($key:path, $thunk:ident, $word:ident, $real:ident, [$($words:tt)*],
     [$a:expr, $b:expr, $c:expr]) => {
        $crate::__saved_site!(@ $key, $thunk, $word, [$($words)*
            inlateout("xmm0") $a => $real, inlateout("xmm1") $b => _, inlateout("xmm2") $c => _,])
    };
    (@ $key:path, $thunk:ident, $word:ident, [$($operands:tt)*]) => {
        ::core::arch::asm!(
            $crate::site_begin!(),
            ".byte 0x40, 0x67, 0xe8\n.long {thunk} - . - 4\n662:",
            $crate::site_record!("1", "2", "{thunk} - ."),
            key = sym $key,
            offset = const 0,
            thunk = sym $thunk,
            $($operands)*
            lateout("rax") $word,
            lateout("xmm3") _,
            lateout("xmm4") _, lateout("xmm5") _, lateout("xmm6") _, lateout("xmm7") _,
            lateout("xmm8") _, lateout("xmm9") _, lateout("xmm10") _, lateout("xmm11") _,
            lateout("xmm12") _, lateout("xmm13") _, lateout("xmm14") _, lateout("xmm15") _,
            lateout("xmm16") _, lateout("xmm17") _, lateout("xmm18") _, lateout("xmm19") _,
            lateout("xmm20") _, lateout("xmm21") _, lateout("xmm22") _, lateout("xmm23") _,
            lateout("xmm24") _, lateout("xmm25") _, lateout("xmm26") _, lateout("xmm27") _,
            lateout("xmm28") _, lateout("xmm29") _, lateout("xmm30") _, lateout("xmm31") _,
            lateout("k0") _, lateout("k1") _, lateout("k2") _, lateout("k3") _,
            lateout("k4") _, lateout("k5") _, lateout("k6") _, lateout("k7") _,
            lateout("st(0)") _, lateout("st(1)") _, lateout("st(2)") _, lateout("st(3)") _,
            lateout("st(4)") _, lateout("st(5)") _, lateout("st(6)") _, lateout("st(7)") _,
            options(att_syntax),
        )
    };
}

/// Reads a [`Value`](crate::Value): `value!(KEY)`, `value!(KEYS[2])`, `value!(TABLE[2].limit)`.
///
/// `KEY`: the path of a static that is a key, an array of keys, or an array of structs with keys; the index is a constant.
/// Result: the value.
#[macro_export]
macro_rules! value {
    ($key:path $([ $index:expr ] $(. $field:ident)*)?) => {{
        $key $([$index] $(.$field)*)? .count_op();
        let word: u64;
        // SAFETY: loads the key's slot or an immediate, and changes nothing but the register. That
        // memory is the library's and changes behind functions that are opaque to the compiler.
        unsafe {
            // The load has the length of the immediate form, which needs one of the old registers.
            if const { $key $([$index] $(.$field)*)? .is_wide() } {
                ::core::arch::asm!(
                    $crate::site_begin!(),
                    ".byte 0x66, 0x66, 0x66, 0x66\nmovq {key} + {offset}(%rip), {word}\n662:",
                    $crate::site_record!("2", "0", "0"),
                    key = sym $key,
                    offset = const $crate::__offset!($key $(, [$index] $(.$field)*)?),
                    word = lateout(reg) word,
                    options(att_syntax, nomem, nostack, preserves_flags),
                )
            } else {
                ::core::arch::asm!(
                    $crate::site_begin!(),
                    ".byte 0x40\nmovl {key} + {offset}(%rip), {word:e}\n662:",
                    $crate::site_record!("2", "0", "0"),
                    key = sym $key,
                    offset = const $crate::__offset!($key $(, [$index] $(.$field)*)?),
                    word = lateout(reg_abcd) word,
                    options(att_syntax, nomem, nostack, preserves_flags),
                )
            }
        };
        $key $([$index] $(.$field)*)? .outcome(word)
    }};
}

/// As compiled a branch jumps to a stub in the same section, which tests the key. The record
/// points to the stub, which holds the other side's address.
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
                    ".byte 0x40, 0xe9\n.long 663f - . - 4\n662:",
                    $crate::__unpatched!(),
                    ".byte 0xf6, 0x05\n.long {key} + {offset} - . - 5\n.byte 0x01",
                    concat!(".byte 0x0f, ", $crate::__condition!($usual)),
                    ".long {other} - . - 4",
                    ".byte 0xe9\n.long 662b - . - 4",
                    $crate::__unpatched_end!(),
                    $crate::site_record!("3", $flags, "663b - ."),
                    key = sym $key,
                    offset = const $crate::__offset!($key $(, [$index] $(.$field)*)?),
                    other = label {
                        $crate::seldom();
                        break 'site $other
                    },
                    options(att_syntax, nomem, nostack),
                )
            };
            !$other
        }
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
                    ".byte 0x40, 0xe9\n.long 663f - . - 4\n662:",
                    $crate::__unpatched!(),
                    $crate::__way!("1"),
                    $crate::__way!("2"),
                    $crate::__way!("3"),
                    $crate::__way!("4"),
                    $crate::__way!("5"),
                    $crate::__way!("6"),
                    $crate::__way!("7"),
                    ".byte 0xe9\n.long 662b - . - 4",
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
                    options(att_syntax, nomem, nostack),
                )
            };
            0usize
        }
    };
}

/// One comparison of a switch: cmpb $way,key(%rip); je.
#[doc(hidden)]
#[macro_export]
macro_rules! __way {
    ($way:literal) => {
        concat!(
            ".if {count} > ",
            $way,
            "\n.byte 0x80, 0x3d\n.long {key} + {offset} - . - 5\n.byte ",
            $way,
            ", 0x0f, 0x84\n.long {way_",
            $way,
            "} - . - 4\n.endif",
        )
    };
}

/// The jump to a branch's other side: je or jne.
#[doc(hidden)]
#[macro_export]
macro_rules! __condition {
    (likely) => {
        "0x84"
    };
    (unlikely) => {
        "0x85"
    };
}
