//! Runs a benchmark's program: by itself to see how often it reads the clock, and in the emulator to count.

use crate::clock::{self, Orders};
use crate::line::Count;
use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_base::scratch::Scratch;
use opcost_callgrind::settings::{Log, Settings};
use opcost_lab::machine::emulated::{Emulator, Tools};
use opcost_profile::read::callgrind;
use opcost_record::Architecture;
use opcost_record::printable::printable;
use opcost_sys::budget::Budget;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::{Aslr, EndedBy, Held, Output, Spawn, Status as ProcessStatus};
use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SIGILL: i32 = 4;

/// Lines of a failed program's messages that an error shows.
const LINES_SHOWN: usize = 4;

/// A program and how it is started.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Invocation {
    /// The file to execute.
    pub(crate) program: PathBuf,
    /// The arguments behind the program's name.
    pub(crate) arguments: Vec<OsString>,
    /// Variables besides those of this process.
    pub(crate) variables: Vec<(String, OsString)>,
    /// The working directory.
    pub(crate) folder: PathBuf,
}

impl Invocation {
    /// The same program with further arguments.
    pub(crate) fn with<T: Into<OsString>>(
        &self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Invocation {
        let mut other = self.clone();
        other.arguments.extend(arguments.into_iter().map(Into::into));
        other
    }
}

/// What a program printed, and how often it read the clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    /// Standard output.
    pub(crate) printed: String,
    /// The readings until its end.
    pub(crate) readings: u64,
}

/// The part of a run that counts.
#[derive(Clone, Debug)]
pub(crate) enum Counted {
    /// A window between readings of opcost's clock.
    Clock(Orders),
    /// What all threads do between functions.
    Functions(Bounds),
}

/// The functions between whose beginnings instructions count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Counts begin anew.
    pub(crate) from: &'static str,
    /// Counts end.
    pub(crate) to: &'static str,
    /// A stretch with this function does not count.
    pub(crate) without: &'static str,
}

/// One counted run.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// The program.
    pub(crate) invocation: Invocation,
    /// What counts.
    pub(crate) window: Counted,
    /// How many iterations are counted.
    pub(crate) iterations: u64,
}

/// Where programs run.
pub struct Runner<'a> {
    tools: Tools,
    scratch: Scratch,
    clock: PathBuf,
    interrupt: &'a Interrupt,
    timeout: Duration,
    /// The number of the process that ran last.
    process: Cell<i32>,
    /// The signal that ended it, else 0.
    signal: Cell<i32>,
    /// Threads that programs started since this was asked last.
    threads: Cell<u64>,
}

impl<'a> Runner<'a> {
    /// Finds the emulator. `timeout`: how long one run may take.
    ///
    /// # Errors
    /// A tool is missing.
    pub fn new(interrupt: &'a Interrupt, timeout: Duration) -> Result<Runner<'a>> {
        if !cfg!(has_clock) {
            return Err(fail(
                Status::Missing,
                "opcost bench counts programs of 64-bit x86, and this computer has another processor",
            ));
        }
        let tools = Tools::find(Emulator::User, Architecture::X86_64)?;
        let scratch = Scratch::new()
            .context("cannot make a folder for the counts")
            .status(Status::Missing)?;
        let clock = clock::write(scratch.path())?;
        Ok(Runner {
            tools,
            scratch,
            clock,
            interrupt,
            timeout,
            process: Cell::new(0),
            signal: Cell::new(0),
            threads: Cell::new(0),
        })
    }

    /// The emulator's text about its version.
    pub fn emulator_version(&self) -> &str {
        &self.tools.qemu_version
    }

    /// A folder for files, which goes when the counts are made.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// How many threads programs started since the last call.
    pub(crate) fn take_threads(&self) -> u64 {
        self.threads.take()
    }

    /// Runs a program with a clock, and returns what it printed.
    ///
    /// # Errors
    /// The program failed, took too long, or did not read the clock that it was given.
    pub(crate) fn probe(&self, invocation: &Invocation, orders: &Orders) -> Result<Probe> {
        let out = self.scratch.path().join("readings");
        let _ = fs::remove_file(&out);
        let printed = self.run_emulated(invocation, Some(orders), None)?;
        let text = fs::read_to_string(&out).unwrap_or_default();
        let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (Some(readings), Some(threads)) = (numbers.next(), numbers.next()) else {
            return Err(fail(
                Status::WorkFailed,
                "the program does not take opcost's clock: it is linked statically, or a signal ended it",
            ));
        };
        self.threads.set(self.threads.get().max(threads));
        Ok(Probe { printed, readings })
    }

    /// Runs a program as it is, and returns what it printed.
    ///
    /// # Errors
    /// The program failed or took too long.
    pub(crate) fn printed(&self, invocation: &Invocation) -> Result<String> {
        let own = invocation.variables.iter().map(|(name, value)| (name.into(), value.clone()));
        let argv = std::iter::once(invocation.program.clone().into_os_string());
        let mut spawn =
            Spawn::new(&invocation.program, argv.chain(invocation.arguments.iter().cloned()));
        spawn.env = Some(last_of_each(std::env::vars_os().chain(own)));
        spawn.cwd = Some(invocation.folder.clone());
        self.run(spawn)
    }

    /// Runs a program as it is, and returns what it printed, whatever its exit status.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn printed_of_any_status(&self, invocation: &Invocation) -> Result<String> {
        match self.printed(invocation) {
            Err(error) if opcost_base::exit::status_of(&error) == Some(Status::WorkFailed) => {
                Ok(std::fs::read_to_string(self.scratch.path().join("stdout")).unwrap_or_default())
            }
            printed => printed,
        }
    }

