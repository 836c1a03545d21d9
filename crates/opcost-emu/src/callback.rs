//! The functions that QEMU calls, and the plugin's one state.
//!
//! The state belongs to one thread, the first that translates: in user mode the program's only thread, in system mode QEMU's one
//! vCPU thread (`-accel tcg,thread=single`). Calls from any other thread touch nothing and make the report an error.

use crate::api;
use crate::block::{Block, MarkerSite};
use crate::decode::{Exit, Repeat};
use crate::plugin::Plugin;
use crate::rcu;
use crate::refusal::{self, Refusal};
use crate::repeat::Site;
use crate::report::write_error;
use crate::target::SystemCalls;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_uint, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

struct State(UnsafeCell<MaybeUninit<Plugin>>);

// SAFETY: only the owning thread uses the field, as `owned` checks; before any thread runs guest code, only `start` uses it.
unsafe impl Sync for State {}

static STATE: State = State(UnsafeCell::new(MaybeUninit::uninit()));
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// include/uapi/linux/sched.h
const CLONE_THREAD: u64 = 0x10000;

/// include/uapi/linux/mman.h; `MAP_SHARED_VALIDATE` contains it.
const MAP_SHARED: u64 = 1;

thread_local! {
    static OWNER: Cell<bool> = const { Cell::new(false) };
}

/// Sets up the state.
///
/// # Safety
/// Called once, before any callback is registered.
pub(crate) unsafe fn start(plugin: Plugin) {
    // SAFETY: nothing else uses the state yet.
    unsafe { (*STATE.0.get()).write(plugin) };
}

/// Returns the state.
///
/// # Safety
/// [`start`] was called. The caller is the owning thread and drops the reference before it calls anything that takes another.
#[inline(always)]
pub(crate) unsafe fn plugin<'a>() -> &'a mut Plugin {
    // SAFETY: as the caller promises.
    unsafe { (*STATE.0.get()).assume_init_mut() }
}

/// Whether this thread owns the state; the first thread that asks becomes the owner.
pub(crate) fn owned() -> bool {
    OWNER.get()
        || !CLAIMED.swap(true, Ordering::Relaxed) && {
            OWNER.set(true);
            true
        }
}

/// Returns the running vCPU; `told`: QEMU's number, which is right with one vCPU and with a thread per vCPU.
#[inline(always)]
fn running(told: c_uint) -> c_uint {
    // SAFETY: `start` came before any callback. Several vCPUs on one thread: that thread owns the state. If the plugin saw more
    // threads, the state is not touched.
    let plugin = unsafe { plugin() };
    if plugin.one_vcpu {
        told
    } else if refusal::threads() {
        c_uint::MAX
    } else {
        plugin.vcpus.running()
    }
}

/// Returns the state and the running vCPU, if a callback may touch the state.
///
/// # Safety
/// As for [`plugin`].
#[inline(always)]
pub(crate) unsafe fn state_of<'a>(told: c_uint) -> Option<(&'a mut Plugin, c_uint)> {
    let vcpu = running(told);
    // SAFETY: as the caller promises.
    allowed(vcpu).then(|| (unsafe { plugin() }, vcpu))
}

/// Whether a callback may touch the state: for a vCPU other than the current one, only on the owning thread.
#[inline(always)]
fn allowed(vcpu: c_uint) -> bool {
    // SAFETY: `start` came before any callback; the number is only read, and only the owning thread changes it.
    let now = unsafe { (*STATE.0.get()).assume_init_ref().vcpu };
    vcpu == now || owned_elsewhere()
}

#[cold]
fn owned_elsewhere() -> bool {
    let allowed = owned() && !refusal::threads();
    if !allowed {
        refusal::refuse(Refusal::Thread);
    }
    allowed
}

/// # Safety
/// `data` is the block that a callback was registered with; blocks live for ever.
#[inline(always)]
unsafe fn block_of(data: *mut c_void) -> &'static Block {
    // SAFETY: as the caller promises; only a block's cells ever change.
    unsafe { &*data.cast::<Block>() }
}

/// Called when a block begins that may go on, on a QEMU without conditional callbacks.
pub(crate) unsafe extern "C" fn on_block(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: `start` came before any callback. `goes_on` is false on any vCPU but the current
    // one, which the owning thread alone changes.
    unsafe {
        let (block, vcpu) = (block_of(data), running(vcpu));
        if plugin().goes_on(vcpu, block) {
            plugin().begin(block);
        } else {
            look_and_begin::<false>(vcpu, block);
        }
    }
}

