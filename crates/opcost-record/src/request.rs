//! The job for a guest's `/init`: a file of the initramfs, or of QEMU's fw_cfg device for a guest that
//! was booted before the job was known.
//!
//! ```text
//! opcost-request 6
//! vary 7 30
//! cpus 2
//! job command
//! program /bin/gzip
//! argv gzip
//! argv -9
//! argv my%20file
//! env PATH=/bin
//! cwd /root
//! input /root/data
//! output kept
//! sends output
//! end 12
//! ```
//!
//! [`framing`](crate::framing) describes the frame. Bytes other than printable ASCII, and
//! `%`, are written as `%XX`.

use crate::framing::{Fault, Format, TextError};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The format.
pub static FORMAT: Format = Format {
    header: "opcost-request 6",
    name: "the request",
    peer: "guest",
    empty: "the request is empty",
    cut_short: "",
    counted: true,
};

/// The path of the request in the guest; a guest without this file waits for a request.
pub const PATH: &str = "/opcost/request";

/// The name of the request in QEMU's fw_cfg device (docs/specs/fw_cfg: names of `opt/` and a reversed
/// domain name are free for use).
pub const FW_CFG_NAME: &str = "opt/org.opcost/request";

/// The port of fw_cfg's selector; data is at the next port (docs/specs/fw_cfg).
pub const FW_CFG_PORT: u16 = 0x510;

/// The port that starts the machine's watchdog, an `ib700`. A guest that waits for its request lets the
/// watchdog fire while nothing runs (hw/watchdog/wdt_ib700.c).
pub const WAIT_PORT: u16 = 0x443;

/// A request to a guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GuestRequest {
    /// Makes this run differ from others from the same booted state; `None` for a guest with a boot of
    /// its own.
    pub variation: Option<Variation>,
    /// The number of CPUs that the kernel must have started; `None` if it does not matter.
    pub cpus: Option<u32>,
    /// The job.
    pub job: GuestJob,
}

impl From<GuestJob> for GuestRequest {
    fn from(job: GuestJob) -> GuestRequest {
        GuestRequest { variation: None, cpus: None, job }
    }
}

/// The variation between runs from one booted state, in place of a boot's seed and padding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Variation {
    /// Decides random numbers in the guest, the times of ticks, and which pages of memory are free.
    pub seed: u32,
    /// Bytes of padding in the job's environment.
    pub padding_bytes: u16,
}

/// The name of the variable that pads an environment.
pub const PADDING: &str = "OPCOST_PADDING";

/// The kernel's option that tells a guest without [`Variation`] its seed, which follows. The dot makes it a parameter of a module
/// that does not exist; the kernel ignores those.
pub const BOOT_SEED: &str = "opcost.seed=";

/// A job for a guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GuestJob {
    /// Send the kernel's functions.
    Symbols,
    /// Run a built-in workload between markers.
    Workload {
        /// The workload's name.
        name: String,
        /// The given parameters, by name.
        params: Vec<(String, String)>,
        /// The seed from which the workload draws its operations.
        seed: u64,
        /// The code paths to exchange in one process, one for each run; if empty, one run with the path
        /// that the parameters give.
        paths: Vec<String>,
        /// The whole environment of the process that does the work.
        env: Vec<(OsString, OsString)>,
    },
    /// Run a program between markers.
    Command(GuestCommand),
}

/// A program to run in a guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GuestCommand {
    /// The file to execute; a relative path starts at `cwd`.
    pub program: PathBuf,
    /// The arguments, the program's own name first.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The file for standard input, absolute; `None` is /dev/null.
    pub input: Option<PathBuf>,
    /// The destination of standard output.
    pub output: GuestOutput,
    /// Whether the host gets what the program printed on both streams. Sending takes the emulator more
    /// than a microsecond a byte.
    pub sends: bool,
}

/// The destination of the output of a program in a guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GuestOutput {
    /// A file in memory.
    Kept,
    /// /dev/null.
    Null,
    /// A file of the guest, absolute.
    File(PathBuf),
}

impl GuestJob {
    /// Sets the code paths that a workload exchanges in its process, one for each run.
    pub fn with_paths(mut self, of_runs: Vec<String>) -> GuestJob {
        if let GuestJob::Workload { paths, .. } = &mut self {
            *paths = of_runs;
        }
        self
    }
}

