//! The job for a guest's `/init`: a file of the initramfs, or of QEMU's fw_cfg device for a guest that
//! was booted before the job was known.

use crate::message::{Contents, Format, message, path};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// The format.
static FORMAT: Format = Format {
    letter: b'q',
    name: "the request",
    peer: "guest",
    empty: "the request is empty",
    cut_short: "",
    bytes_max: 1 << 20,
    deflated: false,
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
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
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
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
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
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
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
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GuestCommand {
    /// The file to execute; a relative path starts at `cwd`.
    #[serde(with = "path")]
    pub program: PathBuf,
    /// The arguments, the program's own name first.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, absolute.
    #[serde(with = "path")]
    pub cwd: PathBuf,
    /// The file for standard input, absolute; `None` is /dev/null.
    #[serde(with = "path::optional")]
    pub input: Option<PathBuf>,
    /// The destination of standard output.
    pub output: GuestOutput,
    /// Whether the host gets what the program printed on both streams. Sending takes the emulator more
    /// than a microsecond a byte.
    pub sends: bool,
}

/// The destination of the output of a program in a guest.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum GuestOutput {
    /// A file in memory.
    Kept,
    /// /dev/null.
    Null,
    /// A file of the guest, absolute.
    File(#[serde(with = "path")] PathBuf),
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

impl Contents for GuestRequest {}

message!(GuestRequest, FORMAT);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::message::tests::check_message;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt;

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
        let input = prop::option::of(bytes());
        let command = (bytes(), words, pairs(), bytes(), input, output, any::<bool>()).prop_map(
            |(program, argv, env, cwd, input, output, sends)| {
                let (program, cwd) = (program.into(), cwd.into());
                let input = input.map(PathBuf::from);
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

    pub(crate) fn sample() -> GuestRequest {
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
        GuestRequest { variation, cpus: Some(2), job }
    }

    #[test]
    fn a_request_is_read_whole_or_not_at_all() {
        check_message(&FORMAT, &sample());
        check_message(&FORMAT, &GuestRequest::from(GuestJob::Symbols));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(request in request()) {
            prop_assert_eq!(GuestRequest::decode(&request.encode()).unwrap(), request);
        }
    }
}