/// Called when a block begins where instructions are counted by address.
pub(crate) unsafe extern "C" fn on_block_apart(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: as in `on_block`.
    unsafe {
        let (block, vcpu) = (block_of(data), running(vcpu));
        if plugin().goes_on(vcpu, block) {
            plugin().go_on_apart(block);
            plugin().begin(block);
        } else {
            look_and_begin::<true>(vcpu, block);
        }
    }
}

/// Called when a block begins that does not go on, where stubs count the others.
pub(crate) unsafe extern "C" fn on_look(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: the data are those of this callback; where there are stubs, there is one vCPU.
    unsafe { look_and_begin::<false>(vcpu, block_of(data)) };
}

#[inline(never)]
unsafe extern "C" fn look_and_begin<const APART: bool>(vcpu: c_uint, block: &'static Block) {
    if allowed(vcpu) {
        // SAFETY: this thread owns the state.
        unsafe {
            plugin().look::<APART>(vcpu, block);
            plugin().begin(block);
        }
    }
}

/// Called when a block begins that does not go on; QEMU itself begins the block afterwards.
pub(crate) unsafe extern "C" fn on_turn(vcpu: c_uint, data: *mut c_void) {
    let vcpu = running(vcpu);
    if allowed(vcpu) {
        // SAFETY: this thread owns the state; the data are those of this callback.
        unsafe {
            let block = block_of(data);
            plugin().look::<false>(vcpu, block);
            plugin().expect(block);
        }
    }
}

/// Called when a block begins that needs more than QEMU's own counting, where only totals are counted.
pub(crate) unsafe extern "C" fn on_total(vcpu: c_uint, data: *mut c_void) {
    if allowed(vcpu) {
        // SAFETY: this thread owns the state; the data are those of this callback.
        unsafe { plugin().look_total(block_of(data)) };
    }
}

/// Called when the last instruction of some blocks accesses memory, where only totals are counted.
pub(crate) unsafe extern "C" fn on_total_access(
    vcpu: c_uint,
    access: u32,
    address: u64,
    data: *mut c_void,
) {
    if !allowed(vcpu) {
        return;
    }
    // SAFETY: this thread owns the state; the data are those of this callback, and QEMU passed the description of the access.
    unsafe {
        let block = block_of(data);
        let (last, _) = block.facts[block.facts.len() - 1];
        if last.exit == Exit::Call {
            plugin().called_at(address);
        } else if last.stores == 0 || (api::api().functions.memory_is_store)(access) {
            plugin().accessed(block);
        }
    }
}

/// Called when a block begins on a modelled core.
pub(crate) unsafe extern "C" fn on_timed_block(vcpu: c_uint, data: *mut c_void) {
    if allowed(vcpu) {
        // SAFETY: this thread owns the state; the data are those of this callback.
        unsafe {
            let block = block_of(data);
            if plugin().goes_on(vcpu, block) {
                plugin().time(block);
            } else {
                plugin().look_timed(vcpu, block);
            }
            plugin().begin(block);
        }
    }
}

/// Called when a repeated string instruction that is a block of its own begins on a modelled core. The block begins with the first
/// iteration and behind each interruption: a branch in front of it went there, not to the block behind it.
pub(crate) unsafe extern "C" fn on_timed_repeat(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: this thread owns the state where it is allowed; the data are those of this callback.
    unsafe {
        if allowed(vcpu) && !plugin().repeats(block_of(data)) {
            on_timed_block(vcpu, data);
        }
    }
}

/// Called when memory is accessed on a modelled core; `data` identifies the instruction.
pub(crate) unsafe extern "C" fn on_timed_access(
    vcpu: c_uint,
    access: u32,
    address: u64,
    data: *mut c_void,
) {
    if allowed(vcpu) {
        // SAFETY: this thread owns the state.
        if let Some(timing) = unsafe { &mut plugin().timing } {
            // SAFETY: QEMU passed the description to this callback.
            unsafe { timing.access(access, address, data) };
        }
    }
}

pub(crate) unsafe extern "C" fn on_pass(vcpu: c_uint, site: *mut c_void) {
    if allowed(running(vcpu)) {
        // SAFETY: as in `on_block`; sites live for ever as well.
        unsafe { plugin().pass(&mut *site.cast::<Site>()) };
    }
}

pub(crate) unsafe extern "C" fn on_end_access(
    vcpu: c_uint,
    _: u32,
    address: u64,
    block: *mut c_void,
) {
    if allowed(running(vcpu)) {
        // SAFETY: as in `on_block`.
        unsafe { plugin().finish(block.cast_const().cast(), address) };
    }
}

pub(crate) unsafe extern "C" fn on_end_store(
    vcpu: c_uint,
    access: u32,
    address: u64,
    block: *mut c_void,
) {
    // SAFETY: QEMU passed the description of the access to this callback.
    if allowed(running(vcpu)) && unsafe { (api::api().functions.memory_is_store)(access) } {
        // SAFETY: as in `on_block`.
        unsafe { plugin().finish(block.cast_const().cast(), address) };
    }
}

