//! Valgrind's options, one row each: what `opcost callgrind` does with it, or why not.

use crate::cache::Shape;
use crate::settings::{Log, Settings};
use std::ffi::{OsStr, OsString};

/// What happens to an option.
pub enum What {
    /// The option changes the settings; the error says what its value may be.
    Sets(fn(&mut Settings, &str) -> Result<(), String>),
    /// The option is taken and changes nothing, because of this.
    Nothing(&'static str),
    /// The option is taken with these values only, because of this.
    Only(&'static [&'static str], &'static str),
    /// The option is refused, because of this.
    Refused(&'static str),
    /// The version is printed.
    Version,
    /// The help is printed.
    Help,
}

/// An option of Valgrind.
pub struct Row {
    /// The spellings, without a value.
    pub names: &'static [&'static str],
    /// The value as the help shows it; empty if the option takes none.
    pub value: &'static str,
    /// What happens.
    pub what: What,
}

const fn row(names: &'static [&'static str], value: &'static str, what: What) -> Row {
    Row { names, value, what }
}

/// A row that sets a field to yes or no.
macro_rules! switch {
    ($name:literal, $field:ident) => {
        row(
            &[$name],
            "no|yes",
            What::Sets(|settings, value| {
                settings.$field = yes_or_no(value)?;
                Ok(())
            }),
        )
    };
}

/// A row that adds a value to a list.
macro_rules! function {
    ($name:literal, $field:ident) => {
        row(
            &[$name],
            "<function>",
            What::Sets(|settings, value| {
                settings.$field.push(filled(value)?);
                Ok(())
            }),
        )
    };
}

/// A row that sets the shape of a cache, and has caches simulated.
macro_rules! shape {
    ($name:literal, $place:literal) => {
        row(
            &[$name],
            "<size>,<ways>,<line>",
            What::Sets(|settings, value| {
                settings.caches[$place] = Shape::parse(value)?;
                settings.cache_sim = true;
                Ok(())
            }),
        )
    };
}

const NO_ERRORS: &str = "callgrind reports no errors of the program";
const NO_TRACES: &str = "callgrind prints no stack traces";
const NO_DEBUGGER: &str =
    "opcost has no debugger's server and does not listen for callgrind_control";
const EMULATOR: &str = "opcost runs the program with QEMU, which has no such limit";
const QEMU_SEES: &str = "QEMU notices changed code by itself";
const NO_HEAP: &str = "callgrind replaces no allocator";
const NO_FREERES: &str = "opcost adds no calls at the program's end";
const DEBUG_PLACES: &str =
    "opcost finds debug files by build id, .gnu_debuglink and DEBUGINFOD_URLS; install them there";
const NO_XML: &str = "callgrind writes no XML";

