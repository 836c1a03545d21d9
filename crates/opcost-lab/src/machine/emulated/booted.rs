//! Kept states of booted guests, from which runs go on.
//!
//! ```text
//! KEY/        memory, devices, state.json; `used` and `checked`, whose times say when
//! KEY.making  while it is not whole; the next opcost removes what a killed one left
//! locks/      KEY.making: whoever makes it; KEY.using: who goes on from it (shared) or makes room
//! ```
//!
//! The key covers everything that a boot depends on: emulator, machine, kernel, boot options and the
//! guest's files. QEMU writes the memory to a file of its own and all else, some 300 KB, to another
//! (`x-ignore-shared`). A QEMU that goes on maps the memory and changes only its own copies of pages.
//!
//! opcost holds a state's files open and passes QEMU these instead of paths: if one opcost removes a
//! state that it doubts, others that go on from the same state still have the files.
//!
//! **A guest whose state is kept stops idle, by a watchdog.** If the host chooses the moment, counts differ now and then. A
//! guest that boots by itself for a comparison has the same devices and the same list of fw_cfg files, since the firmware
//! reads that list and each entry moves everything behind it.
//!
//! **Kept guests have no RDRAND.** QEMU's random generator is not in the state that QEMU writes, so a restored guest would
//! draw other numbers than a booted guest. Each run seeds the kernel's generator instead.

use super::command_line::{self, DEVICES_FD, GuestFiles, Inputs, MEMORY_FD, MONITOR_FD, Start};
use super::flight::{Files, Flight};
use super::large_files::LargeFiles;
use super::monitor::{Monitor, MonitorError};
use super::outcome::{self, Traces};
use super::seconds::Spent;
use super::{Emulated, Emulator, cache_folder};
use crate::machine::state::tool_state;
use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_kernel::Kernel;
use opcost_model::plan::{Aslr, GuestPlan};
use opcost_record::emulation::COUNTING_VERSION;
use opcost_sys::clock::unix_ns;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::{EndedBy, Spawn, Status as ProgramStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The time limit for a boot, or for going on from a state.
const LIMIT: Duration = Duration::from_secs(300);

/// The limit for all kept states, bytes on disk; the least recently used states are removed first.
pub const KEPT_BYTES_MAX: u64 = 2 << 30;

/// How long a comparison with a direct boot counts.
const CHECKED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a state's last bytes may take after the end of QEMU.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);

/// The signal for a program whose mapped file finds no space on the disk (mmap(2)).
const SIGBUS: i32 = 7;

const MEMORY: &str = "memory";
const DEVICES: &str = "devices";
const DESCRIPTION: &str = "state.json";
const USED: &str = "used";
const CHECKED: &str = "checked";
const LOCKS: &str = "locks";
/// The ending of the names of a state that is being made, and of its lock.
const MAKING: &str = "making";

/// The description of a kept state.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Description {
    /// The state's key; empty in states of an older opcost, which are made anew.
    #[serde(default)]
    key: String,
    /// The kernel's name.
    pub kernel: String,
    /// SHA-256 of the kernel's image, hexadecimal.
    pub kernel_digest: String,
    /// The emulator's version.
    pub emulator: String,
    /// The machine in one line.
    pub machine: String,
    /// When it was made, nanoseconds since 1970.
    pub made_unix_ns: u64,
    /// The length of the guest's memory, bytes.
    memory_bytes: u64,
    /// SHA-256 of the devices' file, hexadecimal.
    devices_digest: String,
}

/// A kept state on disk.
pub struct Entry {
    /// The key, which is the folder's name.
    pub key: String,
    /// The description, from `state.json`.
    pub description: Description,
    /// The size, bytes on disk.
    pub bytes: u64,
    /// The last use.
    pub used: SystemTime,
}

/// The open files of a state: they stay the same if somebody removes or replaces the state.
struct Opened {
    memory: File,
    devices: File,
}

/// A state that runs can go on from while this value exists.
pub(super) struct BootedState {
    opened: Opened,
    folder: PathBuf,
    _using: File,
}

