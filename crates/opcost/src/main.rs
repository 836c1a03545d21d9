//! The command line.

#![forbid(unsafe_code)]

use anyhow::Result;
use opcost::cli::{Action, Cli, arguments, command, first_screen, parsed, version, words};
use opcost::command::{
    attach, bench, callgrind, compare, completions, diff, doctor, export, forget, gather, history,
    import, kernel, list, man, measure, plan, profile, report, resume, run, selftest, show, size,
    submit, top,
};
use opcost::cure;
use opcost_base::exit::{Status, in_words, status_of};
use opcost_base::message::write;
use opcost_command::output;
use opcost_lab::work_process;
use opcost_revisions::{bisect, gate};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything of this process changes what the program inherits.
    if let Some(status) = callgrind::in_place_of_valgrind() {
        return ExitCode::from(status as u8);
    }
    // Without the handler, a full limit ends opcost without a word; with it, the write that failed is named.
    let _ = opcost_sys::file_size::report_as_error();
    let arguments = arguments();
    let words = words(&arguments);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match version(&arguments).or_else(|| first_screen(&words)) {
        Some(text) => output::show_text(&text),
        None => completions::answer(command).and_then(|answered| match answered {
            true => Ok(Status::Done),
            false => act(&parsed(arguments, &words)),
        }),
    };
    let status = done.unwrap_or_else(|error| {
        let said = in_words(&error);
        match cure::of_error(&error, &words) {
            Some(cure) => write(format_args!("{said}; {cure}")),
            None => write(format_args!("{said}")),
        }
        status_of(&error).unwrap_or(Status::Missing)
    });
    ExitCode::from(status as u8)
}

fn act(Cli { action, globals }: &Cli) -> Result<Status> {
    match action {
        Action::Compare(args) => compare::compare(globals, args),
        Action::Measure(args) => measure::measure(globals, args),
        Action::Run(args) => run::run(globals, args),
        Action::Plan(args) => plan::plan(globals, args),
        Action::Submit(args) => submit::submit(globals, args),
        Action::Gather(args) => gather::gather_parts(globals, args),
        Action::Gate(args) => gate::gate(globals, args),
        Action::Series(args) => gate::series::series(globals, args),
        Action::Bisect(args) => bisect::bisect(globals, args),
        Action::Resume(args) => resume::resume(globals, args),
        Action::Show(args) => show::show(globals, args),
        Action::Report(args) => report::report(globals, args),
        Action::Profile(args) => profile::profile(globals, args),
        Action::Diff(args) => diff::diff(globals, args),
        Action::Export(args) => export::export(globals, args),
        Action::Import(args) => import::import(globals, args),
        Action::History(args) => history::show(globals, args),
        Action::List(args) => list::list(globals, args),
        Action::Forget(args) => forget::forget(globals, args),
        Action::Kernel(args) => kernel::kernel(globals, args),
        Action::Attach(args) => attach::attach(globals, args),
        Action::Size(args) => size::size(globals, args),
        Action::Bench(args) => bench::bench(globals, args),
        Action::Callgrind(args) => callgrind::callgrind(args),
        Action::Top(args) => top::top(globals, args),
        Action::Doctor(args) => doctor::doctor(globals, args),
        Action::Selftest(args) => selftest::selftest(globals, args),
        Action::Completions { shell } => completions::completions(*shell),
        Action::Man(args) => man::man(args, command()),
        Action::AttachGuardian => attach::guard(),
        Action::WorkProcess => work_process::serve().map(|()| Status::Done),
    }
}
