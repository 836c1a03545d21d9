//! The host's code that counts a program's block where QEMU can only call and add (up to version 2 of the API).
//!
//! A function that serves all blocks has to load a block's line, the place of the block's count, and the plugin's fields. Each
//! block therefore has code of its own, a *stub*, with all numbers and distances in its instructions: the stub compares, counts and stores as
//! QEMU's own code does from version 3 on (`translate.rs`), and goes on to the common function if control may have left the
//! block's function. Stubs stand close to QEMU's translated code, which then calls them without a pointer.
//!
//! Their memory is writable and executable, as QEMU's buffer of translated code is. Where the host refuses such memory, or is no
//! x86-64, the common function serves every block.

use crate::api::{self, ExecCallback};
use crate::block::{Block, Cells};
use crate::low;
use std::mem::offset_of;

/// The room for stubs; only what is used takes memory.
const ROOM_BYTES: usize = 1 << 27;
/// Stubs begin at multiples of this number.
const ALIGNED: usize = 16;
/// The longest stub.
const STUB_BYTES_MAX: usize = 128;

/// The registers of the host that a callback may change, as instructions number them.
const RAX: u8 = 0;
const RDX: u8 = 2;

/// The stubs so far, and the room for others.
#[derive(Default)]
pub(crate) struct Stubs {
    /// The room, once it was looked for; `None` in it if the host has none.
    room: Option<Option<*mut u8>>,
    used: usize,
    /// The stub of each block, by the block's number.
    of_blocks: Vec<Option<ExecCallback>>,
}

/// Finds room close to QEMU's translated code.
fn find_room() -> Option<*mut u8> {
    let near = api::translated_code().unwrap_or(0).saturating_sub(ROOM_BYTES);
    cfg!(target_arch = "x86_64").then(|| low::executable(ROOM_BYTES, near & !(ROOM_BYTES - 1)))?
}

impl Stubs {
    /// Returns the stub of a block, and makes it when first asked; `None` if there is no room, or a number of the block is too large.
    ///
    /// `cells`: those that the stub compares and changes; `otherwise`: the function that gets the block when control does not go on in
    /// the block's function.
    pub(crate) fn of(
        &mut self,
        block: &'static Block,
        cells: *const Cells,
        otherwise: ExecCallback,
    ) -> Option<ExecCallback> {
        let place = block.number as usize;
        if let Some(Some(known)) = self.of_blocks.get(place) {
            return Some(*known);
        }
        let room = (*self.room.get_or_insert_with(find_room))?;
        if ROOM_BYTES - self.used < STUB_BYTES_MAX {
            return None;
        }
        let at = room.wrapping_add(self.used);
        let code = code(block, cells, otherwise, at.addr() as u64)?;
        self.used += code.len().next_multiple_of(ALIGNED);
        // SAFETY: the room is the plugin's for good and has `STUB_BYTES_MAX` bytes here, which nothing calls yet. The code takes a
        // callback's arguments and keeps the host's calling convention.
        let made = unsafe {
            at.copy_from_nonoverlapping(code.as_ptr(), code.len());
            std::mem::transmute::<*mut u8, ExecCallback>(at)
        };
        self.of_blocks.resize(self.of_blocks.len().max(place + 1), None);
        self.of_blocks[place] = Some(made);
        Some(made)
    }
}

/// Returns a block's stub, to stand at an address (Intel SDM volume 2). The callback's second argument, the block, is in rsi. A program's
/// second thread may come here: its run is refused, so the cells' contents then mean nothing.
fn code(block: &Block, cells: *const Cells, otherwise: ExecCallback, at: u64) -> Option<Vec<u8>> {
    let [expected, retired, last] =
        [offset_of!(Cells, expected), offset_of!(Cells, retired), offset_of!(Cells, last)]
            .map(|offset| (cells.addr() + offset) as u64);
    let mut stub = Stub { code: Vec::with_capacity(STUB_BYTES_MAX), at };
    let tag = extended(block.tag)?;
    // cmp qword [expected], tag; jne
    stub.word(&[0x48, 0x81, 0x38], expected, &tag);
    stub.code.extend([0x75, 0]);
    let leave = stub.code.len();
    // inc qword [count]
    stub.word(&[0x48, 0xff, 0x00], block.count.addr() as u64, &[]);
    match i8::try_from(block.retired) {
        Ok(0) => {}
        // add qword [retired], imm8 or imm32
        Ok(few) => stub.word(&[0x48, 0x83, 0x00], retired, &[few as u8]),
        Err(_) => {
            stub.word(&[0x48, 0x81, 0x00], retired, &u32::from(block.retired).to_le_bytes());
        }
    }
    if !block.is_held() {
        // mov [last], rsi
        stub.word(&[0x48, 0x89, 0x30], last, &[]);
    }
    match extended(block.begun_tag) {
        _ if block.begun_tag == block.tag => {}
        // mov qword [expected], imm32
        Some(begun) => stub.word(&[0x48, 0xc7, 0x00], expected, &begun),
        None => {
            load(&mut stub.code, RDX, block.begun_tag);
            // mov [expected], rdx
            stub.word(&[0x48, 0x89, 0x10], expected, &[]);
        }
    }
    let mut code = stub.code;
    code.push(0xc3);
    code[leave - 1] = u8::try_from(code.len() - leave).ok().filter(|far| *far < 0x80)?;
    load(&mut code, RAX, (otherwise as *const ()).addr() as u64);
    // jmp rax
    code.extend([0xff, 0xe0]);
    Some(code)
}

