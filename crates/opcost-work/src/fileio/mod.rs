//! The `fileio` workload: the six phases of the benchmark *bonnie* on one file.
//!
//! | phase | an operation, which moves one block |
//! |---|---|
//! | `putc` | a block is put together character by character, and written |
//! | `write` | a block is written |
//! | `rewrite` | a block is read, changed, and written to its place |
//! | `getc` | a block is read, and its characters are taken one by one |
//! | `read` | a block is read |
//! | `seeks` | a block at a seeded place is read; one in ten is changed and written back |
//!
//! `putc` and `write` start with an empty file and empty it again when it is full; the other phases go through the file from its
//! beginning repeatedly. With `phase=all` each phase does a sixth of the operations, in this order, on the file that the previous
//! phase left. Every block contains its number and how often it was written: each read is checked, and at the end the whole file.
//!
//! Source: T. Bray, Bonnie 1.4 (1989–1996), whose manual names the phases.

mod content;
mod pass;
mod phase;
mod scratch;

use crate::error::WorkError;
use crate::gate::{Kernel, Nothing};
use crate::invariant::{BYTES_READ, BYTES_WRITTEN, PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::{ParamSpec, Params, number, one_of};
use crate::spec::WorkloadSpec;
use crate::work::Work;
use content::{Blocks, Buffer, Pattern};
use opcost_record::Invariant;
use pass::{Failed, Loop, Tally};
use phase::{Phase, shares};
use scratch::ScratchFile;

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "fileio",
    summary: "bonnie's six phases on one file: putc, write, rewrite, getc, read, seeks",
    operation: "one block moved, in rewrite there and back",
    ops_default: "12288",
    programs: None,
    figures: &[],
    params: &[
        ParamSpec {
            name: "phase",
            default: "all",
            values: "all|putc|write|rewrite|getc|read|seeks",
            help: "what is done with the blocks; all: a sixth of the operations each",
            check: |value| match value {
                "all" => Some(value.into()),
                _ => Phase::of_name(value).map(|phase| phase.name().into()),
            },
        },
        ParamSpec {
            name: "dir",
            default: "/dev/shm",
            values: "an absolute path",
            help: "the directory of the file, which has no name while it is used and is gone \
                   afterwards",
            check: directory,
        },
        ParamSpec {
            name: "mib",
            default: "16",
            values: "1..=65536",
            help: "size of the file, MiB",
            check: |value| number(value, 1..=MIB_MAX),
        },
        ParamSpec {
            name: "block",
            default: "8192",
            values: "512..=1048576, a multiple of 512",
            help: "bytes of a block, which is what one system call moves",
            check: |value| number(value, 512..=1 << 20).filter(|text| multiple_of_512(text)),
        },
        ParamSpec {
            name: "direct",
            default: "off",
            values: "off|on",
            help: "O_DIRECT: past the page cache, where the file system can",
            check: |value| one_of(value, &["off", "on"]),
        },
        ParamSpec {
            name: "fsync",
            default: "off",
            values: "off|on",
            help: "fsync at the end of each phase that writes",
            check: |value| one_of(value, &["off", "on"]),
        },
    ],
    prepare: |params, seed| Ok(Box::new(FileIo::prepare(params, seed)?)),
};

/// The limit keeps the state of all blocks small enough for memory.
const MIB_MAX: u64 = 65_536;

/// The number of blocks that each phase moves to warm up.
const WARM_UP_BLOCKS: u64 = 64;

fn directory(path: &str) -> Option<String> {
    let plain = path.starts_with('/') && !path.chars().any(char::is_control);
    let trimmed = path.trim_end_matches('/');
    plain.then(|| if trimmed.is_empty() { "/".into() } else { trimmed.to_string() })
}

fn multiple_of_512(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|bytes| bytes % 512 == 0)
}

struct FileIo {
    file: ScratchFile,
    buffer: Buffer,
    pattern: Pattern,
    fsync: bool,
    seed: u64,
    ops: u64,
    /// The number of operations of each phase.
    shares: [u64; Phase::ALL.len()],
    /// The contents of the file.
    blocks: Blocks,
    /// The contents that the file would have if the twin wrote it.
    twin_blocks: Blocks,
    work_tally: Tally,
    twin_tally: Tally,
}

