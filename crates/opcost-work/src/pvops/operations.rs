//! The four operations on page table entries, and the ways in which code reaches them.

use crate::unrolled::nothing;
use patchpoint::Call;
#[cfg(not(target_arch = "x86_64"))]
use std::hint::black_box;

pub(super) type Convert = extern "C" fn(u64) -> u64;
pub(super) type Store = unsafe extern "C" fn(*mut u64, u64);
pub(super) type Notice = extern "C" fn(usize);

/// An implementation of the operations; a kernel has one for each hypervisor.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Implementation {
    pub(super) pte_val: Convert,
    pub(super) make_pte: Convert,
    pub(super) set_pte: Store,
    pub(super) flush: Notice,
}

/// Native operations: two identities, a store, and nothing.
pub(super) static NATIVE: Implementation = Implementation {
    pte_val: native::identity,
    make_pte: native::identity,
    set_pte: native::store,
    flush: native::nothing,
};

/// The same operations, in functions that the patcher does not recognise as trivial.
pub(super) static OPAQUE: Implementation = Implementation {
    pte_val: opaque::identity,
    make_pte: opaque::identity,
    set_pte: opaque::store,
    flush: opaque::nothing,
};

#[cfg(target_arch = "x86_64")]
macro_rules! functions {
    ($prefix:literal) => {
        #[unsafe(naked)]
        pub(super) extern "C" fn identity(_: u64) -> u64 {
            std::arch::naked_asm!($prefix, "mov rax, rdi", "ret")
        }
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn store(_: *mut u64, _: u64) {
            std::arch::naked_asm!($prefix, "mov qword ptr [rdi], rsi", "ret")
        }
        #[unsafe(naked)]
        pub(super) extern "C" fn nothing(_: usize) {
            std::arch::naked_asm!($prefix, "ret")
        }
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! functions {
    ($return:literal) => {
        #[unsafe(naked)]
        pub(super) extern "C" fn identity(_: u64) -> u64 {
            std::arch::naked_asm!($return)
        }
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn store(_: *mut u64, _: u64) {
            std::arch::naked_asm!("str x1, [x0]", $return)
        }
        #[unsafe(naked)]
        pub(super) extern "C" fn nothing(_: usize) {
            std::arch::naked_asm!($return)
        }
    };
}
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! functions {
    ($_prefix:literal) => {
        pub(super) extern "C" fn identity(number: u64) -> u64 {
            number
        }
        pub(super) unsafe extern "C" fn store(entry: *mut u64, pte: u64) {
            // SAFETY: the caller promises that the entry is its own.
            unsafe { entry.write_volatile(pte) }
        }
        pub(super) extern "C" fn nothing(_: usize) {}
    };
}
mod native {
    #[cfg(not(target_arch = "aarch64"))]
    functions!("");
    #[cfg(target_arch = "aarch64")]
    functions!("ret");
}
mod opaque {
    // A prefix for the segment ES. Processors ignore the prefix in 64-bit mode (Intel SDM vol. 1, 3.3.7.1), and patchpoint's
    // recogniser does not accept it: same instructions, same cost.
    #[cfg(not(target_arch = "aarch64"))]
    functions!(".byte 0x26");
    // The recogniser does not accept this jump to the return address: as many instructions, though processors predict it worse.
    #[cfg(target_arch = "aarch64")]
    functions!("br x30");
}

/// A way to reach the operations.
pub(super) trait Operations {
    fn pte_val(pte: u64) -> u64;
    fn make_pte(number: u64) -> u64;
    /// # Safety
    /// `entry` is writable, and nothing else uses it.
    unsafe fn set_pte(entry: *mut u64, pte: u64);
    fn flush(address: usize);
}

/// The loops' use of an entry.
pub(super) trait Modify {
    /// Performs an operation of the work: reads an entry, changes flags, writes the entry back and flushes its address.
    ///
    /// # Safety
    /// `entry` is writable, and nothing else uses it.
    unsafe fn modify(entry: *mut u64, flags: u64);
}

impl<O: Operations> Modify for O {
    #[inline(always)]
    unsafe fn modify(entry: *mut u64, flags: u64) {
        // SAFETY: as the caller promises.
        unsafe {
            let old = O::pte_val(entry.read_volatile());
            O::set_pte(entry, O::make_pte(old ^ flags));
        }
        O::flush(entry.addr());
    }
}

/// The loop alone.
pub(super) struct Nothing;

impl Modify for Nothing {
    #[inline(always)]
    unsafe fn modify(_: *mut u64, _: u64) {
        nothing();
    }
}

/// The operations compiled in where they are used, without a table.
pub(super) struct CompiledIn;

impl Operations for CompiledIn {
    #[inline(always)]
    fn pte_val(pte: u64) -> u64 {
        pte
    }
    #[inline(always)]
    fn make_pte(number: u64) -> u64 {
        number
    }
    #[inline(always)]
    unsafe fn set_pte(entry: *mut u64, pte: u64) {
        // SAFETY: as the caller promises.
        unsafe { entry.write_volatile(pte) }
    }
    #[inline(always)]
    fn flush(_: usize) {}
}

pub(super) static PTE_VAL: Call<Convert> = Call::new(c"pvops_pte_val", native::identity);
pub(super) static MAKE_PTE: Call<Convert> = Call::new(c"pvops_make_pte", native::identity);
pub(super) static SET_PTE: Call<Store> = Call::new(c"pvops_set_pte", native::store);
pub(super) static FLUSH: Call<Notice> = Call::new(c"pvops_flush", native::nothing);

/// Patched sites: direct calls, or the effects of the operations in place of calls.
pub(super) struct Patched;

impl Operations for Patched {
    #[inline(always)]
    fn pte_val(pte: u64) -> u64 {
        patchpoint::call!(PTE_VAL, pte)
    }
    #[inline(always)]
    fn make_pte(number: u64) -> u64 {
        patchpoint::call!(MAKE_PTE, number)
    }
    #[inline(always)]
    unsafe fn set_pte(entry: *mut u64, pte: u64) {
        // SAFETY: as the caller promises.
        unsafe { patchpoint::call!(SET_PTE, entry, pte) }
    }
    #[inline(always)]
    fn flush(address: usize) {
        patchpoint::call!(FLUSH, address)
    }
}

/// A call through the table in memory, like a site before patching.
pub(super) struct Indirect;

/// A call through the table by a retpoline, as where indirect calls must not be predicted.
#[cfg(target_arch = "x86_64")]
pub(super) struct Retpoline;

/// Makes one call of the table's entry at an offset, with the given instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! through_table {
    ($instructions:literal, $offset:literal, [$($operands:tt)*]) => {{
        let word: u64;
        // SAFETY: calls the table's function with its arguments and C's convention. The functions store only through the pointer
        // for which the caller is responsible.
        unsafe {
            std::arch::asm!(
                $instructions,
                table = sym NATIVE,
                offset = const $offset,
                $($operands)*
                lateout("rax") word,
                clobber_abi("sysv64"),
                options(att_syntax),
            )
        };
        word
    }};
}

#[cfg(target_arch = "x86_64")]
macro_rules! table_operations {
    ($way:ty, $instructions:literal, [$($more:tt)*]) => {
        impl Operations for $way {
            #[inline(always)]
            fn pte_val(pte: u64) -> u64 {
                through_table!($instructions, 0, [$($more)* in("rdi") pte,])
            }
            #[inline(always)]
            fn make_pte(number: u64) -> u64 {
                through_table!($instructions, 8, [$($more)* in("rdi") number,])
            }
            #[inline(always)]
            unsafe fn set_pte(entry: *mut u64, pte: u64) {
                through_table!($instructions, 16, [$($more)* in("rdi") entry, in("rsi") pte,]);
            }
            #[inline(always)]
            fn flush(address: usize) {
                through_table!($instructions, 24, [$($more)* in("rdi") address,]);
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
table_operations!(Indirect, "call *{table}+{offset}(%rip)", []);
#[cfg(target_arch = "x86_64")]
table_operations!(
    Retpoline,
    "movq {table}+{offset}(%rip), %r11\ncall {retpoline}",
    [retpoline = sym retpoline,]
);

/// Jumps to the address in r11; speculation runs into the loop (Intel, Retpoline: a branch target injection mitigation, 2018).
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn retpoline() {
    std::arch::naked_asm!(
        "call 3f",
        "2: pause",
        "lfence",
        "jmp 2b",
        ".balign 16",
        "3: mov qword ptr [rsp], r11",
        "ret",
    )
}

#[cfg(not(target_arch = "x86_64"))]
impl Operations for Indirect {
    #[inline(always)]
    fn pte_val(pte: u64) -> u64 {
        (black_box(&NATIVE).pte_val)(pte)
    }
    #[inline(always)]
    fn make_pte(number: u64) -> u64 {
        (black_box(&NATIVE).make_pte)(number)
    }
    #[inline(always)]
    unsafe fn set_pte(entry: *mut u64, pte: u64) {
        // SAFETY: as the caller promises.
        unsafe { (black_box(&NATIVE).set_pte)(entry, pte) }
    }
    #[inline(always)]
    fn flush(address: usize) {
        (black_box(&NATIVE).flush)(address)
    }
}
