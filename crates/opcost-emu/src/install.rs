//! What QEMU finds when it loads the plugin.

use crate::api::{self, Id, Info};
use crate::arguments::Arguments;
use crate::attribution::Attribution;
use crate::callback;
use crate::core::{Core, nowhere};
use crate::{refusal, translate};
use opcost_record::symbols::Symbols;
use std::ffi::{CStr, c_char, c_int};

/// The version of the API that the plugin is for; QEMU reads it before anything is called.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU's name")]
pub static qemu_plugin_version: c_int = api::VERSION;

/// Sets the plugin up.
///
/// `id`: what QEMU calls it; `info`: what QEMU is; `count` and `values`: its arguments.
///
/// Result: 0, or -1 after a message on standard error, upon which QEMU ends.
///
/// # Safety
/// QEMU calls it, once, with pointers as its header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    count: c_int,
    values: *const *const c_char,
) -> c_int {
    // SAFETY: `info` is as the caller promises, and so is each of the `count` texts.
    let (info, texts) = unsafe {
        let text = |index| CStr::from_ptr(*values.add(index)).to_string_lossy().into_owned();
        (&*info, (0..usize::try_from(count).unwrap_or(0)).map(text).collect::<Vec<_>>())
    };
    // SAFETY: QEMU installs the plugin once, before it registers anything.
    match unsafe { install(id, info, &texts) } {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("opcost-emu: {message}");
            -1
        }
    }
}

unsafe fn install(id: Id, info: &Info, texts: &[String]) -> Result<(), String> {
    if info.version_min > api::VERSION || info.version_now < api::VERSION {
        return Err(format!(
            "this QEMU offers plugin API versions {} to {}, this plugin needs version {}: use QEMU \
             6.0 to 8.2",
            info.version_min,
            info.version_now,
            api::VERSION
        ));
    }
    // SAFETY: the name is a text that ends with a zero byte, as QEMU's header says.
    let target = unsafe { CStr::from_ptr(info.target_name) }.to_string_lossy();
    if target != "x86_64" {
        return Err(format!("this QEMU emulates {target}, this plugin counts x86_64 only"));
    }
    let arguments = Arguments::parse(texts, info.system_emulation)?;
    let symbols = match &arguments.symbols {
        None => Symbols::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read symbols {}: {error}", path.display()))?;
            Symbols::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?
        }
    };
    let api = api::load()?;
    refusal::start(!arguments.system);
    let user = !arguments.system;
    // SAFETY: this comes once and before any callback; the callbacks are of the types that the
    // functions take, and no data is passed that could die.
    unsafe {
        callback::start(Core::new(arguments, Attribution::new(symbols), nowhere()));
        (api.on_vcpu)(id, callback::on_vcpu);
        (api.on_translation)(id, translate::on_translation);
        (api.on_exit)(id, callback::on_exit, std::ptr::null_mut());
        if user {
            (api.on_system_call)(id, callback::on_system_call);
        }
    }
    Ok(())
}
