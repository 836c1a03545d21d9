//! The part of QEMU's plugin API that counting needs, looked up by name when the plugin is loaded.
//!
//! QEMU exports these functions from its own executable (`include/qemu/qemu-plugin.h` of QEMU). The plugin looks them up with
//! `dlsym` instead of linking them. A QEMU without one of the functions then gets an error that names the function, and the unit
//! tests link without QEMU.
//!
//! The versions of the API differ in five places. This file and [`crate::events`] handle all of them:
//!
//! | version | QEMU | difference |
//! |---|---|---|
//! | 1 | 6.0 to 8.2 | QEMU adds to a plain address |
//! | 2 | 9.0 | QEMU adds to an entry of a scoreboard, one for each vCPU |
//! | 3 | 9.1 | `qemu_plugin_insn_data` copies; QEMU stores to an entry, and compares an entry before it calls |
//! | 7 | 11.1 | callbacks get the plugin's data instead of the plugin's id |
//!
//! QEMU compares the version that a plugin declares with the oldest and the newest version that QEMU offers, and calls all plugins
//! in the same way. One declared version therefore serves as long as QEMU accepts it. [`declared`] chooses the version.

use opcost_record::emulation::{API_NEWEST, API_VARIABLE};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first version with scoreboards.
const SCOREBOARDS: c_int = 2;
/// The first version whose `qemu_plugin_insn_data` copies.
const COPIES: c_int = 3;
/// The first version with conditional callbacks and inline stores.
const CONDITIONS: c_int = 3;
/// The first version whose callbacks get data instead of an id.
const DATA: c_int = 7;
/// The longest instruction (Intel SDM volume 2, section 2.3.11: 15 bytes), and one byte more.
const INSTRUCTION_BYTES_MAX: usize = 16;

