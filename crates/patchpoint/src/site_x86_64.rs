//! Sites of x86-64 Linux: one instruction each, and its record, as in `site_x86_64.h`.
//!
//! Arguments of the assembly: the key is `{key}`; the site ends at the numeric label 662, and what
//! follows the instruction is the record.
//!
//! A record's section is tied to that of its code by a named label (the flag "o"), which has to be
//! another one in each copy that the compiler makes of the assembly. Rust has no `%=`; a symbol
//! counts the sites of a module, and an assembler macro makes its value part of a name. Such
//! macros and symbols are the module's, the alternate mode is one assembly's.
//!
//! A call needs no more: assembly without `nostack` finds the stack aligned and the red zone
//! unused (Rust reference, inline assembly, `nostack`).

/// Text that begins a site in assembly of one's own, in AT&T syntax.
///
/// There the key is the operand `{key}`, a `sym`; the label 662 ends the site, which is the one
/// instruction as the C library's guide has it; and [`site_record!`](crate::site_record) follows.
#[macro_export]
macro_rules! site_begin {
    () => {
        concat!(
            ".ifndef .Lpatchpoint_sites\n",
            ".set .Lpatchpoint_sites, 0\n",
            ".altmacro\n",
            ".macro patchpoint_name patchpoint_number\n",
            ".Lpatchpoint\\patchpoint_number:\n",
            ".endm\n",
            ".macro patchpoint_section patchpoint_number\n",
            ".pushsection patchpoint_sites,\"ao?\",@progbits,.Lpatchpoint\\patchpoint_number\n",
            ".endm\n",
            ".noaltmacro\n",
            ".endif\n",
            ".set .Lpatchpoint_sites, .Lpatchpoint_sites + 1\n",
            ".altmacro\n",
            "patchpoint_name %.Lpatchpoint_sites\n",
            ".noaltmacro\n",
            "661:\n",
        )
    };
}

/// Text of a site's record in assembly of one's own: `struct patchpoint_site`, 16 bytes.
///
/// Literals: kind (1 call, 2 value, 3 branch), flags, and `aux` as an expression relative to `.`
/// (of a branch the code that tests the key; of a preserving call its thunk; else 0).
#[macro_export]
macro_rules! site_record {
    ($kind:literal, $flags:literal, $aux:literal) => {
        concat!(
            ".altmacro\n",
            "patchpoint_section %.Lpatchpoint_sites\n",
            ".noaltmacro\n",
            ".balign 4\n",
            ".long 661b - .\n",
            ".long {key} - .\n",
            ".long ",
            $aux,
            "\n.byte ",
            $kind,
            ", 662b - 661b, ",
            $flags,
            ", 0\n",
            ".popsection\n",
        )
    };
}