impl BootedState {
    /// The state's folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the state agreed with a direct boot, not too long ago.
    pub(super) fn is_checked(&self) -> bool {
        let time = fs::metadata(self.folder.join(CHECKED)).and_then(|file| file.modified());
        time.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < CHECKED_FOR))
    }

    /// Notes that a direct boot gave the same counts.
    pub(super) fn set_checked(&self) {
        if self.is_kept() {
            // If the note cannot be written, the state is compared again.
            let _ = fs::write(self.folder.join(CHECKED), "");
        }
    }

    /// Removes this state because it is wrong. A state that another opcost made in its place stays.
    pub(super) fn forget(&self) {
        if !self.is_kept() {
            return;
        }
        // Renaming makes the state disappear at once: others find all of a state or nothing.
        let gone = self.folder.with_extension(format!("gone.{MAKING}"));
        let moved = fs::rename(&self.folder, &gone);
        let _ = fs::remove_dir_all(if moved.is_ok() { &gone } else { &self.folder });
    }

    /// Whether this state is still the one kept under its key.
    fn is_kept(&self) -> bool {
        let id = |file: fs::Metadata| (file.dev(), file.ino());
        let kept = fs::metadata(self.folder.join(MEMORY)).map(id);
        kept.is_ok_and(|kept| self.opened.memory.metadata().map(id).is_ok_and(|own| own == kept))
    }

    /// The open files that a QEMU needs to go on from this state, with their numbers in QEMU.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn passed(&self) -> io::Result<Vec<(OwnedFd, RawFd)>> {
        let Opened { memory, devices } = &self.opened;
        Ok(vec![(memory.try_clone()?.into(), MEMORY_FD), (devices.try_clone()?.into(), DEVICES_FD)])
    }

    /// Lets a QEMU that waits for a state go on from this one; returns false if a signal came.
    ///
    /// # Errors
    /// QEMU cannot go on from the state, and the state is removed; the message has the cause and advice.
    pub(super) fn restore(
        &self,
        flight: &mut Flight,
        mut monitor: Monitor<'_>,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let mut go_on = || -> Result<(), MonitorError> {
            monitor.begin()?;
            flight.mark("QEMU starts, the plugin reads symbols");
            // QEMU gets a path, so that every QEMU reads the file from its start.
            let uri = format!("exec:cat /proc/$PPID/fd/{DEVICES_FD}");
            monitor.execute("migrate-incoming", json!({ "uri": uri }))?;
            monitor.migrated()?;
            flight.mark("QEMU reads the kept state");
            match monitor.execute("cont", serde_json::Value::Null) {
                // If the guest dies at once, QEMU may end before it answers; the guest's failure is
                // then reported as for any guest.
                Err(MonitorError::Gone) => Ok(()),
                answered => answered,
            }
        };
        let error = match go_on() {
            Ok(()) => return Ok(true),
            Err(MonitorError::Interrupted) => return Ok(false),
            Err(error) => error,
        };
        self.forget();
        let mut cause = format!("cannot go on from the kept state of a booted guest: {error}");
        // A QEMU that refuses a state prints the reason and ends.
        if let Ok(Some(exit)) = flight.wait(Some(LIMIT_OF_REFUSAL), interrupt)
            && exit.ended_by == EndedBy::Itself
        {
            cause += &match exit.status {
                ProgramStatus::Code(code) => format!("; its status is {code}"),
                ProgramStatus::Signal(signal) => format!("; signal {signal} ended it"),
            };
        }
        let said = outcome::with_last_lines(cause, "the emulator", &flight.files.tail("stderr"));
        Err(fail(Status::Missing, format!("{said}\n{REMOVED}")))
    }
}

/// The text that a wrong state was removed, with advice.
pub(super) const REMOVED: &str = "the kept state is removed: run this again, or with --fresh-boots";

/// How long a QEMU may take to end after it refused a state.
const LIMIT_OF_REFUSAL: Duration = Duration::from_secs(5);

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// All kept states, the most recently used first.
///
/// `folder`: the folder of kept states, as from [`folder`].
pub fn kept(folder: &Path) -> Vec<Entry> {
    let entry = |path: PathBuf| {
        let description = describe(&path)?;
        let key = path.file_name()?.to_str()?.to_string();
        let on_disk = |name| fs::metadata(path.join(name)).map_or(0, |file| file.blocks() * 512);
        let used = fs::metadata(path.join(USED)).and_then(|file| file.modified());
        Some(Entry {
            key,
            description,
            bytes: on_disk(MEMORY) + on_disk(DEVICES),
            used: used.unwrap_or(SystemTime::UNIX_EPOCH),
        })
    };
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<Entry> = folders.filter_map(|at| entry(at.path())).collect();
    entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.key.cmp(&b.key)));
    entries
}

/// The folder of kept states.
///
/// # Errors
/// There is no cache folder.
pub fn folder() -> Result<PathBuf> {
    Ok(cache_folder()?.join("booted"))
}

