//! Options that every command takes.

use anyhow::{Context, Result};
use clap::Args;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::message::announce;
use opcost_page::ascii::shows_utf8;
use opcost_report::render::Style;
use opcost_store::store::{Store, StoreError};
use opcost_sys::budget::LIMIT_BYTES;
use opcost_sys::xdg;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// The options that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct Globals {
    /// File that recordings are stored in [default: recordings.sqlite in the XDG data directory] [env: OPCOST_STORE]
    #[arg(long, value_name = "PATH", global = true)]
    pub store: Option<PathBuf>,

    /// Print results and errors only
    #[arg(long, short = 'q', global = true)]
    pub quiet: bool,

    /// Say also where the seconds of a recording on the emulated machine went
    #[arg(long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,

    /// Most memory that reading a file may take, such as 800M or 8G; a packed file may also unpack to as much, or to 32 times its
    /// length [default: 512M]
    #[arg(long, value_name = "SIZE", global = true, value_parser = bytes)]
    pub read_limit: Option<u64>,

    /// Never use colour (the environment variable NO_COLOR does the same)
    #[arg(long, global = true)]
    pub no_color: bool,
}

/// Parses a size such as 512M, in bytes.
fn bytes(text: &str) -> Result<u64, String> {
    let scales = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let scaled = scales
        .into_iter()
        .find_map(|(letter, shift)| Some((text.strip_suffix(letter)?, 1u64 << shift)));
    let (digits, scale) = scaled.unwrap_or((text, 1));
    let size = digits.parse::<u64>().ok().and_then(|size| size.checked_mul(scale));
    size.ok_or_else(|| "expected a size such as 800M or 8G".into())
}

impl Globals {
    /// Reports what is being waited for, unless the user wants results and errors only.
    pub fn announcer(&self) -> fn(&str) {
        if self.quiet { |_| () } else { |text| announce!("{text}") }
    }

    /// The limit of reading one file of somebody else's, bytes.
    pub fn read_limit_bytes(&self) -> u64 {
        self.read_limit.unwrap_or(LIMIT_BYTES)
    }

    /// The store's file, if the user names one here or in `OPCOST_STORE`.
    pub fn named_store(&self) -> Option<PathBuf> {
        self.store.clone().or_else(store_of_environment)
    }

    /// The store's file.
    pub fn store_path(&self) -> Result<PathBuf> {
        self.named_store().or_else(default_store_path).ok_or_else(|| {
            fail(
                Status::Missing,
                "neither XDG_DATA_HOME nor HOME says where recordings go; give --store PATH",
            )
        })
    }

    /// Opens the store to add to it. Makes only the folder of the default store; another folder may be a typo.
    pub fn store_for_writing(&self) -> Result<Store> {
        let path = self.store_path()?;
        if let (None, Some(folder)) = (self.named_store(), path.parent()) {
            xdg::make_private(folder)
                .with_context(|| {
                    format!("cannot make the folder '{}' for recordings", folder.display())
                })
                .status(Status::Missing)?;
        }
        check_store_owner(&path)?;
        Store::open_for_writing(&path).map_err(StoreError::carried)
    }

    /// How standard output is written: colour only on a terminal, and not with NO_COLOR
    /// (<https://no-color.org>) or TERM=dumb; 80 columns if the width is unknown; ASCII if the locale is not UTF-8.
    pub fn style(&self) -> Style {
        let terminal = std::io::stdout().is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).ok());
        Style {
            color: terminal && !self.no_color && !refused,
            width: columns(),
            full_names: false,
            all: false,
            ascii: !shows_utf8(locale.each_ref().map(Option::as_deref)),
        }
    }
}

/// The columns of a page: those of COLUMNS, else the terminal's, else 80; 60 at least.
pub fn columns() -> usize {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let measured = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    given.or_else(measured).unwrap_or(80).max(60)
}

/// Fails if a store that is written to, or its folder, is another user's: the owner decides which commands `opcost resume` runs.
pub fn check_store_owner(path: &Path) -> Result<()> {
    let folder = path.parent().into_iter();
    let mut parts = folder.chain([path]);
    parts.try_for_each(|part| xdg::check_owner(part, "--store").status(Status::Missing))
}

/// The store's file that `OPCOST_STORE` names; an empty variable names none, like the variables of XDG.
pub fn store_of_environment() -> Option<PathBuf> {
    std::env::var_os("OPCOST_STORE").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The default store's file; `None` if nothing says where a user's files are.
pub fn default_store_path() -> Option<PathBuf> {
    let data = xdg::base_folder("XDG_DATA_HOME", ".local/share");
    data.map(|data| data.join("opcost/recordings.sqlite"))
}
