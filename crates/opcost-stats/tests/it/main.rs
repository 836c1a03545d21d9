//! The integration tests of opcost-stats: one program, so that it is linked once.

mod carry_over;
mod early;
mod noise;
mod observations;
mod recorded;
mod rival_rules;
mod rivals;
mod simulation;
mod stopping;
mod units;
