//! Finds the vCPU that runs, where there are several.
//!
//! QEMU tells callbacks a vCPU's number. With all vCPUs on one thread it is the number of the one that
//! *translated* the code (`gen_udata_cb` and `gen_plugin_u64_ptr` in accel/tcg/plugin-gen.c take a
//! constant unless CF_PARALLEL is set). QEMU's own variable `current_cpu` (include/hw/core/cpu.h) says
//! which one runs: it holds an address, and QEMU makes one vCPU after the other, so that the plugin
//! learns which number belongs to which address.

use std::ffi::c_void;
use std::ptr;

/// The most vCPUs that are told apart.
pub(crate) const VCPUS_MAX: usize = 8;

/// The vCPUs of the thread that runs them.
pub(crate) struct Vcpus {
    /// QEMU's variable; `None` until a vCPU was made.
    current: Option<*const *const c_void>,
    /// What it holds while each runs, by number.
    known: [*const c_void; VCPUS_MAX],
    /// The number that was found last.
    last: u32,
}

impl Vcpus {
    /// None is known yet.
    pub(crate) fn new() -> Vcpus {
        Vcpus { current: None, known: [ptr::null(); VCPUS_MAX], last: 0 }
    }

    /// A vCPU is made, and is the current one.
    ///
    /// `current`: QEMU's variable, as the calling thread has it.
    ///
    /// # Errors
    /// The variable does not tell it from the others.
    ///
    /// # Safety
    /// `current` may be read for as long as the calling thread lives.
    pub(crate) unsafe fn add(
        &mut self,
        vcpu: u32,
        current: *const *const c_void,
    ) -> Result<(), String> {
        // SAFETY: as the caller promises.
        let now = unsafe { *current };
        let place = self.known.get_mut(vcpu as usize).ok_or_else(|| {
            format!("the machine has more than {VCPUS_MAX} CPUs; give it {VCPUS_MAX} at most")
        })?;
        *place = now;
        self.current = Some(current);
        let times = self.known.iter().filter(|known| **known == now).count();
        if now.is_null() || times > 1 {
            return Err(
                "this QEMU does not say which of several CPUs runs (current_cpu): give the \
                        machine one CPU, or use QEMU 10.0 or 11.1"
                    .into(),
            );
        }
        Ok(())
    }

    /// The number of the one that runs.
    #[inline(always)]
    pub(crate) fn running(&mut self) -> u32 {
        // SAFETY: `add` took the variable, and no code of the guest runs before.
        let now = unsafe { self.current.map_or(ptr::null(), |current| *current) };
        if self.known[self.last as usize] != now {
            self.find(now);
        }
        self.last
    }

    #[inline(never)]
    fn find(&mut self, now: *const c_void) {
        if let Some(place) = self.known.iter().position(|known| *known == now) {
            self.last = place as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcpus_are_told_apart_by_what_the_variable_holds() {
        let (one, other) = (0u8, 1u8);
        let pointers = [ptr::from_ref(&one).cast(), ptr::from_ref(&other).cast::<c_void>()];
        let mut current = Box::new(pointers[0]);
        let mut vcpus = Vcpus::new();
        let mut add = |vcpu, pointer| {
            *current = pointer;
            // SAFETY: the box lives to the end of the test.
            unsafe { vcpus.add(vcpu, &raw const *current) }
        };
        add(0, pointers[0]).unwrap();
        assert!(add(1, pointers[0]).unwrap_err().contains("current_cpu"));
        assert!(add(1, ptr::null()).unwrap_err().contains("current_cpu"));
        add(1, pointers[1]).unwrap();
        assert!(add(8, pointers[1]).unwrap_err().contains("more than 8"));
        for (vcpu, pointer) in
            [(0, pointers[0]), (1, pointers[1]), (1, pointers[1]), (0, pointers[0])]
        {
            *current = pointer;
            assert_eq!(vcpus.running(), vcpu);
        }
    }
}
