//! The last instruction that QEMU translated of a program without a kernel.
//!
//! If a signal kills the program, QEMU ends itself by the same signal; up to 7.2 it calls no plugin then. An instruction that the CPU lacks ends its
//! block, and the block is executed as soon as it is translated. Therefore the end of the last block names that instruction.

use opcost_record::emulation::{LastInstruction, last_path};
use opcost_record::symbols::PAGE_BYTES;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The file that has the last instruction.
pub(crate) struct LastFile {
    file: Option<File>,
}

impl LastFile {
    /// Makes the file beside the report; without it, opcost names no instruction.
    pub(crate) fn beside(out: &Path) -> LastFile {
        LastFile { file: File::create(last_path(out)).ok() }
    }

    /// Notes the end of a block that begins at `start`; `page`: the contents of the page of the block's beginning.
    pub(crate) fn note(&self, start: u64, codes: &[&[u8]], page: Option<&[u8; PAGE_BYTES]>) {
        let (Some(file), Some((last, before))) = (&self.file, codes.split_last()) else { return };
        let address = start + before.iter().map(|code| code.len() as u64).sum::<u64>();
        let page_bytes = PAGE_BYTES as u64;
        // QEMU reads no further than it needs to see that it cannot execute an instruction.
        let code = match page.filter(|_| address / page_bytes == start / page_bytes) {
            Some(page) => &page[(address % page_bytes) as usize..],
            None => last,
        };
        let last = LastInstruction::of(address, code).encode();
        // A program whose last instruction is unknown still has its counts.
        let _ = file.write_all_at(&last, 0);
    }
}
