//! The command line.

#![forbid(unsafe_code)]

use anyhow::Result;
use opcost::cli::{Action, Cli, arguments, parsed, version};
use opcost::exit::{Status, in_words, status_of};
use opcost::{
    action, attach, command, diff, doctor, forget, history, import, kernel, listing, profile,
    report, selftest, size, top, work_process,
};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = arguments();
    let done = match version(&arguments) {
        Some(text) => action::show_version(&text),
        None => command::completions::answer().and_then(|answered| match answered {
            true => Ok(Status::Done),
            false => act(&parsed(arguments)),
        }),
    };
    let status = done.unwrap_or_else(|error| {
        eprintln!("opcost: {}", in_words(&error));
        status_of(&error).unwrap_or(Status::Missing)
    });
    ExitCode::from(status as u8)
}

fn act(cli: &Cli) -> Result<Status> {
    match &cli.action {
        Action::Compare(args) => action::compare(cli, args),
        Action::Forget(args) => forget::forget(cli, args),
        Action::Measure(args) => action::measure(cli, args),
        Action::Run(args) => action::run(cli, args),
        Action::Resume(args) => action::resume(cli, args),
        Action::Show(args) => action::show(cli, args),
        Action::Report(args) => report::report(cli, args),
        Action::Profile(args) => profile::profile(cli, args),
        Action::Diff(args) => diff::diff(cli, args),
        Action::History(args) => history::command::show(cli, args),
        Action::Import(args) => import::command::import(cli, args),
        Action::List(args) => listing::list(cli, args),
        Action::Kernel(args) => kernel::kernel(cli, args),
        Action::Attach(args) => attach::attach(cli, args),
        Action::Size(args) => size::size(cli, args),
        Action::Doctor(args) => doctor::doctor(cli, args),
        Action::Top(args) => top::top(cli, args),
        Action::Selftest(args) => selftest::selftest(cli, args),
        Action::Completions { shell } => command::completions::completions(*shell),
        Action::Man => command::man::man(),
        Action::AttachGuardian => attach::guard(),
        Action::WorkProcess => work_process::serve().map(|()| Status::Done),
    }
}
