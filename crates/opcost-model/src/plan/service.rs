//! The service of a guest: a program that runs beside the work.

use opcost_record::service::Ready;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A program that is started and ready before the work, in the same guest, and ended after it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServicePlan {
    /// The command as the user wrote it.
    pub line: String,
    /// The sign by which the work may begin.
    pub ready: ReadySign,
}

/// The sign by which a service is ready, as users write it: `port:NUMBER`, `file:/PATH` or `run:COMMAND`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReadySign(String);

impl ReadySign {
    /// The sign as a guest is told.
    pub fn of_guest(&self) -> Ready {
        read(&self.0).expect("it was read when it was made")
    }
}

impl FromStr for ReadySign {
    type Err = String;

    fn from_str(text: &str) -> Result<ReadySign, String> {
        read(text).map(|_| ReadySign(text.into()))
    }
}

impl fmt::Display for ReadySign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn read(text: &str) -> Result<Ready, String> {
    let wrong =
        |what: &str| Err(format!("'{text}' {what}; write port:NUMBER, file:/PATH or run:COMMAND"));
    match text.split_once(':') {
        Some(("port", number)) => match number.parse() {
            Ok(number) if number > 0 => Ok(Ready::Port(number)),
            _ => wrong("has no port from 1 to 65535"),
        },
        Some(("file", path)) if path.starts_with('/') => Ok(Ready::File(path.into())),
        Some(("file", _)) => wrong("has no absolute path"),
        Some(("run", command)) => match shlex::split(command) {
            Some(words) if !words.is_empty() && !command.contains('\0') => {
                Ok(Ready::Command(words))
            }
            _ => wrong("has no command, or unbalanced quotes"),
        },
        _ => wrong("does not say how a service shows that it is ready"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_read_or_refused_with_what_to_write() {
        let read = |text: &str| text.parse::<ReadySign>().map(|sign| sign.of_guest());
        assert_eq!(read("port:6379"), Ok(Ready::Port(6379)));
        assert_eq!(read("file:/run/x y"), Ok(Ready::File("/run/x y".into())));
        let words = ["sh", "-c", "exit 0"].map(String::from).into();
        assert_eq!(read("run:sh -c 'exit 0'"), Ok(Ready::Command(words)));
        for text in ["", "6379", "port:", "port:0", "port:65536", "file:x", "run:", "run:'", "x:1"]
        {
            let why = read(text).unwrap_err();
            assert!(why.ends_with("write port:NUMBER, file:/PATH or run:COMMAND"), "{why}");
        }
    }
}
