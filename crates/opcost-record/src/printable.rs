//! Makes text of users, other programs and other people's files safe to show. Every writer and every message calls
//! [`safe`] with the kind of its output, so a name means nothing to a terminal, a browser, a spreadsheet or a CI runner.

/// The kinds of output; each gives a meaning to other characters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Output {
    /// A part of a line for a terminal, a log or a mail.
    Line,
    /// A message on standard error: opcost's own line breaks are kept, and no further line looks like a message or a
    /// runner's command.
    Message,
    /// A part of a line of Markdown: no markup, mention, reference or link.
    Markdown,
    /// Text of an HTML element in Markdown.
    MarkdownHtml,
    /// Markdown's code within a line, without the marks around it and outside of tables.
    MarkdownCode,
    /// Lines of code between Markdown's fences of three backticks.
    MarkdownFence,
    /// Text or the value of an attribute in HTML, SVG and XML.
    Xml,
    /// A cell of CSV that is no figure: no spreadsheet takes it for a formula.
    CsvCell,
    /// A word of Go's benchmark format.
    BenchfmtWord,
    /// The value of a label in OpenMetrics.
    OpenMetricsLabel,
    /// The text of a command to GitHub's runner.
    WorkflowText,
    /// A property of such a command.
    WorkflowProperty,
    /// The name of a frame in a folded profile.
    FoldedFrame,
    /// The name and address of one person in the head of a mail.
    Mailbox,
}

/// Makes a text safe for a kind of output.
///
/// Characters that a reader does not see, but that act ([`is_obeyed`]), become their numbers (`\u{1b}`); what has a
/// meaning in this kind of output is escaped in the way of this kind.
pub fn safe(text: &str, output: Output) -> String {
    match output {
        Output::Line => printable(text),
        Output::Message => message(text),
        Output::Markdown => markdown(text),
        Output::MarkdownHtml => {
            let shown = xml(&text.replace('\n', " "));
            let parts = shown.char_indices().map(|(at, char)| match reference(&shown, at, char) {
                Some(broken) => broken.to_string(),
                None => char.to_string(),
            });
            parts.collect()
        }
        Output::MarkdownCode => printable(&text.replace('\n', " ")).replace('`', "'"),
        Output::MarkdownFence => {
            let lines = text.split('\n').map(|line| inert_line(&printable(line)));
            lines.collect::<Vec<_>>().join("\n").replace("```", "` ` `")
        }
        Output::Xml => xml(text),
        Output::CsvCell => {
            let shown = printable(text);
            // A spreadsheet ignores white space and quotes in front of a formula (OWASP, CSV injection).
            let first = shown.trim_start_matches([' ', '"', '\'']).chars().next();
            match first.is_some_and(|first| "=+-@＝＋－＠".contains(first))
                || text.starts_with(['\t', '\r'])
            {
                true => format!("'{shown}"),
                false => shown,
            }
        }
        Output::BenchfmtWord => {
            let word = |c: char| if c.is_whitespace() || c == '/' { '_' } else { c };
            printable(&text.chars().map(word).collect::<String>())
        }
        Output::OpenMetricsLabel => {
            printable(&text.replace('\n', " ")).replace('\\', "\\\\").replace('"', "\\\"")
        }
        Output::WorkflowText => workflow(text),
        Output::WorkflowProperty => workflow(text).replace(':', "%3A").replace(',', "%2C"),
        Output::FoldedFrame => {
            inert_line(&printable(&text.replace(';', ":").replace(['\n', '\r'], " ")))
        }
        Output::Mailbox => mailbox(text),
    }
}

/// Makes a part of a line safe for terminals, logs and mails: [`safe`] for [`Output::Line`].
pub fn printable(text: &str) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_string();
    }
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match is_obeyed(char) {
            true => shown.extend(char.escape_unicode()),
            false => shown.push(char),
        }
    }
    shown
}

/// Makes each line of a text printable, and keeps the line breaks.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Makes bytes printable; those that are not UTF-8 are escaped (`\xff`).
pub fn printable_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown += &printable(chunk.valid());
        for byte in chunk.invalid() {
            shown += &format!("\\x{byte:02x}");
        }
    }
    shown
}

