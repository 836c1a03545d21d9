//! The routines in assembly: the same instructions in every build.
//!
//! All routines have memcpy's interface: destination in rdi, source in rsi, bytes in rdx; they return the destination in rax
//! (x86-64 psABI, 3.2.3). Loops do whole turns. The remainder, less than the widest step, is copied by halves: 8, 4, 2, 1 bytes,
//! each if its bit of the count is set.

use std::arch::naked_asm;
use std::ffi::c_void;

/// Copies the last 0 to 15 bytes and returns; `rdx` is the count, `rcx` is free.
macro_rules! tail {
    () => {
        "
        test dl, 8
        jz 93f
        mov rcx, [rsi]
        mov [rdi], rcx
        add rsi, 8
        add rdi, 8
    93: test dl, 4
        jz 94f
        mov ecx, [rsi]
        mov [rdi], ecx
        add rsi, 4
        add rdi, 4
    94: test dl, 2
        jz 95f
        movzx ecx, word ptr [rsi]
        mov [rdi], cx
        add rsi, 2
        add rdi, 2
    95: test dl, 1
        jz 96f
        movzx ecx, byte ptr [rsi]
        mov [rdi], cl
    96: ret"
    };
}

/// Copies steps of 16 bytes while at least 16 remain.
macro_rules! sixteens {
    () => {
        "
    91: cmp rdx, 16
        jb 92f
        movdqu xmm0, [rsi]
        movdqu [rdi], xmm0
        add rsi, 16
        add rdi, 16
        sub rdx, 16
        jmp 91b
    92:"
    };
}

/// Does four loads and four stores of 16 bytes, and advances by 64.
macro_rules! sixty_four {
    () => {
        "
        movdqu xmm0, [rsi]
        movdqu xmm1, [rsi + 16]
        movdqu xmm2, [rsi + 32]
        movdqu xmm3, [rsi + 48]
        movdqu [rdi], xmm0
        movdqu [rdi + 16], xmm1
        movdqu [rdi + 32], xmm2
        movdqu [rdi + 48], xmm3
        add rsi, 64
        add rdi, 64
        sub rdx, 64"
    };
}

/// Does four loads and four stores of 8 bytes, from `at` on.
macro_rules! four_words {
    ($at:literal) => {
        concat!(
            "mov r8, [rsi + ",
            $at,
            "]\n mov r9, [rsi + ",
            $at,
            " + 8]\n",
            "mov r10, [rsi + ",
            $at,
            " + 16]\n mov r11, [rsi + ",
            $at,
            " + 24]\n",
            "mov [rdi + ",
            $at,
            "], r8\n mov [rdi + ",
            $at,
            " + 8], r9\n",
            "mov [rdi + ",
            $at,
            " + 16], r10\n mov [rdi + ",
            $at,
            " + 24], r11"
        )
    };
}

/// Copies single words while any remain: the remainder of turns of several words.
macro_rules! words {
    () => {
        "
    91: cmp rdx, 8
        jb 92f
        mov rcx, [rsi]
        mov [rdi], rcx
        add rsi, 8
        add rdi, 8
        sub rdx, 8
        jmp 91b
    92:"
    };
}

/// Declares a routine with these lines.
macro_rules! routine {
    ($name:ident: $($line:expr),+ $(,)?) => {
        /// # Safety
        /// As for memcpy: `bytes` bytes are writable at `to` and readable at `from`, and the ranges do not overlap. The CPU has the
        /// feature in the registry's row.
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(
            to: *mut c_void,
            from: *const c_void,
            bytes: usize,
        ) -> *mut c_void {
            naked_asm!("mov rax, rdi", $($line),+)
        }
    };
}

routine!(rep_movsb: "mov rcx, rdx", "rep movsb", "ret");

// The second instruction costs its start-up even where it has nothing to do.
routine!(rep_movsq:
    "mov rcx, rdx",
    "shr rcx, 3",
    "rep movsq",
    "mov ecx, edx",
    "and ecx, 7",
    "rep movsb",
    "ret",
);

