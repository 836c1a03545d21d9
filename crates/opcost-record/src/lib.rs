//! The results of a run: raw integers, their names, and the messages that carry them.
//!
//! Everything that measures (`opcost-sys`, `opcost-work`, the guest) and everything that reads
//! measurements (`opcost-stats`' callers, the store) shares this crate. The crate holds no derived
//! figure: no ratio, no mean, nothing scaled. A missing reading is absent, never zero.

#![forbid(unsafe_code)]

pub mod architecture;
pub mod channel;
pub mod disk;
pub mod emulation;
pub mod event;
pub mod file_image;
pub mod gauge;
pub mod leb128;
pub mod marker;
pub mod message;
pub mod metric;
pub mod nearest;
pub mod printable;
pub mod profile;
pub mod program_region;
mod record;
mod region;
pub mod request;
pub mod service;
pub mod steps;
pub mod symbols;

pub use architecture::Architecture;
pub use event::Event;
pub use metric::{Better, Domain, Family, Kind, METRICS, MetricKey, MetricRow, Unit, WORKLOAD};
pub use profile::{AddressCost, AddressCosts, Context, Function, Module, Profile, Transfer};
pub use record::{
    CountingTime, Dictionary, Failure, Invariant, MetricId, Outcome, Reading, Record, Report,
    Sample,
};
pub use region::{TWIN, WORK};