pub(crate) unsafe extern "C" fn on_compare(vcpu: c_uint, site: *mut c_void) {
    if allowed(running(vcpu)) {
        // SAFETY: sites live for ever, and this thread owns the state.
        unsafe { (*site.cast::<Site>()).loaded = 0 };
    }
}

pub(crate) unsafe extern "C" fn on_compare_load(vcpu: c_uint, _: u32, _: u64, site: *mut c_void) {
    if !allowed(running(vcpu)) {
        return;
    }
    // SAFETY: sites live for ever, and this thread owns the state.
    let site = unsafe { &mut *site.cast::<Site>() };
    site.loaded += 1;
    if site.loaded == 2 {
        site.accesses[Repeat::Cmps as usize] += 1;
    }
}

pub(crate) unsafe extern "C" fn on_marker(vcpu: c_uint, site: *mut c_void) {
    if allowed(running(vcpu)) {
        // SAFETY: marker sites and blocks live for ever, and this thread owns the state.
        unsafe {
            let MarkerSite { block, index, marker } = &*site.cast::<MarkerSite>();
            plugin().mark(block, *index, *marker);
        }
    }
}

/// Called when QEMU makes a vCPU: a CPU of the machine, or a thread of a program.
pub(crate) fn on_vcpu(vcpu: c_uint) {
    // SAFETY: `start` came before any callback, and `one_vcpu` does not change.
    if refusal::in_user_mode() || unsafe { plugin().one_vcpu } {
        if vcpu > 0 {
            refusal::refuse(Refusal::Thread);
        }
        return;
    }
    if !owned() {
        // Each vCPU has its own thread.
        refusal::refuse(Refusal::Thread);
        return;
    }
    // SAFETY: this thread owns the state, and QEMU's variable lives as long as the thread.
    let plugin = unsafe { plugin() };
    let told = match api::current_cpu() {
        // SAFETY: as above.
        Some(current) => unsafe { plugin.vcpus.add(vcpu, current) },
        None => {
            Err("this QEMU does not export which of several CPUs runs (current_cpu): give the \
                     machine one CPU, or use QEMU 10.0 or 11.1"
                .into())
        }
    };
    // SAFETY: QEMU makes its vCPUs on the thread that runs them.
    if let Err(message) = told.and_then(|()| unsafe { rcu::keep_turns() }) {
        plugin.failure.get_or_insert(message);
    }
}

/// Called when QEMU discards all translated code; registered only with several vCPUs.
pub(crate) fn on_flush() {
    if owned() && !refusal::threads() {
        // SAFETY: this thread owns the state.
        unsafe { plugin().flushed() };
    }
}

/// Refuses a system call after which counts are wrong or lost.
fn refuse_system_call(numbers: &SystemCalls, number: i64, flags: u64, out: &Path) {
    match number {
        _ if number == numbers.clone && flags & CLONE_THREAD != 0 => {
            refusal::refuse(Refusal::Thread);
        }
        _ if number == numbers.clone || numbers.forks.contains(&number) => {
            refusal::refuse(Refusal::Child);
        }
        _ if numbers.execute.contains(&number) && refusal::is_first_process() => {
            // If the call succeeds, nothing of this process is left to report. If the call fails, the report at exit replaces this
            // one.
            write_error(
                out,
                "the program replaced itself by another (execve), which is not counted in user \
                 mode; name that program instead, or use --kernel to run it on a whole emulated \
                 machine",
            );
        }
        _ => {}
    }
}

/// Called when a system call begins; `arguments`: the first five.
pub(crate) fn on_system_call(vcpu: c_uint, number: i64, arguments: [u64; 5]) {
    if allowed(vcpu) {
        // SAFETY: this thread owns the state.
        let plugin = unsafe { plugin() };
        let [first, second, third, fourth, fifth] = arguments;
        plugin.system_calls += 1;
        let numbers = &plugin.target.system_calls;
        refuse_system_call(numbers, number, first, &plugin.arguments.out);
        if number == numbers.map {
            plugin.mapped.map(third, fifth);
            if fourth & MAP_SHARED != 0 {
                plugin.follow_cuts();
            }
        } else if numbers.cuts.contains(&number) {
            plugin.follow_cuts();
        } else if number == numbers.action {
            plugin.handle_signals(first, second);
        }
    }
}

/// Writes the report when the guest has ended.
///
/// # Safety
/// QEMU calls it once, when nothing else of the plugin runs any more.
pub(crate) unsafe fn on_exit() {
    // SAFETY: nothing else uses the state or the blocks any more.
    unsafe { plugin().write_report() };
}
