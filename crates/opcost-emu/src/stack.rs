//! The guest's stack pointer, and the values that the processor pushed when it entered the kernel.
//!
//! When a block begins, QEMU's object of the vCPU holds the value of every register: generated code keeps a register elsewhere only
//! within a block. The place of the stack pointer in the object differs between versions of QEMU, so the plugin learns the place. A
//! callback tells the stack slot of a call, and the stack pointer is the one word that equals the slots of many calls.

use crate::api;
use crate::target::Target;
use std::ffi::{c_int, c_void};
use std::ptr;

/// The number of different slots after which the place of the stack pointer counts as known.
const SLOTS_MIN: u32 = 24;
/// The number of slots after which the search gives up.
const SLOTS_MAX: u32 = 1 << 12;
/// The possible sizes of a vCPU's object, in bytes.
const OBJECT_BYTES: std::ops::Range<usize> = 1 << 10..1 << 20;

/// `cpu_memory_rw_debug` of QEMU: vCPU, address in the guest, buffer, number of bytes, whether to write.
type Access = unsafe extern "C" fn(*const c_void, u64, *mut c_void, usize, bool) -> c_int;

unsafe extern "C" {
    // malloc(3); std links the C library, which has this function.
    fn malloc_usable_size(block: *const c_void) -> usize;
}

/// The state of the code that an exception or interrupt stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Entered {
    /// Address at which the interrupted code resumes.
    pub(crate) instruction: u64,
    /// The stack pointer of the interrupted code.
    pub(crate) stack: u64,
    /// The code segment of the interrupted code, on x86.
    pub(crate) segment: u16,
    /// The exception's error code, if the processor pushed one.
    pub(crate) error: Option<u64>,
}

/// The search for a word of QEMU's object by the values that the word had.
#[derive(Default)]
struct Search {
    /// Places that matched every value so far.
    places: Vec<*const u64>,
    /// The number of different values so far, and the last one.
    values: u32,
    last: u64,
    found: Option<*const u64>,
}

impl Search {
    fn is_open(&self) -> bool {
        self.found.is_none() && self.values < SLOTS_MAX
    }

    /// Learns from the word's present value.
    ///
    /// # Safety
    /// `object` is QEMU's of the vCPU that the calling thread runs, or null.
    unsafe fn learn(&mut self, object: *const c_void, value: u64) {
        if !self.is_open() || value == self.last {
            return;
        }
        // SAFETY: as the caller promises.
        unsafe {
            if self.values == 0 {
                self.places = words(object);
            }
            self.places.retain(|place| place.read_volatile() == value);
        }
        self.last = value;
        self.values = if self.places.is_empty() { SLOTS_MAX } else { self.values + 1 };
        if let ([place], SLOTS_MIN..) = (&self.places[..], self.values) {
            self.found = Some(*place);
        }
    }
}

/// The search for the register that says why the kernel was entered.
#[derive(Default)]
struct Causes {
    /// Places that fitted every entry so far.
    places: Vec<*const u64>,
    /// The number of entries by system calls, and by accesses to memory.
    calls: u32,
    accesses: u32,
    found: Option<*const u64>,
}

/// The stack of one vCPU.
pub(crate) struct Stack {
    target: &'static Target,
    /// QEMU's object of the vCPU.
    vcpu: *const c_void,
    /// The stack pointer's place in the object; null until it is known.
    place: *const u64,
    /// The same place as a program's first block showed it; null if it did not.
    shown: *const u64,
    access: Option<Access>,
    /// The search for the stack pointer, or for the register to which calls write their return address.
    calls: Search,
    /// The search for the register that says where interrupted code resumes.
    resumes: Search,
    causes: Causes,
}

impl Stack {
    /// Makes the state in which nothing is known.
    pub(crate) fn new(target: &'static Target) -> Stack {
        // SAFETY: a function of QEMU lives for ever and has this type in 7.2 to 11.1
        // (include/exec/cpu-all.h, later include/exec/cpu-common.h; `target_ulong` has 64 bits).
        let access = api::find(c"cpu_memory_rw_debug")
            .map(|found| unsafe { std::mem::transmute::<*mut c_void, Access>(found) });
        Stack {
            target,
            vcpu: ptr::null(),
            place: ptr::null(),
            shown: ptr::null(),
            access,
            calls: Search::default(),
            resumes: Search::default(),
            causes: Causes::default(),
        }
    }