impl GuestRequest {
    /// Writes the request as text.
    pub fn format(&self) -> String {
        let mut lines = Vec::new();
        if let Some(Variation { seed, padding_bytes }) = self.variation {
            lines.push(format!("vary {seed} {padding_bytes}"));
        }
        if let Some(cpus) = self.cpus {
            lines.push(format!("cpus {cpus}"));
        }
        match &self.job {
            GuestJob::Symbols => lines.push("job symbols".to_string()),
            GuestJob::Workload { name, params, seed, paths, env } => {
                lines.push("job workload".to_string());
                lines.push(format!("name {}", escaped(name.as_bytes())));
                for (key, value) in params {
                    lines.push(format!("param {}", pair(key.as_bytes(), value.as_bytes())));
                }
                lines.push(format!("seed {seed}"));
                lines.extend(paths.iter().map(|path| format!("path {}", escaped(path.as_bytes()))));
                lines.extend(env.iter().map(variable));
            }
            GuestJob::Command(command) => {
                lines.push("job command".to_string());
                lines.push(format!("program {}", escaped(command.program.as_os_str().as_bytes())));
                lines.extend(
                    command.argv.iter().map(|word| format!("argv {}", escaped(word.as_bytes()))),
                );
                lines.extend(command.env.iter().map(variable));
                lines.push(format!("cwd {}", escaped(command.cwd.as_os_str().as_bytes())));
                if let Some(input) = &command.input {
                    lines.push(format!("input {}", escaped(input.as_os_str().as_bytes())));
                }
                lines.push(match &command.output {
                    GuestOutput::Kept => "output kept".to_string(),
                    GuestOutput::Null => "output null".to_string(),
                    GuestOutput::File(path) => {
                        format!("output-file {}", escaped(path.as_os_str().as_bytes()))
                    }
                });
                lines.extend(command.sends.then(|| "sends output".to_string()));
            }
        }
        FORMAT.write(&lines)
    }

    /// Reads what [`format`](Self::format) wrote.
    ///
    /// # Errors
    /// [`TextError`] names the first fault.
    pub fn parse(text: &str) -> Result<GuestRequest, TextError> {
        let mut items = Items::default();
        FORMAT.read(text, |line| {
            let (word, value) = line.split_once(' ').ok_or("an item has no value")?;
            items.take(word, value)
        })?;
        items.into_request().map_err(|what| FORMAT.error(Fault::Missing(what)))
    }
}

/// Items as they come, before it is known whether the job is complete.
#[derive(Default)]
struct Items {
    variation: Option<Variation>,
    cpus: Option<u32>,
    job: Option<String>,
    name: Option<String>,
    params: Vec<(String, String)>,
    seed: Option<u64>,
    paths: Vec<String>,
    program: Option<OsString>,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: Option<OsString>,
    input: Option<OsString>,
    output: Option<GuestOutput>,
    sends: bool,
}

impl Items {
    fn take(&mut self, word: &str, value: &str) -> Result<(), &'static str> {
        match word {
            "vary" => {
                let (seed, padding) = value.split_once(' ').ok_or("a number is missing")?;
                let number = |_| "not a number";
                self.variation = Some(Variation {
                    seed: seed.parse().map_err(number)?,
                    padding_bytes: padding.parse().map_err(number)?,
                });
            }
            "cpus" => self.cpus = Some(value.parse().map_err(|_| "not a number")?),
            "job" => self.job = Some(value.to_string()),
            "name" => self.name = Some(plain(value)?),
            "param" => {
                let (key, value) = value.split_once('=').ok_or("a parameter has no value")?;
                self.params.push((plain(key)?, plain(value)?));
            }
            "path" => self.paths.push(plain(value)?),
            "seed" => self.seed = Some(value.parse().map_err(|_| "not a number")?),
            "program" => self.program = Some(unescaped(value)?),
            "argv" => self.argv.push(unescaped(value)?),
            "env" => {
                let (name, value) = value.split_once('=').ok_or("a variable has no value")?;
                self.env.push((unescaped(name)?, unescaped(value)?));
            }
            "cwd" => self.cwd = Some(unescaped(value)?),
            "output" => {
                self.output = Some(match value {
                    "kept" => GuestOutput::Kept,
                    "null" => GuestOutput::Null,
                    _ => return Err("neither 'kept' nor 'null'"),
                });
            }
            "sends" if value == "output" => self.sends = true,
            "output-file" => self.output = Some(GuestOutput::File(unescaped(value)?.into())),
            "input" => self.input = Some(unescaped(value)?),
            _ => return Err("unknown item"),
        }
        Ok(())
    }

    fn into_request(self) -> Result<GuestRequest, &'static str> {
        Ok(GuestRequest { variation: self.variation, cpus: self.cpus, job: self.into_job()? })
    }

    fn into_job(self) -> Result<GuestJob, &'static str> {
        match self.job.as_deref() {
            Some("symbols") => Ok(GuestJob::Symbols),
            Some("workload") => Ok(GuestJob::Workload {
                name: self.name.ok_or("name")?,
                params: self.params,
                seed: self.seed.ok_or("seed")?,
                paths: self.paths,
                env: self.env,
            }),
            Some("command") => Ok(GuestJob::Command(GuestCommand {
                program: self.program.ok_or("program")?.into(),
                argv: self.argv,
                env: self.env,
                cwd: self.cwd.ok_or("cwd")?.into(),
                input: self.input.map(PathBuf::from),
                output: self.output.ok_or("output")?,
                sends: self.sends,
            })),
            _ => Err("known job"),
        }
    }
}

/// Returns the line of an environment's variable.
fn variable((name, value): &(OsString, OsString)) -> String {
    format!("env {}", pair(name.as_bytes(), value.as_bytes()))
}

