//! `opcost man`: prints one page, with a section for each command.

use anyhow::{Context, Result};
use clap_mangen::Man;
use opcost_base::exit::Status;

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

/// Prints the manual page.
///
/// # Errors
/// Standard output cannot be written.
pub fn man(mut command: clap::Command) -> Result<Status> {
    command.build();
    // clap's section EXTRA contains the exit statuses.
    let mut text = rendered(|bytes| Man::new(command.clone()).render(bytes))?
        .replace(".SH EXTRA", ".SH EXIT STATUS");
    text += &sections("opcost", &command)?;
    text += ".SH EXAMPLES\n";
    text += &examples("opcost", &command);
    text += SURROUNDINGS;
    crate::command::output::print_bytes(text.as_bytes())?;
    Ok(Status::Done)
}

/// The subcommands of a command that are shown, with their whole names.
fn shown<'a>(above: &str, command: &'a clap::Command) -> Vec<(String, &'a clap::Command)> {
    let shown = |sub: &&clap::Command| !sub.is_hide_set() && sub.get_name() != "help";
    let named = |sub: &'a clap::Command| (format!("{above} {}", sub.get_name()), sub);
    command.get_subcommands().filter(shown).map(named).collect()
}

/// A section for each subcommand of a command; a subcommand that only groups others has none.
fn sections(above: &str, command: &clap::Command) -> Result<String> {
    let mut text = String::new();
    for (name, sub) in shown(above, command) {
        if sub.has_subcommands() {
            text += &sections(&name, sub)?;
            continue;
        }
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

/// The text behind the options in the help of each subcommand: examples, keys, statuses.
fn examples(above: &str, command: &clap::Command) -> String {
    let mut text = String::new();
    for (name, sub) in shown(above, command) {
        if let Some(after) = sub.get_after_help() {
            let verbatim = after.to_string().replace('\\', "\\e").replace('-', "\\-");
            let line = |line: &str| match line.starts_with(['.', '\'']) {
                true => format!("\\&{line}\n"),
                false => format!("{line}\n"),
            };
            let lines: String = verbatim.lines().map(line).collect();
            text += &format!(".SS {name}\n.nf\n{lines}.fi\n");
        }
        text += &examples(&name, sub);
    }
    text
}

fn rendered(render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<String> {
    let mut bytes = Vec::new();
    render(&mut bytes).context("manual page")?;
    String::from_utf8(bytes).context("manual page")
}
