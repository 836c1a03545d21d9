//! The `mapfile` workload: map a file, touch it with a stride, unmap it.
//!
//! The workload measures what lmbench's *lat_mmap* measures (McVoy and Staelin, USENIX 1996), on a file in memory
//! (`memfd_create(2)`) whose pages are resident, so that no disk is involved. Each operation maps the whole file at the same
//! address and unmaps it in the end. Every operation therefore has the same page faults: for writes, one for each touched page; for
//! reads, one for each window of neighbouring pages that the kernel maps along with the page being read.

mod content;

use crate::error::WorkError;
use crate::gate::{Gate, Kernel, Nothing};
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::mmap::arena::Arena;
use crate::params::{ParamSpec, Params, number, one_of};
use crate::random::fold;
use crate::spec::WorkloadSpec;
use crate::work::Work;
use content::Content;
use opcost_record::Invariant;
use std::hint::black_box;

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "mapfile",
    summary: "a file in memory is mapped, touched with a stride and unmapped",
    operation: "one mmap, the touches and one munmap",
    ops_default: "10000",
    programs: None,
    figures: &[],
    params: &[
        ParamSpec {
            name: "size",
            default: "1048576",
            values: "1..=1073741824",
            help: "bytes of the file; it is in memory as a whole",
            check: |value| number(value, 1..=SIZE_MAX),
        },
        ParamSpec {
            name: "stride",
            // As in lmbench (PSIZE of lat_mmap).
            default: "16384",
            values: "1..=1073741824",
            help: "bytes from one touched byte to the next; the first byte is always touched",
            check: |value| number(value, 1..=SIZE_MAX),
        },
        ParamSpec {
            name: "access",
            default: "write",
            values: "write|read",
            help: "how the bytes are touched; page faults of reads are predicted for a kernel that \
                   maps 64 KiB around each, which is Linux's default",
            check: |value| one_of(value, &["write", "read"]),
        },
    ],
    prepare: |params, seed| Ok(Box::new(MapFile::prepare(params, seed)?)),
};

const SIZE_MAX: u64 = 1 << 30;

/// The pages around a read that the kernel maps along with it, in bytes (mm/memory.c, fault_around_bytes).
const FAULT_AROUND_BYTES: u64 = 64 << 10;

/// Operations of the warm-up.
const WARM_UP_OPS: u64 = 10;

/// The counts of one pass over the operations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Pass {
    done: u64,
    /// Bytes touched.
    touched: u64,
    /// Sum of the bytes read.
    sum: u64,
}

/// A call that did not return the expected result.
struct Failed {
    call: &'static str,
    op: u64,
    returned: usize,
    expected: usize,
}

struct MapFile {
    arena: Arena,
    content: Content,
    ops: u64,
    stride: u64,
    writes: bool,
    work: Pass,
    twin: Pass,
}

