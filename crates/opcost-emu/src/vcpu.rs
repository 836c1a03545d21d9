//! Finds the running vCPU where there are several.
//!
//! QEMU passes a vCPU's number to callbacks. With all vCPUs on one thread this is the number of the vCPU that *translated* the code
//! (`gen_udata_cb` and `gen_plugin_u64_ptr` in accel/tcg/plugin-gen.c take a constant unless CF_PARALLEL is set). QEMU's own
//! variable `current_cpu` (include/hw/core/cpu.h) names the running vCPU: it holds an address. QEMU makes one vCPU after the other,
//! so the plugin learns which number belongs to which address.
//!
//! **Several CPUs take turns, and a callback sees every block.** QEMU compiles the number of the translating CPU into its
//! calls and additions, so the plugin corrects each cell's place by that number, and reads QEMU's own variable to learn which
//! CPU runs (`vcpu.rs`). Conditions that QEMU checks by itself would not notice that another CPU has its turn. `rcu.rs` keeps
//! QEMU's own thread from ending turns by the host's clock.

use std::ffi::c_void;
use std::ptr;

/// The largest number of vCPUs.
pub(crate) const VCPUS_MAX: usize = 8;

/// The vCPUs of the thread that runs them.
pub(crate) struct Vcpus {
    /// QEMU's variable; `None` until QEMU made a vCPU.
    current: Option<*const *const c_void>,
    /// The variable's value while each vCPU runs, by number.
    known: [*const c_void; VCPUS_MAX],
    /// The last result.
    last: u32,
}

impl Vcpus {
    /// Makes the state in which no vCPU is known.
    pub(crate) fn new() -> Vcpus {
        Vcpus { current: None, known: [ptr::null(); VCPUS_MAX], last: 0 }
    }

    /// Learns the address of a new vCPU, which is the current one.
    ///
    /// `current`: QEMU's variable, as the calling thread sees it.
    ///
    /// # Errors
    /// The variable does not distinguish the vCPU from the others.
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

    /// Returns the number of the running vCPU.
    #[inline(always)]
    pub(crate) fn running(&mut self) -> u32 {
        // SAFETY: `add` took the variable, and no guest code runs before.
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