    /// Counts a run.
    ///
    /// # Errors
    /// The program failed or took too long.
    pub(crate) fn count(&self, trial: &Trial) -> Result<Count> {
        let folder = self.scratch.path().join("counts");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder)
            .context("cannot make a folder for a count")
            .status(Status::Missing)?;
        let (orders, bounds) = match &trial.window {
            Counted::Clock(orders) => (Some(orders), None),
            Counted::Functions(bounds) => (None, Some(bounds)),
        };
        let settings = Settings {
            out_file: folder.join("%p").to_string_lossy().into_owned(),
            log: Log::File(folder.join("log.%p").to_string_lossy().into_owned()),
            quiet: true,
            collect_atstart: bounds.is_some(),
            zero_before: bounds.iter().map(|bounds| bounds.from.to_string()).collect(),
            dump_before: bounds.iter().map(|bounds| bounds.to.to_string()).collect(),
            dump_line: false,
            dump_instr: true,
            separate_recs: 1,
            ..Settings::default()
        };
        self.run_emulated(&trial.invocation, orders, Some(&settings.encode()))?;
        self.read(&folder, trial.iterations, bounds)
    }

    /// The path of a file with code; of a file that is gone afterwards, the name.
    fn shown(&self, module: String) -> String {
        let path = Path::new(&module);
        let name = path.file_name().filter(|_| path.starts_with(self.scratch.path()));
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or(module)
    }

    /// A program in the emulator, whose answers to some system calls differ from the kernel's; so it reads the clock as often in each run.
    fn emulated(
        &self,
        invocation: &Invocation,
        orders: Option<&Orders>,
        settings: Option<&str>,
    ) -> Spawn {
        let Invocation { program, arguments, variables, folder } = invocation;
        let mut command = self.tools.user_command(settings);
        let out = self.scratch.path().join("readings");
        // QEMU divides such a word at commas, which only opcost's own lack; what would change QEMU itself is given this way.
        for (name, value) in orders.into_iter().flat_map(|orders| self.variables(orders, &out)) {
            let mut set = name;
            set.push("=");
            set.push(value);
            command.extend(["-E".into(), set]);
        }
        let path = program.clone().into_os_string();
        command.extend(["-0".into(), path.clone(), path]);
        command.extend(arguments.iter().cloned());
        let mut spawn = Spawn::new(&self.tools.qemu, command);
        let own = variables.iter().map(|(name, value)| (OsString::from(name), value.clone()));
        spawn.env = Some(last_of_each(std::env::vars_os().chain(own)));
        spawn.cwd = Some(folder.clone());
        spawn.aslr = Aslr::Fixed;
        spawn
    }

    /// Runs a program in the emulator, and returns what it printed. If SIGILL ends the program, the error has the instruction.
    fn run_emulated(
        &self,
        invocation: &Invocation,
        orders: Option<&Orders>,
        settings: Option<&str>,
    ) -> Result<String> {
        let ran = self.run(self.emulated(invocation, orders, settings));
        let Err(error) = ran else { return ran };
        if self.signal.get() != SIGILL {
            return Err(error);
        }
        // Only the plugin sees the instruction.
        let file = |name: &str| self.scratch.path().join(name).to_string_lossy().into_owned();
        let again = Settings {
            out_file: file("refused.%p"),
            log: Log::File(file("refused-log.%p")),
            quiet: true,
            ..Settings::default()
        };
        let _ = self.run(self.emulated(invocation, orders, Some(&again.encode())));
        let log = file(&format!("refused-log.{}", self.process.get()));
        let log = fs::read_to_string(log).unwrap_or_default();
        let why = log.lines().find_map(|line| Some(line.split_once("== signal ")?.1));
        Err(why.map_or(error, |why| fail(Status::WorkFailed, format!("signal {why}"))))
    }

    /// Adds up what the program's process wrote; its children's files are others'.
    fn read(&self, folder: &Path, iterations: u64, bounds: Option<&Bounds>) -> Result<Count> {
        let mut count = Count { iterations, ..Count::default() };
        let file = folder.join(self.process.get().to_string());
        let Some(bounds) = bounds else {
            self.add(&file, &mut count, None)?;
            return Ok(count);
        };
        // Each stretch has a file of its own; the one without a number is what followed the last.
        for number in 1.. {
            let mut part = file.clone().into_os_string();
            part.push(format!(".{number}"));
            if !Path::new(&part).exists() {
                break;
            }
            self.add(Path::new(&part), &mut count, Some(bounds.without))?;
        }
        Ok(count)
    }

    /// Adds the costs in a file; none of a file with a certain function.
    fn add(&self, file: &Path, count: &mut Count, without: Option<&str>) -> Result<()> {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let read = callgrind::read(&text, [], None, &Budget::default());
        let Ok((_, table, _)) = read else {
            // Nothing was counted, so there are no lines with costs.
            return Ok(());
        };
        if table.functions.iter().any(|row| Some(row.function.symbol.as_str()) == without) {
            return Ok(());
        }
        // opcost's own clock is no part of the benchmark.
        let clock = self.clock.to_string_lossy();
        let of_program = table.functions.into_iter().filter(|row| row.function.module != clock);
        for row in of_program {
            let entry = count
                .functions
                .entry((row.function.symbol, self.shown(row.function.module)))
                .or_default();
            entry.0 += row.own;
            entry.1 += row.calls.unwrap_or(0);
        }
        Ok(())
    }

    fn variables(&self, orders: &Orders, out: &Path) -> [(OsString, OsString); 3] {
        let mut libraries = self.clock.clone().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        [
            ("LD_PRELOAD".into(), libraries),
            // What the linker looks up at the first call is no part of an iteration.
            ("LD_BIND_NOW".into(), "1".into()),
            (clock::VARIABLE.into(), orders.encode(out).into()),
        ]
    }

    fn run(&self, mut spawn: Spawn) -> Result<String> {
        let file = |name: &str| -> Result<(PathBuf, File)> {
            let path = self.scratch.path().join(name);
            let made = File::create(&path)
                .with_context(|| format!("cannot write {}", path.display()))
                .status(Status::Missing)?;
            Ok((path, made))
        };
        let (printed, out) = file("stdout")?;
        let (said, err) = file("stderr")?;
        (spawn.stdout, spawn.stderr) = (Output::File(out.into()), Output::File(err.into()));
        let mut running =
            spawn.hold().and_then(Held::release).map_err(|error| fail(Status::Missing, error))?;
        self.process.set(running.pid());
        self.signal.set(0);
        let exit = running
            .wait(Some(self.timeout), self.interrupt)
            .context("cannot wait for the benchmark")?;
        let text =
            |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let why = match (exit.ended_by, exit.status) {
            (EndedBy::Interrupt, _) => return Err(fail(Status::Interrupted, "interrupted")),
            (EndedBy::Timeout, _) => {
                format!("it took longer than {} s (--timeout)", self.timeout.as_secs())
            }
            (_, ProcessStatus::Code(0)) => return Ok(text(&printed)),
            (_, ProcessStatus::Code(code)) => format!("its program ended with status {code}"),
            (_, ProcessStatus::Signal(signal)) => {
                self.signal.set(signal);
                format!("signal {signal} ended its program")
            }
        };
        let (said, printed) = (text(&said), text(&printed));
        let lines: Vec<&str> = [printed.as_str(), said.as_str()]
            .into_iter()
            .flat_map(str::lines)
            .filter(|line| !line.trim().is_empty())
            .collect();
        let lines = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        let shown = if lines.is_empty() {
            String::new()
        } else {
            format!(": {}", printable(&lines.join(" / ")))
        };
        Err(fail(Status::WorkFailed, format!("{why}{shown}")))
    }
}

/// The variables, of each name the last.
fn last_of_each(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let all: std::collections::BTreeMap<OsString, OsString> = variables.collect();
    all.into_iter().collect()
}
