//! Classes of instructions: the rows of a core's file, and the class of each instruction.

use iced_x86::Mnemonic;

/// The queue in which an operation waits until it executes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Queue {
    /// No queue: the operation does not execute.
    None,
    /// The queue of the integer units.
    Integer,
    /// The queue of loads and stores.
    Address,
    /// The queue of the vector units.
    Vector,
}

macro_rules! classes {
    ($($name:ident, $key:literal, $queue:ident, $what:literal;)*) => {
        /// A class of instructions that cost the same on a core; each class is a row of each core's file.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Class {
            $(#[doc = $what] $name,)*
        }

        impl Class {
            /// Every class.
            pub const ALL: &[Class] = &[$(Class::$name),*];

            /// Returns the class's key in a core's file.
            pub fn key(self) -> &'static str {
                match self { $(Class::$name => $key),* }
            }

            /// Describes the instructions of the class.
            pub fn what(self) -> &'static str {
                match self { $(Class::$name => $what),* }
            }

            pub(crate) fn queue(self) -> Queue {
                match self { $(Class::$name => Queue::$queue),* }
            }
        }
    };
}

classes! {
    Nop, "nop", None, "No operation, a prefetch, `endbr64`: a place in the window and nothing else.";
    Move, "move", Integer, "A constant into a register, and moves of 8 and 16 bits, which renaming does not do.";
    Alu, "alu", Integer, "Addition, logic, comparison, sign extension and their like.";
    AluCarry, "alu_carry", Integer, "`adc`, `sbb`.";
    ConditionalMove, "conditional_move", Integer, "`cmovcc`.";
    SetFlag, "set_flag", Integer, "`setcc`.";
    Lea, "lea", Integer, "`lea` of at most two of base, index and displacement.";
    LeaComplex, "lea_complex", Integer, "`lea` of base, index and displacement.";
    Shift, "shift", Integer, "Shifts and rotations.";
    RotateCarry, "rotate_carry", Integer, "`rcl`, `rcr`.";
    ShiftDouble, "shift_double", Integer, "`shld`, `shrd`.";
    BitCount, "bit_count", Integer, "`popcnt`.";
    BitScan, "bit_scan", Integer, "`bsf`, `bsr`.";
    BitZeros, "bit_zeros", Integer, "`lzcnt`, `tzcnt`.";
    BitModify, "bit_modify", Integer, "`bts`, `btr`, `btc`.";
    Deposit, "deposit", Integer, "`pdep`, `pext`.";
    Crc32, "crc32", Integer, "`crc32`.";
    ByteSwap, "byte_swap", Integer, "`bswap`, `movbe`.";
    Exchange, "exchange", Integer, "`xchg` of registers, `xadd`.";
    CompareExchange, "compare_exchange", Integer, "`cmpxchg` without `lock`.";
    FlagsMove, "flags_move", Integer, "`pushf`, `popf`.";
    Multiply32, "multiply_32", Integer, "Multiplication of up to 32 bits.";
    Multiply64, "multiply_64", Integer, "Multiplication of 64 bits, lower half.";
    MultiplyHigh, "multiply_high", Integer, "Multiplication with an upper half; the latency is that of the upper half.";
    Divide8, "divide_8", Integer, "Division of 8 and 16 bits.";
    Divide32, "divide_32", Integer, "Division of 32 bits.";
    Divide64, "divide_64", Integer, "Division of 64 bits.";
    Branch, "branch", Integer, "Jumps and branches to a place that the instruction names.";
    BranchIndirect, "branch_indirect", Integer, "Jumps, calls and returns to a place that is read.";
    Load, "load", Address, "The load of a register; the latency is that of a hit in L1.";
    LoadVector, "load_vector", Address, "The load of a vector register.";
    Store, "store", Address, "A store: the latency is from its operands to the place in the store queue.";
    StoreVector, "store_vector", Address, "The store of a vector register.";
    VectorMove, "vector_move", Vector, "Moves between vector registers that renaming does not do.";
    VectorLogic, "vector_logic", Vector, "Logic on vectors.";
    VectorInteger, "vector_integer", Vector, "Addition, comparison, minimum of vectors of integers.";
    VectorMultiply, "vector_multiply", Vector, "Multiplication of vectors of integers.";
    VectorHorizontal, "vector_horizontal", Vector, "Sums across a vector of integers.";
    VectorShift, "vector_shift", Vector, "Shifts of vectors.";
    VectorShuffle, "vector_shuffle", Vector, "Shuffles within 128 bits.";
    VectorShuffleBytes, "vector_shuffle_bytes", Vector, "`pshufb`, `palignr`, packs.";
    VectorShuffleLanes, "vector_shuffle_lanes", Vector, "Shuffles across 128 bits.";
    VectorBlend, "vector_blend", Vector, "Blends.";
    VectorToInteger, "vector_to_integer", Vector, "`movd` and `movmsk` to a general register.";
    VectorFromInteger, "vector_from_integer", Vector, "`movd` from a general register.";
    VectorExtract, "vector_extract", Vector, "`pextr`.";
    VectorInsert, "vector_insert", Vector, "`pinsr`.";
    VectorTest, "vector_test", Vector, "Comparisons of vectors that set flags.";
    VectorMask, "vector_mask", Vector, "Mask registers.";
    FloatAdd, "float_add", Vector, "Addition and subtraction of floating point.";
    FloatCompare, "float_compare", Vector, "Minimum, maximum and comparison of floating point.";
    FloatMultiply, "float_multiply", Vector, "Multiplication of floating point.";
    Fma, "fma", Vector, "Multiplication and addition in one.";
    FloatDivide32, "float_divide_32", Vector, "Division of single precision.";
    FloatDivide64, "float_divide_64", Vector, "Division of double precision.";
    SquareRoot32, "square_root_32", Vector, "Square root of single precision.";
    SquareRoot64, "square_root_64", Vector, "Square root of double precision.";
    FloatApproximate, "float_approximate", Vector, "Approximate reciprocals.";
    FloatHorizontal, "float_horizontal", Vector, "Sums across a vector of floating point.";
    FloatRound, "float_round", Vector, "Rounding.";
    ConvertFloat, "convert_float", Vector, "Conversions within vector registers.";
    ConvertFromInteger, "convert_from_integer", Vector, "Conversions from general registers.";
    ConvertToInteger, "convert_to_integer", Vector, "Conversions to general registers.";
    Aes, "aes", Vector, "Rounds of AES.";
    CarrylessMultiply, "carryless_multiply", Vector, "Multiplication without carry, Galois fields.";
    Sha, "sha", Vector, "SHA-1 and SHA-256.";
    StringCompareVector, "string_compare_vector", Vector, "`pcmpistri` and its like.";
    Gather, "gather", Vector, "Gathers, without their loads.";
    Scatter, "scatter", Vector, "Scatters, without their stores.";
    MaskMove, "mask_move", Vector, "Masked loads and stores.";
    X87Move, "x87_move", Vector, "x87: loads, stores, exchanges.";
    X87Add, "x87_add", Vector, "x87: addition, comparison.";
    X87Multiply, "x87_multiply", Vector, "x87: multiplication.";
    X87Divide, "x87_divide", Vector, "x87: division, square root.";
    X87Slow, "x87_slow", Vector, "x87: what is microcode.";
    Locked, "locked", Integer, "Locked instructions, from operand to result.";
    StringStart, "string_start", Integer, "What a repeated string instruction costs before its first element.";
    StringLine, "string_line", Integer, "A line that `rep movs` or `rep stos` moves.";
    StringElement, "string_element", Integer, "An element of every other string instruction.";
    Fence, "fence", Integer, "`mfence`.";
    FenceLoad, "fence_load", Integer, "`lfence`.";
    FenceStore, "fence_store", Integer, "`sfence`.";
    Pause, "pause", Integer, "`pause`.";
    Timestamp, "timestamp", Integer, "`rdtsc`, `rdpmc`.";
    Random, "random", Integer, "`rdrand`, `rdseed`.";
    ControlWord, "control_word", Integer, "Control words of floating point.";
    SegmentBase, "segment_base", Integer, "`swapgs`, `stac`, `cli` and other short system instructions.";
    CacheLine, "cache_line", Integer, "`clflush` and its like.";
    SaveState, "save_state", Integer, "`xsave`, `xrstor`.";
    Serialising, "serialising", Integer, "`cpuid`, `wrmsr` and others that wait for everything before them.";
    Enter, "enter", Integer, "`syscall`, `int`, an interrupt, a fault.";
    Leave, "leave", Integer, "`sysret`, `iret`.";
    Unknown, "unknown", Integer, "What no other class fits.";
}