/// Executes a site of a [`Call`](crate::Call): `call!(KEY, arguments…)`.
///
/// `KEY`: the path of a static. Result: the operation's. A key of unsafe operations needs an
/// `unsafe` block.
#[macro_export]
macro_rules! call {
    ($key:path $(,)?) => {
        $crate::__call!($key, words [], [])
    };
    ($key:path, $a:expr $(,)?) => {
        $crate::__call!($key, words [$a], [in("rdi") words[0],])
    };
    ($key:path, $a:expr, $b:expr $(,)?) => {
        $crate::__call!($key, words [$a, $b], [in("rdi") words[0], in("rsi") words[1],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr $(,)?) => {
        $crate::__call!($key, words [$a, $b, $c],
            [in("rdi") words[0], in("rsi") words[1], in("rdx") words[2],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr, $d:expr $(,)?) => {
        $crate::__call!($key, words [$a, $b, $c, $d],
            [in("rdi") words[0], in("rsi") words[1], in("rdx") words[2], in("rcx") words[3],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr $(,)?) => {
        $crate::__call!($key, words [$a, $b, $c, $d, $e],
            [in("rdi") words[0], in("rsi") words[1], in("rdx") words[2], in("rcx") words[3],
             in("r8") words[4],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr $(,)?) => {
        $crate::__call!($key, words [$a, $b, $c, $d, $e, $f],
            [in("rdi") words[0], in("rsi") words[1], in("rdx") words[2], in("rcx") words[3],
             in("r8") words[4], in("r9") words[5],])
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __call {
    ($key:path, $words:ident [$($argument:expr),*], [$($operands:tt)*]) => {{
        $key.count_op();
        let $words: [u64; _] = $key.words($($argument),*);
        let word: u64;
        // SAFETY: one call of a function of the key's type, with its arguments and C's convention;
        // an operation that unwinds ends the program.
        unsafe {
            ::core::arch::asm!(
                $crate::site_begin!(),
                "call *{key}(%rip)\n662:",
                $crate::site_record!("1", "0", "0"),
                key = sym $key,
                $($operands)*
                lateout("rax") word,
                clobber_abi("sysv64"),
                options(att_syntax),
            )
        };
        let _ = $words;
        $key.outcome(word)
    }};
}

/// As [`call!`], but the caller keeps what it has in general registers, all but the result's.
///
/// For loops in which the usual operation is trivial. A function that needs a real call is called
/// through a thunk that belongs to the site and saves these registers. Vector registers and flags
/// are not preserved. Up to three arguments.
#[macro_export]
macro_rules! call_saved {
    ($key:path $(,)?) => {
        $crate::__call_saved!($key, words [], [])
    };
    ($key:path, $a:expr $(,)?) => {
        $crate::__call_saved!($key, words [$a], [in("rdi") words[0],])
    };
    ($key:path, $a:expr, $b:expr $(,)?) => {
        $crate::__call_saved!($key, words [$a, $b], [in("rdi") words[0], in("rsi") words[1],])
    };
    ($key:path, $a:expr, $b:expr, $c:expr $(,)?) => {
        $crate::__call_saved!($key, words [$a, $b, $c],
            [in("rdi") words[0], in("rsi") words[1], in("rdx") words[2],])
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __call_saved {
    ($key:path, $words:ident [$($argument:expr),*], [$($operands:tt)*]) => {{
        // Its own call is a plain site. Vector registers need no saving: the site loses them.
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
                "call *{key}(%rip)\n662:",
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
                options(att_syntax),
            )
        }
        $key.count_op();
        let $words: [u64; _] = $key.words($($argument),*);
        let word: u64;
        // SAFETY: as a call; the thunk and the single instructions that may stand here keep the
        // registers that are not listed.
        unsafe {
            ::core::arch::asm!(
                $crate::site_begin!(),
                ".byte 0x67\ncall {thunk}\n662:",
                $crate::site_record!("1", "2", "{thunk} - ."),
                key = sym $key,
                thunk = sym thunk,
                $($operands)*
                lateout("rax") word,
                lateout("xmm0") _, lateout("xmm1") _, lateout("xmm2") _, lateout("xmm3") _,
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
        let _ = $words;
        $key.outcome(word)
    }};
}

/// Reads a [`Value`](crate::Value): `value!(KEY)`.
///
/// `KEY`: the path of a static. Result: the value.
#[macro_export]
macro_rules! value {
    ($key:path) => {{
        $key.count_op();
        let word: u64;
        // SAFETY: loads the key's slot or an immediate, and changes nothing but the register. That
        // memory is the library's and changes behind functions that are opaque to the compiler.
        unsafe {
            // The load has the length of the immediate form.
            if const { $key.is_wide() } {
                ::core::arch::asm!(
                    $crate::site_begin!(),
                    ".byte 0x2e, 0x2e, 0x2e\nmovq {key}(%rip), {word}\n662:",
                    $crate::site_record!("2", "0", "0"),
                    key = sym $key,
                    word = lateout(reg) word,
                    options(att_syntax, nomem, nostack, preserves_flags),
                )
            } else {
                ::core::arch::asm!(
                    $crate::site_begin!(),
                    "movl {key}(%rip), {word:e}\n662:",
                    $crate::site_record!("2", "0", "0"),
                    key = sym $key,
                    word = lateout(reg) word,
                    options(att_syntax, nomem, nostack, preserves_flags),
                )
            }
        };
        $key.outcome(word)
    }};
}

/// Asks a [`Branch`](crate::Branch) whose usual answer is yes: `if likely!(KEY) { … }`.
///
/// `KEY`: the path of a static. Result: the answer; a nop while it is true, else a jump.
#[macro_export]
macro_rules! likely {
    ($key:path) => {
        $crate::__branch!($key, "0x84", "1", false)
    };
}

/// Asks a [`Branch`](crate::Branch) whose usual answer is no: `if unlikely!(KEY) { … }`.
///
/// `KEY`: the path of a static. Result: the answer; a nop while it is false, else a jump.
#[macro_export]
macro_rules! unlikely {
    ($key:path) => {
        $crate::__branch!($key, "0x85", "0", true)
    };
}

/// As compiled a branch jumps to a stub in the same section, which tests the key. The record
/// points to the stub, which holds the other side's address.
#[doc(hidden)]
#[macro_export]
macro_rules! __branch {
    ($key:path, $condition:literal, $flags:literal, $other:literal) => {
        'site: {
            $key.count_op();
            // SAFETY: tests the key's slot, or not even that, and goes on at one of two places.
            unsafe {
                ::core::arch::asm!(
                    $crate::site_begin!(),
                    ".byte 0xe9\n.long 663f - . - 4\n662:",
                    ".subsection 1\n663:",
                    "testb $1, {key}(%rip)",
                    concat!(".byte 0x0f, ", $condition),
                    ".long {other} - . - 4",
                    ".byte 0xe9\n.long 662b - . - 4",
                    ".previous",
                    $crate::site_record!("3", $flags, "663b - ."),
                    key = sym $key,
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

/// What leads here seldom happens.
#[doc(hidden)]
#[cold]
#[inline(always)]
pub fn seldom() {}
