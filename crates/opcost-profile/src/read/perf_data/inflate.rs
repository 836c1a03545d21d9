//! Inflates compressed records: one stream goes through all of them, flushed at the end of each
//! (`tools/perf/util/zstd.c`).

use super::PerfDataError;
use opcost_sys::budget::Budget;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// The most bytes that a record may inflate to: perf compresses buffers of at most some MB.
const INFLATED_BYTES_MAX: usize = 256 << 20;

pub(super) struct Inflate(Decoder<'static>);

impl Inflate {
    pub(super) fn new() -> Result<Inflate, PerfDataError> {
        Decoder::new().map(Inflate).map_err(failed)
    }

    /// Appends the inflated `data`, drawn from a budget.
    pub(super) fn append(
        &mut self,
        data: &[u8],
        to: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<(), PerfDataError> {
        let mut from = InBuffer::around(data);
        let mut chunk = vec![0; 128 << 10];
        let begin = to.len();
        loop {
            let mut out = OutBuffer::around(&mut chunk[..]);
            self.0.run(&mut from, &mut out).map_err(failed)?;
            let made = out.pos();
            budget.unpack(made as u64)?;
            to.extend_from_slice(&chunk[..made]);
            if to.len() - begin > INFLATED_BYTES_MAX {
                let what = format!("one grows beyond {INFLATED_BYTES_MAX} bytes");
                return Err(PerfDataError::Compressed { what });
            }
            if from.pos() == data.len() && made < chunk.len() {
                return Ok(());
            }
        }
    }
}

fn failed(error: std::io::Error) -> PerfDataError {
    PerfDataError::Compressed { what: error.to_string() }
}
