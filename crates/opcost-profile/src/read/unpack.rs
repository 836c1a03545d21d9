//! Unpacks files: gzip, zstd and xz, by their first bytes.

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use opcost_sys::budget::{Budget, Drawing};
use std::io::{self, Read};

/// The first bytes of gzip's files.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The first bytes of zstd's files.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The first bytes of xz's files.
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
/// The most memory of xz's dictionary, KiB: what its highest level needs, and more than zstd takes by default. A header may ask
/// for 4 GiB.
const XZ_KIB_MAX: u32 = 160 << 10;

/// Reads everything.
pub(super) fn whole<R: Read>(mut source: Drawing<'_, R>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Unpacks contents, also those that were packed twice; others stay as they are.
pub(crate) fn unpacked(mut bytes: Vec<u8>, budget: &Budget) -> io::Result<Vec<u8>> {
    // A file that unpacks to itself exceeds the budget.
    loop {
        let packed = &*bytes;
        bytes = match () {
            () if packed.starts_with(&GZIP) => whole(budget.unpacker(MultiGzDecoder::new(packed)))?,
            () if packed.starts_with(&ZSTD) => whole(budget.unpacker(zstd::Decoder::new(packed)?))?,
            () if packed.starts_with(&XZ) => {
                whole(budget.unpacker(XzReader::new_mem_limit(packed, true, XZ_KIB_MAX)))?
            }
            () => return Ok(bytes),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// What a packing program makes of bytes; `None` if there is no such program.
    fn packed(program: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let mut input = child.stdin.take()?;
        let bytes = bytes.to_vec();
        let writer = std::thread::spawn(move || input.write_all(&bytes));
        let output = child.wait_with_output().ok()?;
        writer.join().ok()?.ok()?;
        output.status.success().then_some(output.stdout)
    }

    #[test]
    fn every_packing_is_undone_and_its_faults_are_errors() {
        let text = "main;work 7\n".repeat(1000);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let mut all = vec![gzip.finish().unwrap(), zstd::encode_all(text.as_bytes(), 1).unwrap()];
        match packed(&["xz", "-c", "-9"], text.as_bytes()) {
            Some(xz) => all.push(xz),
            None => crate::skip::skip!("there is no xz here"),
        }
        let budget = Budget::default();
        for one in all {
            assert_eq!(unpacked(one.clone(), &budget).unwrap(), text.as_bytes());
            // Two files in a row are unpacked together, as their tools do.
            let twice = unpacked(one.repeat(2), &budget).unwrap();
            assert_eq!(twice.len(), 2 * text.len());
            for end in [one.len() / 2, one.len() - 1] {
                assert!(unpacked(one[..end].to_vec(), &budget).is_err(), "{end} of {}", one.len());
            }
            // A limit holds for what comes out.
            let tight = Budget::new(1000, 10);
            let error = unpacked(one.clone(), &tight).unwrap_err();
            assert!(opcost_sys::budget::Exceeded::of(&error).is_some(), "{error}");
            for at in 6..one.len() {
                let mut flipped = one.clone();
                flipped[at] ^= 0x55;
                // No change of a byte may end the program; most are noticed.
                let _ = unpacked(flipped, &budget);
            }
        }
        assert_eq!(unpacked(text.clone().into_bytes(), &budget).unwrap(), text.as_bytes());
    }

    #[test]
    fn a_dictionary_of_gigabytes_is_refused() {
        // A header may name a dictionary of 4 GiB for a few bytes of contents.
        let options = ["xz", "-c", "--lzma2=dict=1536MiB"];
        let Some(xz) = packed(&options, b"main 1\n") else {
            crate::skip::skip!("there is no xz here, or too little memory for it");
            return;
        };
        let error = unpacked(xz, &Budget::default()).unwrap_err().to_string();
        assert!(error.contains("memory"), "{error}");
    }
}
