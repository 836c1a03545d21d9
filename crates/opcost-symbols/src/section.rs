//! Reads the contents of sections; debug information is often compressed.

use flate2::bufread::ZlibDecoder;
use object::{CompressedData, CompressionFormat, ObjectSection};
use opcost_sys::budget::{Budget, LIMIT_BYTES};
use std::borrow::Cow;
use std::io::{self, ErrorKind, Read};

/// The most bytes that zlib inflates one byte to; longer lengths are not reserved at once.
const GROWTH_MAX: usize = 1032;

/// Returns the budget of unpacking the sections of a file whose contents are in memory.
pub fn budget(file: &[u8]) -> Budget {
    let bytes = file.len() as u64;
    Budget::new(LIMIT_BYTES + bytes, bytes)
}

/// Returns the contents of a section, uncompressed.
///
/// # Errors
/// The contents are damaged, of an unknown format, or more than the budget ([`Exceeded`](opcost_sys::budget::Exceeded)).
pub fn contents<'d>(
    section: &impl ObjectSection<'d>,
    budget: &Budget,
) -> io::Result<Cow<'d, [u8]>> {
    let compressed = section.compressed_data().map_err(|error| damaged(&error.to_string()))?;
    let CompressedData { format, data, uncompressed_size } = compressed;
    let inflated = match format {
        CompressionFormat::None => return Ok(data.into()),
        CompressionFormat::Zlib => read(ZlibDecoder::new(data), data, uncompressed_size, budget),
        CompressionFormat::Zstandard => zstd::Decoder::with_buffer(data)
            .and_then(|decoder| read(decoder, data, uncompressed_size, budget)),
        _ => return Err(damaged("its compression is unknown")),
    }?;
    if inflated.len() as u64 != uncompressed_size {
        return Err(damaged("it is shorter than it claims"));
    }
    Ok(Cow::Owned(inflated))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Decodes `data`, up to the length that the section claims.
fn read(decoder: impl Read, data: &[u8], length: u64, budget: &Budget) -> io::Result<Vec<u8>> {
    let likely = data.len().saturating_mul(GROWTH_MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX).min(likely))?;
    budget.unpacker(decoder).take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use object::elf::{ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, SHF_COMPRESSED, SHT_PROGBITS};
    use object::write::{self, SectionKind};
    use object::{Architecture, BinaryFormat, Endianness, Object, SectionFlags};
    use opcost_sys::budget::Exceeded;
    use std::io::Write;

    const TEXT: &[u8] = &[7; 5000];

    /// Returns the contents of an object file's section that begins with the header of compressed
    /// sections (ELF-64, `Elf64_Chdr`).
    fn held(format: u32, length: u64, data: &[u8]) -> Option<Vec<u8>> {
        let mut object =
            write::Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section = object.add_section(vec![], b".debug_str".to_vec(), SectionKind::Debug);
        let mut bytes = Vec::new();
        bytes.extend(format.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(data);
        object.set_section_data(section, bytes, 8);
        object.section_mut(section).flags =
            SectionFlags::Elf { sh_type: SHT_PROGBITS, sh_flags: SHF_COMPRESSED };
        let file = object.write().unwrap();
        let file = object::File::parse(&*file).unwrap();
        let budget = Budget::new(64 << 30, 0);
        let section = file.section_by_name(".debug_str").unwrap();
        let within = contents(&section, &Budget::new(4999, 0));
        if let Some(length) = contents(&section, &budget).ok().map(|bytes| bytes.len()) {
            let exceeded = Exceeded::of(&within.unwrap_err());
            assert_eq!(exceeded, Some(Exceeded::Unpacked { bytes_max: 4999 }), "of {length}");
        }
        contents(&section, &budget).ok().map(Cow::into_owned)
    }

    #[test]
    fn compressed_sections_are_read_whole_or_not_at_all() {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(TEXT).unwrap();
        let zlib = encoder.finish().unwrap();
        let zstd = zstd::encode_all(TEXT, 1).unwrap();
        for (format, data) in [(ELFCOMPRESS_ZLIB, zlib), (ELFCOMPRESS_ZSTD, zstd)] {
            let format = format.0;
            let length = TEXT.len() as u64;
            assert_eq!(held(format, length, &data).as_deref(), Some(TEXT));
            assert_eq!(held(format, length + 1, &data), None, "longer than what there is");
            assert_eq!(held(format, u64::MAX, &data), None);
            assert_eq!(held(format, length, &data[..data.len() / 2]), None, "cut short");
            assert_eq!(held(99, length, &data), None, "an unknown format");
        }
    }
}
