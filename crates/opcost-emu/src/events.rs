//! QEMU's events, in both calling conventions of its versions.
//!
//! Up to version 6 of the API a callback gets the plugin's id as its first argument. From version 7 on a callback gets the data
//! that it was registered with as its last argument. Callbacks of running code are the same in all versions.

use crate::api::{Api, EventCallback, Id};
use crate::{callback, translate};
use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;

/// Registers the plugin for QEMU's events.
///
/// `user`: whether to register for system calls, which a machine does not report; `several`: whether there are several vCPUs.
///
/// # Safety
/// The plugin is being installed, and its state is set up.
pub(crate) unsafe fn register(id: Id, api: &Api, user: bool, several: bool) {
    let functions = &api.functions;
    let [vcpu, translation, exit, flush]: [EventCallback; 4] = if api.data {
        [data::on_vcpu as _, data::on_translation as _, data::on_exit as _, data::on_flush as _]
    } else {
        [id::on_vcpu as _, id::on_translation as _, id::on_exit as _, id::on_flush as _]
    };
    // SAFETY: the callbacks have the types that this version calls. Versions that take no data ignore the extra argument (System V
    // ABI: it is in a register). No callback uses its data.
    unsafe {
        (functions.on_vcpu)(id, vcpu, null_mut());
        (functions.on_translation)(id, translation, null_mut());
        (functions.on_exit)(id, exit, null_mut());
        if several {
            (functions.on_flush)(id, flush, null_mut());
        }
        if user {
            (functions.on_system_call)(id, id::on_system_call as _, null_mut());
        }
    }
}

/// The callbacks up to version 6.
mod id {
    use super::*;

    pub(super) unsafe extern "C" fn on_vcpu(_: Id, vcpu: c_uint) {
        callback::on_vcpu(vcpu);
    }

    pub(super) unsafe extern "C" fn on_translation(_: Id, block: *mut c_void) {
        // SAFETY: QEMU passes the block that it translates.
        unsafe { translate::on_translation(block) };
    }

    pub(super) unsafe extern "C" fn on_exit(_: Id, _: *mut c_void) {
        // SAFETY: QEMU calls this once, at its end.
        unsafe { callback::on_exit() };
    }

    pub(super) unsafe extern "C" fn on_flush(_: Id) {
        callback::on_flush();
    }

    pub(super) unsafe extern "C" fn on_system_call(
        _: Id,
        vcpu: c_uint,
        number: i64,
        first: u64,
        second: u64,
        third: u64,
        fourth: u64,
        fifth: u64,
        _: u64,
        _: u64,
        _: u64,
    ) {
        callback::on_system_call(vcpu, number, [first, second, third, fourth, fifth]);
    }
}

/// The callbacks from version 7 on.
mod data {
    use super::*;

    pub(super) unsafe extern "C" fn on_vcpu(vcpu: c_uint, _: *mut c_void) {
        callback::on_vcpu(vcpu);
    }

    pub(super) unsafe extern "C" fn on_translation(block: *mut c_void, _: *mut c_void) {
        // SAFETY: QEMU passes the block that it translates.
        unsafe { translate::on_translation(block) };
    }

    pub(super) unsafe extern "C" fn on_exit(_: *mut c_void) {
        // SAFETY: QEMU calls this once, at its end.
        unsafe { callback::on_exit() };
    }

    pub(super) unsafe extern "C" fn on_flush(_: *mut c_void) {
        callback::on_flush();
    }
}
