//! Tests of the repository itself: its sources, its manifests and its pages. script/test runs them by themselves, since every
//! change of a file is a change for them; all other tests read no Rust source and no page of the repository.

mod investigations;
mod patchpoint;
mod rooms;
mod tidy;
mod words;