/// Makes a document of JSON safe to print. Its strings keep their values: JSON has an escape for every character.
pub fn printable_json(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    let mut units = [0; 2];
    for char in document.chars() {
        match is_obeyed(char) && char != '\n' {
            true => {
                let units = char.encode_utf16(&mut units);
                units.iter().for_each(|unit| shown += &format!("\\u{unit:04x}"));
            }
            false => shown.push(char),
        }
    }
    // A runner's command ([`inert_line`]) can stand in a string only.
    shown.replace("##[", "#\\u0023[").replace("##vso[", "#\\u0023vso[")
}

/// Makes a document of TOML safe to print. Its strings keep their values: those with a character that acts are written with escapes,
/// which only strings in double quotes have (TOML 1.0, "String").
///
/// `document`: as `toml` writes it, without comments.
pub fn printable_toml(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    let mut rest = document;
    while let Some(start) = rest.find(['"', '\'']) {
        let quote = &rest[start..=start];
        let is_long = rest[start..].starts_with(&quote.repeat(3));
        let quotes = if is_long { 3 } else { 1 };
        let begin = start + quotes;
        let end = end_of_string(&rest[begin..], quote, quotes);
        let (text, closed) = (&rest[begin..begin + end], (begin + end + quotes).min(rest.len()));
        let acts = |char: &char| is_obeyed(*char) && *char != '\t' && !(is_long && *char == '\n');
        if text.chars().any(|char| acts(&char)) {
            shown += &rest[..start];
            shown += &"\"".repeat(quotes);
            for char in text.chars() {
                match char {
                    '\\' | '"' if quote == "'" => shown.extend(['\\', char]),
                    _ if acts(&char) => shown += &format!("\\U{:08X}", u32::from(char)),
                    _ => shown.push(char),
                }
            }
            shown += &"\"".repeat(quotes);
        } else {
            shown += &rest[..closed];
        }
        rest = &rest[closed..];
    }
    shown + rest
}

/// Returns where the quotes stand that end a string of TOML; a long string may end with quotes of its own.
fn end_of_string(text: &str, quote: &str, quotes: usize) -> usize {
    let mut escaped = false;
    for (at, char) in text.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' if quote == "\"" => escaped = true,
            _ if text[at..].starts_with(&quote.repeat(quotes)) => {
                let run = text[at..].len() - text[at..].trim_start_matches(quote).len();
                return at + run.min(quotes + if quotes == 3 { 2 } else { 0 }) - quotes;
            }
            _ => {}
        }
    }
    text.len()
}

/// Makes a whole line inert in the log of a CI runner. GitHub's runner executes a line that begins with `::command`,
/// and `##[command]` anywhere (actions/runner, `ActionCommand.cs`).
pub fn inert_line(line: &str) -> String {
    let begin = line.trim_start();
    let word = begin.strip_prefix("::").and_then(|rest| rest.split([' ', ':']).next());
    let is_command = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    let line = match word.is_some_and(is_command) {
        true => format!("{}\\u{{3a}}{}", &line[..line.len() - begin.len()], &begin[1..]),
        false => line.to_string(),
    };
    inert_text(&line)
}

/// Makes the commands inert that a CI runner executes anywhere in a text ([`inert_line`]).
pub fn inert_text(text: &str) -> String {
    text.replace("##[", "#\\u{23}[").replace("##vso[", "#\\u{23}vso[")
}

