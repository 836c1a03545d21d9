//! A profile as bytes: its lines, compressed, with a checksum.
//!
//! A compressed tree of tens of thousands of contexts takes about a tenth of its text, and most runs of a recording have nearly the
//! same tree.

use super::codec;
use opcost_record::Profile;
use opcost_sys::budget::{Budget, Exceeded};
use std::io::{self, BufRead, BufReader, Read, Write};

/// More text than any profile has; a larger profile is damaged.
const TEXT_BYTES_MAX: u64 = 1 << 30;

pub(super) fn encode(profile: &Profile) -> Vec<u8> {
    let mut lines = Vec::new();
    profile.write_lines(&mut lines);
    let compress = || -> io::Result<Vec<u8>> {
        let mut encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
        encoder.include_checksum(true)?;
        for line in lines {
            writeln!(encoder, "{line}")?;
        }
        encoder.finish()
    };
    compress().expect("memory can be written")
}

/// The profile, or the error if [`encode`] cannot have written the bytes; that of somebody else's store is drawn from the budget.
pub(super) fn decode(bytes: &[u8], budget: Option<&Budget>) -> rusqlite::Result<Profile> {
    let damaged = |why: &str| codec::corrupt(1, format!("profile: {why}"));
    if bytes.is_empty() {
        return Err(damaged("empty"));
    }
    let failed = |error: io::Error| match Exceeded::of(&error) {
        Some(exceeded) => codec::exceeded(exceeded),
        None => damaged(&error.to_string()),
    };
    let decoder = zstd::Decoder::new(bytes).map_err(failed)?;
    let ample = Budget::new(u64::MAX, 0);
    let text = budget.unwrap_or(&ample).unpacker(decoder);
    let mut profile = Profile::default();
    let mut reader = BufReader::new(text.take(TEXT_BYTES_MAX));
    let mut line = String::new();
    while reader.read_line(&mut line).map_err(failed)? > 0 {
        let whole = line.strip_suffix('\n').ok_or_else(|| damaged("cut off"))?;
        profile.read_line(whole).map_err(&damaged)?;
        line.clear();
    }
    if reader.into_inner().limit() == 0 {
        return Err(damaged("too long"));
    }
    profile.check().map_err(&damaged)?;
    Ok(profile)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use opcost_record::{AddressCost, Context, Function, Module, Transfer};
    use proptest::prelude::*;

    /// Any profile.
    pub(in crate::store) fn profile() -> impl Strategy<Value = Profile> {
        let text = || "[^\t\r\n]{1,12}";
        let optional = || prop::option::of(text());
        let function = (text(), "[^\t\r\n]{0,12}", optional(), optional()).prop_map(
            |(symbol, module, source, mangled)| {
                let mangled = mangled.map(String::into_boxed_str);
                Function { symbol, module, source, mangled }
            },
        );
        let module = (text(), prop::option::of("[^\t\r\n ]{1,12}"), any::<bool>())
            .prop_map(|(path, soname, program)| Module { path, soname, program });
        let place = any::<prop::sample::Index>;
        let context = (prop::option::of(place()), place(), any::<u64>(), any::<u64>());
        let context = (context, any::<[u64; 6]>());
        let contexts = prop::collection::vec(context, 0..20);
        let functions = prop::collection::vec(function, 1..8);
        let modules = prop::collection::vec(module, 0..3);
        let address = (place(), any::<u64>(), any::<u64>(), any::<u64>());
        let addresses = prop::collection::vec(address, 0..20);
        (functions, contexts, modules, addresses, any::<bool>()).prop_map(
            |(functions, drawn, modules, addresses, timed)| {
                let (mut contexts, mut cycles) = (Vec::new(), Vec::new());
                for ((parent, function, calls, cost), spent) in drawn {
                    let before = contexts.len();
                    let parent =
                        parent.filter(|_| before > 0).map(|parent| parent.index(before) as u32);
                    let function = function.index(functions.len()) as u32;
                    contexts.push(Context { parent, function, calls, cost });
                    cycles.extend(timed.then_some(spent));
                }
                let cost =
                    |(function, address, executions, cost): (prop::sample::Index, _, _, _)| {
                        let function = function.index(functions.len()) as u32;
                        AddressCost { function, address, executions, cost }
                    };
                let mut addresses: Vec<AddressCost> = addresses.into_iter().map(cost).collect();
                addresses.sort_by_key(AddressCost::place);
                addresses.dedup_by_key(|cost| cost.place());
                let of = |two: &[AddressCost]| Transfer {
                    from: two[0].place(),
                    to: two[1].place(),
                    times: two[0].cost,
                };
                let transfers = addresses.windows(2).map(of).collect();
                Profile { functions, contexts, cycles, modules, addresses, transfers, steps: None }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(profile in profile()) {
            let decoded = decode(&encode(&profile), None).unwrap();
            let mangled = |profile: &Profile| -> Vec<Option<Box<str>>> {
                profile.functions.iter().map(|function| function.mangled.clone()).collect()
            };
            prop_assert_eq!(mangled(&decoded), mangled(&profile));
            prop_assert_eq!(decoded, profile);
        }

        #[test]
        fn no_changed_byte_goes_unnoticed(
            profile in profile(), place in any::<prop::sample::Index>(), by in 1..=255u8,
        ) {
            let mut bytes = encode(&profile);
            let place = place.index(bytes.len());
            bytes[place] ^= by;
            // A changed header may still have the same meaning.
            prop_assert!(decode(&bytes, None).is_ok_and(|same| same == profile) || decode(&bytes, None).is_err());
            bytes.truncate(place);
            prop_assert!(decode(&bytes, None).is_err());
        }
    }

    #[test]
    fn what_is_no_profile_is_named() {
        let fault = |bytes: &[u8]| {
            let rusqlite::Error::FromSqlConversionFailure(_, _, why) =
                decode(bytes, None).unwrap_err()
            else {
                panic!("damage is an error of a conversion")
            };
            why.to_string()
        };
        let text = |text: &str| fault(&zstd::encode_all(text.as_bytes(), 1).unwrap());
        assert_eq!(text("f a\tb\nc - 1 1 1\n"), "profile: no such function");
        assert_eq!(text("f a\tb\nc - 0 1 1"), "profile: cut off");
        assert_eq!(text("c - 0 1 1\n"), "profile: no such function");
        assert_eq!(fault(b""), "profile: empty");
        assert!(decode(b"plain text", None).is_err());
    }
}
