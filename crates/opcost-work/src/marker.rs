//! Marker instructions: they tell the emulator where a region starts and stops, and where a run ends.

use crate::random::Random;
use crate::work::Meter;
use opcost_record::marker::{MAGIC, RUN_END, START, STOP};
use opcost_record::{TWIN, WORK};
use opcost_sys::deferred::{self, PHASES_NS};
use opcost_sys::marker::mark;

/// A meter that marks regions for the emulator; on hardware it counts nothing.
#[derive(Clone, Debug, Default)]
pub struct Markers {
    /// When regions begin within a tick of the clock; `None` waits for no deferred work.
    phases: Option<Random>,
}

impl Markers {
    /// Makes a meter for a guest, which waits for deferred work around each region. `seed` decides when the region begins within a
    /// tick of the guest's clock.
    pub fn seeded(seed: u64) -> Markers {
        Markers { phases: Some(Random::seeded(seed)) }
    }

    /// Ends one run of several; the emulator reports the cost of its regions separately.
    #[inline]
    pub fn end_run(&mut self) {
        mark::<RUN_END>();
    }
}

impl Meter for Markers {
    fn settle(&mut self) {
        if let Some(phases) = &mut self.phases {
            deferred::settle(phases.draw() % PHASES_NS);
        }
    }

    fn drain(&mut self) {
        if self.phases.is_some() {
            deferred::drain_marked();
        }
    }

    #[inline]
    fn start(&mut self, region: &'static str) {
        match region {
            WORK => mark::<START>(),
            TWIN => mark::<{ START | 1 }>(),
            // A displacement without a region's number: the emulator counts nothing.
            _ => mark::<{ MAGIC | 0xff }>(),
        }
    }

    #[inline]
    fn stop(&mut self, region: &'static str) {
        match region {
            WORK => mark::<STOP>(),
            TWIN => mark::<{ STOP | 1 }>(),
            _ => mark::<{ MAGIC | 0xff }>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::marker::{Marker, REGIONS};

    #[test]
    fn every_region_has_its_marker() {
        for (region, number) in REGIONS.iter().zip(0..) {
            assert_eq!(Marker::Start(region).displacement(), Some(START | number));
            assert_eq!(Marker::Stop(region).displacement(), Some(STOP | number));
        }
    }

    /// Returns the displacements of the first `N` markers in a function's code, in ascending order.
    #[cfg(target_arch = "x86_64")]
    fn displacements<const N: usize>(function: *const ()) -> [u32; N] {
        // SAFETY: code of this program, which is longer than these bytes.
        let code = unsafe { std::slice::from_raw_parts(function.cast::<u8>(), 2048) };
        let found = code.windows(7).filter_map(|bytes| {
            let displacement = bytes.strip_prefix(&opcost_record::marker::OPCODE)?;
            let displacement = u32::from_le_bytes(displacement.try_into().unwrap());
            (displacement & 0xffff_0000 == MAGIC).then_some(displacement)
        });
        let mut found: Vec<u32> = found.take(N).collect();
        found.sort_unstable();
        found.try_into().unwrap()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn each_end_of_a_region_executes_a_marker_of_its_own() {
        let mut meter = Markers::default();
        for region in [WORK, TWIN, "another"] {
            meter.start(region);
            meter.stop(region);
        }
        meter.end_run();
        let start: fn(&mut Markers, &'static str) = Meter::start;
        let stop: fn(&mut Markers, &'static str) = Meter::stop;
        let end: fn(&mut Markers) = Markers::end_run;
        assert_eq!(displacements(start as *const ()), [MAGIC | 0xff, START, START | 1]);
        assert_eq!(displacements(stop as *const ()), [MAGIC | 0xff, STOP, STOP | 1]);
        assert_eq!(displacements(end as *const ()), [RUN_END]);
    }
}
