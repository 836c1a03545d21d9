//! The feature of the architecture that an instruction of 64-bit Arm needs (Arm Architecture Reference Manual, C4.1).
//!
//! The disassembler does not know the features, and some of the instructions not at all.

use crate::a64::a64_text;

/// Instructions of a feature: the bits that decide, their values, and the feature's name.
type Group = (u32, u32, &'static str);

/// The first group that has an instruction names its feature.
const GROUPS: &[Group] = &[
    (0x1e00_0000, 0x0400_0000, "SVE"),
    (0x9e00_0000, 0x8000_0000, "SME"),
    (0xffff_f0ff, 0xd503_407f, "SME"),
    (0x3fff_fc00, 0x38bf_c000, "LRCPC"),
    (0x3f20_0c00, 0x1900_0000, "LRCPC2"),
    (0x3b20_0c00, 0x1900_0400, "MOPS"),
    (0x3f20_0c00, 0x3820_0000, "LSE"),
    (0x3fa0_7c00, 0x08a0_7c00, "LSE"),
    (0xbfa0_7c00, 0x0820_7c00, "LSE"),
    (0xffe0_fc00, 0x9ac0_3000, "PAuth"),
    (0xffff_0000, 0xdac1_0000, "PAuth"),
    (0xfe1f_f800, 0xd61f_0800, "PAuth"),
    (0xff20_0400, 0xf820_0400, "PAuth"),
    (0xffe0_fc00, 0x9ac0_1000, "MTE"),
    (0xbfc0_0000, 0x9180_0000, "MTE"),
    (0xff20_0000, 0xd920_0000, "MTE"),
    (0xdfe0_fc00, 0x9ac0_0000, "MTE"),
    (0x7fe0_e000, 0x1ac0_4000, "CRC32"),
    (0xff3e_0c00, 0x4e28_0800, "AES"),
    (0xbfe0_fc00, 0x0ee0_e000, "PMULL"),
    (0xff20_8c00, 0x5e00_0000, "SHA1 or SHA256"),
    (0xff3e_0c00, 0x5e28_0800, "SHA1 or SHA256"),
    (0xffe0_fc00, 0xce60_8c00, "SHA3"),
    (0xffe0_f000, 0xce60_8000, "SHA512"),
    (0xffff_fc00, 0xcec0_8000, "SHA512"),
    (0xff80_8000, 0xce00_0000, "SHA3 or SM3"),
    (0xffe0_0000, 0xce80_0000, "SHA3"),
    (0xff00_0000, 0xce00_0000, "SM3 or SM4"),
    (0x9f20_fc00, 0x0e00_9400, "DotProd"),
    (0x9f00_f400, 0x0f00_e000, "DotProd"),
    (0xdfe0_f400, 0x4e80_a400, "I8MM"),
    (0xbfe0_fc00, 0x0e80_9c00, "I8MM"),
    (0xbfe0_fc00, 0x2e40_fc00, "BF16"),
    (0xffe0_fc00, 0x6e40_ec00, "BF16"),
    (0xffff_fc00, 0x1e63_4000, "BF16"),
    (0xffff_fc00, 0x1e7e_0000, "JSCVT"),
    (0xbf20_e400, 0x2e00_c400, "FCMA"),
    (0xbf20_ec00, 0x2e00_e400, "FCMA"),
    (0xbf20_f400, 0x2e00_8400, "RDM"),
    (0xff20_f400, 0x7e00_8400, "RDM"),
    (0x5fe0_0000, 0x1ee0_0000, "FP16"),
    (0x9f60_c400, 0x0e40_0400, "FP16"),
    (0xffff_ffc0, 0xd53b_2400, "RNG"),
    (0xffe0_7c10, 0xba00_0400, "FlagM"),
    (0xffff_bc1f, 0x3a00_080d, "FlagM"),
    (0xffff_ff9f, 0xd500_401f, "FlagM or FlagM2"),
    (0xffff_ffff, 0xd503_30ff, "SB"),
    (0xffff_ffc0, 0xd503_1000, "WFxT"),
];

/// An instruction that the CPU refused: its text, and the feature that it needs, if it is one of a known feature.
pub(crate) fn describe(word: u32) -> (String, Option<&'static str>) {
    let group = GROUPS.iter().find(|(mask, value, _)| word & mask == *value);
    (a64_text(word), group.map(|(.., feature)| *feature))
}

/// Whether an instruction is one that no CPU has, by which programs end themselves.
pub(crate) fn is_undefined(word: u32) -> bool {
    word >> 16 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words by GNU as 2.40.
    #[test]
    fn instructions_name_their_features() {
        for (word, feature) in [
            (0x04e0_e3e0, Some("SVE")),             // cntd x0
            (0x2598_e3e0, Some("SVE")),             // ptrue p0.s
            (0xd503_477f, Some("SME")),             // smstart
            (0xb820_0041, Some("LSE")),             // ldadd w0, w1, [x2]
            (0xc8a0_7c41, Some("LSE")),             // cas x0, x1, [x2]
            (0x4820_7c82, Some("LSE")),             // casp x0, x1, x2, x3, [x4]
            (0xb8bf_c020, Some("LRCPC")),           // ldapr w0, [x1]
            (0xdac1_0020, Some("PAuth")),           // pacia x0, x1
            (0xd65f_0bff, Some("PAuth")),           // retaa
            (0xd71f_0801, Some("PAuth")),           // braa x0, x1
            (0xf820_0420, Some("PAuth")),           // ldraa x0, [x1]
            (0x9adf_1000, Some("MTE")),             // irg x0, x0
            (0xd920_0820, Some("MTE")),             // stg x0, [x1]
            (0x1ac2_4020, Some("CRC32")),           // crc32b w0, w1, w2
            (0x4e28_4820, Some("AES")),             // aese v0.16b, v1.16b
            (0x4ee2_e020, Some("PMULL")),           // pmull2 v0.1q, v1.2d, v2.2d
            (0x5e02_0020, Some("SHA1 or SHA256")),  // sha1c q0, s1, v2.4s
            (0xce62_8020, Some("SHA512")),          // sha512h q0, q1, v2.2d
            (0xce62_8c20, Some("SHA3")),            // rax1 v0.2d, v1.2d, v2.2d
            (0xce82_0c20, Some("SHA3")),            // xar v0.2d, v1.2d, v2.2d, #3
            (0xce02_0c20, Some("SHA3 or SM3")),     // eor3 v0.16b, v1.16b, v2.16b, v3.16b
            (0x4e82_9420, Some("DotProd")),         // sdot v0.4s, v1.16b, v2.16b
            (0x4e82_a420, Some("I8MM")),            // smmla v0.4s, v1.16b, v2.16b
            (0x6e42_fc20, Some("BF16")),            // bfdot v0.4s, v1.8h, v2.8h
            (0x1e7e_0000, Some("JSCVT")),           // fjcvtzs w0, d0
            (0x6e42_c420, Some("FCMA")),            // fcmla v0.8h, v1.8h, v2.8h, #0
            (0x6e82_8420, Some("RDM")),             // sqrdmlah v0.4s, v1.4s, v2.4s
            (0x1ee2_2820, Some("FP16")),            // fadd h0, h1, h2
            (0x4e42_1420, Some("FP16")),            // fadd v0.8h, v1.8h, v2.8h
            (0xd53b_2400, Some("RNG")),             // mrs x0, rndr
            (0xd500_401f, Some("FlagM or FlagM2")), // cfinv
            (0xba01_8404, Some("FlagM")),           // rmif x0, #3, #4
            (0x3a00_080d, Some("FlagM")),           // setf8 w0
            (0xd503_30ff, Some("SB")),              // sb
            (0x8b02_0020, None),                    // add x0, x1, x2
            (0xf940_0020, None),                    // ldr x0, [x1]
            (0xa9bf_7bfd, None),                    // stp x29, x30, [sp, #-16]!
            (0xd65f_03c0, None),                    // ret
            (0xd61f_0020, None),                    // br x1
            (0x1e62_2820, None),                    // fadd d0, d1, d2
            (0x4ea2_8420, None),                    // add v0.4s, v1.4s, v2.4s
            (0xf86b_6921, None),                    // ldr x1, [x9, x11]
            (0xc85f_7c20, None),                    // ldxr x0, [x1]
            (0x9ac2_0820, None),                    // udiv x0, x1, x2
        ] {
            assert_eq!(describe(word).1, feature, "{word:#010x} {}", describe(word).0);
        }
        assert_eq!(describe(0xd65f_03c0).0, "ret");
        assert_eq!(describe(0x04e0_e3e0).0, ".inst 0x04e0e3e0");
        assert!(is_undefined(0x1234) && !is_undefined(0xd65f_03c0));
    }
}