/// Removes a kept state. Returns whether it is gone; a state that a run uses stays.
///
/// # Errors
/// The files cannot be removed.
pub fn forget(folder: &Path, key: &str) -> io::Result<bool> {
    let file = lock_file(folder, key)?;
    if file.try_lock().is_err() {
        return Ok(false);
    }
    remove(&folder.join(key)).map(|()| true)
}

/// Removes a folder if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes unfinished states that killed opcosts left; states being made now stay.
pub fn sweep(folder: &Path) {
    for at in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = at.path();
        if path.extension() != Some(OsStr::new(MAKING)) {
            continue;
        }
        let locks = folder.join(LOCKS);
        let _ = fs::create_dir_all(&locks);
        let lock = OpenOptions::new().create(true).append(true).open(locks.join(at.file_name()));
        if let Ok(lock) = lock
            && lock.try_lock().is_ok()
        {
            // If this fails, the next opcost tries again.
            let _ = remove(&path);
        }
    }
}

/// Removes the least recently used states until the rest is within the limit.
fn make_room(folder: &Path) {
    let mut bytes = 0;
    for entry in kept(folder) {
        bytes += entry.bytes;
        // A state in use stays; the next opcost tries again.
        if bytes > KEPT_BYTES_MAX && forget(folder, &entry.key).unwrap_or(false) {
            bytes -= entry.bytes;
        }
    }
}

fn lock_file(folder: &Path, key: &str) -> io::Result<File> {
    let locks = folder.join(LOCKS);
    fs::create_dir_all(&locks)?;
    OpenOptions::new().create(true).append(true).open(locks.join(format!("{key}.using")))
}

fn describe(folder: &Path) -> Option<Description> {
    serde_json::from_slice(&fs::read(folder.join(DESCRIPTION)).ok()?).ok()
}

/// Opens a state if its files are those that were written for this folder's key.
fn open(folder: &Path) -> Option<Opened> {
    let description = describe(folder)?;
    (folder.file_name() == Some(OsStr::new(&description.key))).then_some(())?;
    let opened = Opened {
        memory: File::open(folder.join(MEMORY)).ok()?,
        devices: File::open(folder.join(DEVICES)).ok()?,
    };
    let mut devices = Vec::new();
    (&opened.devices).read_to_end(&mut devices).ok()?;
    let same = opened.memory.metadata().ok()?.len() == description.memory_bytes
        && opcost_kernel::digest(&devices) == description.devices_digest;
    same.then_some(opened)
}

/// The reason why there is no state.
enum NotKept {
    /// A signal came.
    Interrupted,
    /// The state cannot be kept here; the text says why.
    Because(String),
}

impl From<MonitorError> for NotKept {
    fn from(error: MonitorError) -> NotKept {
        match error {
            MonitorError::Interrupted => NotKept::Interrupted,
            error => NotKept::Because(error.to_string()),
        }
    }
}

/// The inputs of every boot whose state is kept; inputs that differ between runs come with the request.
pub(super) fn boot_inputs(aslr: Aslr) -> Inputs {
    Inputs { seed: 1, padding_bytes: 0, aslr }
}

