//! Comments and documents put the subject of a sentence first, as far as a program can check it.

use super::tidy::with_ending;

/// Words that put something else first. Questions may begin with them, and so may help texts such as `What to print`.
const INVERTED: [&str; 6] = ["Of ", "So ", "That of ", "Were ", "What ", "Which "];

fn is_inverted(sentence: &str) -> bool {
    let sentence = sentence.trim_start_matches(['*', '_', '(', '`']);
    INVERTED.iter().any(|words| sentence.starts_with(words))
        && !["What to ", "Which variants to "].iter().any(|words| sentence.starts_with(words))
        && !sentence.trim_end_matches(['*', '_', '"']).ends_with('?')
}

/// The sentences of a text that begin with one of these words.
fn inverted(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut sentence = String::new();
    for word in text.split_whitespace().chain(["."]) {
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
        if word.trim_end_matches(['*', '_', ')', '"']).ends_with(['.', '?', '!']) {
            found.push(std::mem::take(&mut sentence));
        }
    }
    found.retain(|sentence| is_inverted(sentence));
    found
}

/// The comments of a source file that have lines of their own, as a document: other lines become empty.
fn comments(text: &str) -> String {
    let mut in_block = false;
    let bodies = text.lines().map(str::trim).map(|line| {
        let marked =
            ["//!", "///", "//", "/**", "/*"].iter().find_map(|mark| line.strip_prefix(mark));
        let body = marked.or(in_block.then(|| line.trim_start_matches('*')));
        in_block = (in_block || line.starts_with("/*")) && !line.ends_with("*/");
        body.unwrap_or_default().trim_end_matches("*/").to_string() + "\n"
    });
    bodies.collect()
}

/// The paragraphs, rows and items of a document, without its headings and code.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut in_fence = false;
    for line in text.lines().map(str::trim) {
        let is_fence = line.starts_with("```");
        in_fence ^= is_fence;
        let unnumbered = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let words = match unnumbered.strip_prefix(". ") {
            Some(words) if unnumbered.len() < line.len() => words,
            _ => line.trim_start_matches(['*', '-', '>', '|', ' ']),
        };
        if words.is_empty() || words.len() < line.len() || is_fence || line.starts_with('#') {
            paragraphs.push(String::new());
        }
        if !in_fence && !is_fence && !line.starts_with('#') {
            let paragraph = paragraphs.last_mut().expect("there is one");
            paragraph.push_str(words);
            paragraph.push(' ');
        }
    }
    paragraphs
}

#[test]
fn sentences_begin_with_their_subject() {
    let code = "/// Counts. What it counts\n/// is said.\nlet a = \"What x.\"; // What else.\n/* Which\n * one */\nb();\n// Why? What for?\n";
    let found: Vec<String> =
        paragraphs(&comments(code)).iter().flat_map(|text| inverted(text)).collect();
    assert_eq!(found, ["What it counts is said.", "Which one ."]);
    let page = "# What it is\n\nIt is. So is this.\n```\nWhat x.\n```\n2. Of two, one.\n";
    let found: Vec<String> = paragraphs(page).iter().flat_map(|text| inverted(text)).collect();
    assert_eq!(found, ["So is this.", "Of two, one."]);

    let mut wrong = Vec::new();
    for ending in ["rs", "c", "h", "hpp", "cpp", "md"] {
        for (path, text) in with_ending(ending) {
            let page = if ending == "md" { text } else { comments(&text) };
            let texts = paragraphs(&page);
            let sentences = texts.iter().flat_map(|text| inverted(text));
            wrong.extend(sentences.map(|sentence| format!("{}: {sentence}", path.display())));
        }
    }
    assert!(
        wrong.is_empty(),
        "sentences that put something before their subject:\n{}",
        wrong.join("\n")
    );
}
