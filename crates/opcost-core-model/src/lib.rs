//! A dataflow model of an out-of-order core: instructions in, cycles and their causes out.
//!
//! A [`Core`] is a file of figures: widths, sizes, latencies and units by [`Class`] of instruction. [`Core::decode`] turns a block
//! of instructions into [`Code`], once. A [`Machine`] executes blocks in program order, with the addresses that they accessed, and
//! returns the [`Cycles`] of each block by cause. The model is one pass of integer arithmetic: equal streams give equal cycles on
//! every computer.
//!
//! | module | content |
//! |---|---|
//! | `class`, `code` | the class of each instruction, and the registers and memory that it reads and writes |
//! | `figures` | a core's file |
//! | `ports`, `queue` | execution units by cycle; queues that instructions leave out of order |
//! | `cache`, `lane`, `prefetch`, `memory` | caches, TLBs, bandwidth, prefetchers, lines on their way |
//! | `stores` | the store queue, and loads that find their values in it |
//! | `direction`, `target` | prediction of branches, of jumps and of returns |
//! | `machine` | the window, from fetch to retirement |
//!
//! The caller must pass blocks in the order of execution, and each block's accesses in program order. The model does not cover
//! wrong paths, alignment of code, write-backs, other cores and software prefetches.

#![forbid(unsafe_code)]

mod cache;
mod class;
mod code;
mod cycles;
mod direction;
mod figures;
mod lane;
mod machine;
mod memory;
mod ports;
mod prefetch;
mod queue;
mod ring;
mod stamp;
mod stores;
mod target;

pub use class::Class;
pub use code::Code;
pub use cycles::{CAUSES, Confidence, Cycles, Events, confidence};
pub use figures::{
    Caches, Core, CoreError, Dram, FirstLevel, Forward, Level, Prediction, Prefetch, Rename, Row,
    SecondTlb, TableGeometry, Translation, Width, Window,
};
pub use machine::{Access, Machine};
