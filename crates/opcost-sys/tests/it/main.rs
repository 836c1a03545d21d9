//! The integration tests of opcost-sys: one program, so that it is linked once.

mod files_used;
mod interrupt;
mod orphans;
mod perf_live;
mod perf_replay;
mod spawn;
