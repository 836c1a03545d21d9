//! The marker instructions.

/// Whether this processor has markers.
pub(crate) const EXISTS: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Executes the marker whose displacement ends with `BYTE`; does nothing on processors other than x86-64 and arm64.
#[inline(always)]
pub(crate) fn mark<const BYTE: u8>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a NOP with a memory operand reads and writes nothing (Intel SDM volume 2, NOP). The compiler keeps memory accesses on
    // their side of the marker, since the marker is not `nomem`.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80, {byte}, 0x04, 0x63, 0x6f",
            byte = const BYTE,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: MOVZ to the zero register changes nothing (Arm ARM, C6.2, MOVZ); memory accesses stay on their side as above.
    unsafe {
        // movz xzr, #(0x400 | BYTE), lsl #48
        std::arch::asm!(
            ".inst 0xd2e0801f | {byte} << 5",
            byte = const BYTE,
            options(nostack, preserves_flags)
        );
    }
}

/// Executes the marker for four bits.
pub(crate) fn digit(digit: u8) {
    match digit & 15 {
        0 => mark::<0>(),
        1 => mark::<1>(),
        2 => mark::<2>(),
        3 => mark::<3>(),
        4 => mark::<4>(),
        5 => mark::<5>(),
        6 => mark::<6>(),
        7 => mark::<7>(),
        8 => mark::<8>(),
        9 => mark::<9>(),
        10 => mark::<10>(),
        11 => mark::<11>(),
        12 => mark::<12>(),
        13 => mark::<13>(),
        14 => mark::<14>(),
        _ => mark::<15>(),
    }
}