/// Returns `NAME=VALUE`; equals signs in the name are escaped, so the first one separates.
fn pair(name: &[u8], value: &[u8]) -> String {
    format!("{}={}", escaped(name).replace('=', "%3D"), escaped(value))
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'%' => text.push_str("%25"),
            b'!'..=b'~' => text.push(char::from(*byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

fn unescaped(text: &str) -> Result<OsString, &'static str> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("'%' without two hexadecimal digits")?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Ok(OsString::from_vec(bytes))
}

fn plain(text: &str) -> Result<String, &'static str> {
    let text = unescaped(text)?;
    OsStr::to_str(&text).map(str::to_string).ok_or("not text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = OsString> {
        prop::collection::vec(1..=255u8, 0..12).prop_map(OsString::from_vec)
    }

    fn request() -> impl Strategy<Value = GuestRequest> {
        let word = "\\PC{0,8}";
        let pairs = || prop::collection::vec((bytes(), bytes()), 0..4);
        let paths = prop::collection::vec(word, 0..4);
        let params = prop::collection::vec((word, word), 0..4);
        let workload = (word, params, any::<u64>(), paths, pairs()).prop_map(
            |(name, params, seed, paths, env)| GuestJob::Workload {
                name,
                params,
                seed,
                paths,
                env,
            },
        );
        let words = prop::collection::vec(bytes(), 0..4);
        let output = prop_oneof![
            Just(GuestOutput::Kept),
            Just(GuestOutput::Null),
            bytes().prop_map(|path| GuestOutput::File(path.into())),
        ];
        let input = prop::option::of(bytes().prop_map(PathBuf::from));
        let command = (bytes(), words, pairs(), bytes(), input, output, any::<bool>()).prop_map(
            |(program, argv, env, cwd, input, output, sends)| {
                let (program, cwd) = (program.into(), cwd.into());
                GuestJob::Command(GuestCommand { program, argv, env, cwd, input, output, sends })
            },
        );
        let job = prop_oneof![Just(GuestJob::Symbols), workload, command];
        let variation = prop::option::of(
            (any::<u32>(), any::<u16>())
                .prop_map(|(seed, padding_bytes)| Variation { seed, padding_bytes }),
        );
        (variation, prop::option::of(any::<u32>()), job)
            .prop_map(|(variation, cpus, job)| GuestRequest { variation, cpus, job })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(request in request()) {
            prop_assert_eq!(GuestRequest::parse(&request.format()).unwrap(), request);
        }

        #[test]
        fn a_text_cut_anywhere_is_refused(request in request(), cut in any::<prop::sample::Index>()) {
            let text = request.format();
            // The text is ASCII, and its final line break carries no information.
            prop_assert!(GuestRequest::parse(&text[..cut.index(text.len() - 1)]).is_err());
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", lines in "((job|vary|param|path|env|argv|output|end) [%=a-zé0-9]{0,6}\n){0,6}") {
            let _ = GuestRequest::parse(&text);
            let _ = GuestRequest::parse(&format!("{}\n{lines}", FORMAT.header));
        }
    }

    #[test]
    fn the_text_is_the_one_documented() {
        let variation = Some(Variation { seed: 7, padding_bytes: 30 });
        let job = GuestJob::Command(GuestCommand {
            program: "/bin/gzip".into(),
            argv: vec!["gzip".into(), "-9".into(), "my file".into()],
            env: vec![("PATH".into(), "/bin".into())],
            cwd: "/root".into(),
            input: Some("/root/data".into()),
            output: GuestOutput::Kept,
            sends: true,
        });
        let request = GuestRequest { variation, cpus: Some(2), job };
        let text = "opcost-request 6\nvary 7 30\ncpus 2\njob command\nprogram /bin/gzip\nargv gzip\nargv -9\n\
                    argv my%20file\nenv PATH=/bin\ncwd /root\ninput /root/data\noutput kept\nsends output\nend 12\n";
        assert_eq!(request.format(), text);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = |lines: &str| {
            GuestRequest::parse(&format!("{}\n{lines}", FORMAT.header)).unwrap_err().to_string()
        };
        assert_eq!(GuestRequest::parse("").unwrap_err().to_string(), "the request is empty");
        let other = GuestRequest::parse("opcost-request 1\n").unwrap_err().to_string();
        assert!(other.contains("guest and opcost are of different versions"), "{other}");
        assert_eq!(fault("job lunch\nend 1\n"), "the request has no known job");
        assert_eq!(fault("job workload\nname mmap\nend 2\n"), "the request has no seed");
        assert_eq!(fault("seed x\n"), "line 2 of the request: not a number: 'seed x'");
        assert_eq!(
            fault("env PATH\n"),
            "line 2 of the request: a variable has no value: 'env PATH'"
        );
        assert!(fault("argv %4\n").contains("hexadecimal"));
        assert!(fault("argv %+4\n").contains("hexadecimal"));
        assert!(fault("job symbols\nend 2\n").contains("cut short after 1 lines"));
        assert!(fault("output lost\n").contains("neither 'kept' nor 'null'"));
        assert!(fault("sends lost\n").contains("unknown item"));
        assert!(fault("lunch now\n").contains("unknown item"));
    }
}
