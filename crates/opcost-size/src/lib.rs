//! Compares two programs, object files, archives or kernels, byte by byte.
//!
//! The data flows one way: files → [`Inventory`] of each → [`SizeDifference`] → bytes. Every byte
//! in memory belongs to one section, and in the section to one symbol or to none, so the rows add
//! up to the change of the whole.

#![forbid(unsafe_code)]

mod a64;
mod a64_feature;
mod alignment;
mod alone;
mod archive;
mod code;
mod cover;
mod difference;
mod error;
mod family;
mod function;
mod inlined;
mod inventory;
mod object_file;
mod operand;
mod pairing;
mod read;
mod refused;
mod totals;

pub use alignment::{Aligned, align, align_lines, align_pieces};
pub use alone::{FileSizes, SizedSymbol, sizes};
pub use code::{Code, CodeError, Instruction, disassemble, disassemble_at};
pub use difference::{Measured, Part, SectionRow, SizeDifference, SizeSide, SymbolRow, compare};
pub use error::{ContentsError, SizeError};
pub use function::{FunctionDifference, compare_function};
pub use inventory::{Inventory, Names, SectionSize, SymbolSize};
pub use operand::CodeNames;
pub use refused::{Ran, Refused};
pub use totals::{Class, Totals};