/// Returns the class of an instruction by its name alone.
///
/// Returns `None` for names whose operands decide (moves, multiplications, jumps: `crate::code`) and for names that no class fits.
pub(crate) fn by_name(mnemonic: Mnemonic) -> Option<Class> {
    use Mnemonic::*;
    Some(match mnemonic {
        Cldemote | Endbr32 | Endbr64 | Fnop | Nop | Prefetch | Prefetchnta | Prefetcht0
        | Prefetcht1 | Prefetcht2 | Prefetchw | Prefetchwt1 | Reservednop | Vzeroupper | Wait => {
            Class::Nop
        }
        Add | And | Andn | Bextr | Blsi | Blsmsk | Blsr | Bt | Bzhi | Cbw | Cdq | Cdqe | Clc
        | Cld | Cmc | Cmp | Cqo | Cwd | Cwde | Dec | Inc | Lahf | Leave | Movsx | Movsxd
        | Movzx | Neg | Not | Or | Rdpid | Sahf | Stc | Std | Sub | Test | Xlatb | Xor => {
            Class::Alu
        }
        Adc | Adcx | Adox | Sbb => Class::AluCarry,
        Cmova | Cmovae | Cmovb | Cmovbe | Cmove | Cmovg | Cmovge | Cmovl | Cmovle | Cmovne
        | Cmovno | Cmovnp | Cmovns | Cmovo | Cmovp | Cmovs => Class::ConditionalMove,
        Seta | Setae | Setb | Setbe | Sete | Setg | Setge | Setl | Setle | Setne | Setno
        | Setnp | Setns | Seto | Setp | Sets => Class::SetFlag,
        Rol | Ror | Rorx | Sal | Sar | Sarx | Shl | Shlx | Shr | Shrx => Class::Shift,
        Rcl | Rcr => Class::RotateCarry,
        Shld | Shrd => Class::ShiftDouble,
        Popcnt => Class::BitCount,
        Bsf | Bsr => Class::BitScan,
        Lzcnt | Tzcnt => Class::BitZeros,
        Btc | Btr | Bts => Class::BitModify,
        Pdep | Pext => Class::Deposit,
        Crc32 => Class::Crc32,
        Bswap | Movbe => Class::ByteSwap,
        Xadd => Class::Exchange,
        Cmpxchg | Cmpxchg16b | Cmpxchg8b => Class::CompareExchange,
        Popf | Pushf | Pushfd | Pushfq | Popfd | Popfq => Class::FlagsMove,
        Andnpd | Andnps | Andpd | Andps | Orpd | Orps | Pand | Pandn | Por | Pxor | Vandnpd
        | Vandnps | Vandpd | Vandps | Vorpd | Vorps | Vpand | Vpandd | Vpandn | Vpandnd
        | Vpandnq | Vpandq | Vpor | Vpord | Vporq | Vpternlogd | Vpternlogq | Vpxor | Vpxord
        | Vpxorq | Vxorpd | Vxorps | Xorpd | Xorps => Class::VectorLogic,
        Pabsb | Pabsd | Pabsw | Paddb | Paddd | Paddq | Paddsb | Paddsw | Paddusb | Paddusw
        | Paddw | Pavgb | Pavgw | Pcmpeqb | Pcmpeqd | Pcmpeqq | Pcmpeqw | Pcmpgtb | Pcmpgtd
        | Pcmpgtq | Pcmpgtw | Pmaxsb | Pmaxsd | Pmaxsw | Pmaxub | Pmaxud | Pmaxuw | Pminsb
        | Pminsd | Pminsw | Pminub | Pminud | Pminuw | Psignb | Psignd | Psignw | Psubb | Psubd
        | Psubq | Psubsb | Psubsw | Psubusb | Psubusw | Psubw | Vpabsb | Vpabsd | Vpabsq
        | Vpabsw | Vpaddb | Vpaddd | Vpaddq | Vpaddsb | Vpaddsw | Vpaddusb | Vpaddusw | Vpaddw
        | Vpavgb | Vpavgw | Vpcmpeqb | Vpcmpeqd | Vpcmpeqq | Vpcmpeqw | Vpcmpgtb | Vpcmpgtd
        | Vpcmpgtq | Vpcmpgtw | Vplzcntd | Vplzcntq | Vpmaxsb | Vpmaxsd | Vpmaxsq | Vpmaxsw
        | Vpmaxub | Vpmaxud | Vpmaxuq | Vpmaxuw | Vpminsb | Vpminsd | Vpminsq | Vpminsw
        | Vpminub | Vpminud | Vpminuq | Vpminuw | Vpopcntb | Vpopcntd | Vpopcntq | Vpopcntw
        | Vpsignb | Vpsignd | Vpsignw | Vpsubb | Vpsubd | Vpsubq | Vpsubsb | Vpsubsw | Vpsubusb
        | Vpsubusw | Vpsubw => Class::VectorInteger,
        Pmaddubsw | Pmaddwd | Pmuldq | Pmulhrsw | Pmulhrw | Pmulhuw | Pmulhw | Pmulld | Pmullw
        | Pmuludq | Psadbw | Vpdpbusd | Vpdpbusds | Vpdpwssd | Vpdpwssds | Vpmadd52huq
        | Vpmadd52luq | Vpmaddubsw | Vpmaddwd | Vpmuldq | Vpmulhrsw | Vpmulhuw | Vpmulhw
        | Vpmulld | Vpmullq | Vpmullw | Vpmultishiftqb | Vpmuludq | Vpsadbw | Pmulhriw
        | Vpmulhd | Vpmulhud | Vpdpbssd | Vpdpbssds | Vpdpbsud | Vpdpbsuds | Vpdpbuud
        | Vpdpbuuds | Vpdpwsud | Vpdpwsuds | Vpdpwusd | Vpdpwusds | Vpdpwuud | Vpdpwuuds => {
            Class::VectorMultiply
        }
        Mpsadbw | Phaddd | Phaddsw | Phaddw | Phminposuw | Phsubd | Phsubsw | Phsubw
        | Vdbpsadbw | Vmpsadbw | Vphaddd | Vphaddsw | Vphaddw | Vphminposuw | Vphsubd
        | Vphsubsw | Vphsubw => Class::VectorHorizontal,
        Pslld | Psllq | Psllw | Psrad | Psraw | Psrld | Psrlq | Psrlw | Vprold | Vprolq
        | Vprolvd | Vprolvq | Vprord | Vprorq | Vprorvd | Vprorvq | Vpshldd | Vpshldq
        | Vpshldvd | Vpshldvq | Vpshldvw | Vpshldw | Vpshrdd | Vpshrdq | Vpshrdvd | Vpshrdvq
        | Vpshrdvw | Vpshrdw | Vpslld | Vpsllq | Vpsllvd | Vpsllvq | Vpsllvw | Vpsllw | Vpsrad
        | Vpsraq | Vpsravd | Vpsravq | Vpsravw | Vpsraw | Vpsrld | Vpsrlq | Vpsrlvd | Vpsrlvq
        | Vpsrlvw | Vpsrlw => Class::VectorShift,
        Packssdw | Packsswb | Packusdw | Packuswb | Palignr | Pshufb | Vpackssdw | Vpacksswb
        | Vpackusdw | Vpackuswb | Vpalignr | Vpshufb => Class::VectorShuffleBytes,
        Insertps | Movddup | Movhlps | Movhpd | Movhps | Movlhps | Movlpd | Movlps | Movshdup
        | Movsldup | Pmovsxbd | Pmovsxbq | Pmovsxbw | Pmovsxdq | Pmovsxwd | Pmovsxwq | Pmovzxbd
        | Pmovzxbq | Pmovzxbw | Pmovzxdq | Pmovzxwd | Pmovzxwq | Pshufd | Pshufhw | Pshuflw
        | Pshufw | Pslldq | Psrldq | Punpckhbw | Punpckhdq | Punpckhqdq | Punpckhwd | Punpcklbw
        | Punpckldq | Punpcklqdq | Punpcklwd | Shufpd | Shufps | Unpckhpd | Unpckhps | Unpcklpd
        | Unpcklps | Valignd | Valignq | Vbroadcastsd | Vbroadcastss | Vinsertps | Vmovddup
        | Vmovhlps | Vmovhpd | Vmovhps | Vmovlhps | Vmovlpd | Vmovlps | Vmovshdup | Vmovsldup
        | Vpbroadcastb | Vpbroadcastd | Vpbroadcastq | Vpbroadcastw | Vpermilpd | Vpermilps
        | Vpmovsxbd | Vpmovsxbq | Vpmovsxbw | Vpmovsxdq | Vpmovsxwd | Vpmovsxwq | Vpmovzxbd
        | Vpmovzxbq | Vpmovzxbw | Vpmovzxdq | Vpmovzxwd | Vpmovzxwq | Vpshufd | Vpshufhw
        | Vpshuflw | Vpslldq | Vpsrldq | Vpunpckhbw | Vpunpckhdq | Vpunpckhqdq | Vpunpckhwd
        | Vpunpcklbw | Vpunpckldq | Vpunpcklqdq | Vpunpcklwd | Vshufpd | Vshufps | Vunpckhpd
        | Vunpckhps | Vunpcklpd | Vunpcklps => Class::VectorShuffle,
        Vbroadcastf128 | Vbroadcastf32x2 | Vbroadcastf32x4 | Vbroadcastf32x8 | Vbroadcastf64x2
        | Vbroadcastf64x4 | Vbroadcasti128 | Vbroadcasti32x2 | Vbroadcasti32x4
        | Vbroadcasti32x8 | Vbroadcasti64x2 | Vbroadcasti64x4 | Vcompresspd | Vcompressps
        | Vexpandpd | Vexpandps | Vextractf128 | Vextractf32x4 | Vextractf32x8 | Vextractf64x2
        | Vextractf64x4 | Vextracti128 | Vextracti32x4 | Vextracti32x8 | Vextracti64x2
        | Vextracti64x4 | Vinsertf128 | Vinsertf32x4 | Vinsertf32x8 | Vinsertf64x2
        | Vinsertf64x4 | Vinserti128 | Vinserti32x4 | Vinserti32x8 | Vinserti64x2
        | Vinserti64x4 | Vpcompressb | Vpcompressd | Vpcompressq | Vpcompressw | Vperm2f128
        | Vperm2i128 | Vpermb | Vpermd | Vpermi2b | Vpermi2d | Vpermi2pd | Vpermi2ps | Vpermi2q
        | Vpermi2w | Vpermpd | Vpermps | Vpermq | Vpermt2b | Vpermt2d | Vpermt2pd | Vpermt2ps
        | Vpermt2q | Vpermt2w | Vpermw | Vpexpandb | Vpexpandd | Vpexpandq | Vpexpandw
        | Vpmovdb | Vpmovdw | Vpmovqb | Vpmovqd | Vpmovqw | Vpmovsdb | Vpmovsdw | Vpmovsqb
        | Vpmovsqd | Vpmovsqw | Vpmovswb | Vpmovusdb | Vpmovusdw | Vpmovusqb | Vpmovusqd
        | Vpmovusqw | Vpmovuswb | Vpmovwb | Vshuff32x4 | Vshuff64x2 | Vshufi32x4 | Vshufi64x2 => {
            Class::VectorShuffleLanes
        }
        Blendpd | Blendps | Blendvpd | Blendvps | Pblendvb | Pblendw | Vblendmpd | Vblendmps
        | Vblendpd | Vblendps | Vblendvpd | Vblendvps | Vpblendd | Vpblendmb | Vpblendmd
        | Vpblendmq | Vpblendmw | Vpblendvb | Vpblendw => Class::VectorBlend,
        Movmskpd | Movmskps | Pmovmskb | Vmovmskpd | Vmovmskps | Vpmovmskb => {
            Class::VectorToInteger
        }
        Extractps | Pextrb | Pextrd | Pextrq | Pextrw | Vextractps | Vpextrb | Vpextrd
        | Vpextrq | Vpextrw => Class::VectorExtract,
        Pinsrb | Pinsrd | Pinsrq | Pinsrw | Vpinsrb | Vpinsrd | Vpinsrq | Vpinsrw => {
            Class::VectorInsert
        }
        Comisd | Comiss | Ptest | Ucomisd | Ucomiss | Vcomisd | Vcomiss | Vptest | Vtestpd
        | Vtestps | Vucomisd | Vucomiss => Class::VectorTest,
        Kaddb | Kaddd | Kaddq | Kaddw | Kandb | Kandd | Kandnb | Kandnd | Kandnq | Kandnw
        | Kandq | Kandw | Kmovb | Kmovd | Kmovq | Kmovw | Knotb | Knotd | Knotq | Knotw | Korb
        | Kord | Korq | Kortestb | Kortestd | Kortestq | Kortestw | Korw | Kshiftlb | Kshiftld
        | Kshiftlq | Kshiftlw | Kshiftrb | Kshiftrd | Kshiftrq | Kshiftrw | Ktestb | Ktestd
        | Ktestq | Ktestw | Kunpckbw | Kunpckdq | Kunpckwd | Kxnorb | Kxnord | Kxnorq | Kxnorw
        | Kxorb | Kxord | Kxorq | Kxorw | Vfpclasspd | Vfpclassps | Vfpclasssd | Vfpclassss
        | Vpcmpb | Vpcmpd | Vpcmpq | Vpcmpub | Vpcmpud | Vpcmpuq | Vpcmpuw | Vpcmpw | Vpmovb2m
        | Vpmovd2m | Vpmovm2b | Vpmovm2d | Vpmovm2q | Vpmovm2w | Vpmovq2m | Vpmovw2m | Vptestmb
        | Vptestmd | Vptestmq | Vptestmw | Vptestnmb | Vptestnmd | Vptestnmq | Vptestnmw => {
            Class::VectorMask
        }
        Addpd | Addps | Addsd | Addss | Addsubpd | Addsubps | Subpd | Subps | Subsd | Subss
        | Vaddpd | Vaddps | Vaddsd | Vaddss | Vaddsubpd | Vaddsubps | Vsubpd | Vsubps | Vsubsd
        | Vsubss => Class::FloatAdd,
        Cmppd | Cmpps | Cmpsd | Cmpss | Maxpd | Maxps | Maxsd | Maxss | Minpd | Minps | Minsd
        | Minss | Vcmppd | Vcmpps | Vcmpsd | Vcmpss | Vmaxpd | Vmaxps | Vmaxsd | Vmaxss
        | Vminpd | Vminps | Vminsd | Vminss => Class::FloatCompare,
        Mulpd | Mulps | Mulsd | Mulss | Vmulpd | Vmulps | Vmulsd | Vmulss => Class::FloatMultiply,
        Vfmadd132pd | Vfmadd132ps | Vfmadd132sd | Vfmadd132ss | Vfmadd213pd | Vfmadd213ps
        | Vfmadd213sd | Vfmadd213ss | Vfmadd231pd | Vfmadd231ps | Vfmadd231sd | Vfmadd231ss
        | Vfmaddpd | Vfmaddps | Vfmaddsd | Vfmaddss | Vfmaddsub132pd | Vfmaddsub132ps
        | Vfmaddsub213pd | Vfmaddsub213ps | Vfmaddsub231pd | Vfmaddsub231ps | Vfmaddsubpd
        | Vfmaddsubps | Vfmsub132pd | Vfmsub132ps | Vfmsub132sd | Vfmsub132ss | Vfmsub213pd
        | Vfmsub213ps | Vfmsub213sd | Vfmsub213ss | Vfmsub231pd | Vfmsub231ps | Vfmsub231sd
        | Vfmsub231ss | Vfmsubadd132pd | Vfmsubadd132ps | Vfmsubadd213pd | Vfmsubadd213ps
        | Vfmsubadd231pd | Vfmsubadd231ps | Vfmsubaddpd | Vfmsubaddps | Vfmsubpd | Vfmsubps
        | Vfmsubsd | Vfmsubss | Vfnmadd132pd | Vfnmadd132ps | Vfnmadd132sd | Vfnmadd132ss
        | Vfnmadd213pd | Vfnmadd213ps | Vfnmadd213sd | Vfnmadd213ss | Vfnmadd231pd
        | Vfnmadd231ps | Vfnmadd231sd | Vfnmadd231ss | Vfnmaddpd | Vfnmaddps | Vfnmaddsd
        | Vfnmaddss | Vfnmsub132pd | Vfnmsub132ps | Vfnmsub132sd | Vfnmsub132ss | Vfnmsub213pd
        | Vfnmsub213ps | Vfnmsub213sd | Vfnmsub213ss | Vfnmsub231pd | Vfnmsub231ps
        | Vfnmsub231sd | Vfnmsub231ss | Vfnmsubpd | Vfnmsubps | Vfnmsubsd | Vfnmsubss => Class::Fma,
        Divps | Divss | Vdivps | Vdivss => Class::FloatDivide32,
        Divpd | Divsd | Vdivpd | Vdivsd => Class::FloatDivide64,
        Sqrtps | Sqrtss | Vsqrtps | Vsqrtss => Class::SquareRoot32,
        Sqrtpd | Sqrtsd | Vsqrtpd | Vsqrtsd => Class::SquareRoot64,
        Rcpps | Rcpss | Rsqrtps | Rsqrtss | Vrcp14pd | Vrcp14ps | Vrcp14sd | Vrcp14ss | Vrcpps
        | Vrcpss | Vrsqrt14pd | Vrsqrt14ps | Vrsqrt14sd | Vrsqrt14ss | Vrsqrtps | Vrsqrtss => {
            Class::FloatApproximate
        }
        Dppd | Dpps | Haddpd | Haddps | Hsubpd | Hsubps | Vdppd | Vdpps | Vhaddpd | Vhaddps
        | Vhsubpd | Vhsubps => Class::FloatHorizontal,
        Roundpd | Roundps | Roundsd | Roundss | Vfixupimmpd | Vfixupimmps | Vfixupimmsd
        | Vfixupimmss | Vgetexppd | Vgetexpps | Vgetexpsd | Vgetexpss | Vgetmantpd | Vgetmantps
        | Vgetmantsd | Vgetmantss | Vrangepd | Vrangeps | Vrangesd | Vrangess | Vreducepd
        | Vreduceps | Vreducesd | Vreducess | Vrndscalepd | Vrndscaleps | Vrndscalesd
        | Vrndscaless | Vroundpd | Vroundps | Vroundsd | Vroundss | Vscalefpd | Vscalefps
        | Vscalefsd | Vscalefss => Class::FloatRound,
        Cvtdq2pd | Cvtdq2ps | Cvtpd2dq | Cvtpd2pi | Cvtpd2ps | Cvtpi2pd | Cvtpi2ps | Cvtps2dq
        | Cvtps2pd | Cvtps2pi | Cvtsd2ss | Cvtss2sd | Cvttpd2dq | Cvttpd2pi | Cvttps2dq
        | Cvttps2pi | Vcvtdq2pd | Vcvtdq2ps | Vcvtpd2dq | Vcvtpd2ps | Vcvtpd2qq | Vcvtpd2udq
        | Vcvtpd2uqq | Vcvtph2ps | Vcvtps2dq | Vcvtps2pd | Vcvtps2ph | Vcvtps2qq | Vcvtps2udq
        | Vcvtps2uqq | Vcvtqq2pd | Vcvtqq2ps | Vcvtsd2ss | Vcvtss2sd | Vcvttpd2dq | Vcvttpd2qq
        | Vcvttpd2udq | Vcvttpd2uqq | Vcvttps2dq | Vcvttps2qq | Vcvttps2udq | Vcvttps2uqq
        | Vcvtudq2pd | Vcvtudq2ps | Vcvtuqq2pd | Vcvtuqq2ps => Class::ConvertFloat,
        Cvtsi2sd | Cvtsi2ss | Vcvtsi2sd | Vcvtsi2ss | Vcvtusi2sd | Vcvtusi2ss => {
            Class::ConvertFromInteger
        }
        Cvtsd2si | Cvtss2si | Cvttsd2si | Cvttss2si | Vcvtsd2si | Vcvtsd2usi | Vcvtss2si
        | Vcvtss2usi | Vcvttsd2si | Vcvttsd2usi | Vcvttss2si | Vcvttss2usi => {
            Class::ConvertToInteger
        }
        Aesdec | Aesdeclast | Aesenc | Aesenclast | Aesimc | Aeskeygenassist | Vaesdec
        | Vaesdeclast | Vaesenc | Vaesenclast | Vaesimc | Vaeskeygenassist => Class::Aes,
        Gf2p8affineinvqb | Gf2p8affineqb | Gf2p8mulb | Pclmulqdq | Vgf2p8affineinvqb
        | Vgf2p8affineqb | Vgf2p8mulb | Vpclmulqdq => Class::CarrylessMultiply,
        Sha1msg1 | Sha1msg2 | Sha1nexte | Sha1rnds4 | Sha256msg1 | Sha256msg2 | Sha256rnds2 => {
            Class::Sha
        }
        Pcmpestri | Pcmpestri64 | Pcmpestrm | Pcmpestrm64 | Pcmpistri | Pcmpistrm | Vpcmpestri
        | Vpcmpestri64 | Vpcmpestrm | Vpcmpestrm64 | Vpcmpistri | Vpcmpistrm => {
            Class::StringCompareVector
        }
        Vgatherdpd | Vgatherdps | Vgatherqpd | Vgatherqps | Vpgatherdd | Vpgatherdq
        | Vpgatherqd | Vpgatherqq => Class::Gather,
        Vpscatterdd | Vpscatterdq | Vpscatterqd | Vpscatterqq | Vscatterdpd | Vscatterdps
        | Vscatterqpd | Vscatterqps => Class::Scatter,
        Maskmovdqu | Maskmovq | Vmaskmovdqu | Vmaskmovpd | Vmaskmovps | Vpmaskmovd | Vpmaskmovq => {
            Class::MaskMove
        }
        Fldcw | Fnstcw | Fnstsw | Fstcw | Fstsw | Ldmxcsr | Stmxcsr | Vldmxcsr | Vstmxcsr => {
            Class::ControlWord
        }
        Fabs | Fadd | Faddp | Fchs | Fcom | Fcomi | Fcomip | Fcomp | Fcompp | Fiadd | Ficom
        | Ficomp | Fisub | Fisubr | Fsub | Fsubp | Fsubr | Fsubrp | Ftst | Fucom | Fucomi
        | Fucomip | Fucomp | Fucompp | Fxam => Class::X87Add,
        Fimul | Fmul | Fmulp => Class::X87Multiply,
        Fdiv | Fdivp | Fdivr | Fdivrp | Fidiv | Fidivr | Fsqrt => Class::X87Divide,
        Emms | Fcmovb | Fcmovbe | Fcmove | Fcmovnb | Fcmovnbe | Fcmovne | Fcmovnu | Fcmovu
        | Fdecstp | Femms | Ffree | Ffreep | Fild | Fincstp | Fist | Fistp | Fisttp | Fld
        | Fld1 | Fldl2e | Fldl2t | Fldlg2 | Fldln2 | Fldpi | Fldz | Fst | Fstp | Fxch | Movdq2q
        | Movq2dq => Class::X87Move,
        F2xm1 | Fbld | Fbstp | Fclex | Fcos | Finit | Fldenv | Fnclex | Fninit | Fnsave
        | Fnstenv | Fpatan | Fprem | Fprem1 | Fptan | Frndint | Frstor | Fsave | Fscale | Fsin
        | Fsincos | Fstenv | Fxtract | Fyl2x | Fyl2xp1 => Class::X87Slow,
        Mfence => Class::Fence,
        Lfence => Class::FenceLoad,
        Sfence => Class::FenceStore,
        Hlt | Mwait | Mwaitx | Pause | Tpause | Umwait => Class::Pause,
        Rdpmc | Rdpru | Rdtsc | Rdtscp => Class::Timestamp,
        Rdrand | Rdseed => Class::Random,
        Clac | Cli | Clts | Rdfsbase | Rdgsbase | Rdpkru | Sgdt | Sidt | Sldt | Smsw | Stac
        | Sti | Str | Swapgs | Wrfsbase | Wrgsbase => Class::SegmentBase,
        Clflush | Clflushopt | Clwb | Clzero => Class::CacheLine,
        Fxrstor | Fxrstor64 | Fxsave | Fxsave64 | Vzeroall | Xrstor | Xrstor64 | Xrstors
        | Xrstors64 | Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 | Xsaves
        | Xsaves64 => Class::SaveState,
        Clgi | Cpuid | Enter | In | Insb | Insd | Insw | Invd | Invept | Invlpg | Invlpga
        | Invpcid | Invvpid | Lar | Lfs | Lgdt | Lgs | Lidt | Lldt | Lmsw | Lsl | Lss | Ltr
        | Monitor | Monitorx | Out | Outsb | Outsd | Outsw | Rdmsr | Rsm | Stgi | Ud0 | Ud1
        | Ud2 | Verr | Verw | Vmcall | Vmclear | Vmlaunch | Vmload | Vmmcall | Vmptrld
        | Vmptrst | Vmread | Vmresume | Vmrun | Vmsave | Vmwrite | Vmxoff | Vmxon | Wbinvd
        | Wbnoinvd | Wrmsr | Wrpkru | Xgetbv | Xsetbv | Serialize => Class::Serialising,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_distinct() {
        let mut keys: Vec<&str> = Class::ALL.iter().map(|class| class.key()).collect();
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count);
        for (place, class) in Class::ALL.iter().enumerate() {
            assert_eq!(*class as usize, place);
        }
    }

    #[test]
    fn names_have_their_classes() {
        for (name, class) in [
            (Mnemonic::Add, Some(Class::Alu)),
            (Mnemonic::Vfnmadd231sd, Some(Class::Fma)),
            (Mnemonic::Vpackuswb, Some(Class::VectorShuffleBytes)),
            (Mnemonic::Vucomisd, Some(Class::VectorTest)),
            (Mnemonic::Mov, None),
            (Mnemonic::Tdpbuud, None),
        ] {
            assert_eq!(by_name(name), class, "{name:?}");
        }
    }
}