routine!(rep_movsq_branch:
    "mov rcx, rdx",
    "shr rcx, 3",
    "rep movsq",
    "and edx, 7",
    "jz 2f",
    "mov ecx, edx",
    "rep movsb",
    "2: ret",
);

routine!(unrolled_4:
    ".p2align 4",
    "2: cmp rdx, 32",
    "jb 91f",
    four_words!("0"),
    "add rsi, 32",
    "add rdi, 32",
    "sub rdx, 32",
    "jmp 2b",
    words!(),
    tail!(),
);

routine!(unrolled_8:
    ".p2align 4",
    "2: cmp rdx, 64",
    "jb 91f",
    four_words!("0"),
    four_words!("32"),
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "jmp 2b",
    words!(),
    tail!(),
);

routine!(sse2:
    ".p2align 4",
    "2: cmp rdx, 64",
    "jb 91f",
    sixty_four!(),
    "jmp 2b",
    sixteens!(),
    tail!(),
);

// A prefetch beyond the end is harmless: it cannot fault (Intel SDM vol. 2, PREFETCHh).
routine!(sse2_prefetch:
    ".p2align 4",
    "2: cmp rdx, 64",
    "jb 91f",
    "prefetcht0 [rsi + 512]",
    sixty_four!(),
    "jmp 2b",
    sixteens!(),
    tail!(),
);

// vzeroupper: otherwise every later SSE instruction could wait for the upper halves.
routine!(avx2:
    ".p2align 4",
    "2: cmp rdx, 128",
    "jb 3f",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovdqu ymm2, [rsi + 64]",
    "vmovdqu ymm3, [rsi + 96]",
    "vmovdqu [rdi], ymm0",
    "vmovdqu [rdi + 32], ymm1",
    "vmovdqu [rdi + 64], ymm2",
    "vmovdqu [rdi + 96], ymm3",
    "sub rsi, -128",
    "sub rdi, -128",
    "add rdx, -128",
    "jmp 2b",
    "3: cmp rdx, 32",
    "jb 4f",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu [rdi], ymm0",
    "add rsi, 32",
    "add rdi, 32",
    "sub rdx, 32",
    "jmp 3b",
    "4: vzeroupper",
    sixteens!(),
    tail!(),
);

routine!(avx512:
    ".p2align 4",
    "2: cmp rdx, 256",
    "jb 3f",
    "vmovdqu64 zmm0, [rsi]",
    "vmovdqu64 zmm1, [rsi + 64]",
    "vmovdqu64 zmm2, [rsi + 128]",
    "vmovdqu64 zmm3, [rsi + 192]",
    "vmovdqu64 [rdi], zmm0",
    "vmovdqu64 [rdi + 64], zmm1",
    "vmovdqu64 [rdi + 128], zmm2",
    "vmovdqu64 [rdi + 192], zmm3",
    "add rsi, 256",
    "add rdi, 256",
    "sub rdx, 256",
    "jmp 2b",
    "3: cmp rdx, 64",
    "jb 4f",
    "vmovdqu64 zmm0, [rsi]",
    "vmovdqu64 [rdi], zmm0",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "jmp 3b",
    "4: vzeroupper",
    sixteens!(),
    tail!(),
);

// movnti accepts any alignment. The fence orders the stores as users of a copy expect (Intel SDM vol. 1, 10.4.6.2).
routine!(non_temporal:
    ".p2align 4",
    "2: cmp rdx, 64",
    "jb 3f",
    "mov r8, [rsi]",
    "mov r9, [rsi + 8]",
    "mov r10, [rsi + 16]",
    "mov r11, [rsi + 24]",
    "movnti [rdi], r8",
    "movnti [rdi + 8], r9",
    "movnti [rdi + 16], r10",
    "movnti [rdi + 24], r11",
    "mov r8, [rsi + 32]",
    "mov r9, [rsi + 40]",
    "mov r10, [rsi + 48]",
    "mov r11, [rsi + 56]",
    "movnti [rdi + 32], r8",
    "movnti [rdi + 40], r9",
    "movnti [rdi + 48], r10",
    "movnti [rdi + 56], r11",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "jmp 2b",
    "3: sfence",
    words!(),
    tail!(),
);