/// All options: Valgrind's of all tools, then callgrind's.
pub const OPTIONS: &[Row] = &[
    row(&["--tool"], "callgrind", What::Only(&["callgrind"], "opcost has callgrind only")),
    row(&["--version"], "", What::Version),
    row(&["-h", "--help", "--help-debug", "--help-dyn-options"], "", What::Help),
    row(
        &["-q", "--quiet"],
        "",
        What::Sets(|settings, _| {
            settings.quiet = true;
            Ok(())
        }),
    ),
    row(&["-v", "--verbose", "-d"], "", What::Nothing("there are no further messages")),
    switch!("--trace-children", trace_children),
    row(
        &["--trace-children-skip"],
        "<pattern>,...",
        What::Sets(|settings, value| {
            settings.trace_children_skip.extend(value.split(',').map(str::to_owned));
            Ok(())
        }),
    ),
    row(
        &["--trace-children-skip-by-arg"],
        "<pattern>,...",
        What::Sets(|settings, value| {
            settings.trace_children_skip_by_arg.extend(value.split(',').map(str::to_owned));
            Ok(())
        }),
    ),
    switch!("--child-silent-after-fork", child_silent_after_fork),
    row(&["--vgdb"], "no", What::Only(&["no"], NO_DEBUGGER)),
    row(
        &[
            "--vgdb-error",
            "--vgdb-stop-at",
            "--vgdb-poll",
            "--vgdb-shadow-registers",
            "--vgdb-prefix",
        ],
        "<value>",
        What::Refused(NO_DEBUGGER),
    ),
    row(&["--track-fds"], "no", What::Only(&["no"], "opcost lists no open files")),
    row(&["--time-stamp"], "no", What::Only(&["no"], "messages have no time")),
    row(
        &["--log-fd"],
        "<number>",
        What::Sets(|settings, value| {
            let number: Option<i32> = value.parse().ok().filter(|number| *number >= 0);
            settings.log =
                Log::Descriptor(number.ok_or("expected the number of an open file descriptor")?);
            Ok(())
        }),
    ),
    row(
        &["--log-file"],
        "<file>",
        What::Sets(|settings, value| {
            settings.log = Log::File(filled(value)?);
            Ok(())
        }),
    ),
    row(
        &["--log-socket"],
        "<address>",
        What::Refused("opcost opens no connection; use --log-file or --log-fd"),
    ),
    row(&["--xml"], "no", What::Only(&["no"], NO_XML)),
    row(
        &["--xml-fd", "--xml-file", "--xml-socket", "--xml-user-comment"],
        "<value>",
        What::Refused(NO_XML),
    ),
    switch!("--demangle", demangle),
    row(&["--num-callers", "--merge-recursive-frames"], "<number>", What::Nothing(NO_TRACES)),
    row(
        &["--error-limit", "--exit-on-first-error", "--show-error-list", "--default-suppressions"],
        "no|yes",
        What::Nothing(NO_ERRORS),
    ),
    row(&["--error-exitcode"], "<number>", What::Nothing(NO_ERRORS)),
    row(&["--error-markers", "--suppressions"], "<value>", What::Nothing(NO_ERRORS)),
    row(&["--gen-suppressions"], "no|yes|all", What::Nothing(NO_ERRORS)),
    row(&["-s"], "", What::Nothing(NO_ERRORS)),
    row(
        &["--keep-debuginfo"],
        "no|yes",
        What::Nothing("opcost names functions of unloaded libraries always"),
    ),
    switch!("--show-below-main", show_below_main),
    row(&["--input-fd"], "<number>", What::Nothing(NO_ERRORS)),
    row(&["--dsymutil"], "no|yes", What::Nothing("there are no files of Mac OS X")),
    row(
        &["--max-stackframe"],
        "<number>",
        What::Nothing("opcost follows calls by their return addresses"),
    ),
    row(
        &[
            "--main-stacksize",
            "--valgrind-stacksize",
            "--num-transtab-sectors",
            "--avg-transtab-entry-size",
            "--max-threads",
        ],
        "<number>",
        What::Nothing(EMULATOR),
    ),
    row(&["--aspace-minaddr"], "<address>", What::Nothing(EMULATOR)),
    row(&["--alignment", "--redzone-size"], "<number>", What::Nothing(NO_HEAP)),
    row(&["--xtree-memory"], "none", What::Only(&["none"], "opcost profiles no heap here")),
    row(
        &["--xtree-memory-file"],
        "<file>",
        What::Nothing("no heap is profiled, so the file is not written by Valgrind either"),
    ),
    row(&["--fullpath-after"], "<text>", What::Nothing(NO_TRACES)),
    row(&["--extra-debuginfo-path", "--debuginfo-server"], "<value>", What::Refused(DEBUG_PLACES)),
    row(
        &["--allow-mismatched-debuginfo"],
        "no",
        What::Only(&["no"], "a debug file of another build names wrong lines"),
    ),
    row(&["--smc-check"], "<value>", What::Nothing(QEMU_SEES)),
    row(&["--read-inline-info", "--read-var-info"], "no|yes", What::Nothing(NO_TRACES)),
    row(&["--run-libc-freeres", "--run-cxx-freeres"], "no|yes", What::Nothing(NO_FREERES)),
    row(
        &["--sim-hints", "--kernel-variant"],
        "none",
        What::Only(&["none"], "the hint is for Valgrind's own emulator"),
    ),
    row(
        &["--fair-sched"],
        "no|yes|try",
        What::Nothing("threads run at the same time, as the kernel schedules them"),
    ),
    row(
        &["--show-emwarns", "--sigill-diagnostics"],
        "no|yes",
        What::Nothing("QEMU delivers an illegal instruction to the program"),
    ),
    row(&["--require-text-symbol"], "<value>", What::Refused("opcost does not check for symbols")),
    row(&["--soname-synonyms"], "<value>", What::Nothing(NO_HEAP)),
    row(
        &["--unw-stack-scan-thresh", "--unw-stack-scan-frames"],
        "<number>",
        What::Nothing(NO_TRACES),
    ),
    row(
        &["--resync-filter"],
        "no|yes|verbose",
        What::Nothing("the kernel keeps the memory of the program"),
    ),
    row(
        &["--callgrind-out-file"],
        "<file>",
        What::Sets(|settings, value| {
            settings.out_file = filled(value)?;
            Ok(())
        }),
    ),
    switch!("--dump-line", dump_line),
    switch!("--dump-instr", dump_instr),
    switch!("--compress-strings", compress_strings),
    switch!("--compress-pos", compress_pos),
    switch!("--combine-dumps", combine_dumps),
    row(
        &["--dump-every-bb"],
        "0",
        What::Only(
            &["0"],
            "opcost dumps at functions and requests only; use --dump-before or --dump-after",
        ),
    ),
    function!("--dump-before", dump_before),
    function!("--zero-before", zero_before),
    function!("--dump-after", dump_after),
    switch!("--instr-atstart", instr_atstart),
    switch!("--collect-atstart", collect_atstart),
    row(
        &["--toggle-collect"],
        "<function>",
        What::Sets(|settings, value| {
            settings.toggle_collect.push(filled(value)?);
            // The first of the functions begins to collect (Callgrind manual, `--toggle-collect`).
            settings.collect_atstart = false;
            Ok(())
        }),
    ),
    // Programs give it for all runs (gungraun does), so the messages say what lacks.
    switch!("--collect-jumps", collect_jumps),
    row(
        &["--collect-bus"],
        "no",
        What::Only(&["no"], "opcost does not count accesses with a lock"),
    ),
    row(
        &["--collect-systime"],
        "no",
        What::Only(&["no"], "times differ from run to run; see opcost compare for times"),
    ),
    switch!("--separate-threads", separate_threads),
    row(
        &["--separate-callers"],
        "0",
        What::Only(
            &["0"],
            "opcost separates functions by their callers in opcost profile, not here",
        ),
    ),
    row(
        &["--separate-callers<n>"],
        "<function>",
        What::Refused("opcost separates functions by their callers in opcost profile, not here"),
    ),
    row(
        &["--separate-recs"],
        "<number>",
        What::Sets(|settings, value| {
            let number = value.parse().ok().filter(|number| (1..=1000).contains(number));
            settings.separate_recs = number.ok_or("expected a number from 1 to 1000")?;
            Ok(())
        }),
    ),
    row(
        &["--separate-recs<n>"],
        "<function>",
        What::Refused("recursions are separated for all functions alike; use --separate-recs"),
    ),
    switch!("--skip-plt", skip_plt),
    row(
        &["--skip-direct-rec"],
        "yes",
        What::Only(&["yes"], "a function that calls itself is separated by --separate-recs"),
    ),
    function!("--fn-skip", fn_skip),
    row(
        &["--branch-sim"],
        "no",
        What::Only(
            &["no"],
            "Valgrind's predictor is of 2004; opcost compare --cycles models branches of a current core",
        ),
    ),
    switch!("--cache-sim", cache_sim),
    row(&["--simulate-wb"], "no", What::Only(&["no"], "write-backs are not simulated")),
    row(&["--simulate-hwpref"], "no", What::Only(&["no"], "the prefetcher is not simulated")),
    row(&["--cacheuse"], "no", What::Only(&["no"], "the use of lines is not simulated")),
    shape!("--I1", 0),
    shape!("--D1", 1),
    shape!("--LL", 2),
];