/// The identifier of the plugin in calls to QEMU.
pub(crate) type Id = u64;
/// A callback that gets a vCPU's number and the data that it was registered with.
pub(crate) type ExecCallback = unsafe extern "C" fn(c_uint, *mut c_void);
/// A callback on a memory access, with the vCPU, QEMU's description of the access, the guest address and the data.
pub(crate) type MemoryCallback = unsafe extern "C" fn(c_uint, u32, u64, *mut c_void);
/// A callback whose type depends on the version of the API; see [`crate::events`].
pub(crate) type EventCallback = *const c_void;

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback reads and writes no registers.
pub(crate) const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_INLINE_ADD_U64`: the inline operation that all versions have.
const ADD: c_int = 0;
/// `QEMU_PLUGIN_INLINE_STORE_U64`.
const STORE: c_int = 1;
/// `QEMU_PLUGIN_COND_NE`.
const DIFFERS: c_int = 3;
/// `QEMU_PLUGIN_MEM_R`, `_W`, `_RW`.
pub(crate) const READ: c_int = 1;
/// See [`READ`].
pub(crate) const WRITE: c_int = 2;
/// See [`READ`].
pub(crate) const READ_WRITE: c_int = 3;

/// `qemu_info_t`: QEMU's description of itself.
#[repr(C)]
pub struct Info {
    /// Name of the emulated architecture.
    pub(crate) target_name: *const c_char,
    /// Oldest version of the API that QEMU offers.
    pub(crate) version_min: c_int,
    /// Newest version of the API that QEMU offers.
    pub(crate) version_now: c_int,
    /// Whether a whole machine is emulated.
    pub(crate) system_emulation: bool,
    /// Number of vCPUs at start.
    pub(crate) vcpus: c_int,
    /// Number of vCPUs at most.
    pub(crate) vcpus_max: c_int,
}

/// `qemu_plugin_u64`: an entry of a scoreboard.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Entry {
    scoreboard: *mut c_void,
    offset: usize,
}

unsafe extern "C" {
    // POSIX; std links the C library, which has this function.
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

macro_rules! functions {
    ($(#[$of:meta])* $table:ident; $($field:ident: $name:literal, fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(#[$of])*
        pub(crate) struct $table {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            fn find() -> Result<$table, String> {
                Ok($table {$(
                    $field: {
                        let found = look_up($name)?;
                        // SAFETY: the name is that of a C function of this type in the versions
                        // of the API for which the table is looked up.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(found)
                        }
                    },
                )*})
            }
        }
    };
}

functions! {
    /// The functions that all versions have.
    Functions;
    on_translation: c"qemu_plugin_register_vcpu_tb_trans_cb", fn(Id, EventCallback, *mut c_void);
    on_block: c"qemu_plugin_register_vcpu_tb_exec_cb", fn(*mut c_void, ExecCallback, c_int, *mut c_void);
    on_instruction: c"qemu_plugin_register_vcpu_insn_exec_cb", fn(*mut c_void, ExecCallback, c_int, *mut c_void);
    on_memory: c"qemu_plugin_register_vcpu_mem_cb", fn(*mut c_void, MemoryCallback, c_int, c_int, *mut c_void);
    on_vcpu: c"qemu_plugin_register_vcpu_init_cb", fn(Id, EventCallback, *mut c_void);
    on_exit: c"qemu_plugin_register_atexit_cb", fn(Id, EventCallback, *mut c_void);
    on_flush: c"qemu_plugin_register_flush_cb", fn(Id, EventCallback, *mut c_void);
    on_system_call: c"qemu_plugin_register_vcpu_syscall_cb", fn(Id, EventCallback, *mut c_void);
    block_length: c"qemu_plugin_tb_n_insns", fn(*const c_void) -> usize;
    block_address: c"qemu_plugin_tb_vaddr", fn(*const c_void) -> u64;
    instruction: c"qemu_plugin_tb_get_insn", fn(*const c_void, usize) -> *mut c_void;
    instruction_size: c"qemu_plugin_insn_size", fn(*const c_void) -> usize;
    instruction_host_address: c"qemu_plugin_insn_haddr", fn(*const c_void) -> *const u8;
    memory_is_store: c"qemu_plugin_mem_is_store", fn(u32) -> bool;
    memory_size_shift: c"qemu_plugin_mem_size_shift", fn(u32) -> c_uint;
}

functions! {
    /// Inline additions of version 1: object, operation, address, number.
    PlainAdds;
    at_block: c"qemu_plugin_register_vcpu_tb_exec_inline", fn(*mut c_void, c_int, *mut c_void, u64);
    at_instruction: c"qemu_plugin_register_vcpu_insn_exec_inline", fn(*mut c_void, c_int, *mut c_void, u64);
    at_memory: c"qemu_plugin_register_vcpu_mem_inline", fn(*mut c_void, c_int, c_int, *mut c_void, u64);
}

functions! {
    /// Inline additions of version 2 and later: object, operation, entry, number.
    EntryAdds;
    at_block: c"qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu", fn(*mut c_void, c_int, Entry, u64);
    at_instruction: c"qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu", fn(*mut c_void, c_int, Entry, u64);
    at_memory: c"qemu_plugin_register_vcpu_mem_inline_per_vcpu", fn(*mut c_void, c_int, c_int, Entry, u64);
    new_scoreboard: c"qemu_plugin_scoreboard_new", fn(usize) -> *mut c_void;
    find: c"qemu_plugin_scoreboard_find", fn(*mut c_void, c_uint) -> *mut u8;
}

functions! {
    /// The conditional callback of version 3 and later, which QEMU runs when a block begins: block, callback, flags, condition,
    /// entry, the number that the entry is compared with, data. Inline operations may store from this version on.
    Conditions;
    call_if: c"qemu_plugin_register_vcpu_tb_exec_cond_cb",
        fn(*mut c_void, ExecCallback, c_int, c_int, Entry, u64, *mut c_void);
}

functions! {
    /// The bytes of an instruction up to version 2: QEMU lends them until the callback returns.
    LentCode;
    bytes: c"qemu_plugin_insn_data", fn(*const c_void) -> *const u8;
}

functions! {
    /// The bytes of an instruction from version 3 on: instruction, destination, maximum number of bytes.
    CopiedCode;
    bytes: c"qemu_plugin_insn_data", fn(*const c_void, *mut c_void, usize) -> usize;
}

/// The way in which QEMU hands over an instruction's bytes.
enum Codes {
    Lent(LentCode),
    Copied(CopiedCode),
}

/// The way in which QEMU adds to a cell of the plugin.
enum Adds {
    Plain(PlainAdds),
    /// QEMU adds to an entry of this scoreboard.
    Entry(EntryAdds, *mut c_void, Option<Conditions>),
}

/// The things that QEMU does by itself when a block begins, in this order.
pub(crate) struct Beginning<'a> {
    /// A cell and its expected number. If the cell holds another number, QEMU calls `call` with its data.
    pub(crate) unless: (*mut u64, u64),
    pub(crate) call: (ExecCallback, *mut c_void),
    /// Cells and the numbers added to them.
    pub(crate) adds: &'a [(*mut u64, u64)],
    /// Cells and the numbers stored to them.
    pub(crate) stores: &'a [(*mut u64, u64)],
}

/// The bytes of one instruction.
#[derive(Clone, Copy)]
pub(crate) struct Code {
    bytes: [u8; INSTRUCTION_BYTES_MAX],
    length: usize,
}

impl Code {
    /// Returns as many bytes as the instruction has.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// QEMU's functions, as this version of the API offers them.
pub(crate) struct Api {
    pub(crate) functions: Functions,
    adds: Adds,
    codes: Codes,
    /// Whether callbacks get data instead of an id.
    pub(crate) data: bool,
    /// The number of the vCPU that translates. QEMU takes this vCPU for the running one.
    translating: AtomicUsize,
}

// SAFETY: QEMU keeps the scoreboard for as long as QEMU runs, and locks it to change it.
unsafe impl Sync for Api {}
// SAFETY: as above.
unsafe impl Send for Api {}

impl Api {
    fn find(version: c_int) -> Result<Api, String> {
        let functions = Functions::find()?;
        let codes = match version < COPIES {
            true => Codes::Lent(LentCode::find()?),
            false => Codes::Copied(CopiedCode::find()?),
        };
        let adds = if version < SCOREBOARDS {
            Adds::Plain(PlainAdds::find()?)
        } else {
            let adds = EntryAdds::find()?;
            // SAFETY: the plugin is being installed, which QEMU requires of the caller. For elements of one byte see `entry`.
            let scoreboard = unsafe { (adds.new_scoreboard)(1) };
            let conditions = (version >= CONDITIONS).then(Conditions::find).transpose()?;
            Adds::Entry(adds, scoreboard, conditions)
        };
        let translating = AtomicUsize::new(0);
        Ok(Api { functions, adds, codes, data: version >= DATA, translating })
    }

    /// Notes that a vCPU translates. QEMU puts the vCPU's number into all code that it translates until the next call.
    pub(crate) fn set_translating(&self, vcpu: u32) {
        self.translating.store(vcpu as usize, Ordering::Relaxed);
    }

    /// Returns the entry of a scoreboard whose address is a cell of the plugin.
    ///
    /// QEMU adds at the scoreboard's base + vCPU × element size + offset. Where guest code runs on one thread, QEMU takes the
    /// number of the vCPU that *translates*. With elements of one byte an offset reaches every address, whichever vCPU translates.
    ///
    /// # Safety
    /// A callback of QEMU is running: the first vCPU exists, and QEMU has discarded code that it translated before the scoreboard
    /// moved.
    unsafe fn entry(&self, adds: &EntryAdds, scoreboard: *mut c_void, cell: *mut u64) -> Entry {
        // SAFETY: as the caller promises.
        let base = unsafe { (adds.find)(scoreboard, 0) } as usize;
        let translating = self.translating.load(Ordering::Relaxed);
        Entry { scoreboard, offset: (cell as usize).wrapping_sub(base).wrapping_sub(translating) }
    }

    /// Adds a number to a cell each time a block begins.
    ///
    /// # Safety
    /// `block` is QEMU's of the running callback, and `cell` lives for ever.
    pub(crate) unsafe fn add_at_block(&self, block: *mut c_void, cell: *mut u64, number: u64) {
        // SAFETY: as the caller promises.
        unsafe {
            match &self.adds {
                Adds::Plain(adds) => (adds.at_block)(block, ADD, cell.cast(), number),
                Adds::Entry(adds, scoreboard, _) => {
                    (adds.at_block)(block, ADD, self.entry(adds, *scoreboard, cell), number);
                }
            }
        }
    }

    /// Adds a number to a cell each time an instruction begins.
    ///
    /// # Safety
    /// `instruction` is QEMU's of the running callback, and `cell` lives for ever.
    pub(crate) unsafe fn add_at_instruction(
        &self,
        instruction: *mut c_void,
        cell: *mut u64,
        number: u64,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            match &self.adds {
                Adds::Plain(adds) => (adds.at_instruction)(instruction, ADD, cell.cast(), number),
                Adds::Entry(adds, scoreboard, _) => {
                    let entry = self.entry(adds, *scoreboard, cell);
                    (adds.at_instruction)(instruction, ADD, entry, number);
                }
            }
        }
    }

    /// Raises a cell to `next` each time an instruction begins. Uses a store if QEMU has inline stores, because a store takes fewer
    /// instructions than an addition.
    ///
    /// # Safety
    /// As for [`add_at_instruction`](Self::add_at_instruction); when the instruction begins, the cell holds `next` less one.
    pub(crate) unsafe fn step_at_instruction(
        &self,
        instruction: *mut c_void,
        cell: *mut u64,
        next: u64,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            match &self.adds {
                Adds::Entry(adds, scoreboard, Some(_)) => {
                    let entry = self.entry(adds, *scoreboard, cell);
                    (adds.at_instruction)(instruction, STORE, entry, next);
                }
                _ => self.add_at_instruction(instruction, cell, 1),
            }
        }
    }

    /// Has QEMU begin a block without calling the plugin; returns `false` if this QEMU cannot do so.
    ///
    /// # Safety
    /// `block` is QEMU's of the running callback; cells and data live for ever.
    pub(crate) unsafe fn begin_alone(&self, block: *mut c_void, beginning: &Beginning) -> bool {
        let Adds::Entry(adds, scoreboard, Some(conditions)) = &self.adds else { return false };
        let Beginning { unless: (cell, expected), call: (callback, data), .. } = *beginning;
        // SAFETY: as the caller promises. QEMU keeps the order of the registrations.
        unsafe {
            let entry = |cell| self.entry(adds, *scoreboard, cell);
            let entry_of = entry(cell);
            (conditions.call_if)(block, callback, NO_REGISTERS, DIFFERS, entry_of, expected, data);
            for (operation, cells) in [(ADD, beginning.adds), (STORE, beginning.stores)] {
                for (cell, number) in cells {
                    (adds.at_block)(block, operation, entry(*cell), *number);
                }
            }
        }
        true
    }

    /// Adds 1 to a cell at each access to memory that passes a filter.
    ///
    /// # Safety
    /// As for [`add_at_instruction`](Self::add_at_instruction).
    pub(crate) unsafe fn add_at_memory(
        &self,
        instruction: *mut c_void,
        filter: c_int,
        cell: *mut u64,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            match &self.adds {
                Adds::Plain(adds) => (adds.at_memory)(instruction, filter, ADD, cell.cast(), 1),
                Adds::Entry(adds, scoreboard, _) => {
                    let entry = self.entry(adds, *scoreboard, cell);
                    (adds.at_memory)(instruction, filter, ADD, entry, 1);
                }
            }
        }
    }

    /// Returns the bytes of an instruction.
    ///
    /// # Safety
    /// `instruction` is QEMU's of the running callback.
    pub(crate) unsafe fn code(&self, instruction: *const c_void) -> Code {
        let mut bytes = [0; INSTRUCTION_BYTES_MAX];
        // SAFETY: as the caller promises; QEMU lends as many bytes as it reports.
        let length = unsafe {
            let length = (self.functions.instruction_size)(instruction).min(bytes.len());
            match &self.codes {
                Codes::Lent(codes) => {
                    let lent = (codes.bytes)(instruction);
                    std::ptr::copy_nonoverlapping(lent, bytes.as_mut_ptr(), length);
                    length
                }
                Codes::Copied(codes) => {
                    (codes.bytes)(instruction, bytes.as_mut_ptr().cast(), length).min(length)
                }
            }
        };
        Code { bytes, length }
    }
}

pub(crate) fn look_up(name: &CStr) -> Result<*mut c_void, String> {
    find(name).ok_or_else(|| {
        let name = name.to_string_lossy();
        format!(
            "this QEMU has no function {name}: it was built without plugins or is not one that \
             opcost knows; use QEMU 7.2 to 11.1 with plugins"
        )
    })
}

/// Returns the address of a function or variable that QEMU exports.
pub(crate) fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a null handle is RTLD_DEFAULT, and the name ends with a zero byte.
    let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Returns QEMU's thread-local variable that names the running vCPU, as the calling thread sees the variable.
pub(crate) fn current_cpu() -> Option<*const *const c_void> {
    find(c"current_cpu").map(|found| found.cast_const().cast())
}

/// Returns an address in QEMU's buffer of translated code, if QEMU tells it.
pub(crate) fn translated_code() -> Option<usize> {
    let place = find(c"tcg_code_gen_epilogue")?.cast::<usize>();
    // SAFETY: the variable is a pointer to code (include/tcg/tcg.h), which QEMU sets before it translates.
    Some(unsafe { place.read() }).filter(|place| *place != 0)
}

/// `async_safe_run_on_cpu` of QEMU: vCPU, function, and a word for the function.
type Later = unsafe extern "C" fn(*const c_void, *mut c_void, u64);

/// Has QEMU discard all translated code, once the running vCPU left its block. Returns whether QEMU can.
pub(crate) fn discard_code() -> bool {
    let (Some(vcpu), Some(later), Some(flush)) =
        (current_cpu(), find(c"async_safe_run_on_cpu"), flush())
    else {
        return false;
    };
    // SAFETY: the function has this type in 7.2 to 11.1 (`run_on_cpu_data` is a union of one word; include/hw/core/cpu.h). It runs
    // the other function while no vCPU runs; an argument that the other function does not take stays in its register.
    unsafe {
        let later = std::mem::transmute::<*mut c_void, Later>(later);
        later(*vcpu, flush, 0);
    }
    true
}

/// Whether QEMU can discard all translated code.
pub(crate) fn discards_code() -> bool {
    flush().and(find(c"async_safe_run_on_cpu")).is_some()
}

/// `tb_flush` of QEMU.
fn flush() -> Option<*mut c_void> {
    find(c"tb_flush").or_else(|| find(c"tb_flush__exclusive_or_serial"))
}

/// Whether the program itself may write to the page of an address; `None` if this QEMU does not tell.
pub(crate) fn is_writable(address: u64) -> Option<bool> {
    /// `PAGE_WRITE` and `PAGE_WRITE_ORG` (include/exec/page-protection.h, before include/exec/cpu-all.h). QEMU takes the first away
    /// from pages whose code it translated.
    const WRITE: c_int = 0x02 | 0x10;
    page_flags(address).map(|flags| flags & WRITE != 0)
}

/// Whether a program may execute the page of an address; `None` if this QEMU does not tell.
pub(crate) fn is_executable(address: u64) -> Option<bool> {
    /// `PAGE_EXEC` (as above).
    const EXECUTE: c_int = 0x04;
    page_flags(address).map(|flags| flags & EXECUTE != 0)
}

/// QEMU's flags of a program's page.
fn page_flags(address: u64) -> Option<c_int> {
    type Flags = unsafe extern "C" fn(u64) -> c_int;
    static FLAGS: OnceLock<Option<Flags>> = OnceLock::new();
    let flags = (*FLAGS.get_or_init(|| {
        let found = find(c"page_get_flags")?;
        // SAFETY: the function has this type in 7.2 to 11.1.
        Some(unsafe { std::mem::transmute::<*mut c_void, Flags>(found) })
    }))?;
    // SAFETY: the function takes any address.
    Some(unsafe { flags(address) })
}

/// Returns the version to declare to the QEMU that loads the plugin.
///
/// QEMU does not name the versions that it offers before it compares. opcost therefore reads QEMU's refusal and passes the version
/// in [`API_VARIABLE`]. Without this variable, the exported functions distinguish version 1 from version 2.
pub(crate) fn declared() -> c_int {
    let said = std::env::var(API_VARIABLE).ok().and_then(|text| text.parse().ok());
    said.filter(|version| (1..=API_NEWEST).contains(version)).unwrap_or_else(|| {
        if find(c"qemu_plugin_scoreboard_new").is_some() { SCOREBOARDS } else { 1 }
    })
}

static API: OnceLock<Api> = OnceLock::new();

/// Looks up QEMU's functions; `version`: the newest version of the API that QEMU offers.
///
/// # Errors
/// QEMU lacks a function; the message names it.
pub(crate) fn load(version: c_int) -> Result<&'static Api, String> {
    let api = Api::find(version)?;
    Ok(API.get_or_init(|| api))
}

/// Returns the functions. [`load`] has succeeded before any callback runs.
pub(crate) fn api() -> &'static Api {
    API.get().expect("callbacks are registered after the functions were found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_qemu_is_refused() {
        for version in 1..=API_NEWEST {
            let message = load(version).err().unwrap();
            assert!(message.contains("no function qemu_plugin_"), "{message}");
        }
        assert_eq!(declared(), 1);
    }
}
