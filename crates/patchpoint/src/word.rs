//! What fits into a register: arguments and results of operations, and values.

/// A type that an operation may take.
///
/// # Safety
/// [`to_word`](Argument::to_word) gives the register's content as the C calling convention has it
/// for the type (System V AMD64 psABI, 3.2.3), extended to 64 bits.
pub unsafe trait Argument: Copy {
    #[doc(hidden)]
    fn to_word(self) -> u64;
}

/// A type that an operation may return or a value may have.
///
/// # Safety
/// [`from_word`](Outcome::from_word) makes a valid value of every word, as the C calling
/// convention has it for the type; the upper bits are not the type's.
pub unsafe trait Outcome {
    #[doc(hidden)]
    fn from_word(word: u64) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => { $(
        // SAFETY: sign- or zero-extended, which includes the 32 bits that callees rely on.
        unsafe impl Argument for $type {
            #[inline(always)]
            fn to_word(self) -> u64 {
                self as u64
            }
        }

        // SAFETY: an integer is the low bits of its register, and any bits are an integer.
        unsafe impl Outcome for $type {
            #[inline(always)]
            fn from_word(word: u64) -> Self {
                word as $type
            }
        }
    )* };
}
integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

// SAFETY: 0 or 1, zero-extended.
unsafe impl Argument for bool {
    #[inline(always)]
    fn to_word(self) -> u64 {
        u64::from(self)
    }
}

// SAFETY: the low byte counts; any other than 0 is true.
unsafe impl Outcome for bool {
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        word as u8 != 0
    }
}

// SAFETY: nothing is read of the register.
unsafe impl Outcome for () {
    #[inline(always)]
    fn from_word(_word: u64) -> Self {}
}

// SAFETY: a thin pointer is a register. The site is opaque to the compiler, so that provenance is
// exposed and taken up again.
unsafe impl<T> Argument for *const T {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.expose_provenance() as u64
    }
}

// SAFETY: as above.
unsafe impl<T> Argument for *mut T {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.expose_provenance() as u64
    }
}

// SAFETY: as above, and any bits are a pointer.
unsafe impl<T> Outcome for *const T {
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        std::ptr::with_exposed_provenance(word as usize)
    }
}

// SAFETY: as above.
unsafe impl<T> Outcome for *mut T {
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        std::ptr::with_exposed_provenance_mut(word as usize)
    }
}
