//! `opcost man`: an overview, and a page for each command.

use anyhow::{Context, Result};
use clap::Args;
use clap_mangen::Man;
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_record::nearest::did_you_mean;
use std::fs;
use std::path::PathBuf;

/// The sections of the page that follow those of the commands.
const SURROUNDINGS: &str = "\
.SH FILES
.TP
\\fI$XDG_DATA_HOME/opcost/recordings.sqlite\\fR
Recordings; without the variable below \\fI~/.local/share\\fR. \\fB\\-\\-store\\fR and \\fBOPCOST_STORE\\fR name another file.
.TP
\\fI../share/opcost/experiments/\\fR, \\fI../share/opcost/kernels/\\fR
Experiments for \\fBopcost run NAME\\fR, and fragments for \\fBopcost kernel build\\fR; from the folder of the program.
.TP
\\fI../lib/opcost/\\fR
The emulator's plugin, the guest's first program and its kernel; from the folder of the program.
.TP
\\fI$XDG_CACHE_HOME/opcost/\\fR
Kernels, their symbols and the emulator's self\\-test; without the variable below \\fI~/.cache\\fR. All of it can be made again.
.TP
\\fI$TMPDIR/opcost\\-*\\fR
Files of the runs. opcost removes them at its end, and at its next start those of an opcost that was killed.
.TP
\\fI/usr/lib/debug/.build\\-id/\\fR, \\fI~/.debug/\\fR
Debug files and perf's cache, where functions of stripped or replaced programs get their names.
.TP
\\fI$DEBUGINFOD_CACHE_PATH\\fR, \\fI~/.cache/debuginfod_client/\\fR
Debug files that the client of debuginfod keeps.
.SH ENVIRONMENT
.TP
\\fBOPCOST_STORE\\fR
The file of recordings, as \\fB\\-\\-store\\fR.
.TP
\\fBOPCOST_LIBEXEC\\fR
The folder of the emulator's plugin, the guest's first program and its kernel, where they are neither beside opcost nor in \\fI../lib/opcost\\fR.
.TP
\\fBXDG_DATA_HOME\\fR, \\fBXDG_CACHE_HOME\\fR, \\fBHOME\\fR, \\fBTMPDIR\\fR
Where files are; see FILES.
.TP
\\fBDEBUGINFOD_URLS\\fR
Servers of debug files. If it is set, opcost asks them, by debuginfod\\-find, for those that are not here, and says so.
.TP
\\fBNO_COLOR\\fR
Not empty: no colour. So does \\fBTERM=dumb\\fR.
.TP
\\fBCOLUMNS\\fR
The width of tables, where standard output is no terminal or another width is wanted.
.TP
\\fBPATH\\fR
Where commands and tools such as qemu are found.
.SH SEE ALSO
.BR perf (1),
.BR perf_event_open (2),
.BR qemu (1)
";

/// The manual pages that are asked for.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// The command whose page is printed [default: the overview]
    #[arg(value_name = "COMMAND", conflicts_with = "folder")]
    pub command: Option<String>,

    /// Write all pages into this folder, opcost.1 and one for each command
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Prints a manual page, or writes all of them.
///
/// # Errors
/// Usage: there is no such command. Missing: standard output or the folder cannot be written.
pub fn man(args: &ManArgs, mut command: clap::Command) -> Result<Status> {
    command.build();
    if let Some(folder) = &args.folder {
        let all = shown("opcost", &command)
            .into_iter()
            .map(|(_, sub)| Ok((format!("opcost-{}.1", sub.get_name()), of_command(sub)?)));
        let overview = ("opcost.1".to_string(), overview(&command)?);
        for (name, text) in [overview].into_iter().chain(all.collect::<Result<Vec<_>>>()?) {
            let path = folder.join(name);
            fs::write(&path, text)
                .with_context(|| format!("cannot write '{}'", path.display()))
                .status(Status::Missing)?;
        }
        return Ok(Status::Done);
    }
    let text = match &args.command {
        None => overview(&command)?,
        Some(name) => {
            let commands = shown("opcost", &command);
            let found = commands.iter().find(|(_, sub)| sub.get_name() == name);
            let Some((_, sub)) = found else {
                let names = commands.iter().map(|(_, sub)| sub.get_name());
                let known = did_you_mean(name, names);
                return Err(fail(Status::Usage, format!("there is no command '{name}'{known}")));
            };
            of_command(sub)?
        }
    };
    opcost_command::output::print_bytes(text.as_bytes())?;
    Ok(Status::Done)
}

