//! The arguments of a site, checked against the type of its key.

use crate::key::Call;
use crate::signature::each_signature;
use crate::word::{Argument, Outcome, Registers};

macro_rules! registers {
    ([$($safety:ident)?] $count:literal $($argument:ident)*) => {
        impl<R: Outcome + 'static, $($argument: Argument + 'static),*>
            Call<$($safety)? extern "C" fn($($argument),*) -> R>
        {
            /// Checks and converts the arguments of one site.
            ///
            /// # Safety
            /// For an unsafe operation: the conditions of every operation that the key may hold.
            #[doc(hidden)]
            #[inline(always)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub $($safety)? fn registers(&self, $($argument: $argument),*) -> Registers<$count> {
                #[allow(unused_mut)]
                let mut registers = Registers::new();
                $(registers.push($argument);)*
                registers
            }
        }
    };
}

each_signature!(registers);
