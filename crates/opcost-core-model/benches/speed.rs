//! What the model costs: nanoseconds an instruction.
//!
//! `cargo bench -p opcost-core-model --bench speed` measures; run by `cargo test`, or with `--tiny`,
//! the same code goes through sizes that take a moment. Nothing is asserted about times.

fn main() {}