    /// Whether the place may still be found.
    pub(crate) fn is_open(&self) -> bool {
        self.access.is_some() && self.calls.is_open()
    }

    /// Learns from the stack pointer's present value, or from a call's return address where the call writes it to a register;
    /// returns whether the stack pointer's place is known now.
    ///
    /// # Safety
    /// The calling thread runs a vCPU, the same in every call.
    pub(crate) unsafe fn learn(&mut self, value: u64) -> bool {
        if !self.is_open() {
            return false;
        }
        self.attach();
        // SAFETY: as the caller promises.
        unsafe { self.calls.learn(self.vcpu, value) };
        if let Some(found) = self.calls.found {
            // QEMU keeps x30 and the stack pointer side by side (`xregs` in target/arm/cpu.h).
            self.place = found.wrapping_add(usize::from(self.target.links()));
        }
        !self.place.is_null()
    }

    /// Learns the register that says where interrupted code resumes, from the address at which it did.
    ///
    /// # Safety
    /// As for [`learn`](Self::learn).
    pub(crate) unsafe fn learn_resumed(&mut self, address: u64) {
        if self.place.is_null() || !self.resumes.is_open() {
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { self.resumes.learn(self.vcpu, address) };
        // QEMU's program counter stands behind the stack pointer and has this value, too.
        let counter = self.place.wrapping_add(1);
        self.resumes.places.retain(|place| *place != counter);
    }

    /// Learns the register that says why the kernel was entered, at an entry by a system call (`is_call`) or by an access to memory.
    /// The register's own word fits every entry, so the last place that fits is the register's.
    ///
    /// # Safety
    /// As for [`learn`](Self::learn).
    pub(crate) unsafe fn learn_cause(&mut self, is_call: bool, fits: fn(u64) -> bool) {
        let causes = &mut self.causes;
        let begins = causes.calls + causes.accesses == 0;
        if causes.found.is_some() || !begins && causes.places.is_empty() {
            return;
        }
        *(if is_call { &mut causes.calls } else { &mut causes.accesses }) += 1;
        // SAFETY: as the caller promises.
        unsafe {
            if begins {
                causes.places = words(self.vcpu);
            }
            causes.places.retain(|place| fits(place.read_volatile()));
        }
        if let [place] = causes.places[..]
            && causes.calls > 0
            && causes.accesses > 0
        {
            causes.found = Some(place);
        }
    }

    /// Returns the register that says why the kernel was entered, if its place is known.
    ///
    /// # Safety
    /// As for [`learn`](Self::learn).
    pub(crate) unsafe fn cause(&self) -> Option<u64> {
        // SAFETY: the object lives as long as the vCPU.
        self.causes.found.map(|place| unsafe { place.read_volatile() })
    }

    /// Whether the place of the register that says where interrupted code resumes is needed and unknown.
    pub(crate) fn is_learning(&self) -> bool {
        self.target.links() && self.resumes.found.is_none()
    }

    /// Returns the place of the register that says where interrupted code resumes, if the place is known.
    pub(crate) fn resumes_at(&self) -> Option<*const u64> {
        self.resumes.found
    }

    /// Returns the stack pointer.
    ///
    /// # Safety
    /// The stack pointer's place is known, and a block begins.
    #[inline(always)]
    pub(crate) unsafe fn pointer(&self) -> u64 {
        // SAFETY: the object lives as long as the vCPU.
        unsafe { self.place.read_volatile() }
    }

    /// Returns the register that stands some words behind the stack pointer in QEMU's object.
    ///
    /// # Safety
    /// As for [`pointer`](Self::pointer); both words are among the registers.
    pub(crate) unsafe fn beside(&self, words: usize) -> u64 {
        // SAFETY: as the caller promises.
        unsafe { self.place.wrapping_add(words).read_volatile() }
    }

    /// Returns a general register when a block begins, if the registers' place is known.
    pub(crate) fn register(&self, number: u8) -> Option<u64> {
        let distance = isize::from(number) - isize::from(self.target.stack_number);
        let place = if self.is_known() { self.place } else { self.shown };
        // SAFETY: QEMU keeps the general registers side by side in an object that lives as long as the vCPU.
        (!place.is_null()).then(|| unsafe { place.wrapping_offset(distance).read_volatile() })
    }

    /// Notes where a program's first block showed the general registers to be; `registers`: the first of them, or null.
    pub(crate) fn show(&mut self, registers: *const u64) {
        if !registers.is_null() {
            self.shown = registers.wrapping_add(self.target.stack_number.into());
        }
    }

    /// Uses the place that a program's first block showed; returns whether the place is known.
    pub(crate) fn use_shown(&mut self) -> bool {
        if self.place.is_null() {
            self.place = self.shown;
        }
        !self.place.is_null()
    }

    /// Finds QEMU's object of the vCPU that the calling thread runs.
    pub(crate) fn attach(&mut self) {
        if self.vcpu.is_null() {
            // SAFETY: QEMU's variable is the calling thread's.
            self.vcpu = api::current_cpu().map_or(ptr::null(), |current| unsafe { *current });
        }
    }

    /// Returns the stack slot of the call or return that just happened; after any other instruction, a slot on the same stack.
    ///
    /// `popped`: bytes that the instruction took off the stack.
    ///
    /// # Safety
    /// The stack pointer's place is known, and the block behind the instruction begins.
    #[inline(always)]
    pub(crate) unsafe fn slot(&self, popped: u16) -> u64 {
        // SAFETY: as the caller promises.
        unsafe { self.pointer() }.wrapping_sub(popped.into())
    }

    /// Returns the slot of a return that takes its address off the stack only.
    ///
    /// # Safety
    /// As for [`slot`](Self::slot).
    #[inline(always)]
    pub(crate) unsafe fn returned(&self) -> u64 {
        // SAFETY: as the caller promises.
        unsafe { self.slot(self.target.return_bytes) }
    }

    /// Returns the state of the interrupted code, at the beginning of a handler of exceptions or interrupts.
    ///
    /// # Safety
    /// As for [`slot`](Self::slot); the beginning block is the first one of such a handler.
    pub(crate) unsafe fn entered(&self) -> Option<Entered> {
        // SAFETY: as the caller promises.
        unsafe { (self.target.entered)(self) }
    }

    /// Reads the guest's memory as a debugger would, which changes nothing that the guest sees. Returns whether all of it is mapped.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Some(access) = self.access.filter(|_| !self.vcpu.is_null()) else { return false };
        // SAFETY: the buffer has room for the bytes read, and QEMU's object lives as long as the vCPU.
        unsafe { access(self.vcpu, address, bytes.as_mut_ptr().cast(), bytes.len(), false) == 0 }
    }

