//! The integration tests of opcost-sys, in one program so that linking happens once.

mod files_used;
mod interrupt;
mod orphans;
mod perf_live;
mod perf_replay;
#[path = "../../../../patchpoint/tests/skip.rs"]
mod skip;
mod spawn;
mod transcript;
mod transcript_tests;