fn yes_or_no(value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".into()),
    }
}

fn filled(value: &str) -> Result<String, String> {
    if value.is_empty() { Err("the value is empty".into()) } else { Ok(value.to_owned()) }
}

/// What a command line asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Asked {
    /// To run a program with its arguments.
    Run(Box<Settings>, OsString, Vec<OsString>),
    /// To print the version.
    Version,
    /// To print the help.
    Help,
}

/// A command line that cannot be followed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(pub String);

fn wrong<T>(text: String) -> Result<T, OptionError> {
    Err(OptionError(text))
}

/// Reads a command line.
///
/// `defaults`: options from `VALGRIND_OPTS` and `.valgrindrc`, which come first; those for other tools are left out; `arguments`: the
/// options, the program and its arguments; `needs_tool`: whether the tool must be named, since Valgrind's default is another.
///
/// # Errors
/// [`OptionError`]: an option that is unknown, refused or has a wrong value, or no program.
pub fn parse(
    defaults: &[String],
    arguments: &[OsString],
    needs_tool: bool,
) -> Result<Asked, OptionError> {
    let mut settings = Settings::default();
    let mut has_tool = !needs_tool;
    let mut take = |option: &str| -> Result<Option<Asked>, OptionError> {
        has_tool |= option.starts_with("--tool=");
        apply(&mut settings, option)
    };
    for option in defaults {
        let option = match option.strip_prefix("--").and_then(|rest| rest.split_once(':')) {
            Some(("callgrind", own)) => format!("--{}", own.trim_start_matches('-')),
            Some((tool, _)) if tool.bytes().all(|byte| byte.is_ascii_lowercase()) => continue,
            _ => option.clone(),
        };
        if option.starts_with("--tool=") {
            continue;
        }
        take(&option).map_err(|OptionError(why)| {
            OptionError(format!("VALGRIND_OPTS or .valgrindrc: {why}"))
        })?;
    }
    let mut rest = arguments.iter();
    let mut program = None;
    for argument in rest.by_ref() {
        if argument == "--" {
            program = rest.next();
            break;
        }
        if !argument.as_encoded_bytes().starts_with(b"-") {
            program = Some(argument);
            break;
        }
        let Some(option) = argument.to_str() else {
            return wrong(format!(
                "{} is not UTF-8; give options and names of files in UTF-8",
                shown(argument)
            ));
        };
        if let Some(asked) = take(option)? {
            return Ok(asked);
        }
    }
    if !has_tool {
        return wrong("valgrind's default tool is memcheck, which opcost does not have; give --tool=callgrind".into());
    }
    let Some(program) = program else {
        return wrong(
            "no program is given; write opcost callgrind [OPTIONS] PROGRAM [ARGUMENTS]".into(),
        );
    };
    Ok(Asked::Run(Box::new(settings), program.clone(), rest.cloned().collect()))
}

