//! The marker instructions themselves; what they say is in `opcost_record::marker`.

/// Executes the marker with this displacement; nothing on processors other than x86-64.
#[inline(always)]
pub fn mark<const DISPLACEMENT: u32>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a NOP with a memory operand reads and writes nothing (Intel SDM volume 2, NOP); the
    // compiler keeps memory accesses on their side of it, since it is not marked `nomem`.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80",
            ".long {displacement}",
            displacement = const DISPLACEMENT,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::marker::{START, STOP};

    #[test]
    fn markers_can_be_executed_anywhere() {
        mark::<START>();
        mark::<STOP>();
    }
}
