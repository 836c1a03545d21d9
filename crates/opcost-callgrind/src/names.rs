//! Names of files and patterns of functions, as Valgrind's manual describes them.

/// What a name's pattern may ask for.
pub struct Expansion<'e> {
    /// The process.
    pub pid: u32,
    /// The number of the file among the files of this process.
    pub number: u32,
    /// Returns a variable of the environment.
    pub variable: &'e dyn Fn(&str) -> Option<String>,
}

/// Expands `%p`, `%n`, `%q{VARIABLE}` and `%%` in the name of a file (Valgrind manual, "Basic Options", `--log-file`).
///
/// # Errors
/// The pattern has another `%`, or names a variable that is not set.
pub fn expand(pattern: &str, by: &Expansion<'_>) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let mut chars = after.chars();
        match chars.next() {
            Some('%') => text.push('%'),
            Some('p') => text.push_str(&by.pid.to_string()),
            Some('n') => text.push_str(&by.number.to_string()),
            Some('q') => {
                let braced = chars.as_str().strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let Some((name, rest)) = braced else {
                    return Err(format!(
                        "'{pattern}': %q needs a variable in braces, as in %q{{NAME}}"
                    ));
                };
                let Some(value) = (by.variable)(name) else {
                    return Err(format!(
                        "'{pattern}': the variable {name} is not set; set it or leave %q{{{name}}} out"
                    ));
                };
                text.push_str(&value);
                chars = rest.chars();
            }
            _ => {
                return Err(format!("'{pattern}': behind % comes p, n, q{{NAME}} or another %"));
            }
        }
        rest = chars.as_str();
    }
    text.push_str(rest);
    Ok(text)
}

/// Whether a name matches a pattern, in which `*` stands for any text and `?` for one character.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last star stands, and the first character that it does not take yet.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(of) {
            Some('*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(char) if *char == '?' || *char == name[at] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (of, at) = (place + 1, taken + 1);
            }
        }
    }
    pattern[of..].iter().all(|char| *char == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_expanded() {
        let variable = |name: &str| (name == "HOST").then(|| "here%p".to_string());
        let by = Expansion { pid: 77, number: 3, variable: &variable };
        for (pattern, name) in
            [("out.%p", "out.77"), ("%%p%n", "%p3"), ("a%q{HOST}b", "ahere%pb"), ("plain", "plain")]
        {
            assert_eq!(expand(pattern, &by).as_deref(), Ok(name));
        }
        for (pattern, why) in [
            ("a%", "behind %"),
            ("%x", "behind %"),
            ("%qHOST", "in braces"),
            ("%q{HOST", "in braces"),
            ("%q{NONE}", "NONE is not set"),
        ] {
            let refused = expand(pattern, &by).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn patterns_match_as_shells_do() {
        for (pattern, name, is) in [
            ("main", "main", true),
            ("main", "main2", false),
            ("*::bench::*", "a::bench::f", true),
            ("*::bench::*", "a::bench", false),
            ("?ain", "main", true),
            ("?ain", "ain", false),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }
}
