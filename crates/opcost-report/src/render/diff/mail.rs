//! The causes in the order of their weight, for a mail of 72 columns.

use super::{Shown, calls, calls_changed, evidence, signed_count};
use crate::render::Style;
use crate::render::page::{PLAIN, Page, align};
use opcost_analysis::comparison::recorded_profiles::Difference;
use opcost_analysis::comparison::{CallerRow, FunctionRow};
use unicode_width::UnicodeWidthStr;

/// Width of a mail, in columns.
const WIDTH: usize = 72;
/// Callers named for one function, at most.
const CALLERS_SHOWN: usize = 3;

/// The functions that cover 95 % of the change, each with its owner and its callers.
pub fn mail(difference: &Difference, limit: usize, style: &Style) -> String {
    let shown = Shown::of(difference, limit);
    let mut page = Page::tight(&Style { color: false, width: WIDTH, ..style.clone() });
    // A long subject is folded: lines that begin with spaces continue it (RFC 5322, section 2.2.3).
    page.wrap(PLAIN, "Subject: ", &shown.subject());
    page.line("");
    page.wrap(PLAIN, "", &format!("{}.", shown.heading()));
    page.wrap(PLAIN, "", &format!("In all {}.", shown.total()));
    let causes = &shown.rows[..shown.leading];
    if !causes.is_empty() {
        page.line("");
    }
    for (at, row) in causes.iter().enumerate() {
        cause(&mut page, &shown, at + 1, row);
    }
    let covered: f64 = causes.iter().map(|row| row.own.change).sum();
    let rest = difference.functions.total.change - covered;
    page.line("");
    let share = match shown.share(rest) {
        none if none.is_empty() => none,
        share => format!(" ({share})"),
    };
    if let Some(covered) = shown.covered(causes.len()) {
        page.wrap(PLAIN, "", &covered);
    }
    let unattributed = difference.functions.unattributed.change;
    page.wrap(
        PLAIN,
        "",
        &format!(
            "All others together: {}{share}, of that without a function: {}.",
            shown.change(rest),
            shown.change(unattributed)
        ),
    );
    page.line("");
    page.note_shortened("");
    page.wrap(PLAIN, "Method: ", &format!("{}.", shown.method()));
    for machine in shown.machines() {
        page.wrap(PLAIN, "Machine: ", &machine);
    }
    for sentence in shown.provenance().iter().chain(&shown.matching_notes()) {
        page.wrap(PLAIN, "", sentence);
    }
    let mut provenance: Vec<&String> =
        difference.sides.iter().filter_map(|side| side.provenance.as_ref()).collect();
    provenance.dedup();
    for provenance in provenance {
        page.wrap(PLAIN, "", provenance);
    }
    let mut commands: Vec<&String> =
        difference.sides.iter().filter_map(|side| side.invocation.as_ref()).collect();
    commands.dedup();
    for command in commands {
        page.line("To repeat it:");
        for line in broken(command) {
            page.line(&line);
        }
    }
    let unknown = difference.owners.unknown(causes);
    for note in difference.notes.iter().chain(&unknown) {
        page.wrap(PLAIN, "! ", note);
    }
    page.into_text()
}

/// Splits a command into lines that a shell joins again.
fn broken(command: &str) -> Vec<String> {
    let words = shlex::split(command).unwrap_or_else(|| vec![command.to_string()]);
    let mut lines: Vec<String> = Vec::new();
    for word in &words {
        let word = shlex::try_quote(word).map_or_else(|_| word.clone(), |word| word.into_owned());
        match lines.last_mut() {
            // Two columns are kept for the ` \` that joins the lines.
            Some(line) if line.width() + 1 + word.width() + 2 <= WIDTH => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    let last = lines.len().saturating_sub(1);
    lines.iter_mut().take(last).for_each(|line| line.push_str(" \\"));
    lines
}

fn cause(page: &mut Page, shown: &Shown<'_>, rank: usize, row: &FunctionRow) {
    let age = match (row.appeared, row.vanished) {
        (true, _) => ", new",
        (_, true) => ", gone",
        _ => "",
    };
    let share = match shown.share(row.own.change) {
        none if none.is_empty() => none,
        share => format!("  {share}"),
    };
    let figures = format!("{}{share}{age}", shown.change(row.own.change));
    let mark = format!("{rank:2}. ");
    let name = page.name(&row.symbol, "", WIDTH - mark.width());
    let gap = WIDTH.saturating_sub(mark.width() + name.width() + figures.width());
    if gap >= 2 {
        page.line(&format!("{mark}{name}{}{figures}", " ".repeat(gap)));
    } else {
        page.wrap(PLAIN, &mark, &name);
        page.line(&align(&figures, WIDTH));
    }
    let owner = shown.difference.owners.owner(row);
    let calls = calls(row).map(|calls| format!("; {calls}")).unwrap_or_default();
    let matched = if row.by_name_only { "; matched by name only" } else { "" };
    page.wrap(
        PLAIN,
        "    ",
        &format!("in {owner}; {}{calls}{matched}", evidence(row, shown.sampled())),
    );
    let changed: Vec<&CallerRow> =
        row.callers.iter().filter(|caller| caller.own.change != 0.0).collect();
    for caller in changed.iter().take(CALLERS_SHOWN) {
        let calls = match calls_changed(&caller.calls) {
            true => format!(", calls {}", signed_count(caller.calls.change)),
            false => String::new(),
        };
        let own = shown.change(caller.own.change);
        let taken = "    from  ".width() + own.width() + calls.width();
        let name = page.name(&caller.symbol, "", WIDTH - taken);
        page.wrap(PLAIN, "    ", &format!("from {name} {own}{calls}"));
    }
    match changed.len().saturating_sub(CALLERS_SHOWN) {
        0 => {}
        1 => page.line("    and 1 other caller"),
        more => page.line(&format!("    and {more} other callers")),
    }
}
