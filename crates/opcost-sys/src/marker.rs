//! The marker instructions; `opcost_record::marker` defines their meaning.

/// Executes the marker with this displacement; does nothing on processors other than x86-64 and arm64.
#[inline(always)]
pub fn mark<const DISPLACEMENT: u32>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a NOP with a memory operand reads and writes nothing (Intel SDM volume 2, NOP). The compiler keeps memory accesses on
    // their side of the marker, since the marker is not `nomem`.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80",
            ".long {displacement}",
            displacement = const DISPLACEMENT,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: MOVZ to the zero register changes nothing (Arm ARM, C6.2, MOVZ); memory accesses stay on their side as above.
    unsafe {
        std::arch::asm!(
            ".inst {word} | ({displacement} & 0xffff) << {shift}",
            word = const opcost_record::marker::WORD,
            displacement = const DISPLACEMENT,
            shift = const opcost_record::marker::WORD_SHIFT,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::marker::{Marker, START, STOP};
    use opcost_record::{Architecture, TWIN, WORK};

    #[inline(never)]
    fn marked() {
        mark::<START>();
        mark::<{ STOP | 1 }>();
    }

    #[test]
    fn a_marker_is_an_instruction_where_it_is_executed() {
        marked();
        // SAFETY: code of this program, which is longer than these bytes.
        let code = unsafe { std::slice::from_raw_parts(marked as *const () as *const u8, 64) };
        let here = Architecture::of_machine(std::env::consts::ARCH).unwrap();
        let bytes = if here == Architecture::X86_64 { 7 } else { 4 };
        let markers = code.windows(bytes).filter_map(|code| Marker::decode(here, code));
        let found: Vec<Marker> = markers.take(2).collect();
        assert_eq!(found, [Marker::Start(WORK), Marker::Stop(TWIN)]);
    }
}