fn shown(text: &OsStr) -> String {
    opcost_record::printable::printable(&text.to_string_lossy())
}

/// Returns the row of an option's name.
fn find(name: &str) -> Option<&'static Row> {
    let numbered = name.trim_end_matches(|char: char| char.is_ascii_digit());
    let of_number = (numbered != name).then(|| format!("{numbered}<n>"));
    OPTIONS.iter().find(|row| {
        row.names.iter().any(|known| *known == name || Some(*known) == of_number.as_deref())
    })
}

fn apply(settings: &mut Settings, option: &str) -> Result<Option<Asked>, OptionError> {
    let (name, value) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    };
    let shown = shown(option.as_ref());
    let Some(row) = find(name) else {
        return wrong(format!(
            "{shown} is no option of Valgrind 3.19's callgrind that opcost knows; leave it out, or see opcost callgrind --help"
        ));
    };
    let value = match (row.value.is_empty(), value) {
        (true, None) => "",
        (true, Some(_)) => return wrong(format!("{shown}: {name} takes no value")),
        (false, Some(value)) => value,
        (false, None) => {
            return wrong(format!("{name} lacks its value; write {name}={}", row.value));
        }
    };
    match &row.what {
        What::Sets(set) => {
            set(settings, value).map_err(|why| OptionError(format!("{shown}: {why}")))?
        }
        What::Nothing(_) => {}
        What::Only(values, _) if values.contains(&value) => {}
        What::Only(values, why) => {
            return wrong(format!(
                "{shown} is not supported: {why}; {name} may be {}",
                values.join(" or ")
            ));
        }
        What::Refused(why) => return wrong(format!("{shown} is not supported: {why}")),
        What::Version => return Ok(Some(Asked::Version)),
        What::Help => return Ok(Some(Asked::Help)),
    }
    Ok(None)
}

