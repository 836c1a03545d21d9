//! Recognises pages of code by their contents.

use super::image::Code;
use opcost_record::symbols::{PAGE_BYTES, blanked, page_hash, sites_in_page};

/// Returns file offset and hash of each page with code.
///
/// A mapped page shows the file's whole page: also bytes beside the segment, and zeros behind the
/// end of the file. The hash covers all of it, except the `sites` that the program changes.
pub(super) fn hashes(file: &[u8], code: &[Code], sites: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let page_bytes = PAGE_BYTES as u64;
    let mut pages: Vec<(u64, u64)> = Vec::new();
    for piece in code {
        let first = piece.start - piece.start % page_bytes;
        for offset in (first..piece.end).step_by(PAGE_BYTES) {
            if pages.last().is_none_or(|(last, _)| *last < offset) {
                let end = file.len().min(offset as usize + PAGE_BYTES);
                let page = &file[offset as usize..end];
                let sites = sites_in_page(sites, offset);
                pages.push((offset, page_hash(&blanked(page, &sites))));
            }
        }
    }
    pages
}
