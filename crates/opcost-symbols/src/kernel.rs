//! Reads the symbols of a kernel from the text of `/proc/kallsyms` or a `System.map`.
//!
//! Each symbol ends where the next symbol of data or text begins. The last symbol of the kernel, and
//! of each module, is taken to be at most a page long, since nothing tells what follows. Marks of
//! sections' limits (`_etext`, `__sched_text_end`) end the symbol before them and start nothing.
//! Padding in front of a function (`__pfx_f` directly before `f`) belongs to the function as a part of
//! its own, since control enters behind it. The labels in the kernel's entries belong to the entries.

use super::alias::{best, is_mark, padded};
use super::label::is_inside;
use super::span::Span;
use super::{Part, landmark};
use crate::keyed::KeyedMap;
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use opcost_record::symbols::{Landmark, LandmarkAt, PAGE_BYTES};
use std::collections::HashMap;

/// The start of the kernel's half of the address space. Below it, kallsyms lists offsets of per-CPU
/// variables and absolute values.
const KERNEL_HALF: u64 = 1 << 63;

/// Functions and landmarks of a kernel.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KernelSymbols {
    /// Functions by address, ascending, disjoint; the module is [`KERNEL`], or a loadable module in
    /// brackets. Padding in front of a function is a part of that function.
    pub parts: Vec<Part>,
    /// Addresses with a meaning, ascending.
    pub landmarks: Vec<LandmarkAt>,
}

/// Why a text holds no symbols of a kernel.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum KernelSymbolsError {
    /// A line has the wrong form.
    #[error(
        "line {line} of the kernel's symbols is not 'address type name': {text:?}; \
         give the contents of /proc/kallsyms or of the kernel's System.map"
    )]
    Line {
        /// Line number, from 1.
        line: usize,
        text: String,
    },
    /// All addresses are zero.
    #[error(
        "the kernel hides its addresses: all {symbols} symbols are at zero; read /proc/kallsyms as \
         root with kernel.kptr_restrict at 0 or 1, or give the kernel's System.map"
    )]
    Hidden { symbols: usize },
    /// The text has no function of a kernel.
    #[error(
        "no function at a kernel address among {symbols} symbols; give the contents of \
         /proc/kallsyms (CONFIG_KALLSYMS=y) or the kernel's System.map"
    )]
    Empty { symbols: usize },
}

/// A line of the list.
struct Symbol<'t> {
    address: u64,
    kind: u8,
    name: &'t str,
    module: Option<&'t str>,
}

impl Symbol<'_> {
    /// Whether the symbol is in a text section, or weak (`nm` gives weak data the letter V).
    fn is_text(&self) -> bool {
        matches!(self.kind, b't' | b'T' | b'w' | b'W')
    }

    fn is_local(&self) -> bool {
        self.kind == b't'
    }
}

impl KernelSymbols {
    /// Reads the symbols.
    ///
    /// `text`: lines of `address type name` in any order; a module's lines end with its name in
    /// brackets.
    ///
    /// # Errors
    /// [`KernelSymbolsError`]: a line of another form, addresses hidden by `kptr_restrict`, or no
    /// function at all.
    pub fn parse(text: &str) -> Result<KernelSymbols, KernelSymbolsError> {
        let Read { symbols, functions, entries } = read(text)?;
        let namesakes = Namesakes::of(&functions, functions.iter().map(|span| span.name));
        let mut entries = entries.into_iter().peekable();
        let mut parts = Vec::with_capacity(functions.len());
        for span in &functions {
            let KernelFunction { symbol, module } = span.name;
            let function =
                Function { source: namesakes.source(span), ..Function::new(symbol, module) };
            let mut start = span.start;
            while let Some(entry) = entries.next_if(|entry| *entry < span.end) {
                parts.push(Part { start, end: entry, function: function.clone() });
                start = entry;
            }
            parts.push(Part { start, end: span.end, function });
        }
        let own = symbols.iter().filter(|symbol| symbol.is_text() && symbol.module.is_none());
        let texts = own.map(|symbol| (symbol.name, symbol.address));
        Ok(KernelSymbols { parts, landmarks: landmark::find(&places(&symbols), texts) })
    }

