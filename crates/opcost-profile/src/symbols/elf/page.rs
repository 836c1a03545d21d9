//! Pages of code, recognised by their contents.

use super::image::Code;
use opcost_record::symbols::{PAGE_BYTES, page_hash};

/// File offset and hash of each page that has code in it.
///
/// A mapped page shows the whole page of the file: also what is beside the segment, and zeros behind
/// the end of the file. So that is what is hashed.
pub(super) fn hashes(file: &[u8], code: &[Code]) -> Vec<(u64, u64)> {
    let page_bytes = PAGE_BYTES as u64;
    let mut pages: Vec<(u64, u64)> = Vec::new();
    for piece in code {
        let first = piece.start - piece.start % page_bytes;
        for offset in (first..piece.end).step_by(PAGE_BYTES) {
            if pages.last().is_none_or(|(last, _)| *last < offset) {
                let end = file.len().min(offset as usize + PAGE_BYTES);
                pages.push((offset, page_hash(&file[offset as usize..end])));
            }
        }
    }
    pages
}
