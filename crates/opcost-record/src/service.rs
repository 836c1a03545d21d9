//! What a guest with a root of its own, or with a service, is told beside its job: its host name, and the service that `/init` starts
//! before the job and ends after it.

use crate::message::{Contents, Format, message, path};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// The format.
static FORMAT: Format = Format {
    letter: b'v',
    name: "the service's description",
    peer: "guest",
    empty: "the service's description is empty",
    cut_short: "",
    bytes_max: 1 << 20,
    deflated: false,
};

/// The path of the description in a guest that has one.
pub const PATH: &str = "/opcost/service";

/// The host name of guests with a root of their own, whatever the root says: the name of the machine that made it must cost nothing.
pub const HOST_NAME: &str = "opcost";

/// The time that a service has to become ready, by the guest's clock, which skips the time in which nothing runs, seconds.
pub const READY_S_MAX: u64 = 120;

/// The time that processes have to end after SIGTERM, by the guest's clock, seconds.
pub const END_S_MAX: u64 = 10;

/// What a guest is told.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GuestSystem {
    /// The host name; `None` leaves the kernel's.
    pub host_name: Option<String>,
    /// The service.
    pub service: Option<GuestService>,
}

/// A program that runs beside the job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GuestService {
    /// The file to execute, absolute.
    #[serde(with = "path")]
    pub program: PathBuf,
    /// The arguments, the program's own name first.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, absolute.
    #[serde(with = "path")]
    pub cwd: PathBuf,
    /// When the job may begin.
    pub ready: Ready,
    /// The file to execute for [`Ready::Command`], absolute.
    #[serde(with = "path::optional")]
    pub ready_program: Option<PathBuf>,
}

/// The sign by which a service is ready.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Ready {
    /// A TCP port at which some process listens.
    Port(u16),
    /// A file that exists, absolute.
    File(#[serde(with = "path")] PathBuf),
    /// A command that succeeds.
    Command(Vec<String>),
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ready::Port(number) => write!(f, "port:{number}"),
            Ready::File(path) => write!(f, "file:{}", path.display()),
            Ready::Command(words) => write!(f, "run:{}", words.join(" ")),
        }
    }
}

impl Contents for GuestSystem {}

message!(GuestSystem, FORMAT);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::check_message;
    use crate::message::{VERSION, hash};

    fn sample() -> GuestSystem {
        GuestSystem {
            host_name: Some(HOST_NAME.into()),
            service: Some(GuestService {
                program: "/usr/bin/redis-server".into(),
                argv: vec!["redis-server".into()],
                env: vec![("PATH".into(), "/bin".into())],
                cwd: "/".into(),
                ready: Ready::Port(6379),
                ready_program: None,
            }),
        }
    }

    #[test]
    fn a_description_is_read_whole_or_not_at_all() {
        check_message(&FORMAT, &sample());
        let hash = hash(&sample().encode(), 0);
        assert_eq!(
            (VERSION, format!("{hash:016x}").as_str()),
            (3, "2c0b858a7cd42041"),
            "the message changed: raise VERSION and write its new hash here"
        );
    }
}
