//! Marker instructions, which tell the emulator where a region starts and stops, and a run ends.

use crate::work::Meter;
use opcost_record::marker::{MAGIC, RUN_END, START, STOP};
use opcost_record::{TWIN, WORK};
use opcost_sys::marker::mark;

/// Marks regions for the emulator; on hardware, a meter that counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Markers;

impl Markers {
    /// Ends a run of several: what its regions cost is reported by itself.
    #[inline]
    pub fn end_run(&mut self) {
        mark::<RUN_END>();
    }
}

impl Meter for Markers {
    #[inline]
    fn start(&mut self, region: &'static str) {
        match region {
            WORK => mark::<START>(),
            TWIN => mark::<{ START | 1 }>(),
            // A displacement with no region's number: the emulator counts nothing.
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

    #[test]
    fn markers_can_be_executed_anywhere() {
        let mut meter = Markers;
        for region in [WORK, TWIN, "another"] {
            meter.start(region);
            meter.stop(region);
        }
        meter.end_run();
    }
}
