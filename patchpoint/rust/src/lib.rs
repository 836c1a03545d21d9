//! Code that depends on a setting does not test it each time: a change of the setting rewrites the code.
//!
//! A *key* is a static that changes rarely: the implementation of an operation ([`Call`]), a
//! number or pointer ([`Value`]), a yes/no question ([`Branch`]) or a question with more answers ([`Switch`]). A *site* is
//! a place in code that depends on a key. On x86-64 Linux a site is exactly one instruction, and changing the key
//! rewrites that instruction in the running program, safely with threads:
//!
//! | site | as compiled | patched |
//! |---|---|---|
//! | [`call!`] | `call *KEY(%rip)` | a direct call, or what a trivial function does: nothing, a move, a constant |
//! | [`value!`] | `mov KEY(%rip),%eax` | `mov $5,%eax` |
//! | [`likely!`], [`unlikely!`] | a jump to code that tests the key | a nop, or a jump to the other side |
//! | [`switch!`] | a jump to code that compares the key | a nop, or a jump to the way that the key names |
//!
//! [`variants!`] compiles a function once for each combination of its keys, and binds its callers to the right one.
//!
//! On arm64 Linux calls, branches and switches are sites, too; values are loads, and [`call_saved!`] is [`call!`].
//!
//! The form as compiled is right at every moment. Elsewhere, and with the feature `portable`, sites
//! are plain loads, tests and indirect calls, and the same functions change the same keys.
//!
//! ```
//! use patchpoint::{Branch, Call, Transaction, Value};
//!
//! extern "C" fn rectangle(w: i64, h: i64) -> i64 { w * h }
//! extern "C" fn ellipse(w: i64, h: i64) -> i64 { w * h * 355 / 452 }
//!
//! static AREA: Call<extern "C" fn(i64, i64) -> i64> = Call::new(c"area", rectangle);
//! static LIMIT: Value<i32> = Value::new(c"limit", 100);
//! static TRACING: Branch = Branch::new(c"tracing", false);
//!
//! fn fits(w: i64, h: i64) -> bool {
//!     if patchpoint::unlikely!(TRACING) {
//!         eprintln!("fits({w}, {h})");
//!     }
//!     patchpoint::call!(AREA, w, h) <= patchpoint::value!(LIMIT).into()
//! }
//!
//! patchpoint::init()?; // optional: sites are patched from now on
//! assert!(!fits(10, 20));
//! LIMIT.set(157)?; // one key
//! let mut change = Transaction::new(); // or several, all or none
//! change.set_call(&AREA, ellipse).set_branch(&TRACING, true);
//! change.commit()?;
//! assert!(fits(10, 20));
//! # Ok::<(), patchpoint::Error>(())
//! ```
//!
//! # With C
//!
//! The crate holds the C library `patchpoint` (or links an installed one, see below), and sites
//! have its format, so a program's C and Rust files share one registry and one transaction. C sees
//! a Rust key by the name of its symbol, and Rust sees a C key by a declaration:
//!
//! ```
//! use patchpoint::{Branch, Value};
//!
//! // C: PATCHPOINT_DECLARE_VALUE(limit, int);
//! #[unsafe(export_name = "patchpoint_key_limit")]
//! static LIMIT: Value<i32> = Value::new(c"limit", 100);
//!
//! // C: PATCHPOINT_DEFINE_BRANCH(tracing, false);
//! unsafe extern "C" {
//!     #[link_name = "patchpoint_key_tracing"]
//!     safe static TRACING: Branch;
//! }
//! ```
//!
//! # What the caller does
//!
//! * SIGTRAP stays unblocked in threads that execute sites; a handler for it may be installed, and
//!   gets the traps that are not patchpoint's.
//! * Keys are not changed from a signal handler, nor in a child of `vfork`.
//! * Operations are `extern "C"` functions of up to six integers, truth values, thin pointers, `f32` and `f64`;
//!   an operation that panics ends the program, as any such function does. Operations must not rely on being called
//!   at their own address: where the body is one instruction, that instruction takes the place of the call.
//! * A site names its key by the path of a static, in a program or `cdylib`; keys are not shared
//!   with a Rust `dylib`.
//!
//! A site is no barrier, a change is a full barrier. The C library's guide, `docs/patchpoint.md` of the project,
//! describes what happens during a change, ways to write code, costs and limits.
//!
//! # Building
//!
//! A C compiler is needed. The environment variable `PATCHPOINT_LINK=installed` links a library
//! found by pkg-config instead of the one in the crate: the way for several shared objects of one
//! process to share transactions. Features: `portable` as described above; `ops` counts executions of
//! sites ([`Call::ops`]), atomically: use it for counting, not for timing.

#![warn(missing_docs)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("patchpoint's values have 8 bytes and need a 64-bit target");

mod abi;
mod alternative;
mod call;
mod error;
mod key;
mod place;
mod signature;
#[cfg(all(patchpoint_native, target_arch = "aarch64"))]
mod site_aarch64;
#[cfg(any(not(patchpoint_native), target_arch = "aarch64"))]
mod site_load;
#[cfg(patchpoint_native)]
mod site_native;
#[cfg(not(patchpoint_native))]
mod site_portable;
#[cfg(all(patchpoint_native, target_arch = "x86_64"))]
mod site_x86_64;
mod status;
mod transaction;
mod variants;
mod word;

#[doc(hidden)]
pub use abi::RawVariants;
pub use abi::{LENGTH_MAX, RawKey};
pub use alternative::Cpu;
pub use error::Error;
pub use key::{Branch, Call, Missing, Switch, Value};
pub use place::{Body, Form, Place, State, Unfit, body};
pub use signature::Signature;
#[cfg(patchpoint_native)]
#[doc(hidden)]
pub use site_native::seldom;
pub use status::{Kind, Site, Status, init, ops_add, sites, status};
pub use transaction::Transaction;
#[doc(hidden)]
pub use variants::{
    answer as __answer, combination as __combination, combinations as __combinations,
};
#[doc(hidden)]
pub use word::Registers;
pub use word::{Argument, Outcome, Word};
