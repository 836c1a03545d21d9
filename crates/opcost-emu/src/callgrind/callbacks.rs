//! The functions that QEMU calls, and the state of all threads.

use super::child;
use super::code::{Block, Code, Site};
use super::dump::{Counts, style};
use super::fatal::{self, Dispositions};
use super::log::{Messages, file_name};
use super::registers;
use super::request::{self, Request};
use super::thread::{Action, Thread};
use crate::api::{self, Api, Id, NO_REGISTERS, READ_WRITE};
use crate::target::Target;
use opcost_callgrind::cache::Caches;
use opcost_callgrind::settings::{Log, Settings};
use opcost_callgrind::write::{self, Dump};
use opcost_record::printable::printable_bytes;
use opcost_record::symbols::PAGE_BYTES;
use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::ffi::{c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The largest number of threads at a time.
const THREADS_MAX: usize = 1 << 12;

/// Numbers of system calls on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
mod number {
    pub(super) const MMAP: i64 = 9;
    pub(super) const MUNMAP: i64 = 11;
    pub(super) const RT_SIGACTION: i64 = 13;
    pub(super) const RT_SIGRETURN: i64 = 15;
    pub(super) const MREMAP: i64 = 25;
    pub(super) const EXECVE: i64 = 59;
    pub(super) const KILL: i64 = 62;
    pub(super) const TKILL: i64 = 200;
    pub(super) const TGKILL: i64 = 234;
    pub(super) const EXECVEAT: i64 = 322;
}

/// A thread, and the lock that guards it once there are several.
struct Slot {
    lock: Mutex<()>,
    thread: UnsafeCell<Thread>,
}

/// The files of dumps of one process.
#[derive(Default)]
struct Dumps {
    pid: u32,
    name: String,
    parts: u32,
    blocks: u64,
    collected: Vec<u64>,
}

/// The state. Locks are taken in the order of the fields.
struct State {
    api: &'static Api,
    target: &'static Target,
    settings: Settings,
    folder: PathBuf,
    command: String,
    counting: AtomicBool,
    /// Whether there was more than one thread.
    several: AtomicBool,
    dumps: Mutex<Dumps>,
    slots: Box<[AtomicPtr<Slot>]>,
    code: Mutex<Code>,
    caches: Mutex<Caches>,
    messages: Mutex<Messages>,
    handlers: Mutex<HashSet<u64>>,
    dispositions: Dispositions,
}

static STATE: OnceLock<State> = OnceLock::new();

/// Locks something; a panic elsewhere does not end the program that is counted.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn state() -> &'static State {
    STATE.get().expect("callbacks are registered after the state was set up")
}

/// Sets counting up as callgrind does it.
///
/// `word`: the settings, as opcost encoded them.
///
/// # Safety
/// QEMU installs the plugin, and calls nothing meanwhile.
///
/// # Errors
/// The settings cannot be read, or a file cannot be opened.
pub(crate) unsafe fn install(
    id: Id,
    api: &'static Api,
    target: &'static Target,
    word: &str,
) -> Result<(), String> {
    if target.architecture != opcost_record::Architecture::X86_64 || api.data {
        return Err(
            "callgrind's way of counting is for programs of x86-64 and QEMU up to 11.0".into()
        );
    }
    if api::current_cpu().is_none() {
        return Err(
            "this QEMU does not export current_cpu, so registers cannot be read; use Debian's QEMU"
                .into(),
        );
    }
    let settings =
        Settings::decode(word).ok_or("argument callgrind= is of another version of opcost")?;
    let mut messages = Messages::open(&settings)?;
    let (_, command) = child::command_line();
    let command =
        command.iter().map(|word| printable_bytes(word.as_bytes())).collect::<Vec<_>>().join(" ");
    let parent = format!("Parent PID: {}", std::os::unix::process::parent_id());
    let title = concat!(
        "Callgrind of opcost ",
        env!("CARGO_PKG_VERSION"),
        ": counts instructions and calls with QEMU"
    );
    let line = format!("Command: {command}");
    let mut lines = vec![title, &line];
    if matches!(settings.log, Log::File(_)) {
        lines.push(&parent);
    }
    if settings.collect_jumps {
        lines.push(
            "--collect-jumps=yes: opcost counts no jumps; the file has instructions and calls",
        );
    }
    lines.push("");
    messages.say(false, &lines);
    let mut slots = Vec::new();
    slots.resize_with(THREADS_MAX, AtomicPtr::default);
    let state = State {
        api,
        target,
        folder: std::env::current_dir().unwrap_or_default(),
        command,
        counting: AtomicBool::new(settings.instr_atstart),
        several: AtomicBool::new(false),
        dumps: Mutex::default(),
        slots: slots.into(),
        code: Mutex::new(Code::new()),
        caches: Mutex::new(Caches::new(settings.caches)),
        messages: Mutex::new(messages),
        handlers: Mutex::default(),
        dispositions: Dispositions::default(),
        settings,
    };
    STATE.set(state).map_err(|_| "the plugin is loaded twice")?;
    let functions = &api.functions;
    // SAFETY: QEMU up to version 6 of the API calls functions of these types.
    unsafe {
        (functions.on_vcpu)(id, on_vcpu as _, null_mut());
        (functions.on_translation)(id, on_translation as _, null_mut());
        (functions.on_exit)(id, on_exit as _, null_mut());
        (functions.on_system_call)(id, on_system_call as _, null_mut());
    }
    Ok(())
}