/// The options as the help lists them: those that act, those that change nothing, and those that are refused.
pub fn help() -> String {
    use std::fmt::Write as _;
    let mut parts = [String::new(), String::new(), String::new()];
    for row in OPTIONS {
        let part = match row.what {
            What::Sets(_) | What::Version | What::Help => 0,
            What::Nothing(_) => 1,
            What::Only(..) | What::Refused(_) => 2,
        };
        let value = if row.value.is_empty() { String::new() } else { format!("={}", row.value) };
        for name in row.names {
            let _ = match &row.what {
                What::Only(_, why) | What::Refused(why) | What::Nothing(why) => {
                    let taken = if matches!(row.what, What::Refused(_)) {
                        name.to_string()
                    } else {
                        format!("{name}{value}")
                    };
                    writeln!(parts[part], "  {taken}\n      {why}")
                }
                _ => writeln!(parts[part], "  {name}{value}"),
            };
        }
    }
    let [acts, nothing, refused] = parts;
    format!(
        "Options of Valgrind's callgrind, as its manual describes them:\n{acts}\nTaken, without a change:\n{nothing}\nTaken with these \
         values only, or refused:\n{refused}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn settings(text: &str) -> Settings {
        match parse(&[], &words(&format!("{text} prog")), false) {
            Ok(Asked::Run(settings, ..)) => *settings,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn options_end_where_the_program_begins() {
        let asked = parse(&[], &words("--tool=callgrind -q prog --tool=none -q"), true);
        let settings = Settings { quiet: true, ..Settings::default() };
        assert_eq!(
            asked,
            Ok(Asked::Run(Box::new(settings), "prog".into(), words("--tool=none -q")))
        );
        let asked = parse(&[], &words("-- -odd"), false);
        assert_eq!(asked, Ok(Asked::Run(Box::default(), "-odd".into(), Vec::new())));
    }

    #[test]
    fn the_last_option_holds() {
        assert!(!settings("--toggle-collect=f --toggle-collect=g*").collect_atstart);
        assert!(settings("--toggle-collect=f --collect-atstart=yes").collect_atstart);
        assert!(settings("--I1=32768,8,64").cache_sim);
        assert!(!settings("--I1=32768,8,64 --cache-sim=no").cache_sim);
    }

    #[test]
    fn options_of_variable_and_files_come_first() {
        let defaults =
            ["--callgrind:dump-instr=yes", "--memcheck:leak-check=full", "-q", "--tool=memcheck"];
        let defaults = defaults.map(String::from);
        let asked = parse(&defaults, &words("--tool=callgrind --dump-instr=no prog"), true);
        let settings = Settings { quiet: true, ..Settings::default() };
        assert_eq!(asked, Ok(Asked::Run(Box::new(settings), "prog".into(), Vec::new())));
        let refused = parse(&["--vgdb=yes".into()], &words("prog"), false).unwrap_err().0;
        assert!(refused.starts_with("VALGRIND_OPTS or .valgrindrc: --vgdb=yes"), "{refused}");
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_reason() {
        for (line, why) in [
            ("--branch-sim=yes p", "--branch-sim=yes is not supported: Valgrind's predictor"),
            ("--separate-callers3=f p", "--separate-callers3=f is not supported"),
            ("--separate-callers=2 p", "may be 0"),
            ("--tool=memcheck p", "callgrind only"),
            ("--log-socket=1.2.3.4 p", "opens no connection"),
            ("--nonsense=1 p", "is no option"),
            ("--nonsense p", "is no option"),
            ("--dump-instr p", "write --dump-instr=no|yes"),
            ("--dump-instr=maybe p", "expected yes or no"),
            ("--quiet=yes p", "takes no value"),
            ("--toggle-collect= p", "the value is empty"),
            ("--log-fd=-1 p", "open file descriptor"),
            ("--D1=1,2 p", "expected SIZE"),
            ("--separate-recs=0 p", "from 1 to 1000"),
            ("-q", "no program"),
        ] {
            let refused = parse(&[], &words(line), false).unwrap_err().0;
            assert!(refused.contains(why), "{line}: {refused}");
        }
        let refused = parse(&[], &words("prog"), true).unwrap_err().0;
        assert!(refused.contains("memcheck"), "{refused}");
    }

    #[test]
    fn the_help_has_each_option() {
        let help = help();
        for name in OPTIONS.iter().flat_map(|row| row.names) {
            assert!(help.contains(&format!("  {name}")), "{name}");
        }
    }
}