    /// Returns the landmarks that this kernel lacks; events that they would count are unknown. A kernel without functions that a
    /// switch leaves for the way back to user mode has no such work.
    pub fn missing(&self) -> Vec<Landmark> {
        let has = |wanted: Landmark| self.landmarks.iter().any(|at| at.landmark == wanted);
        // A kernel whose system calls and faults enter at one place counts them behind it.
        let optional: &[Landmark] = match has(Landmark::Count) {
            true => &[Landmark::Resume, Landmark::SystemCall, Landmark::Trap],
            false => &[Landmark::Resume, Landmark::Count],
        };
        let absent = |wanted: &Landmark| !optional.contains(wanted) && !has(*wanted);
        Landmark::NAMES.iter().map(|(landmark, _)| *landmark).filter(absent).collect()
    }
}

/// A function of the kernel or of one of its modules.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct KernelFunction<'t> {
    /// The function's name.
    pub symbol: &'t str,
    /// [`KERNEL`], or the module in brackets.
    pub module: &'t str,
}

/// Returns only the functions, whose names stay in the text: [`KernelSymbols::parts`] with less work.
///
/// # Errors
/// As [`KernelSymbols::parse`].
pub fn functions(text: &str) -> Result<Vec<Span<KernelFunction<'_>>>, KernelSymbolsError> {
    read(text).map(|read| read.functions)
}

/// Tells kernel functions of one name apart by their distance from the first function of the kernel
/// or module, since lists of symbols have no source files.
pub struct Namesakes<'t> {
    /// The number of functions with a name, for the names asked for.
    bearers: KeyedMap<KernelFunction<'t>, u32>,
    starts: KeyedMap<&'t str, u64>,
}

impl<'t> Namesakes<'t> {
    /// Looks through all functions of a kernel for those with a name asked for.
    pub fn of(
        all: &[Span<KernelFunction<'t>>],
        asked: impl Iterator<Item = KernelFunction<'t>>,
    ) -> Namesakes<'t> {
        let mut bearers: KeyedMap<KernelFunction<'t>, u32> =
            asked.map(|function| (function, 0)).collect();
        let mut starts = KeyedMap::default();
        let looked_through = if bearers.is_empty() { &[] } else { all };
        // Nearly all names differ in length from the few names asked for.
        let lengths =
            bearers.keys().fold(0u128, |lengths, one| lengths | 1 << (one.symbol.len() % 128));
        let mut module = "";
        for span in looked_through {
            if span.name.module != module {
                module = span.name.module;
                starts.entry(module).or_insert(span.start);
            }
            if lengths >> (span.name.symbol.len() % 128) & 1 != 0
                && let Some(bearers) = bearers.get_mut(&span.name)
            {
                *bearers += 1;
            }
        }
        Namesakes { bearers, starts }
    }

    /// Returns a function's distance if others have its name; `None` if none has.
    pub fn source(&self, span: &Span<KernelFunction<'t>>) -> Option<String> {
        self.bearers.get(&span.name).filter(|bearers| **bearers > 1)?;
        Some(format!("+{:#x}", span.start - self.starts.get(span.name.module)?))
    }
}

/// The contents of a list.
struct Read<'t> {
    /// The symbols by address.
    symbols: Vec<Symbol<'t>>,
    /// The functions that they make.
    functions: Vec<Span<KernelFunction<'t>>>,
    /// The addresses behind the padding of functions that have some, ascending.
    entries: Vec<u64>,
}

fn read(text: &str) -> Result<Read<'_>, KernelSymbolsError> {
    // A typical line has some 40 bytes.
    let mut symbols = Vec::with_capacity(text.len() / 40);
    for (index, text) in text.lines().enumerate() {
        if let Some(symbol) = usual_line(text) {
            symbols.push(symbol);
            continue;
        }
        if text.trim().is_empty() {
            continue;
        }
        let fail =
            || KernelSymbolsError::Line { line: index + 1, text: text.chars().take(200).collect() };
        symbols.push(read_line(text).ok_or_else(fail)?);
    }
    let count = symbols.len();
    if count > 0 && symbols.iter().all(|symbol| symbol.address == 0) {
        return Err(KernelSymbolsError::Hidden { symbols: count });
    }
    // A kernel of 32 bits is in the upper half of these; its addresses continue in the upper half of 64 bits.
    if symbols.iter().all(|symbol| symbol.address <= u64::from(u32::MAX)) {
        for symbol in symbols.iter_mut().filter(|symbol| symbol.address >= 1 << 31) {
            symbol.address |= !u64::from(u32::MAX);
        }
    }
    symbols.retain(|symbol| symbol.address >= KERNEL_HALF && !matches!(symbol.kind, b'a' | b'A'));
    symbols.sort_by_key(|symbol| symbol.address);
    let (functions, entries) = spans(&symbols);
    if functions.is_empty() {
        return Err(KernelSymbolsError::Empty { symbols: count });
    }
    Ok(Read { symbols, functions, entries })
}