impl Emulated<'_> {
    /// The state of a guest that waits for its request: a kept one, or a new one.
    ///
    /// `initrd`: the file with the guest's files, without a request; `contents`: its contents; `large`: the files beside it; `folder`: where
    /// the state is kept.
    ///
    /// Returns the state, or the reason why none can be kept.
    ///
    /// # Errors
    /// A signal came.
    pub(super) fn booted(
        &self,
        (kernel, guest, aslr): (&Kernel, &GuestPlan, Aslr),
        (initrd, contents, large): (&Path, &[u8], Option<&LargeFiles>),
        folder: PathBuf,
        say: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Result<BootedState, String>> {
        let interrupted = || fail(Status::Interrupted, "interrupted before the first run");
        let key = self.key(kernel, guest, aslr, contents, large);
        sweep(&folder);
        let making = opcost_kernel::lock(
            &folder.join(LOCKS),
            &format!("{key}.{MAKING}"),
            self.interrupt,
            say,
        );
        let _making = match making {
            Ok(lock) => lock,
            Err(_) if self.interrupt.is_set() => return Err(interrupted()),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let using = lock_file(&folder, &key).and_then(|file| file.lock_shared().map(|()| file));
        let using = match using {
            Ok(file) => file,
            Err(error) => return Ok(Err(format!("'{}': {error}", folder.display()))),
        };
        let place = folder.join(&key);
        let mut opened = open(&place);
        if opened.is_none() {
            say(&format!("booting kernel {} to keep its state", kernel.name), None);
            match self.make(kernel, guest, aslr, (initrd, large), &place) {
                Ok(()) => make_room(&folder),
                Err(NotKept::Interrupted) => return Err(interrupted()),
                Err(NotKept::Because(why)) => return Ok(Err(why)),
            }
            opened = open(&place);
        }
        let Some(opened) = opened else {
            return Ok(Err(format!("'{}' is not what was just written there", place.display())));
        };
        let _ = fs::write(place.join(USED), "");
        Ok(Ok(BootedState { opened, folder: place, _using: using }))
    }

    /// The digest of everything that a boot depends on.
    fn key(
        &self,
        kernel: &Kernel,
        guest: &GuestPlan,
        aslr: Aslr,
        initrd: &[u8],
        large: Option<&LargeFiles>,
    ) -> String {
        let nowhere = Path::new("");
        let files = GuestFiles {
            kernel: nowhere,
            start: Start::Stop { initrd: nowhere, memory: nowhere },
            // The initramfs has the list of these files with a hash of their contents.
            large: large.map(|large| (nowhere, large.memory_bytes())),
            console: nowhere,
            channel: nowhere,
        };
        let line = command_line::system(guest, &files, boot_inputs(aslr));
        let tools = &self.equipment(guest.architecture).tools;
        let qemu = tool_state(&tools.qemu).map(|state| state.sha256).unwrap_or_default();
        let initrd = opcost_kernel::digest(initrd);
        let counting = format!("counting {COUNTING_VERSION}");
        key_of(&line, &[&tools.qemu_version, &qemu, &kernel.digest, &initrd, &counting])
    }

    /// Boots a guest, stops it where it waits, and writes its state to `place`.
    fn make(
        &self,
        kernel: &Kernel,
        guest: &GuestPlan,
        aslr: Aslr,
        (initrd, large): (&Path, Option<&LargeFiles>),
        place: &Path,
    ) -> Result<(), NotKept> {
        let because = |error: anyhow::Error| NotKept::Because(format!("{error:#}"));
        let fresh = place.with_extension(MAKING);
        let made = || -> io::Result<()> {
            remove(&fresh)?;
            remove(place)?;
            fs::create_dir_all(&fresh)
        };
        let cannot = |error: io::Error| {
            NotKept::Because(format!("cannot write '{}': {error}", fresh.display()))
        };
        made().map_err(cannot)?;
        let files = self.files("booted").map_err(because)?;
        let (memory, devices) = (fresh.join(MEMORY), fresh.join(DEVICES));
        let start = Start::Stop { initrd, memory: &memory };
        let large = match large {
            Some(large) => {
                let image = large.image().map_err(|error| NotKept::Because(error.to_string()))?;
                Some((image, large.memory_bytes()))
            }
            None => None,
        };
        let stopped = self.boot_and_stop(kernel, guest, aslr, (start, large), (files, &devices));
        let keep = || -> io::Result<()> {
            let key = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let description = Description {
                key,
                kernel: kernel.name.clone(),
                kernel_digest: kernel.digest.clone(),
                emulator: self.equipment(guest.architecture).tools.qemu_version.clone(),
                machine: guest.describe(),
                made_unix_ns: unix_ns(),
                memory_bytes: fs::metadata(&memory)?.len(),
                devices_digest: opcost_kernel::digest(&fs::read(&devices)?),
            };
            fs::write(fresh.join(DESCRIPTION), serde_json::to_vec_pretty(&description)?)?;
            // The new state counts as the most recently used; otherwise it could be removed to make room.
            fs::write(fresh.join(USED), "")?;
            fs::rename(&fresh, place)
        };
        stopped.and_then(|()| keep().map_err(cannot)).inspect_err(|_| {
            let _ = remove(&fresh);
        })
    }

    fn boot_and_stop(
        &self,
        kernel: &Kernel,
        guest: &GuestPlan,
        aslr: Aslr,
        (start, large): (Start<'_>, Option<(&Path, u64)>),
        (files, devices): (Files, &Path),
    ) -> Result<(), NotKept> {
        let because = |error: anyhow::Error| NotKept::Because(format!("{error:#}"));
        let (console, channel) = (files.path("console"), files.path("channel"));
        let guest_files = GuestFiles {
            kernel: &kernel.image,
            start,
            large,
            console: &console,
            channel: &channel,
        };
        let equipment = self.equipment(guest.architecture);
        let tools = &equipment.tools;
        let mut argv: Vec<OsString> = vec![tools.qemu.clone().into()];
        argv.extend(command_line::system(guest, &guest_files, boot_inputs(aslr)));
        // The plugin keeps time as in the runs, so that a direct boot reaches the same state.
        let (mode, report) = (Self::mode_argument(Emulator::System), files.path("report"));
        let arguments = [mode, "window=never".into()];
        argv.extend(command_line::plugin(&tools.plugin, &arguments, &[("out", &report)]));
        let env = Some(equipment.qemu_environment.clone());
        let spawn = Spawn { env, ..Spawn::new(&tools.qemu, argv) };
        let (mut flight, mut monitor) = launch(spawn, files, self.interrupt).map_err(because)?;
        let mut stopped = monitor.begin();
        if stopped.is_ok() {
            stopped = monitor.event("STOP");
        }
        match stopped {
            Ok(()) => {}
            // QEMU ended instead; the guest's output may say why.
            Err(MonitorError::Gone) => {
                let Some(exit) = flight.wait(Some(LIMIT), self.interrupt).map_err(because)? else {
                    return Err(NotKept::Interrupted);
                };
                if exit.status == ProgramStatus::Signal(SIGBUS) {
                    return Err(NotKept::Because(no_room(start)));
                }
                let (stderr, console) = (flight.files.tail("stderr"), flight.files.tail("console"));
                let traces = Traces {
                    exit: &exit,
                    limit_ms: None,
                    stderr: &stderr,
                    console: &console,
                    plugin: None,
                    modules: None,
                };
                let said = outcome::guest_frames(&traces, &fs::read(&channel).unwrap_or_default());
                let why = match said {
                    Err(failure) => opcost_base::failure::in_words(&failure),
                    Ok(_) => "the guest did not wait for its request".into(),
                };
                return Err(NotKept::Because(why));
            }
            Err(error) => return Err(error.into()),
        }
        // QEMU also reports success if the program that reads the state could not write it.
        let (written, said) = (flight.files.path("written"), flight.files.path("said"));
        let [to, said_to, end] = [devices, &said, &written].map(quoted);
        let uri = format!("exec:cat 2>{said_to} >{to}; echo $? >{end}");
        monitor.execute("migrate", json!({ "uri": uri }))?;
        monitor.migrated()?;
        // QEMU may end before it answers.
        let _ = monitor.execute("quit", serde_json::Value::Null);
        match flight.wait(Some(LIMIT), self.interrupt).map_err(because)? {
            Some(exit) => {
                self.note("  a guest boots whose state is kept", Spent::of_emulator(&exit))
            }
            None => return Err(NotKept::Interrupted),
        }
        wait_for_status(&written, WRITTEN_WITHIN).map_err(|status| {
            let said = flight.files.tail("said");
            let said = said.lines().next().map_or(status, str::to_string);
            NotKept::Because(format!("cannot write '{}': {said}", devices.display()))
        })
    }
}

/// The digest of QEMU's arguments and of the other data that a boot depends on.
fn key_of(line: &[OsString], others: &[&str]) -> String {
    let mut text = line.join(OsStr::new("\n")).into_encoded_bytes();
    for part in others {
        text.push(b'\n');
        text.extend_from_slice(part.as_bytes());
    }
    opcost_kernel::digest(&text)
}

/// The reason if the file of a guest's memory cannot grow.
fn no_room(start: Start<'_>) -> String {
    let place = match start {
        Start::Stop { memory, .. } => memory.display().to_string(),
        _ => "its file".into(),
    };
    format!(
        "there is no room for the guest's memory in '{place}'; free some, or put the cache elsewhere \
         (XDG_CACHE_HOME)"
    )
}

/// Waits for a command's exit status in a shell's file; an error if it failed or did not end.
fn wait_for_status(path: &Path, limit: Duration) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match fs::read_to_string(path).as_deref() {
            Ok("0\n") => return Ok(()),
            Ok(text) if text.ends_with('\n') => {
                return Err(format!("cat ended with {}", text.trim()));
            }
            _ if begun.elapsed() > limit => return Err("cat did not end".into()),
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Starts a QEMU that takes commands over a monitor.
pub(super) fn launch<'a>(
    mut spawn: Spawn,
    files: Files,
    interrupt: &'a Interrupt,
) -> Result<(Flight, Monitor<'a>)> {
    let (monitor, theirs) = Monitor::pair(LIMIT, interrupt)
        .map_err(|error| fail(Status::Missing, format!("cannot make a socket: {error}")))?;
    spawn.pass_fds.push((theirs, MONITOR_FD));
    // opcost's copy of QEMU's end is closed here; otherwise the end of QEMU would go unnoticed.
    Ok((Flight::launch(spawn, files)?, monitor))
}

#[cfg(test)]
#[path = "booted_tests.rs"]
mod tests;
