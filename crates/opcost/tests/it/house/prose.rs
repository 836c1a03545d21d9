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

/// The comments of a source file that have lines of their own, without headings and code: a paragraph or an item of a list each.
fn comments(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let (mut in_fence, mut in_block) = (false, false);
    for line in text.lines() {
        let line = line.trim();
        let body = match ["//!", "///", "//", "/**", "/*"].iter().find_map(|m| line.strip_prefix(m))
        {
            Some(body) => {
                in_block = line.starts_with("/*");
                Some(body)
            }
            None if in_block => Some(line.trim_start_matches('*')),
            None => None,
        };
        in_block &= !line.ends_with("*/");
        let body = body.map(|body| body.trim_end_matches("*/").trim());
        let is_fence = body.is_some_and(|body| body.starts_with("```"));
        in_fence = body.is_some() && in_fence != is_fence;
        match body {
            Some(body) if !in_fence && !is_fence && !body.is_empty() && !body.starts_with('#') => {
                if body.starts_with(['*', '-']) {
                    paragraphs.push(String::new());
                }
                let paragraph = paragraphs.last_mut().expect("there is one");
                paragraph.push_str(body.trim_start_matches(['*', '-', ' ']));
                paragraph.push(' ');
            }
            _ => paragraphs.push(String::new()),
        }
    }
    paragraphs
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
    let found: Vec<String> = comments(code).iter().flat_map(|text| inverted(text)).collect();
    assert_eq!(found, ["What it counts is said.", "Which one ."]);
    let page = "# What it is\n\nIt is. So is this.\n```\nWhat x.\n```\n2. Of two, one.\n";
    let found: Vec<String> = paragraphs(page).iter().flat_map(|text| inverted(text)).collect();
    assert_eq!(found, ["So is this.", "Of two, one."]);

    let mut wrong = Vec::new();
    for ending in ["rs", "c", "h", "hpp", "cpp", "md"] {
        for (path, text) in with_ending(ending) {
            let texts = if ending == "md" { paragraphs(&text) } else { comments(&text) };
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