/// The page of opcost as a whole; each command's name leads to its own page.
fn overview(command: &clap::Command) -> Result<String> {
    // clap's section EXTRA contains the exit statuses.
    let text = rendered(|bytes| Man::new(command.clone()).render(bytes))?;
    Ok(text.replace(".SH EXTRA", ".SH EXIT STATUS") + SURROUNDINGS)
}

/// The page of a command, with a section for each of its own commands.
fn of_command(command: &clap::Command) -> Result<String> {
    let name = format!("opcost {}", command.get_name());
    let title = format!("opcost-{}", command.get_name());
    let man = Man::new(command.clone().name(&title).bin_name(&name)).title(title.to_uppercase());
    let mut text = rendered(|bytes| {
        man.render_title(bytes)?;
        man.render_name_section(bytes)
    })?;
    // clap's synopsis would list every flag.
    let usage = command.clone().bin_name(&name).render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace('-', "\\-");
    text += &format!(".SH SYNOPSIS\n.nf\n{}\n.fi\n", usage.replace("\n       ", "\n"));
    text += &match command.has_subcommands() {
        true => sections(&name, command)?,
        false => rendered(|bytes| man.render_options_section(bytes))?,
    };
    let examples = after_help(&name, command) + &examples(&name, command);
    if !examples.is_empty() {
        text += ".SH EXAMPLES\n";
        text += &examples;
    }
    Ok(text + ".SH SEE ALSO\n.BR opcost (1)\n")
}

/// The subcommands of a command that are shown, with their whole names.
fn shown<'a>(above: &str, command: &'a clap::Command) -> Vec<(String, &'a clap::Command)> {
    let shown = |sub: &&clap::Command| !sub.is_hide_set() && sub.get_name() != "help";
    let named = |sub: &'a clap::Command| (format!("{above} {}", sub.get_name()), sub);
    command.get_subcommands().filter(shown).map(named).collect()
}

/// A section for each subcommand of a command.
fn sections(above: &str, command: &clap::Command) -> Result<String> {
    let mut text = String::new();
    for (name, sub) in shown(above, command) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        text += &format!(".SH {}\n{about}\n", name.to_uppercase());
        let man = Man::new(sub.clone().name(name));
        // A command's own sections become parts of its section here.
        text += &rendered(|bytes| {
            man.render_synopsis_section(bytes)?;
            man.render_options_section(bytes)
        })?
        .replace(".SH ", ".SS ");
    }
    Ok(text)
}

/// The texts behind the options in the help of each subcommand.
fn examples(above: &str, command: &clap::Command) -> String {
    shown(above, command).into_iter().map(|(name, sub)| after_help(&name, sub)).collect()
}

/// The text behind the options in a command's help, as it stands there: examples, keys, statuses.
fn after_help(name: &str, command: &clap::Command) -> String {
    let Some(after) = command.get_after_help() else { return String::new() };
    let verbatim = after.to_string().replace('\\', "\\e").replace('-', "\\-");
    let line = |line: &str| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}\n"),
        false => format!("{line}\n"),
    };
    let lines: String = verbatim.lines().map(line).collect();
    format!(".SS {name}\n.nf\n{lines}.fi\n")
}

fn rendered(render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<String> {
    let mut bytes = Vec::new();
    render(&mut bytes).context("manual page")?;
    String::from_utf8(bytes).context("manual page")
}