impl FileIo {
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        let block_bytes = params.number("block") as usize;
        let file_bytes = params.number("mib") << 20;
        let block_count = file_bytes / block_bytes as u64;
        let ops = params.number("ops");
        let file = ScratchFile::create(params.text("dir"), file_bytes)?;
        let pattern = Pattern::drawn(seed, block_bytes);
        let buffer = Buffer::of(block_bytes)?;
        if params.text("direct") == "on" {
            file.go_past_the_cache(&buffer)?;
        }
        Ok(FileIo {
            file,
            buffer,
            pattern,
            fsync: params.text("fsync") == "on",
            seed,
            ops,
            shares: shares(Phase::of_name(params.text("phase")), ops),
            blocks: Blocks::none(block_count),
            twin_blocks: Blocks::none(block_count),
            work_tally: Tally::default(),
            twin_tally: Tally::default(),
        })
    }

    /// Returns the loop over this file.
    fn the_loop(&self) -> Loop<'_> {
        Loop {
            fd: self.file.number(),
            buffer: &self.buffer,
            pattern: &self.pattern,
            fsync: self.fsync,
            seed: self.seed,
        }
    }

    fn run(&mut self, shares: &[u64; Phase::ALL.len()]) -> Result<Tally, WorkError> {
        let mut blocks = std::mem::take(&mut self.blocks);
        // SAFETY: the descriptor and the buffer are this workload's own.
        let done = unsafe { self.the_loop().pass::<Kernel>(&mut blocks, shares) };
        self.blocks = blocks;
        let ops = shares.iter().sum();
        done.map_err(|failed| match failed {
            Failed::Call { call, op, returned, expected } => {
                WorkError::Call { call, op: op + 1, ops, returned, expected }
            }
            Failed::Contents { block, op, found, expected } => {
                WorkError::Contents { op: op + 1, ops, block, found, expected }
            }
        })
    }

    fn run_twin(&mut self, shares: &[u64; Phase::ALL.len()]) -> Tally {
        let mut blocks = std::mem::take(&mut self.twin_blocks);
        // SAFETY: Nothing makes no system call; the buffer is this workload's own.
        let done = unsafe { self.the_loop().pass::<Nothing>(&mut blocks, shares) };
        self.twin_blocks = blocks;
        // The empty gate returns the expected result, so there is no failure.
        done.unwrap_or_default()
    }

    /// Makes the file as the first phase expects it: empty, or complete.
    fn lay_out(&mut self) -> Result<(), WorkError> {
        let first = self.shares.iter().position(|ops| *ops > 0).map(|at| Phase::ALL[at]);
        let whole = first.is_some_and(|phase| !phase.starts_empty());
        for blocks in [&mut self.blocks, &mut self.twin_blocks] {
            blocks.reset(whole);
        }
        self.file.write_all(&self.blocks, &self.pattern, &self.buffer)
    }
}

impl Work for FileIo {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        let few = self.shares.map(|ops| ops.min(WARM_UP_BLOCKS));
        self.lay_out()?;
        self.run_twin(&few);
        self.run(&few)?;
        self.lay_out()
    }

    fn twin(&mut self) {
        let shares = self.shares;
        self.twin_tally = self.run_twin(&shares);
    }

    fn work(&mut self) -> Result<(), WorkError> {
        let shares = self.shares;
        self.work_tally = self.run(&shares)?;
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        let (twin, work) = (self.twin_tally, self.work_tally);
        if twin != work {
            return Err(WorkError::Twin { twin: twin.hash, work: work.hash });
        }
        let checksum = self.file.verify(&self.blocks, &self.pattern, &self.buffer)?;
        let mut invariants = vec![hash(work.hash)];
        for phase in Phase::ALL {
            match work.ops[phase as usize] {
                0 => {}
                ops => invariants.push(count(format!("ops-{}", phase.name()), ops)),
            }
        }
        invariants.push(count(BYTES_WRITTEN, work.bytes_written));
        invariants.push(count(BYTES_READ, work.bytes_read));
        invariants.push(count("file-checksum", checksum));
        invariants.push(count(PAGE_FAULTS_EXPECTED, 0));
        Ok(invariants)
    }
}

#[cfg(test)]
mod tests;
