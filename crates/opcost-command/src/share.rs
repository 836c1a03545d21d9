//! Recordings for others: what `--share` of several commands does.

use crate::globals::Globals;
use anyhow::{Context, Result};
use clap::Args;
use opcost_base::message::announce;
use opcost_model::recording::{PrivateNames, Recording, Replacer};
use opcost_sys::user;

/// The flag of commands that show or write a recording.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ShareArgs {
    /// For others: replace the values of --env and the names of users, hosts and folders, each by the same word
    /// everywhere, and leave out boot parameters, CPU flags and the boot's identifier; names of files stay
    #[arg(long)]
    pub share: bool,
}

impl ShareArgs {
    /// Replaces the private names in recordings if others shall see them, and prints what was replaced.
    ///
    /// Returns what replaces names; `None` if the recordings stay as they are.
    ///
    /// # Errors
    /// A recording cannot be written as JSON.
    pub fn apply(
        self,
        globals: &Globals,
        recordings: &mut [Recording],
    ) -> Result<Option<Replacer>> {
        if !self.share {
            return Ok(None);
        }
        let mut names = PrivateNames::new(&user::names(), &user::host());
        let unreadable = "cannot look for private names in the recording";
        for recording in recordings.iter() {
            names.learn(recording).context(unreadable)?;
        }
        let replacer = names.replacer();
        for recording in recordings {
            *recording = replacer.recording(recording).context(unreadable)?;
        }
        if !globals.quiet {
            names.told(&replacer).iter().for_each(|line| announce!("replaced for others: {line}"));
        }
        Ok(Some(replacer))
    }
}