/// Writes two digits a byte, as in digests and build identifiers.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a reader does not see a character, but it acts: on a terminal, on the order of other characters, or by
/// hiding text in a name (Unicode's Default_Ignorable_Code_Point without the selectors of emoji; UTS #39).
pub fn is_obeyed(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn message(text: &str) -> String {
    let mut lines = text.split('\n').map(printable);
    let mut shown = inert_line(&lines.next().unwrap_or_default());
    for line in lines {
        // A name may contain a line break and the words of a message.
        let indent = if line.is_empty() || line.starts_with(' ') { "" } else { "  " };
        shown += &format!("\n{indent}{}", inert_line(&line));
    }
    shown
}

/// The characters that [`markdown`] escapes wherever they stand.
const MARKUP: &str = "|<`_[*~$";

fn markdown(text: &str) -> String {
    // Four spaces would begin code.
    let text = text.trim_start_matches([' ', '\t', '\n']);
    let mut escaped = String::with_capacity(text.len());
    for (at, char) in text.char_indices() {
        let next = text[at + char.len_utf8()..].chars().next();
        let first = at == 0;
        if let Some(broken) = reference(text, at, char) {
            escaped.push_str(broken);
            continue;
        }
        match char {
            '\n' => escaped.push(' '),
            _ if is_obeyed(char) => escaped.extend(char.escape_unicode()),
            // A backslash would undo the escape of what follows it; in front of other characters it shows itself.
            '\\' if next.is_none_or(|next| next.is_ascii_punctuation()) => escaped.push_str("\\\\"),
            // An entity may stand for any character.
            '&' if next.is_some_and(|next| next.is_alphanumeric() || next == '#') => {
                escaped.push_str("\\&")
            }
            _ if MARKUP.contains(char) => escaped.extend(['\\', char]),
            // At the beginning of a line: a heading, a quotation, a list, a line.
            // A runner's command ([`inert_line`]).
            ':' if first && next == Some(':') => escaped.push_str("\\:"),
            '>' if first => escaped.push_str("\\>"),
            '#' | '-' | '+' | '='
                if first && next.is_none_or(|next| next == char || next == ' ') =>
            {
                escaped.extend(['\\', char]);
            }
            '.' | ')' if begins_a_list(&text[..at], next) => escaped.extend(['\\', char]),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// Returns the text that replaces a character at which GitHub would begin a mention, a reference or a link. GitHub looks for them
/// in the text that the markup shows, so an escape does not end them; a space of no width, as an entity, does.
fn reference(text: &str, at: usize, char: char) -> Option<&'static str> {
    let behind = &text[at + char.len_utf8()..];
    let next_is = |of: fn(char) -> bool| behind.chars().next().is_some_and(of);
    match char {
        '@' if next_is(char::is_alphanumeric) => Some("@&#8203;"),
        '#' if next_is(|next| next.is_ascii_digit()) && !text[..at].ends_with('&') => {
            Some("#&#8203;")
        }
        ':' if behind.starts_with("//") => Some(":&#8203;"),
        '.' if text[..at].to_lowercase().ends_with("www") => Some("&#8203;."),
        _ => None,
    }
}

/// Whether `number` and the character behind it would begin an item of a list.
fn begins_a_list(number: &str, next: Option<char>) -> bool {
    (1..10).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && next.is_none_or(|next| next == ' ')
}

/// Escapes a text for elements and attributes. XML 1.0 does not allow control characters (section 2.2).
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let lines = text.split('\n').map(inert_line).collect::<Vec<_>>().join("\n");
    for char in lines.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            _ if is_obeyed(char) => escaped.extend(char.escape_unicode()),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// GitHub's escapes (actions/toolkit, `command.ts`); other line breaks and controls become their numbers.
fn workflow(text: &str) -> String {
    let lines = text.replace("\r\n", "\n");
    printable_lines(&lines).replace('%', "%25").replace('\n', "%0A")
}

/// `Name <address>`; a name or an address that would add another receiver or header is not taken over.
fn mailbox(text: &str) -> String {
    let text = printable(text);
    let (name, address) = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) => (name.trim(), address),
        None => (text.trim(), ""),
    };
    // RFC 5322, section 3.2.3: other characters of a name stand in quotes.
    let plain = |char: char| {
        !char.is_ascii() || char.is_ascii_alphanumeric() || " !#$%&'*+-/=?^_`{|}~".contains(char)
    };
    let name = match name.chars().all(plain) {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    let sound = address.split_once('@').is_some_and(|(local, domain)| {
        let part = |part: &str, marks: &str| {
            !part.is_empty()
                && part.chars().all(|char| char.is_alphanumeric() || marks.contains(char))
        };
        part(local, "!#$%&'*+-/=?^_`{|}~.") && part(domain, "-.")
    });
    match (sound, name.is_empty()) {
        (true, true) => format!("<{address}>"),
        (true, false) => format!("{name} <{address}>"),
        (false, _) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(printable("a key/ä"), "a key/ä");
        assert_eq!(printable("\x1b[2Jx\n\u{202e}"), "\\u{1b}[2Jx\\u{a}\\u{202e}");
        assert_eq!(printable_lines("a\x07\nb"), "a\\u{7}\nb");
        assert_eq!(printable_bytes(b"caf\xe9 \xc3\xa9\x1b"), "caf\\xe9 é\\u{1b}");
        assert_eq!(hexadecimal(&[0, 0x0a, 0xff]), "000aff");
        // The marks of right-to-left text, line separators, what has no width, tags, C1 and noncharacters.
        for hidden in "\u{61c}\u{2028}\u{2029}\u{200b}\u{200d}\u{2060}\u{feff}\u{e0041}\u{9b}\u{85}\u{fffe}\u{ad}".chars() {
            assert_eq!(printable(&hidden.to_string()), hidden.escape_unicode().to_string());
        }
        // An emoji's selector and letters of every script are shown.
        assert_eq!(printable("❤\u{fe0f} שלום 测量"), "❤\u{fe0f} שלום 测量");
    }

    #[test]
    fn each_kind_of_output_escapes_what_it_gives_a_meaning() {
        for (output, text, expected) in [
            (Output::Message, "a\nopcost: done\n  b", "a\n  opcost: done\n  b"),
            (Output::Message, "a\n::error::x ##[group]", "a\n  \\u{3a}:error::x #\\u{23}[group]"),
            (Output::Markdown, "@everyone a@b.org", "@&#8203;everyone a@&#8203;b.org"),
            (Output::Markdown, "https://x.org www.x.org", "https:&#8203;//x.org www&#8203;.x.org"),
            (
                Output::Markdown,
                "# a | `b` [c](d) <e> *f* ~g~",
                "\\# a \\| \\`b\\` \\[c](d) \\<e> \\*f\\* \\~g\\~",
            ),
            (
                Output::Markdown,
                "a\\|b \\x &#8238; x&y, z & 2. a",
                "a\\\\\\|b \\x \\&#8238; x\\&y, z & 2. a",
            ),
            (Output::Markdown, "    1. a", "1\\. a"),
            (Output::Markdown, "fixes #12, {closure#0}", "fixes #&#8203;12, {closure#&#8203;0}"),
            (Output::MarkdownCode, "a`|b\\\n@all", "a'|b\\ @all"),
            (Output::MarkdownHtml, "<b>@all #1\n\"&", "&lt;b&gt;@&#8203;all #&#8203;1 &quot;&amp;"),
            (Output::MarkdownFence, "a\n```\n@all", "a\n` ` `\n@all"),
            (Output::Xml, "<a href=\"x\">&\u{202e}", "&lt;a href=&quot;x&quot;&gt;&amp;\\u{202e}"),
            (Output::CsvCell, "=1+1", "'=1+1"),
            (Output::CsvCell, " \"@x", "' \"@x"),
            (Output::CsvCell, "\t=1", "'\\u{9}=1"),
            (Output::CsvCell, "a-b", "a-b"),
            (Output::BenchfmtWord, "a b/c\u{2028}\x1b", "a_b_c_\\u{1b}"),
            (Output::OpenMetricsLabel, "a\"\\\n", "a\\\"\\\\ "),
            (Output::WorkflowText, "a%\n::b\r", "a%25%0A::b\\u{d}"),
            (Output::WorkflowProperty, "a:b,c", "a%3Ab%2Cc"),
            (Output::FoldedFrame, "a;b\nc", "a:b c"),
            (Output::Mailbox, "Ann Ä <ann@x.org>", "Ann Ä <ann@x.org>"),
            (Output::Mailbox, "a>, <evil@x.org> <b@y.org>", "\"a>, <evil@x.org>\" <b@y.org>"),
            (Output::Mailbox, "a <b@y.org, c@x.org>", "a"),
        ] {
            assert_eq!(safe(text, output), expected, "{output:?} {text:?}");
        }
    }

    #[test]
    fn json_keeps_its_values() {
        let text = "{\n  \"a\": \"\u{202e}\u{9b}\u{e0041}é##[x]\"\n}";
        assert_eq!(
            printable_json(text),
            "{\n  \"a\": \"\\u202e\\u009b\\udb40\\udc41é#\\u0023[x]\"\n}"
        );
    }
}
