//! The record of a site, and the parts of sites that x86-64 and arm64 Linux share, as in `site_native.h`.
//!
//! Operands of the assembly: `{key}` is the key's static, and `{offset}` the key's offset in that static.
//! The site ends at the numeric label 662, and the record follows the instruction.
//!
//! A named label (the flag "o") ties a record's section to the section of its code. Each copy of
//! the assembly that the compiler makes needs another label. Rust has no `%=`: a symbol
//! counts the sites of a module, and an assembler macro makes the symbol's value part of a name. The
//! macros and the symbol belong to the module; each piece of assembly turns the alternate mode off again.

/// Text that begins a site in assembly of one's own (on x86-64 in AT&T syntax).
///
/// The assembly has the operands `{key}`, a `sym`, the static that holds the key, and `{offset}`, a `const`, the
/// key's offset there. The site is one instruction, as in the C library's guide; the label 662 ends it, and
/// [`site_record!`](crate::site_record) follows.
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
            ".macro patchpoint_unpatched_name patchpoint_number\n",
            ".type patchpoint_unpatched.\\patchpoint_number, @function\n",
            "patchpoint_unpatched.\\patchpoint_number:\n",
            ".endm\n",
            ".macro patchpoint_unpatched_size patchpoint_number\n",
            ".size patchpoint_unpatched.\\patchpoint_number, . - patchpoint_unpatched.\\patchpoint_number\n",
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
/// Literals: kind (1 call, 2 value, 3 branch, 4 switch), flags, and `aux` as an expression relative to `.`
/// (for a branch or switch the code that tests the key; for a preserving call its thunk; else 0).
#[macro_export]
macro_rules! site_record {
    ($kind:literal, $flags:literal, $aux:literal) => {
        concat!(
            ".altmacro\n",
            "patchpoint_section %.Lpatchpoint_sites\n",
            ".noaltmacro\n",
            ".balign 4\n",
            ".long 661b - .\n",
            ".long {key} + {offset} - .\n",
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

/// Text that begins the code to which a site leads as compiled, behind its function, where the label 663 is. The code has a
/// symbol with a size, by which profilers and debuggers know it.
#[doc(hidden)]
#[macro_export]
macro_rules! __unpatched {
    () => {
        concat!(
            ".subsection 1\n",
            ".balign 4\n",
            ".altmacro\n",
            "patchpoint_unpatched_name %.Lpatchpoint_sites\n",
            ".noaltmacro\n",
            "663:",
        )
    };
}

/// Text that ends the code of [`__unpatched!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __unpatched_end {
    () => {
        concat!(
            ".altmacro\n",
            "patchpoint_unpatched_size %.Lpatchpoint_sites\n",
            ".noaltmacro\n",
            ".previous",
        )
    };
}

/// Computes a key's offset in the static that holds it.
#[doc(hidden)]
#[macro_export]
macro_rules! __offset {
    ($holder:path) => {
        0
    };
    ($holder:path, $($member:tt)+) => {{
        // SAFETY: both pointers are into the same static.
        unsafe {
            (&raw const $holder $($member)+)
                .cast::<u8>()
                .offset_from((&raw const $holder).cast::<u8>())
        }
    }};
}

/// Asks a [`Branch`](crate::Branch) whose usual answer is yes: `if likely!(KEY) { … }`.
///
/// `KEY`: as in [`value!`](crate::value). Result: the answer; a nop while it is true, else a jump.
#[macro_export]
macro_rules! likely {
    ($($key:tt)+) => {
        $crate::__branch!(likely, "1", false, $($key)+)
    };
}

/// Asks a [`Branch`](crate::Branch) whose usual answer is no: `if unlikely!(KEY) { … }`.
///
/// `KEY`: as in [`value!`](crate::value). Result: the answer; a nop while it is false, else a jump.
#[macro_export]
macro_rules! unlikely {
    ($($key:tt)+) => {
        $crate::__branch!(unlikely, "0", true, $($key)+)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __first {
    () => {
        0.0f64
    };
    ($first:expr) => {
        $first
    };
}

/// Marks the path that calls this function as rare.
#[doc(hidden)]
#[cold]
#[inline(always)]
pub fn seldom() {}