/// Registers a block.
unsafe extern "C" fn on_translation(_: Id, handle: *mut c_void) {
    let state = state();
    // SAFETY: QEMU passes the block that it translates; blocks and sites live for ever.
    unsafe {
        let made = lock(&state.code).translate(state.api, state.target, &state.settings, handle);
        let Some(made) = made else { return };
        let functions = &state.api.functions;
        (functions.on_block)(
            handle,
            on_block,
            NO_REGISTERS,
            std::ptr::from_ref(made.block).cast_mut().cast(),
        );
        if state.settings.cache_sim {
            for (instruction, index) in made.accesses {
                let index = without_provenance_mut(index);
                (functions.on_memory)(instruction, on_access, NO_REGISTERS, READ_WRITE, index);
            }
        }
        for (instruction, site) in made.requests {
            let site = std::ptr::from_ref(site).cast_mut().cast();
            (functions.on_instruction)(instruction, on_request, NO_REGISTERS, site);
        }
    }
}

impl State {
    fn slot(&self, vcpu: c_uint) -> &'static Slot {
        let place = &self.slots[vcpu as usize % THREADS_MAX];
        let slot = place.load(Ordering::Acquire);
        if !slot.is_null() {
            // SAFETY: slots live for ever.
            return unsafe { &*slot };
        }
        let thread = UnsafeCell::new(Thread::new(vcpu + 1, &self.settings));
        let made = Box::into_raw(Box::new(Slot { lock: Mutex::new(()), thread }));
        place.store(made, Ordering::Release);
        // SAFETY: as above.
        unsafe { &*made }
    }

    /// Locks a thread, if there are several.
    fn guard(&self, slot: &'static Slot) -> Option<MutexGuard<'static, ()>> {
        self.several.load(Ordering::Relaxed).then(|| lock(&slot.lock))
    }

    fn is_counting(&self) -> bool {
        self.counting.load(Ordering::Relaxed)
    }

    /// Does something to each thread. The caller holds no thread.
    fn each(&self, mut act: impl FnMut(&mut Thread)) {
        for place in &self.slots {
            let slot = place.load(Ordering::Acquire);
            if slot.is_null() {
                continue;
            }
            // SAFETY: slots live for ever, and the lock guards the thread.
            unsafe {
                let _guard = lock(&(*slot).lock);
                act(&mut *(*slot).thread.get());
            }
        }
    }

    fn act(&self, action: &Action) {
        match action {
            Action::Zero => self.each(Thread::clear),
            Action::Dump(trigger) => self.dump(Some(trigger)),
        }
    }

    fn say(&self, needed: bool, lines: &[&str]) {
        lock(&self.messages).say(needed, lines);
    }

    /// Writes the counts so far and sets them to zero.
    ///
    /// `trigger`: what asks for it; `None` at the program's end.
    fn dump(&self, trigger: Option<&str>) {
        self.write(trigger);
        self.each(Thread::clear);
    }

    /// Writes the counts in case that the program ends now; an orderly end writes them again.
    fn write_before_death(&self) {
        let (parts, blocks, collected) = {
            let dumps = lock(&self.dumps);
            let ours = dumps.pid == std::process::id();
            if ours {
                (dumps.parts, dumps.blocks, dumps.collected.clone())
            } else {
                (0, 0, Vec::new())
            }
        };
        self.write(None);
        let mut dumps = lock(&self.dumps);
        (dumps.parts, dumps.blocks, dumps.collected) = (parts, blocks, collected);
    }

    fn write(&self, trigger: Option<&str>) {
        let mut dumps = lock(&self.dumps);
        let pid = std::process::id();
        if dumps.pid != pid {
            match file_name(&self.settings.out_file) {
                Ok(name) => *dumps = Dumps { pid, name, ..Dumps::default() },
                Err(why) => return self.say(true, &[&format!("--callgrind-out-file={why}")]),
            }
        }
        dumps.parts += 1;
        let mut parts: Vec<(Option<u32>, Counts)> = Vec::new();
        self.each(|thread| {
            let counts = Counts::of(thread);
            if self.settings.separate_threads {
                parts.push((Some(thread.number), counts));
            } else if let Some((_, sums)) = parts.first_mut() {
                sums.add(counts);
            } else {
                parts.push((None, counts));
            }
        });
        let before = dumps.blocks;
        dumps.blocks += parts.iter().map(|(_, counts)| counts.blocks).sum::<u64>();
        for (thread, counts) in parts {
            let caches = match self.settings.cache_sim {
                true => self.settings.caches.map(|shape| shape.described()),
                false => Default::default(),
            };
            let head = Dump {
                pid,
                command: self.command.clone(),
                part: dumps.parts,
                thread,
                caches,
                blocks: (before, dumps.blocks),
                trigger: trigger.unwrap_or("Program termination").to_owned(),
                ..Dump::default()
            };
            let dump = counts.dump(&mut lock(&self.code), &self.settings, head);
            let totals = dump.totals();
            dumps.collected.resize(totals.len(), 0);
            dumps.collected.iter_mut().zip(&totals).for_each(|(sum, total)| *sum += total);
            let mut name = dumps.name.clone();
            if trigger.is_some() && !self.settings.combine_dumps {
                name.push_str(&format!(".{}", dumps.parts));
            }
            if let Some(thread) = thread {
                name.push_str(&format!("-{thread:02}"));
            }
            self.put(&name, &write::write(&dump, style(&self.settings)), dumps.parts > 1);
        }
        if trigger.is_none() {
            self.summarise(&dumps.collected);
        }
    }

    /// Notes that the program sends itself a signal.
    fn sends(&self, signal: i32) {
        if self.dispositions.are_fatal(signal) {
            self.write_before_death();
        }
    }

    fn put(&self, name: &str, text: &str, again: bool) {
        let path = self.folder.join(name);
        let mut options = std::fs::OpenOptions::new();
        let appends = again && self.settings.combine_dumps;
        options.create(true).write(true).append(appends).truncate(!appends);
        let written = options
            .open(&path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        if let Err(error) = written {
            self.say(true, &[&format!("cannot write {}: {error}; give --callgrind-out-file a place that can be written", path.display())]);
        }
    }

    /// Writes the totals, as Valgrind does at the end.
    fn summarise(&self, collected: &[u64]) {
        let names = ["Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw"];
        let numbers: Vec<String> = collected.iter().map(u64::to_string).collect();
        let mut lines = vec![
            format!("Events    : {}", names[..collected.len()].join(" ")),
            format!("Collected : {}", numbers.join(" ")),
            String::new(),
        ];
        let mut line =
            |name: &str, number: u64| lines.push(format!("{name:<13} {:>15}", grouped(number)));
        if let [instructions, rest @ ..] = collected {
            line("I   refs:", *instructions);
            if let [loads, stores, code, load, store, code_last, load_last, store_last] = rest {
                line("I1  misses:", *code);
                line("LLi misses:", *code_last);
                line("D   refs:", loads + stores);
                line("D1  misses:", load + store);
                line("LLd misses:", load_last + store_last);
            }
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        self.say(false, &lines);
    }
}

/// A number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Called when a block begins.
unsafe extern "C" fn on_block(vcpu: c_uint, data: *mut c_void) {
    let state = state();
    let slot = state.slot(vcpu);
    // SAFETY: the data are those of this callback, the lock guards the thread where there are several, and this thread runs it.
    unsafe {
        let block: &'static Block = &*data.cast();
        let mut guard = state.guard(slot);
        let mut thread = &mut *slot.thread.get();
        if thread.registers.is_null() {
            fatal::hold();
            thread.registers = registers::of_this_thread(block.start);
            if thread.registers.is_null() {
                state.say(true, &["the program's registers were not found in this QEMU, so its calls cannot be followed; use Debian's QEMU"]);
                std::process::exit(5);
            }
        }
        if fatal::pending() || block.traps.is_some() {
            drop(guard.take());
            let is_fatal = state.dispositions.are_fatal(fatal::SIGILL);
            fatal::pass_on(&state.dispositions, || state.write_before_death());
            if let Some(why) = block.traps.as_ref().filter(|_| is_fatal) {
                state.say(true, &[why]);
                state.write_before_death();
            }
            guard = state.guard(slot);
            thread = &mut *slot.thread.get();
        }
        if block.codes.is_some() {
            thread.keep_registers();
        }
        if !state.is_counting() {
            return thread.pass(block);
        }
        if thread.repeats(block) {
            return thread.repeat(block);
        }
        if !thread.goes_on(block) {
            if thread.may_be_interrupted() && lock(&state.handlers).contains(&block.start) {
                thread.interrupt(thread.collects);
            }
            thread.turn(block, &lock(&state.code).files, &state.settings);
            if !thread.actions.is_empty() {
                let actions = std::mem::take(&mut thread.actions);
                drop(guard.take());
                actions.iter().for_each(|action| state.act(action));
                guard = state.guard(slot);
                thread = &mut *slot.thread.get();
            }
        }
        thread.count(block);
        if state.settings.cache_sim {
            // Caches fill as in Valgrind also while nothing is collected.
            let collects = thread.collects;
            let mut caches = lock(&state.caches);
            for (index, ends) in block.addresses.windows(2).enumerate() {
                let misses = caches.fetch(ends[0], ends[1] - ends[0]);
                if misses.first && collects {
                    thread.spend(index, 3);
                }
                if misses.last && collects {
                    thread.spend(index, 6);
                }
            }
        }
        drop(guard);
    }
}

/// Called when an instruction accesses memory; `data`: its place in the block.
unsafe extern "C" fn on_access(vcpu: c_uint, access: u32, address: u64, data: *mut c_void) {
    let state = state();
    let slot = state.slot(vcpu);
    // SAFETY: as in `on_block`; QEMU passed the description to this callback.
    unsafe {
        let _guard = state.guard(slot);
        let thread = &mut *slot.thread.get();
        if !state.is_counting() {
            return;
        }
        let functions = &state.api.functions;
        let store = usize::from((functions.memory_is_store)(access));
        let bytes = 1u64 << (functions.memory_size_shift)(access);
        let misses = lock(&state.caches).access(address, bytes);
        if !thread.collects {
            return;
        }
        let index = data.addr();
        thread.spend(index, 1 + store);
        if misses.first {
            thread.spend(index, 4 + store);
        }
        if misses.last {
            thread.spend(index, 7 + store);
        }
    }
}

/// Called when a client request begins.
unsafe extern "C" fn on_request(vcpu: c_uint, data: *mut c_void) {
    let state = state();
    let slot = state.slot(vcpu);
    // SAFETY: as in `on_block`.
    unsafe {
        let Site { block, index } = &*data.cast::<Site>();
        let mut guard = state.guard(slot);
        let mut thread = &mut *slot.thread.get();
        let codes = block.codes.as_deref().unwrap_or_default();
        let arguments = request::arguments(&thread.begun, &codes[..*index], block.start);
        let asked = match arguments.map(request::read) {
            Some(Ok(Some(asked))) => asked,
            Some(Ok(None)) => return,
            _ => {
                let at = block.addresses[*index];
                let line = format!(
                    "client request at {at:#x}: its arguments cannot be read in this QEMU, so it has no effect"
                );
                return state.say(true, &[&line]);
            }
        };
        // The block was counted whole when it began: behind the request other rules hold.
        if state.is_counting() && thread.collects {
            thread.change(index + 1, -1);
        }
        match asked {
            Request::ToggleCollect => thread.collects ^= true,
            Request::Start | Request::Stop => {
                drop(guard.take());
                let starts = asked == Request::Start;
                if state.counting.swap(starts, Ordering::Relaxed) != starts {
                    state.each(|thread| thread.restart(&state.settings, &lock(&state.code).files));
                }
            }
            Request::Zero => {
                drop(guard.take());
                state.act(&Action::Zero);
            }
            Request::Dump(name) => {
                drop(guard.take());
                let name = name.map(|name| format!("Client Request: {name}"));
                state.act(&Action::Dump(name.unwrap_or_else(|| "Client Request".into())));
            }
        }
        if guard.is_none() {
            guard = state.guard(slot);
        }
        thread = &mut *slot.thread.get();
        if state.is_counting() && thread.collects {
            thread.change(index + 1, 1);
        }
        drop(guard);
    }
}

/// Called when QEMU makes a thread.
unsafe extern "C" fn on_vcpu(_: Id, vcpu: c_uint) {
    let state = state();
    if vcpu > 0 {
        state.several.store(true, Ordering::Relaxed);
    }
    if vcpu as usize >= THREADS_MAX {
        let line = format!(
            "the program has more than {THREADS_MAX} threads at a time, which opcost does not count; give it fewer"
        );
        state.say(true, &[&line]);
        std::process::exit(5);
    }
    let place = &state.slots[vcpu as usize % THREADS_MAX];
    if place.load(Ordering::Acquire).is_null() {
        state.slot(vcpu);
        return;
    }
    let slot = state.slot(vcpu);
    let _guard = lock(&slot.lock);
    // SAFETY: the thread that had this number has ended, and the new one does not run yet.
    unsafe { (*slot.thread.get()).begin_again(&state.settings, &lock(&state.code).files) };
}

#[allow(clippy::too_many_arguments, reason = "QEMU's type")]
unsafe extern "C" fn on_system_call(
    _: Id,
    vcpu: c_uint,
    number: i64,
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    let state = state();
    match number {
        number::MMAP | number::MUNMAP | number::MREMAP => lock(&state.code).files.stale = true,
        number::RT_SIGACTION => {
            // The handler is the first word of the kernel's structure; 0 and 1 are no handlers.
            if let Some(handler) = registers::word(second).filter(|_| second != 0) {
                state.dispositions.set(first as i32, handler);
                if handler > 1 {
                    lock(&state.handlers).insert(handler);
                }
            }
        }
        number::RT_SIGRETURN if state.is_counting() => {
            let slot = state.slot(vcpu);
            let _guard = state.guard(slot);
            // SAFETY: as in `on_block`.
            unsafe { (*slot.thread.get()).return_from_signal(&lock(&state.code).files) };
        }
        number::KILL if [0, std::process::id()].contains(&(first as u32)) => {
            state.sends(second as i32)
        }
        number::TKILL if Path::new(&format!("/proc/self/task/{first}")).exists() => {
            state.sends(second as i32)
        }
        number::TGKILL if first as u32 == std::process::id() => state.sends(third as i32),
        number::EXECVE => child::execute(&state.settings, first, second, third),
        number::EXECVEAT => child::execute(&state.settings, second, third, fourth),
        _ => {}
    }
}

/// Called when memory cannot be accessed, before QEMU handles that.
pub(super) fn on_fault(address: u64) {
    let state = state();
    let page = address.wrapping_sub(registers::base()) / PAGE_BYTES as u64;
    // QEMU protects pages with code, and notices stores to them this way.
    if state.dispositions.are_fatal(fatal::FAULT_SIGNAL) && !lock(&state.code).pages.contains(&page)
    {
        state.write_before_death();
    }
}

/// Called when the program ends.
unsafe extern "C" fn on_exit(_: Id, _: *mut c_void) {
    let state = state();
    lock(&state.messages).follow_fork(state.settings.child_silent_after_fork);
    state.each(|thread| thread.end(&lock(&state.code).files));
    state.dump(None);
}
