//! Disassembles a function with names in place of addresses, so that code that only moved reads the
//! same.

use super::error::ContentsError;
use super::inventory::SymbolSize;
use super::operand::{CodeNames, Names};
use super::{a64, archive, object_file};
use iced_x86::{
    Decoder, DecoderOptions, Formatter, GasFormatter, Instruction as Decoded, SymbolResolver,
    SymbolResult,
};
use object::{Architecture, File, Object, ObjectSection, Section, SectionIndex};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// The most instructions of a function: aligning takes time with their square.
const INSTRUCTIONS_MAX: usize = 50_000;

/// The most instructions of a function that are shown with their costs, which takes time in proportion to their number.
const COSTED_INSTRUCTIONS_MAX: usize = 1 << 20;

/// The code of one function.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Code {
    /// The address of the first byte, as linked.
    pub address: u64,
    /// The function's size.
    pub bytes: u64,
    /// The instructions in their order.
    pub instructions: Vec<Instruction>,
}

/// An instruction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Instruction {
    /// The offset from the function's first byte.
    pub offset: u64,
    /// The instruction, with names instead of addresses.
    pub text: String,
    /// The offset in the function that the instruction branches to.
    pub target: Option<u64>,
    /// Whether the instruction reads or writes memory at a fixed address that nothing can change once the program runs.
    pub is_constant: bool,
}

/// Disassembles a function.
///
/// `bytes`: the file; `symbol`: the function in its inventory.
///
/// # Errors
/// [`CodeError`].
pub fn disassemble(bytes: &[u8], symbol: &SymbolSize<'_>) -> Result<Code, CodeError> {
    let contents = match symbol.member {
        None => bytes,
        Some(wanted) => {
            let members = archive::members(bytes)?;
            let found = members.into_iter().find(|(name, _)| *name == wanted);
            found.map_or(&[][..], |(_, contents)| contents)
        }
    };
    let file = object_file::parse(contents)?;
    let (section, start) = symbol.place;
    let section = file.section_by_index(SectionIndex(section)).map_err(ContentsError::from)?;
    let end = start.saturating_add(symbol.bytes);
    let names = CodeNames::of(&file, &file, contents);
    decode(&file, &names, &section, start..end, INSTRUCTIONS_MAX)
}

/// Disassembles the code at addresses of a program, a library or a kernel.
///
/// `bytes`: the file; `names`: its names; `range`: addresses as linked.
///
/// # Errors
/// [`CodeError`].
pub fn disassemble_at(
    bytes: &[u8],
    names: &CodeNames,
    range: Range<u64>,
) -> Result<Code, CodeError> {
    let file = object_file::parse(bytes)?;
    let holds = |section: &Section<'_, '_>| {
        let end = section.address().saturating_add(section.size());
        section.address() <= range.start && range.end <= end && object_file::is_code(section)
    };
    let section = file.sections().find(holds).ok_or(CodeError::NoContents)?;
    let base = section.address();
    decode(&file, names, &section, range.start - base..range.end - base, COSTED_INSTRUCTIONS_MAX)
}

/// Decodes the instructions in a range of a section.
fn decode<'d, 'f>(
    file: &'f File<'d>,
    names: &'f CodeNames,
    section: &Section<'d, 'f>,
    Range { start, end }: Range<u64>,
    instructions_max: usize,
) -> Result<Code, CodeError> {
    let architecture = file.architecture();
    if !matches!(architecture, Architecture::X86_64 | Architecture::Aarch64) {
        return Err(CodeError::Architecture);
    }
    let data = section.data().map_err(ContentsError::from)?;
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let code = range.and_then(|(start, end)| data.get(start..end)).ok_or(CodeError::NoContents)?;
    let address = section.address().wrapping_add(start);
    let bytes = end - start;
    let names = Names::of(file, names, section, address..address.wrapping_add(bytes));
    if architecture == Architecture::Aarch64 {
        return a64::decode(code, address, &names, instructions_max);
    }
    let operands = Rc::new(RefCell::new(Operands::default()));
    let mut formatter =
        GasFormatter::with_options(Some(Box::new(Resolver(operands.clone()))), None);
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_rip_relative_addresses(true);
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instructions = Vec::new();
    let mut decoded = Decoded::default();
    while decoder.can_decode() {
        if instructions.len() == instructions_max {
            return Err(CodeError::Long { instructions_max });
        }
        decoder.decode_out(&mut decoded);
        let constants = decoder.get_constant_offsets(&decoded);
        let target = names.target(&decoded, &constants);
        *operands.borrow_mut() = Operands {
            displacement: names.displacement(&decoded, &constants),
            immediate: names.immediate(&decoded, &constants),
        };
        let mut text = String::new();
        formatter.format(&decoded, &mut text);
        let offset = decoded.ip().wrapping_sub(address);
        let is_constant = names.is_constant(&decoded);
        instructions.push(Instruction { offset, text, target, is_constant });
    }
    Ok(Code { address, bytes, instructions })
}

/// Names of the operands of the instruction being formatted.
#[derive(Default)]
struct Operands {
    displacement: Option<String>,
    immediate: Option<String>,
}

struct Resolver(Rc<RefCell<Operands>>);

impl SymbolResolver for Resolver {
    fn symbol(
        &mut self,
        instruction: &Decoded,
        _operand: u32,
        instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        let operand = instruction_operand.filter(|operand| *operand < instruction.op_count())?;
        let memory = instruction.op_kind(operand) == iced_x86::OpKind::Memory;
        let operands = self.0.borrow();
        let name = if memory { &operands.displacement } else { &operands.immediate };
        name.clone().map(|name| SymbolResult::with_string(address, name))
    }
}

/// Why a function's code cannot be shown.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CodeError {
    /// The code is another machine's.
    #[error("code is disassembled for 64-bit x86 and 64-bit ARM only; leave --function out")]
    Architecture,
    /// The file has no code, like a debug file.
    #[error(
        "the file has the function's size but not its code (a debug file?); give the file that has it"
    )]
    NoContents,
    /// The function is too long to align.
    #[error(
        "it has more than {instructions_max} instructions, too many to compare; compare its size only"
    )]
    Long {
        /// The limit.
        instructions_max: usize,
    },
    /// The file is broken.
    #[error(transparent)]
    Contents(#[from] ContentsError),
}