    /// Whether the stack pointer's place is known.
    pub(crate) fn is_known(&self) -> bool {
        !self.place.is_null()
    }
}

/// Returns a pointer to every word of QEMU's object of a vCPU.
///
/// # Safety
/// `object` is such an object, or null.
pub(crate) unsafe fn words(object: *const c_void) -> Vec<*const u64> {
    if object.is_null() {
        return Vec::new();
    }
    // SAFETY: QEMU allocates the object by malloc or posix_memalign (`object_new_with_type` in qom/object.c), and the part that
    // describes a CPU comes first in it.
    let bytes = unsafe { malloc_usable_size(object) };
    if !OBJECT_BYTES.contains(&bytes) {
        return Vec::new();
    }
    let words = object.cast::<u64>();
    (0..bytes / 8).map(|word| words.wrapping_add(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_an_object_are_those_that_malloc_gave() {
        let object = vec![7u64; 1000];
        // SAFETY: the vector's memory is from malloc.
        let found = unsafe { words(object.as_ptr().cast()) };
        assert!(found.len() >= 1000);
        assert_eq!(found[999], &raw const object[999]);
        // SAFETY: null is no object.
        assert!(unsafe { words(ptr::null()) }.is_empty());
    }

    #[test]
    fn outside_of_qemu_nothing_is_learnt() {
        let mut stack = Stack::new(&crate::x86_64::TARGET);
        assert!(!stack.is_open());
        // SAFETY: without QEMU nothing is read.
        assert!(!unsafe { stack.learn(1) });
    }
}
