//! The process that performs a workload: a fresh copy of this program for every run, or for all runs of a block whose variants are
//! code paths that the process exchanges.
//!
//! The process reads its request as JSON from one pipe and writes its [`Report`] to another. Arguments and
//! environment, and therefore the stack, are the same for every variant.
//!
//! **A pipe between opcost and a workload, not arguments.** The variants' parameters differ in length; as arguments they
//! would move one variant's stack and not the other's.

mod meter;

use crate::resolve::find_workload;
use anyhow::{Context, Result};
use meter::RegionMeter;
use opcost_base::exit::{Status, fail};
use opcost_model::plan::EventPlan;
use opcost_record::Report;
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
/// The file descriptor of the request.
pub const REQUEST_FD: RawFd = 3;
/// The file descriptor of the report.
pub const REPORT_FD: RawFd = 4;

/// The work to perform and the events to count.
#[derive(Debug, Deserialize, Serialize)]
pub struct Request<'a> {
    workload: Cow<'a, str>,
    params: Cow<'a, [(String, String)]>,
    seed: u64,
    events: Cow<'a, [EventPlan]>,
    /// The code paths to exchange, one for each run; empty for one run with the given parameters.
    paths: Cow<'a, [String]>,
    /// Whether the run is sampled, so that the span of the work must be reported.
    #[serde(default)]
    sampled: bool,
}

impl<'a> Request<'a> {
    /// A request for one run, or for one run of each code path.
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
    // Opened by name: the parent owns the descriptors and passes them at these numbers.
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
    let mut answer = Vec::new();
    if let Err(error) = perform(&text, &mut answer) {
        answer.extend(Report::encode_error(&format!("{error:#}")));
    }
    report.write_all(&answer).context("cannot send the report")
}

/// Performs a request; appends a report to `answer` for each complete run.
fn perform(text: &str, answer: &mut Vec<u8>) -> Result<()> {
    let request: Request<'_> =
        serde_json::from_str(text).context("the request is not understood")?;
    let spec = find_workload(&request.workload)?;
    let params = spec.resolve(&request.params)?;
    let kernel = Rc::new(LivePerf::default());
    let team = forks(spec, &params);
    let mut meter = RegionMeter::attach(&request.events, kernel, team, request.sampled)?;
    let seed = request.seed;
    let mut tell = |meter: &mut RegionMeter, done: Measured| {
        // A run in which a source failed does not count, and neither do later runs.
        if meter.failure.is_none() {
            let readings = meter.readings.drain(..).chain(done.figures).collect();
            let (ops, invariants) = (Some(done.ops), done.invariants);
            answer.extend(Report { ops, readings, invariants }.encode());
        }
    };
    let done = match request.paths.as_ref() {
        [] => measure(spec, &params, seed, &mut meter).map(|done| tell(&mut meter, done)),
        paths => measure_paths(spec, &params, seed, paths, &mut meter, &mut tell),
    };
    // The error's text includes its cause, which the chain of errors would repeat.
    done.map_err(|error| anyhow::anyhow!("{error}"))?;
    meter.failure.map_or(Ok(()), Err)
}
