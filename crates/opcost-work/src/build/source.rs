//! The source tree, drawn from a seed: C that every compiler of the last decades accepts, with loops, branches, tables and calls
//! between its functions.

use super::folder::{Folder, hash_bytes};
use crate::error::WorkError;
use crate::random::{Random, below};
use std::fmt::Write as _;

/// Returns the name of a source file, without its extension.
pub(super) fn stem(file: u64) -> String {
    format!("part{file}")
}

/// Writes the tree and returns a hash over all of it.
///
/// # Errors
/// [`WorkError::Setup`]: a file cannot be written.
pub(super) fn write(
    folder: &Folder,
    files: u64,
    functions: u64,
    seed: u64,
) -> Result<u64, WorkError> {
    let header = header(files, functions);
    folder.write("tree.h", &header)?;
    let mut hash = hash_bytes(0, header.as_bytes());
    let mut random = Random::seeded(seed);
    for file in 0..files {
        let text = part(file, files, functions, &mut random);
        folder.write(&format!("{}.c", stem(file)), &text)?;
        hash = hash_bytes(hash, text.as_bytes());
    }
    Ok(hash)
}

/// Returns a header that declares every function, so that the compiler has something to read.
fn header(files: u64, functions: u64) -> String {
    let mut text = String::from(
        "typedef unsigned long word;\n\
         struct node { struct node *next; word key, value; };\n\
         static inline word turn(word x, int by) { return x << by | x >> (8 * sizeof x - by); }\n",
    );
    for file in 0..files {
        for function in 0..functions {
            let _ = writeln!(text, "word f{file}_{function}(struct node *list, word x);");
        }
    }
    text
}

fn part(file: u64, files: u64, functions: u64, random: &mut Random) -> String {
    let mut number = |bound: u64| below(random.draw() >> 32, 32, bound);
    let mut text = String::from("#include \"tree.h\"\n\nstatic const word table[64] = {");
    for _ in 0..64 {
        let _ = write!(text, "{}u, ", number(1 << 32));
    }
    text.push_str("};\n");
    for function in 0..functions {
        let (by, mask, odd) = (1 + number(30), number(64), 2 * number(1 << 20) + 1);
        let _ = write!(
            text,
            "\nword f{file}_{function}(struct node *list, word x)\n{{\n\
             \tstruct node *n;\n\tword sum = {odd}u, i;\n\
             \tfor (n = list; n; n = n->next) {{\n\
             \t\tif ((n->key & 63) > {mask})\n\t\t\tn->value = turn(n->value, {by}) ^ x;\n\
             \t\telse\n\t\t\tsum += table[n->key & 63] * {odd}u;\n\t}}\n\
             \tfor (i = 0; i < (x & 255); i++)\n\t\tsum = turn(sum, {by}) + table[(sum ^ i) & 63];\n\
             \tswitch (sum & 7) {{\n"
        );
        for case in 0..8 {
            let (other, of) = (number(functions), number(files));
            let add = number(1 << 16);
            let _ = match case % 2 {
                0 => writeln!(text, "\tcase {case}: return sum + {add}u;"),
                _ => writeln!(text, "\tcase {case}: return x ? f{of}_{other}(list, x >> 1) : sum;"),
            };
        }
        text.push_str("\t}\n\treturn sum;\n}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_the_seeds() {
        let tree = |seed| {
            let folder = Folder::make().unwrap();
            let hash = write(&folder, 2, 3, seed).unwrap();
            (hash, std::fs::read_to_string(folder.path().join("part1.c")).unwrap())
        };
        assert_eq!(tree(1), tree(1));
        assert_ne!(tree(1), tree(2));
        assert!(tree(1).1.starts_with("#include \"tree.h\"\n"));
    }
}
