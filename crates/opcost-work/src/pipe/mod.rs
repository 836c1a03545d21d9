//! The `pipe` workload: a write to a pipe, and the read that takes the same bytes out again.
//!
//! These are the shortest system calls whose argument is memory of the process. The kernel copies every byte in and out with the
//! routine that it chose for this CPU, at the offsets that the parameters give. The first byte written changes from one operation
//! to the next, and the first byte read is compared each time; the whole contents are compared at the end.

use crate::error::WorkError;
use crate::gate::{Gate, Kernel, Nothing};
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::{ParamSpec, Params, number};
use crate::random::{Random, fold};
use crate::spec::WorkloadSpec;
use crate::work::Work;
use opcost_record::Invariant;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "pipe",
    summary: "writes to a pipe and reads back, copied twice by the kernel",
    operation: "one write and one read of 'size' bytes",
    ops_default: "1000000",
    programs: None,
    figures: &[],
    params: &[
        ParamSpec {
            name: "size",
            default: "64",
            values: "1..=65536",
            help: "bytes of each write and each read",
            check: |value| number(value, 1..=SIZE_MAX),
        },
        ParamSpec {
            name: "offset",
            default: "0",
            values: "0..=4095",
            help: "bytes by which both buffers are off the beginning of a page",
            check: |value| number(value, 0..=PAGE - 1),
        },
    ],
    prepare: |params, seed| Ok(Box::new(Pipe::prepare(params, seed)?)),
};

/// The default capacity of a pipe on every kernel with pages of 4 KiB (pipe(7)).
const SIZE_MAX: u64 = 65_536;

/// The alignment of buffers, in bytes.
const PAGE: u64 = 4096;

/// Operations of the warm-up.
const WARM_UP_OPS: u64 = 1000;

/// The counts of one pass over the operations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Pass {
    /// Pairs of a write and a read.
    done: u64,
    /// Every bit in which any first byte read differed from the byte written.
    wrong: u8,
}

/// A call that did not return the expected result.
struct Failed {
    call: &'static str,
    op: u64,
    returned: usize,
}

/// Bytes at a fixed offset from the beginning of a page.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    size: usize,
}

impl Buffer {
    fn new(size: usize, offset: usize) -> Self {
        let page = PAGE as usize;
        // Written here, so that every page is resident later.
        let memory = vec![1; size + offset + page];
        let start = memory.as_ptr().align_offset(page) + offset;
        Buffer { memory, start, size }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.size]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.size]
    }
}

struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    from: Buffer,
    to: Buffer,
    ops: u64,
    work: Pass,
    twin: Pass,
}

impl Pipe {
    /// Prepares the work; the seed determines the written bytes.
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        let mut ends = [0; 2];
        // SAFETY: two writable descriptors. Without O_NONBLOCK a full pipe would block for ever.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            let advice = "raise the limit of open files (ulimit -n)";
            return Err(WorkError::setup("make a pipe", advice));
        }
        // SAFETY: both descriptors were just made and have no other owner.
        let (reader, writer) =
            unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        let (size, offset) = (params.number("size"), params.number("offset"));
        // A user with many pipes gets smaller pipes (pipe(7), pipe-user-pages-soft).
        // SAFETY: F_GETPIPE_SZ takes a descriptor and changes no memory.
        let room = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_GETPIPE_SZ) };
        if u64::try_from(room).is_ok_and(|room| room < size) {
            // SAFETY: F_SETPIPE_SZ takes plain numbers and changes no memory of this process.
            let grown =
                unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, size as libc::c_int) };
            if grown < 0 {
                let what = format!("make a pipe that holds size={size}");
                let advice = "lower 'size', or raise fs.pipe-user-pages-soft";
                return Err(WorkError::setup(what, advice));
            }
        }
        let mut from = Buffer::new(size as usize, offset as usize);
        let mut random = Random::seeded(seed);
        from.bytes_mut().fill_with(|| random.draw() as u8);
        Ok(Pipe {
            reader,
            writer,
            from,
            to: Buffer::new(size as usize, offset as usize),
            ops: params.number("ops"),
            work: Pass::default(),
            twin: Pass::default(),
        })
    }

    /// Goes through `ops` operations, through the kernel or the empty gate; stops at the first failing call.
    #[inline(never)]
    fn pass<G: Gate>(&mut self, ops: u64) -> Result<Pass, Failed> {
        let (from, to) = (self.from.bytes_mut().as_mut_ptr(), self.to.bytes_mut().as_mut_ptr());
        let size = self.from.size;
        let call = |number: libc::c_long, end: &OwnedFd, buffer: *mut u8| {
            let arguments = [end.as_raw_fd() as usize, buffer as usize, size, 0, 0, 0];
            // SAFETY: the buffer has `size` bytes, and nothing refers to them during the call.
            unsafe { G::call(number as usize, arguments, size) }
        };
        let mut pass = Pass::default();
        while pass.done < ops {
            // SAFETY: a buffer has at least one byte. Volatile, since the kernel reads the byte.
            unsafe { from.write_volatile(pass.done as u8) };
            let returned = call(libc::SYS_write, &self.writer, from);
            if returned != size {
                return Err(Failed { call: "write", op: pass.done, returned });
            }
            let returned = call(libc::SYS_read, &self.reader, to);
            if returned != size {
                return Err(Failed { call: "read", op: pass.done, returned });
            }
            // SAFETY: as above; the kernel has written the byte.
            pass.wrong |= unsafe { to.read_volatile() } ^ pass.done as u8;
            pass.done += 1;
        }
        Ok(pass)
    }

    fn through_the_kernel(&mut self, ops: u64) -> Result<Pass, WorkError> {
        let expected = self.from.size;
        let pass = self.pass::<Kernel>(ops).map_err(|failed| WorkError::Call {
            call: failed.call,
            op: failed.op + 1,
            ops,
            returned: failed.returned,
            expected,
        })?;
        match pass.wrong == 0 && self.from.bytes() == self.to.bytes() {
            true => Ok(pass),
            false => Err(WorkError::WrongBytes { call: "read", ops }),
        }
    }

    fn hash_of(&self, pass: Pass) -> u64 {
        // Without the first byte, which changes during the work.
        let contents = self.from.bytes()[1..].iter().map(|byte| u64::from(*byte));
        fold(contents.fold(self.from.size as u64, fold), pass.done)
    }
}

impl Work for Pipe {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        let _ = std::hint::black_box(self.pass::<Nothing>(WARM_UP_OPS));
        self.through_the_kernel(WARM_UP_OPS).map(|_| ())
    }

    fn twin(&mut self) {
        // The empty gate never fails.
        self.twin = self.pass::<Nothing>(self.ops).unwrap_or_default();
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work = self.through_the_kernel(self.ops)?;
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        let (twin, work) = (self.hash_of(self.twin), self.hash_of(self.work));
        if twin != work {
            return Err(WorkError::Twin { twin, work });
        }
        Ok(vec![
            hash(work),
            count("ops-pipe", self.work.done),
            count("bytes-copied", self.work.done * 2 * self.from.size as u64),
            count(PAGE_FAULTS_EXPECTED, 0),
        ])
    }
}

#[cfg(test)]
mod tests;