/// A stub so far, and the address at which it will stand.
struct Stub {
    code: Vec<u8>,
    at: u64,
}

impl Stub {
    /// Adds an instruction that accesses a word of memory.
    ///
    /// `start`: the instruction up to its ModRM byte, with rax as the base; `number`: what follows the address.
    fn word(&mut self, start: &[u8], word: u64, number: &[u8]) {
        let end = self.at + (self.code.len() + start.len() + 4 + number.len()) as u64;
        let far = extended(word.wrapping_sub(end));
        if far.is_none() {
            load(&mut self.code, RAX, word);
        }
        self.code.extend(start);
        if let (Some(far), Some(base)) = (far, self.code.last_mut()) {
            // The word's distance from the next instruction takes the base's place.
            *base |= 5;
            self.code.extend(far);
        }
        self.code.extend(number);
    }
}

/// Adds the instruction that loads a number into a register.
fn load(code: &mut Vec<u8>, register: u8, number: u64) {
    match u32::try_from(number) {
        // mov r32, imm32, which clears the upper half
        Ok(low) => {
            code.push(0xb8 | register);
            code.extend(low.to_le_bytes());
        }
        // mov r64, imm64
        Err(_) => {
            code.extend([0x48, 0xb8 | register]);
            code.extend(number.to_le_bytes());
        }
    }
}

/// Returns the four bytes that extended by their sign are a number, if there are such bytes.
fn extended(number: u64) -> Option<[u8; 4]> {
    i32::try_from(number.cast_signed()).ok().map(i32::to_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{NEVER, made};

    unsafe extern "C" fn otherwise(_: u32, cell: *mut std::ffi::c_void) {
        // SAFETY: the tests call with a number's address.
        unsafe { *cell.cast::<u64>() += 1 };
    }

    /// A block that began once when the cell held its tag, and one for which the cell held something else.
    #[test]
    fn a_stub_counts_what_goes_on_and_hands_over_the_rest() {
        let nowhere: &'static Block = Box::leak(Box::new(made(0, &[&[0x90]])));
        for (codes, number) in [(&[&[0x90][..]; 2][..], 2), (&[&[0x90][..]; 200], 200)] {
            // Low cells are too far away for a distance of four bytes.
            for (function, low) in [(7, false), ((1 << 20) - 2, false), (7, true)] {
                let mut stubs = Stubs::default();
                let mut block = made(0x1000, codes).tagged(function, false, function == 7);
                block.count = low::zeros(1, low);
                let block: &'static Block = Box::leak(Box::new(block));
                let cells = low::one(Cells::behind(nowhere), low);
                // Another host has no stubs.
                let Some(stub) = stubs.of(block, cells, otherwise) else { return };
                let used = stubs.used;
                assert!(stubs.of(block, cells, otherwise).is_some());
                assert_eq!(stubs.used, used, "a block has one stub");
                // SAFETY: the stub changes the block's count and the cells, which live for ever.
                unsafe {
                    (*cells).expected = block.tag;
                    stub(0, std::ptr::from_ref(block).cast_mut().cast());
                    assert_eq!((*block.count, (*cells).retired), (1, number));
                    assert!(std::ptr::eq((*cells).prev(), block));
                    let left = if function == 7 { NEVER } else { block.tag };
                    assert_eq!((*cells).expected, left);
                    let mut called = 0u64;
                    (*cells).expected = block.tag + 1;
                    stub(0, (&raw mut called).cast());
                    assert_eq!((called, *block.count), (1, 1));
                }
            }
        }
    }

    #[test]
    fn a_block_with_too_large_a_number_has_no_stub() {
        let block: &'static Block =
            Box::leak(Box::new(made(0, &[&[0x90]]).tagged(1 << 20, false, false)));
        assert!(Stubs::default().of(block, std::ptr::null(), otherwise).is_none());
    }
}
