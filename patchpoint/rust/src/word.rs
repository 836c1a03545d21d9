//! Types that fit into a register: arguments and results of operations, and values.

/// A type that an operation may take: an integer, truth value, thin pointer, function, or a real number.
///
/// # Safety
/// [`to_word`](Argument::to_word) gives the register's content as the C calling convention has it
/// for the type (System V AMD64 psABI, 3.2.3), extended to 64 bits: a vector register's if it is
/// [`REAL`](Argument::REAL).
pub unsafe trait Argument: Copy {
    #[doc(hidden)]
    const REAL: bool = false;

    #[doc(hidden)]
    fn to_word(self) -> u64;
}

/// A type that an operation may return or a value may have.
///
/// # Safety
/// [`from_word`](Outcome::from_word) makes a valid value of every word, as the C calling
/// convention has it for the type; the upper bits are not the type's. The word is a vector register's
/// if it is [`REAL`](Outcome::REAL).
pub unsafe trait Outcome {
    #[doc(hidden)]
    const REAL: bool = false;

    #[doc(hidden)]
    fn from_word(word: u64) -> Self;
}

/// A type that a [`Value`](crate::Value) may have: any but real numbers, which no instruction holds.
pub trait Word: Argument + Outcome {
    #[doc(hidden)]
    const IS_WORD: () = assert!(
        !<Self as Argument>::REAL && !<Self as Outcome>::REAL,
        "patchpoint: a value is no real number; store its bits (f64::to_bits)"
    );
}

impl<T: Argument + Outcome> Word for T {}

/// The arguments of one call in their registers: at most `N` of each kind.
#[doc(hidden)]
#[derive(Debug)]
pub struct Registers<const N: usize> {
    pub words: [u64; N],
    pub reals: [f64; N],
    word_count: usize,
    real_count: usize,
}

impl<const N: usize> Registers<N> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Registers { words: [0; N], reals: [0.0; N], word_count: 0, real_count: 0 }
    }

    /// Adds the next argument; the `N + 1`st is dropped.
    #[inline(always)]
    pub(crate) fn push<A: Argument>(&mut self, argument: A) {
        let word = argument.to_word();
        if A::REAL {
            if let Some(real) = self.reals.get_mut(self.real_count) {
                *real = f64::from_bits(word);
            }
            self.real_count += 1;
        } else {
            if let Some(place) = self.words.get_mut(self.word_count) {
                *place = word;
            }
            self.word_count += 1;
        }
    }
}

macro_rules! reals {
    ($($type:ty)*) => { $(
        // SAFETY: the low bits of a vector register; what lies above is not the type's.
        unsafe impl Argument for $type {
            const REAL: bool = true;

            #[inline(always)]
            fn to_word(self) -> u64 {
                self.to_bits().into()
            }
        }

        // SAFETY: as above, and any bits are a number.
        unsafe impl Outcome for $type {
            const REAL: bool = true;

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                <$type>::from_bits(word as _)
            }
        }
    )* };
}
reals!(f32 f64);

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
