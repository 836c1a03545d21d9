//! `opcost top`: shows what runs at this moment, function by function.
//!
//! The view (opcost-top) belongs to the cargo feature `top`: without it opcost takes the arguments and reports how to get `opcost top`.

#[cfg(feature = "top")]
mod view;

use anyhow::Result;
use clap::Args;
use opcost_base::exit::Status;
use opcost_command::globals::Globals;
use opcost_source::sampling::SamplingArgs;

/// The message of an opcost without the feature.
pub const LEFT_OUT: &str = "this opcost was built without opcost top: build it with the cargo \
                            feature top, which is there unless --no-default-features leaves it \
                            out, or sample with opcost profile";

/// Arguments of `opcost top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Look at one process and what it starts [default: the whole machine]
    #[arg(long, short = 'p', value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,

    /// Seconds between two looks
    #[arg(long, short = 'd', value_name = "N", default_value = "2", value_parser = opcost_command::seconds::seconds)]
    pub delay: f64,

    /// Print so many tables as text instead of taking over the terminal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub sampling: SamplingArgs,
}

/// `opcost top`.
///
/// # Errors
/// No terminal for the table, no such process, or no right to sample; in a build without the
/// feature, always.
#[cfg(feature = "top")]
pub fn top(globals: &Globals, args: &TopArgs) -> Result<Status> {
    view::view(globals, args)
}

/// `opcost top` in a build without it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "top"))]
pub fn top(_: &Globals, _: &TopArgs) -> Result<Status> {
    Err(opcost_base::exit::fail(Status::Missing, LEFT_OUT))
}
