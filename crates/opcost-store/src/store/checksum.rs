//! Checksums that detect damaged rows of the store.

/// The CRC-32 of the parts of a row, each preceded by its length.
pub(super) fn checksum<const N: usize>(parts: [&[u8]; N]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

/// The checksum of a run; `integers` are in the order of their columns.
pub(super) fn of_run(integers: [Option<i64>; 7], failure: Option<&str>, samples: &[u8]) -> u32 {
    let mut bytes = [0; 9 * 7];
    for (integer, bytes) in integers.into_iter().zip(bytes.chunks_exact_mut(9)) {
        bytes[0] = u8::from(integer.is_some());
        bytes[1..].copy_from_slice(&integer.unwrap_or_default().to_le_bytes());
    }
    let failure = failure.map_or(&[][..], str::as_bytes);
    checksum([&bytes, failure, samples])
}
