//! The C library's treatment of freed memory.

/// The smallest size of blocks that are mapped one by one, in bytes; glibc's own initial value (`mallopt(3)`).
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 128 << 10;

/// Makes large blocks be mapped one by one from now on, and go back to the system when they are freed.
///
/// By default, glibc learns from the first large block that it frees to keep later ones: their pages stay, and glibc writes zeros
/// where fresh pages would be zero already. Call this in a program that reads one large file after another. Under other C libraries
/// the function does nothing.
///
/// Source: `mallopt(3)`, `M_MMAP_THRESHOLD`.
pub fn give_large_blocks_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers and holds the allocator's own lock meanwhile.
    unsafe {
        // mallopt fails only for values out of its range, and then changes nothing; this value is within the range.
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;
    use std::fs;
    use std::hint::black_box;

    /// Whether the middle of a block of this size is still mapped after the block was freed.
    fn is_kept(bytes: usize) -> bool {
        let block = black_box(vec![1u8; bytes]);
        let middle = block.as_ptr() as usize + bytes / 2;
        drop(block);
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
            let address = |text| usize::from_str_radix(text, 16).unwrap();
            (address(range.0)..address(range.1)).contains(&middle)
        })
    }

    #[test]
    fn a_large_block_goes_back_after_a_larger_one_did() {
        give_large_blocks_back();
        // From this block glibc would learn to keep blocks.
        drop(black_box(vec![1u8; 24 << 20]));
        // Another thread may map something at the same place meanwhile, but not each time.
        assert!((0..10).any(|_| !is_kept(8 << 20)));
    }
}
