//! The code of the operations: 4096 reads in a row, each with its branch, in three forms of the same length. An operation
//! with n reads enters the code n reads before its end. The loop over the operations, three instructions, is at the end.

use patchpoint::{Branch, Value};

/// Reads in a block.
pub(super) const READS_MAX: u64 = 4096;

/// Bytes of the code of one read, in each form.
const READ_BYTES: u64 = 15;

/// The distance of the lines that are read, in bytes.
pub(super) const LINE_BYTES: usize = 64;

/// A block. Arguments: the address of the lines, where to enter the block (see [`entry`]), and how many times, at least once. The
/// result is the number of taken branches.
pub(super) type Block = unsafe extern "C" fn(*const u8, u64, u64) -> u64;

/// Returns the entry into a block that makes `reads` reads.
pub(super) const fn entry(reads: u64) -> u64 {
    (READS_MAX - reads) * READ_BYTES
}

/// The number in the patched reads.
pub(super) static NUMBER: Value<u32> = Value::new(c"immediate_number", 0);

/// The condition of the patched branches.
pub(super) static FLAG: Branch = Branch::new(c"immediate_flag", false);

/// A function that repeatedly enters `READS_MAX` copies of a read at the given place.
///
/// In each copy `line` is another line, in the order of a linear congruential generator of full period (Hull and Dobell, 1962), the
/// same in every build; the caller draws the place of the first line. rdi: the lines; rsi: the entry; rdx: the remaining
/// operations; rax: the branches taken so far.
macro_rules! block {
    ($(#[$attribute:meta])* $name:ident, $read:expr $(, $key:ident)?) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(
            lines: *const u8,
            entry: u64,
            ops: u64,
        ) -> u64 {
            std::arch::naked_asm!(
                "xorl %eax, %eax",
                "leaq 665f(%rip), %r8",
                "addq %rsi, %r8",
                "jmpq *%r8",
                ".balign 64",
                "665:",
                ".set .Lopcost_line, 0",
                ".rept 4096",
                ".set .Lopcost_line, (.Lopcost_line * 1021 + 2731) & 4095",
                $read,
                ".endr",
                "decq %rdx",
                "jz 668f",
                "jmpq *%r8",
                "668: ret",
                $(key = sym $key, offset = const 0,)?
                options(att_syntax),
            )
        }
    };
}

block! {
    /// No reads; entered at the beginning, this block is the loop alone.
    nothing,
    ""
}

/// The branch on %ecx; its taken path is placed out of the way.
macro_rules! branch_on_number {
    () => {
        "testl %ecx, %ecx
         .byte 0x0f, 0x85
         .long 667f - . - 4
         666:
         .subsection 1
         667: incq %rax
         .byte 0xe9
         .long 666b - . - 4
         .previous
         "
    };
}

block! {
    /// Loads from memory, each from a line of its own.
    loads,
    concat!(
        // mov line*64(%rdi), %ecx in its long form, as long as a site.
        ".byte 0x40, 0x8b, 0x8f\n.long .Lopcost_line * 64\n",
        branch_on_number!(),
    )
}

block! {
    /// Reads of numbers in the instructions.
    immediates,
    concat!(
        patchpoint::site_begin!(),
        ".byte 0x40\nmovl {key}(%rip), %ecx\n662:\n",
        patchpoint::site_record!("2", "0", "0"),
        branch_on_number!(),
    ),
    NUMBER
}

block! {
    /// Patched branches; one more nop makes each read as long as in the other forms.
    branches,
    concat!(
        patchpoint::site_begin!(),
        ".byte 0x40, 0xe9\n.long 663f - . - 4\n662:\n",
        ".subsection 1\n663:\n",
        "testb $1, {key}(%rip)\n",
        ".byte 0x0f, 0x85\n.long 664f - . - 4\n",
        ".byte 0xe9\n.long 662b - . - 4\n",
        "664: incq %rax\n",
        ".byte 0xe9\n.long 662b - . - 4\n",
        ".previous\n",
        patchpoint::site_record!("3", "0", "663b - ."),
        ".byte 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n",
    ),
    FLAG
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the code of a block, and the place of its first read.
    fn code(block: Block) -> (usize, &'static [u8]) {
        let bytes = (READS_MAX * READ_BYTES) as usize;
        let start = block as *const () as usize;
        let first = start.next_multiple_of(64);
        // The block's own instructions before the first read have fewer bytes than a line.
        let first = if first == start { start + 64 } else { first };
        // SAFETY: code of this program, as long as the macro makes it, and the bytes behind it.
        (first, unsafe { std::slice::from_raw_parts(first as *const u8, bytes + 3) })
    }

    #[test]
    fn the_text_of_the_three_forms_has_the_same_size() {
        // Each read ends with its branch, or with the nop that pads it.
        let branch: &[u8] = &[0x0f, 0x85];
        let nop: &[u8] = &[0x66, 0x0f, 0x1f, 0x84];
        for (block, offset, end) in
            [(loads as Block, 9, branch), (immediates, 9, branch), (branches, 6, nop)]
        {
            let (_, code) = code(block);
            assert!(code.chunks_exact(15).all(|read| read[offset..].starts_with(end)));
            assert!(
                code.ends_with(&[0x48, 0xff, 0xca]),
                "behind the reads an operation is counted"
            );
        }
    }

    #[test]
    fn every_line_is_read_once() {
        let (_, code) = code(loads);
        let offset = |read: &[u8]| u32::from_le_bytes(read[3..7].try_into().unwrap());
        let mut lines: Vec<u32> = code.chunks_exact(15).map(offset).collect();
        let in_order = lines.clone();
        lines.sort_unstable();
        assert!(lines.iter().zip(0..).all(|(offset, line)| *offset == line * 64));
        // And not in an order that a prefetcher knows.
        let steps: std::collections::HashSet<i64> =
            in_order.windows(2).map(|two| i64::from(two[1]) - i64::from(two[0])).collect();
        assert!(steps.len() > 1000);
    }

    #[test]
    fn a_site_is_the_same_place_in_every_read() {
        for (block, key) in [(immediates as Block, NUMBER.raw()), (branches, FLAG.raw())] {
            let (first, _) = code(block);
            let sites = patchpoint::sites().unwrap();
            let addresses: Vec<usize> =
                sites.iter().filter(|site| site.key == key).map(|site| site.address).collect();
            let expected: Vec<usize> = (0..4096).map(|read| first + 15 * read).collect();
            assert_eq!(addresses, expected);
        }
    }
}
