//! The part of QEMU's plugin API that counting needs, looked up by name when the plugin is loaded.
//!
//! QEMU exports these functions from its own executable (`include/qemu/qemu-plugin.h` of QEMU,
//! API version 1: QEMU 4.2 to 8.2). They are looked up with `dlsym`, not linked, so that a QEMU
//! without one of them gets an error that names it, and so that the unit tests link without QEMU.
//!
//! Versions 2 (QEMU 9.0) and later took away `*_exec_inline` and `mem_inline` with a plain
//! address, and version 3 changed `qemu_plugin_insn_data`: the exact counting of this plugin hangs
//! on the former, so it declares version 1, and later QEMUs refuse to load it, saying so.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The version of the API that this plugin is written for.
pub(crate) const VERSION: c_int = 1;

/// Identifies the plugin in calls.
pub(crate) type Id = u64;
/// A callback that gets the plugin's id and a vCPU's number.
pub(crate) type VcpuCallback = unsafe extern "C" fn(Id, c_uint);
/// A callback that gets a vCPU's number and the data it was registered with.
pub(crate) type ExecCallback = unsafe extern "C" fn(c_uint, *mut c_void);
/// A callback on a memory access: vCPU, what it is, guest address, data.
pub(crate) type MemoryCallback = unsafe extern "C" fn(c_uint, u32, u64, *mut c_void);
/// A callback on a block that was translated.
pub(crate) type TranslationCallback = unsafe extern "C" fn(Id, *mut c_void);
/// A callback at exit.
pub(crate) type ExitCallback = unsafe extern "C" fn(Id, *mut c_void);
/// A callback on entry of a system call: id, vCPU, number, eight arguments.
pub(crate) type SystemCallCallback =
    unsafe extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback reads and writes no registers.
pub(crate) const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_INLINE_ADD_U64`: the one inline operation.
pub(crate) const ADD: c_int = 0;
/// `QEMU_PLUGIN_MEM_R`, `_W`, `_RW`.
pub(crate) const READ: c_int = 1;
/// See [`READ`].
pub(crate) const WRITE: c_int = 2;
/// See [`READ`].
pub(crate) const READ_WRITE: c_int = 3;

/// `qemu_info_t`: what QEMU says of itself.
#[repr(C)]
pub struct Info {
    /// Name of the emulated architecture.
    pub(crate) target_name: *const c_char,
    /// Oldest version of the API that QEMU offers.
    pub(crate) version_min: c_int,
    /// Newest version.
    pub(crate) version_now: c_int,
    /// Whether a whole machine is emulated.
    pub(crate) system_emulation: bool,
    /// Number of vCPUs at start.
    pub(crate) vcpus: c_int,
    /// Number of vCPUs at most.
    pub(crate) vcpus_max: c_int,
}

unsafe extern "C" {
    // POSIX; the C library that std links has it.
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

macro_rules! functions {
    ($($field:ident: $name:literal, fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// QEMU's functions.
        pub(crate) struct Api {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            fn find() -> Result<Api, String> {
                Ok(Api {$(
                    $field: {
                        let found = look_up($name)?;
                        // SAFETY: the name is that of a C function of this type in version 1 of
                        // the API, and `qemu_plugin_install` checked the version.
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
    on_translation: c"qemu_plugin_register_vcpu_tb_trans_cb", fn(Id, TranslationCallback);
    on_block: c"qemu_plugin_register_vcpu_tb_exec_cb", fn(*mut c_void, ExecCallback, c_int, *mut c_void);
    on_instruction: c"qemu_plugin_register_vcpu_insn_exec_cb", fn(*mut c_void, ExecCallback, c_int, *mut c_void);
    add_at_instruction: c"qemu_plugin_register_vcpu_insn_exec_inline", fn(*mut c_void, c_int, *mut c_void, u64);
    on_memory: c"qemu_plugin_register_vcpu_mem_cb", fn(*mut c_void, MemoryCallback, c_int, c_int, *mut c_void);
    add_at_memory: c"qemu_plugin_register_vcpu_mem_inline", fn(*mut c_void, c_int, c_int, *mut c_void, u64);
    on_vcpu: c"qemu_plugin_register_vcpu_init_cb", fn(Id, VcpuCallback);
    on_exit: c"qemu_plugin_register_atexit_cb", fn(Id, ExitCallback, *mut c_void);
    on_system_call: c"qemu_plugin_register_vcpu_syscall_cb", fn(Id, SystemCallCallback);
    block_length: c"qemu_plugin_tb_n_insns", fn(*const c_void) -> usize;
    block_address: c"qemu_plugin_tb_vaddr", fn(*const c_void) -> u64;
    instruction: c"qemu_plugin_tb_get_insn", fn(*const c_void, usize) -> *mut c_void;
    instruction_bytes: c"qemu_plugin_insn_data", fn(*const c_void) -> *const u8;
    instruction_size: c"qemu_plugin_insn_size", fn(*const c_void) -> usize;
    instruction_host_address: c"qemu_plugin_insn_haddr", fn(*const c_void) -> *const u8;
    memory_is_store: c"qemu_plugin_mem_is_store", fn(u32) -> bool;
    memory_size_shift: c"qemu_plugin_mem_size_shift", fn(u32) -> c_uint;
}

fn look_up(name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: a null handle is RTLD_DEFAULT, and the name ends with a zero byte.
    let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    if found.is_null() {
        let name = name.to_string_lossy();
        return Err(format!(
            "this QEMU has no function {name}: it was built without plugins or is not one that \
             opcost knows; use QEMU 6.0 to 8.2 with plugins"
        ));
    }
    Ok(found)
}

static API: OnceLock<Api> = OnceLock::new();

/// Looks up QEMU's functions.
///
/// # Errors
/// QEMU lacks one; the message names it.
pub(crate) fn load() -> Result<&'static Api, String> {
    let api = Api::find()?;
    Ok(API.get_or_init(|| api))
}

/// The functions, after [`load`] succeeded: no callback runs before.
pub(crate) fn api() -> &'static Api {
    API.get().expect("callbacks are registered after the functions were found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_qemu_is_refused() {
        let message = load().err().unwrap();
        assert!(message.contains("no function qemu_plugin_"), "{message}");
    }
}