impl MapFile {
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        // Faults on large folios would map several pages at once.
        // SAFETY: PR_SET_THP_DISABLE takes plain numbers and changes no memory.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1u64, 0u64, 0u64, 0u64) };
        // SAFETY: sysconf reads a constant.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        let size = params.number("size");
        Ok(MapFile {
            arena: Arena::reserve(1, size.div_ceil(page_bytes), 0)?,
            content: Content::create(size, params.number("stride"), page_bytes, seed)?,
            ops: params.number("ops"),
            stride: params.number("stride"),
            writes: params.text("access") == "write",
            work: Pass::default(),
            twin: Pass::default(),
        })
    }

    /// Maps, touches and unmaps `ops` times; stops at the first failing call.
    ///
    /// # Safety
    /// With [`Kernel`], nothing is mapped in the arena.
    unsafe fn pass<G: Gate, const TOUCH: bool>(&self, ops: u64) -> Result<Pass, Failed> {
        match self.writes {
            // SAFETY: as the caller promises.
            true => unsafe { self.touch::<G, TOUCH, true>(ops) },
            // SAFETY: as above.
            false => unsafe { self.touch::<G, TOUCH, false>(ops) },
        }
    }

    /// # Safety
    /// As [`pass`](Self::pass).
    #[inline(never)]
    unsafe fn touch<G: Gate, const TOUCH: bool, const WRITE: bool>(
        &self,
        ops: u64,
    ) -> Result<Pass, Failed> {
        let mut pass = Pass::default();
        let address = self.arena.address(0, 0);
        let bytes = self.content.bytes_mapped();
        let map = self.map_arguments(address);
        for op in 0..ops {
            // SAFETY: the arena's address is free, and the file belongs to this workload.
            let mapped = unsafe { G::call(libc::SYS_mmap as usize, map, address) };
            if mapped != address {
                return Err(Failed { call: "mmap", op, returned: mapped, expected: address });
            }
            for at in (0..self.content.size()).step_by(self.stride as usize) {
                let place = (address + at as usize) as *mut u8;
                pass.touched += 1;
                match (TOUCH, WRITE) {
                    // SAFETY: the byte is in the new mapping, and only used here.
                    (true, true) => unsafe { place.write_volatile(op as u8) },
                    // SAFETY: as above.
                    (true, false) => pass.sum += u64::from(unsafe { place.read_volatile() }),
                    (false, _) => {
                        black_box(place);
                    }
                }
            }
            // SAFETY: nothing refers to the mapping any more.
            let unmapped =
                unsafe { G::call(libc::SYS_munmap as usize, [address, bytes, 0, 0, 0, 0], 0) };
            if unmapped != 0 {
                return Err(Failed { call: "munmap", op, returned: unmapped, expected: 0 });
            }
            pass.done += 1;
        }
        Ok(pass)
    }

    fn map_arguments(&self, address: usize) -> [usize; 6] {
        const ACCESS: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        const FLAGS: usize = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as usize;
        [address, self.content.bytes_mapped(), ACCESS, FLAGS, self.content.descriptor(), 0]
    }

    fn run(&self, ops: u64) -> Result<Pass, WorkError> {
        // SAFETY: nothing is mapped in the arena between operations.
        let done = unsafe { self.pass::<Kernel, true>(ops) };
        done.map_err(|failed| WorkError::Call {
            call: failed.call,
            op: failed.op + 1,
            ops,
            returned: failed.returned,
            expected: failed.expected,
        })
    }

    fn run_twin(&self, ops: u64) -> Pass {
        // SAFETY: nothing is mapped, and nothing is touched.
        let done = unsafe { self.pass::<Nothing, false>(ops) };
        // The empty gate returns the expected result, so there is no failure.
        done.unwrap_or_default()
    }

    /// Returns the page faults of one operation.
    fn faults_per_op(&self) -> u64 {
        let reach = if self.writes { 1 } else { FAULT_AROUND_BYTES };
        self.content.pieces_touched(reach)
    }
}

impl Work for MapFile {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        black_box(self.run_twin(WARM_UP_OPS));
        self.run(WARM_UP_OPS)?;
        self.content.fill()
    }

    fn twin(&mut self) {
        self.twin = self.run_twin(self.ops);
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work = self.run(self.ops)?;
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        let hash_of = |pass: Pass| fold(fold(0, pass.done), pass.touched);
        let (twin, work) = (hash_of(self.twin), hash_of(self.work));
        if twin != work {
            return Err(WorkError::Twin { twin, work });
        }
        match self.writes {
            true => self.content.verify_written(self.ops.wrapping_sub(1) as u8)?,
            false => self.content.verify_sum(self.ops, self.work.sum)?,
        }
        Ok(vec![
            hash(fold(work, self.content.checksum()?)),
            count("ops-mmap", self.work.done),
            count("ops-munmap", self.work.done),
            count("bytes-touched", self.work.touched),
            count(PAGE_FAULTS_EXPECTED, self.ops * self.faults_per_op()),
        ])
    }
}

#[cfg(test)]
mod tests;
