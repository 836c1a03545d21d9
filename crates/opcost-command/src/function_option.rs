//! `--function` and `--annotate`: finds the one function of a list that the user's name means.

use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_record::Function;
use opcost_record::nearest::did_you_mean;
use opcost_symbols::naming::named;

/// The most functions that an error lists.
const LISTED: usize = 6;

/// The index of the function that a name means.
///
/// `option`: the option with the name; `of`: whose functions they are, as errors name it.
///
/// # Errors
/// Usage: no function has this name (the error lists similar names), or several have it (the error
/// says how to name one).
pub fn the_function(option: &str, of: &str, functions: &[&Function], name: &str) -> Result<usize> {
    match named(functions.iter().copied(), name)[..] {
        [one] => Ok(one),
        [] => {
            let mut known: Vec<&str> = functions.iter().map(|one| one.symbol.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            let near = did_you_mean(name, known);
            let why = format!("{option} {name}: {of} has no such function{near}");
            Err(fail(Status::Usage, why))
        }
        ref many => {
            let spelled: Vec<String> =
                many.iter().take(LISTED).map(|at| spelled(functions[*at])).collect();
            let more = if many.len() > LISTED { ", …" } else { "" };
            let why =
                format!("{option} {name}: there are several; say {}{more}", spelled.join(" or "));
            Err(fail(Status::Usage, why))
        }
    }
}

/// The functions of both sides that a name means: `NAME`, or `OLD=NEW` for a function that has another name on each side.
///
/// `found`: finds a name on a side.
///
/// # Errors
/// As for [`the_function`].
pub fn on_both_sides<T>(name: &str, found: impl Fn(usize, &str) -> Result<T>) -> Result<[T; 2]> {
    // Names of C++ have '=' themselves, as in operator==.
    let cuts = name.match_indices('=').map(|(at, _)| (&name[..at], &name[at + 1..]));
    for (old, new) in cuts {
        if let (Ok(old), Ok(new)) = (found(0, old), found(1, new)) {
            return Ok([old, new]);
        }
    }
    match (found(0, name), found(1, name)) {
        (Ok(old), Ok(new)) => Ok([old, new]),
        (Err(why), Err(_)) => Err(match name.split_once('=') {
            None => why,
            Some((old, new)) => found(0, old).and(found(1, new)).err().unwrap_or(why),
        }),
        (Err(why), _) => Err(fail(Status::Usage, format!("{why}; or name both with OLD={name}"))),
        (_, Err(why)) => Err(fail(Status::Usage, format!("{why}; or name both with {name}=NEW"))),
    }
}

/// The spelling that tells one function from others of its name.
fn spelled(Function { symbol, module, source, .. }: &Function) -> String {
    format!("{}:{symbol}", source.as_ref().unwrap_or(module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_say_instead_is_said() {
        let local = |source: &str| Function {
            source: Some(source.into()),
            ..Function::new("helper", "/bin/work")
        };
        let functions = [
            local("a.c"),
            local("b.c"),
            Function::new("read", "[kernel]"),
            Function::new("read", "/lib/c"),
        ];
        let functions: Vec<&Function> = functions.iter().collect();
        let said = |name: &str| {
            the_function("--function", "the profile", &functions, name)
                .map_err(|error| error.to_string())
        };
        assert_eq!(said("b.c:helper").unwrap(), 1);
        assert_eq!(
            said("helper").unwrap_err(),
            "--function helper: there are several; say a.c:helper or b.c:helper"
        );
        assert_eq!(
            said("read").unwrap_err(),
            "--function read: there are several; say [kernel]:read or /lib/c:read"
        );
        let sides = [&functions[..3], &functions[3..]];
        let both = |name: &str| {
            let found = |side: usize, name: &str| {
                the_function("--annotate", ["a", "b"][side], sides[side], name)
            };
            on_both_sides(name, found).map_err(|error| error.to_string())
        };
        assert_eq!(both("b.c:helper=read"), Ok([1, 0]));
        assert_eq!(both("read"), Ok([2, 0]));
        assert_eq!(
            both("b.c:helper").unwrap_err(),
            "--annotate b.c:helper: b has no such function; or name both with b.c:helper=NEW"
        );
        assert_eq!(both("read=wrte").unwrap_err(), "--annotate wrte: b has no such function");
        assert_eq!(
            said("helpr").unwrap_err(),
            "--function helpr: the profile has no such function (did you mean helper?)"
        );
    }
}
