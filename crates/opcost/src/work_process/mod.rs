//! The process that performs a workload: a fresh copy of this program for every run, or for the
//! runs of a block whose variants are code paths that it exchanges.
//!
//! Its request comes as JSON over one pipe and its report goes out in the wire format over
//! another, so that arguments and environment, and with them the stack, are the same for every
//! variant.

mod meter;

use crate::exit::{Status, fail};
use crate::plan::EventPlan;
use crate::resolve::find_workload;
use anyhow::{Context, Result};
use meter::RegionMeter;
use opcost_record::{Report, wire};
use opcost_sys::perf::LivePerf;
use opcost_work::{Measured, forks, measure, measure_paths};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::RawFd;
use std::rc::Rc;

/// The hidden subcommand.
pub const COMMAND: &str = "work-process";
/// Where the request comes from.
pub const REQUEST_FD: RawFd = 3;
/// Where the report goes.
pub const REPORT_FD: RawFd = 4;

/// What to perform and what to count meanwhile.
#[derive(Debug, Deserialize, Serialize)]
pub struct Request<'a> {
    workload: Cow<'a, str>,
    params: Cow<'a, [(String, String)]>,
    seed: u64,
    events: Cow<'a, [EventPlan]>,
    /// The code paths to exchange, one for each run; none: one run, of what the parameters say.
    paths: Cow<'a, [String]>,
    /// Whether the run is sampled, so that it has to be known when the work began.
    #[serde(default)]
    sampled: bool,
}

impl<'a> Request<'a> {
    /// A request for one run, or for one of each of some code paths.
    pub fn new(
        workload: &'a str,
        params: &'a [(String, String)],
        seed: u64,
        events: &'a [EventPlan],
        paths: &'a [String],
        sampled: bool,
    ) -> Self {
        Request {
            workload: Cow::Borrowed(workload),
            params: Cow::Borrowed(params),
            seed,
            events: Cow::Borrowed(events),
            paths: Cow::Borrowed(paths),
            sampled,
        }
    }
}

/// Performs one request; the exit status is 0 only if a report was sent.
pub fn serve() -> Result<()> {
    // Opened by name: the descriptors are our parent's, who passes them at these numbers.
    let open = |fd: RawFd, write: bool| {
        File::options().read(!write).write(write).open(format!("/proc/self/fd/{fd}"))
    };
    let (Ok(mut request), Ok(mut report)) = (open(REQUEST_FD, false), open(REPORT_FD, true)) else {
        return Err(fail(
            Status::Usage,
            format!("{COMMAND} is how opcost runs workloads; use opcost compare --workload NAME"),
        ));
    };
    let mut text = String::new();
    request.read_to_string(&mut text).context("cannot read the request")?;
    let mut answer = String::new();
    if let Err(error) = perform(&text, &mut answer) {
        answer += &wire::format_error(&format!("{error:#}"));
    }
    report.write_all(answer.as_bytes()).context("cannot send the report")
}

/// Performs a request; `answer` is given a report for each run that was done.
fn perform(text: &str, answer: &mut String) -> Result<()> {
    let request: Request<'_> =
        serde_json::from_str(text).context("the request is not understood")?;
    let spec = find_workload(&request.workload)?;
    let params = spec.resolve(&request.params)?;
    let kernel = Rc::new(LivePerf::default());
    let team = forks(spec, &params);
    let mut meter = RegionMeter::attach(&request.events, kernel, team, request.sampled)?;
    let seed = request.seed;
    let mut tell = |meter: &mut RegionMeter, done: Measured| {
        // One that a source failed in is no run, and neither is what comes after it.
        if meter.failure.is_none() {
            let readings = meter.readings.drain(..).chain(done.figures).collect();
            let (ops, invariants) = (Some(done.ops), done.invariants);
            *answer += &wire::format(&Report { ops, readings, invariants });
        }
    };
    let done = match request.paths.as_ref() {
        [] => measure(spec, &params, seed, &mut meter).map(|done| tell(&mut meter, done)),
        paths => measure_paths(spec, &params, seed, paths, &mut meter, &mut tell),
    };
    // Its text names its cause, which the chain of errors would repeat.
    done.map_err(|error| anyhow::anyhow!("{error}"))?;
    meter.failure.map_or(Ok(()), Err)
}