/// Parses a line as the kernel writes it for its own functions: 16 digits, a letter and a name, with
/// one space between. Nearly all of a hundred thousand lines have this form.
fn usual_line(text: &str) -> Option<Symbol<'_>> {
    let (address, rest) = text.as_bytes().split_first_chunk::<16>()?;
    let [b' ', kind, b' ', name @ ..] = rest else { return None };
    let mut value = 0;
    for digit in address {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        value = value << 4 | u64::from(digit);
    }
    let plain = kind.is_ascii_alphabetic() && !name.is_empty();
    // This excludes spaces and tabs, and other alphabets' spaces.
    if !plain || !name.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let address = value;
    Some(Symbol { address, kind: *kind, name: &text[19..], module: None })
}

fn read_line(text: &str) -> Option<Symbol<'_>> {
    let mut fields = text.split_whitespace();
    let (address, kind, name) = (fields.next()?, fields.next()?, fields.next()?);
    let module = match fields.next() {
        Some(module) if module.starts_with('[') && module.ends_with(']') => Some(module),
        Some(_) => return None,
        None => None,
    };
    let [kind] = *kind.as_bytes() else { return None };
    let end = fields.next().is_none();
    // nm writes `?` for kinds that it does not know.
    (end && (kind.is_ascii_alphabetic() || kind == b'?')).then_some(())?;
    Some(Symbol { address: u64::from_str_radix(address, 16).ok()?, kind, name, module })
}

/// Makes functions of the symbols, which are in the order of their addresses. Returns them with the addresses behind padding.
fn spans<'t>(symbols: &[Symbol<'t>]) -> (Vec<Span<KernelFunction<'t>>>, Vec<u64>) {
    let mut places = symbols.chunk_by(|one, other| one.address == other.address).peekable();
    let (mut parts, mut entries) = (Vec::new(), Vec::new());
    // The start of the padding in front of the next function.
    let mut padding = None;
    while let Some(here) = places.next() {
        let names = || here.iter().filter(|symbol| symbol.is_text());
        let name = match here {
            [only] if only.is_text() => Some(only.name),
            _ => best(names().map(|symbol| (symbol.name, symbol.is_local()))),
        };
        let Some(name) = name else { continue };
        if is_mark(name) {
            continue;
        }
        // If several symbols here have the name, the kernel's own comes first.
        let module = names().filter(|symbol| symbol.name == name).map(|symbol| symbol.module).min();
        let module = module.flatten();
        let next = places.peek().copied();
        let is_next = |name: &str| {
            next.is_some_and(|next| {
                next.iter().any(|symbol| symbol.name == name && symbol.module == module)
            })
        };
        let address = here[0].address;
        let start = padding.take().unwrap_or(address);
        if padded(name).is_some_and(is_next) {
            padding = Some(start);
            continue;
        }
        let last = address.saturating_add(PAGE_BYTES as u64);
        let end = match next {
            Some(next) if next.iter().any(|symbol| symbol.module == module) => next[0].address,
            Some(next) => next[0].address.min(last),
            None => last,
        };
        let before: Option<&mut Span<KernelFunction>> = parts.last_mut();
        if let Some(before) = before.filter(|part| part.end == start)
            && module.is_none()
            && is_inside(name, before.name.symbol)
        {
            before.end = end;
            continue;
        }
        let name = KernelFunction { symbol: name, module: module.unwrap_or(KERNEL) };
        // Nothing is behind the very last address.
        if start < end {
            parts.push(Span { start, end, name });
            entries.extend((start < address).then_some(address));
        }
    }
    (parts, entries)
}

/// Returns the kernel's own global text symbols by name, each with the next symbol's address.
fn places<'t>(symbols: &[Symbol<'t>]) -> HashMap<&'t str, landmark::AddressRange> {
    let mut places = HashMap::new();
    let mut next = u64::MAX;
    for here in symbols.chunk_by(|one, other| one.address == other.address).rev() {
        for symbol in here {
            if symbol.is_text() && !symbol.is_local() && symbol.module.is_none() {
                places.insert(symbol.name, (symbol.address, next));
            }
        }
        next = here[0].address;
    }
    places
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;
