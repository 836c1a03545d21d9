//! The symbols that QEMU looks for when it loads the plugin.

use crate::api::{self, Id, Info};
use crate::arguments::{Arguments, Window};
use crate::attribution::Attribution;
use crate::plugin::Plugin;
use crate::target::Target;
use crate::timing::Timing;
use crate::vcpu::VCPUS_MAX;
use crate::watching::Watching;
use crate::{callback, callgrind, events, main_loop, refusal};
use opcost_record::emulation::API_NEWEST;
use opcost_record::event::Watch;
use opcost_record::symbols::Symbols;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

/// The version of the API that the plugin declares. QEMU reads the version after it loaded the library and before it calls
/// anything.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU's name")]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// Runs while the library is loaded (System V ABI, chapter 5, "Initialization and Termination Functions"), before QEMU reads the
/// version; one library thus serves every QEMU.
#[used]
#[unsafe(link_section = ".init_array")]
static DECLARE: extern "C" fn() = declare;

extern "C" fn declare() {
    qemu_plugin_version.store(api::declared(), Ordering::Relaxed);
}

/// Sets the plugin up.
///
/// `id`: the plugin's identifier in calls to QEMU; `info`: QEMU's description of itself; `count` and `values`: the arguments.
///
/// Returns 0, or -1 after a message on standard error; QEMU then exits.
///
/// # Safety
/// QEMU calls this function once, with pointers as its header says.
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
    if info.version_min > API_NEWEST {
        return Err(format!(
            "this QEMU offers plugin API versions {} to {}, this plugin knows versions 1 to {}: use \
             QEMU 7.2 to 11.1",
            info.version_min, info.version_now, API_NEWEST
        ));
    }
    // SAFETY: the name is a text that ends with a zero byte, as QEMU's header says.
    let target = unsafe { CStr::from_ptr(info.target_name) }.to_string_lossy();
    let target = Target::named(&target)?;
    let word = texts.iter().find_map(|text| text.strip_prefix("callgrind="));
    if let Some(word) = word.filter(|_| !info.system_emulation) {
        // SAFETY: as the caller promises.
        return unsafe { callgrind::install(id, api::load(info.version_now)?, target, word) };
    }
    let arguments = Arguments::parse(texts, info.system_emulation)?;
    let symbols = match &arguments.symbols {
        None => Symbols::default(),
        Some(path) => {
            let bytes = std::fs::read(path)
                .map_err(|error| format!("cannot read symbols {}: {error}", path.display()))?;
            Symbols::decode(&bytes).map_err(|error| format!("{}: {error}", path.display()))?
        }
    };
    let watch = match &arguments.watch {
        None => None,
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|error| {
                format!("cannot read watched functions {}: {error}", path.display())
            })?;
            Some(Watch::decode(&bytes).map_err(|error| format!("{}: {error}", path.display()))?)
        }
    };
    let api = api::load(info.version_now)?;
    if api.data && !arguments.system {
        return Err(
            "programs without a kernel are counted with QEMU up to 11.0 only: use --kernel to \
                    run them on a whole emulated machine"
                .into(),
        );
    }
    if !target.is_modelled && (arguments.cycles.is_some() || arguments.model.is_some()) {
        return Err(format!(
            "no core that executes {} is modelled: count without cycles= and model=",
            target.qemu_name()
        ));
    }
    refusal::start(!arguments.system);
    let user = !arguments.system;
    // A second thread of a program is refused, so one vCPU is enough.
    let vcpus = if user { 1 } else { usize::try_from(info.vcpus_max).unwrap_or(1).max(1) };
    if vcpus > 1 && target.links() {
        return Err(format!(
            "the machine has {vcpus} CPUs, and on {} calls are followed on one only: give it one CPU",
            target.qemu_name()
        ));
    }
    if vcpus > VCPUS_MAX {
        return Err(format!("the machine has {vcpus} CPUs; give it {VCPUS_MAX} at most"));
    }
    let timing = match arguments.cycles.as_ref().or(arguments.model.as_ref()) {
        None => None,
        Some(_) if vcpus > 1 => {
            return Err("one core is modelled: give the machine one CPU".into());
        }
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read the core {}: {error}", path.display()))?;
            let core = opcost_core_model::Core::parse(&text)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let begun = arguments.window == Window::Whole;
            let one_in = arguments.cycles.as_ref().map(|_| arguments.one_in);
            Some(Timing::new(core, one_in, begun))
        }
    };
    // SAFETY: QEMU loads plugins before it starts a thread.
    let held = if user { Ok(()) } else { unsafe { main_loop::hold() } };
    if let (Err(why), 2..) = (held, vcpus) {
        return Err(format!("{why}; or give the machine one CPU"));
    }
    // SAFETY: this code runs once and before any callback.
    unsafe {
        let attribution = Attribution::new(symbols, vcpus);
        let watching = watch.map(|watch| Watching::new(&watch));
        callback::start(Plugin::new(target, arguments, attribution, timing, vcpus, watching));
        events::register(id, api, user, vcpus > 1);
    }
    Ok(())
}
