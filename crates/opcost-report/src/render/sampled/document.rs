//! A profile for people.

use super::{View, behind, callers, counted, losses, short};
use opcost_base::number::{figure, grouped};
use opcost_page::document::{Block, Cell, Column, Document, Mark, Row, Table};
use opcost_page::names::shorten;
use opcost_profile::distortion::Distortion;
use opcost_profile::symbolise::Sampled;
use opcost_profile::table::FunctionCost;
use opcost_record::Unit;
use unicode_width::UnicodeWidthStr;

/// Functions named in the note on a distortion, at most.
const NAMED: usize = 3;
/// Maximum width of a name in a sentence, in columns.
const NAME_WIDTH: usize = 48;
/// If samples stand for a smaller part of the CPU time, a note explains the rest.
const COVERED_MIN: f64 = 0.9;
/// A distortion below this share is only in the JSON.
const DISTORTION_SHARE_MIN: f64 = 0.005;

/// The report of `opcost profile`.
pub fn document(view: &View<'_>) -> Document {
    let mut document = Document::default();
    heading(&mut document, view);
    document.gap();
    let functions = &view.profile.table.functions;
    // Functions that only call others stand last, so a limit cuts them off first.
    let (shown, rest) = view.order.split_at(view.limit.min(functions.len()));
    let mut rows = Vec::new();
    for at in view.function.as_ref().map_or(shown, std::slice::from_ref) {
        rows.push(row(view, &functions[*at]));
        if view.callers || view.function.is_some() {
            rows.extend(callers::tree(view, *at));
        }
    }
    if view.function.is_none() {
        let rest: Vec<&FunctionCost> = rest.iter().map(|at| &functions[*at]).collect();
        rows.extend(others(view, &rest));
    }
    let total = view.profile.table.total;
    let all = if total == 0 { "–" } else { "100.00 %" };
    rows.push(Row::sum(cells(Cell::text("total"), [&view.cost(total), all, ""], "")));
    document.table(Table {
        caption: None,
        columns: ["function", "self", "%", "incl. %", "module"].map(Column::fixed).to_vec(),
        rows,
    });
    notes(&mut document, view);
    document
}

fn heading(document: &mut Document, view: &View<'_>) {
    let about = &view.profile.about;
    let per = view.ops.map_or(String::new(), |ops| format!(" · per op of {}", grouped(ops)));
    let amount = match view.profile.sampled.as_ref().map(Sampled::samples_known) {
        Some(Some(samples)) => counted(samples, "sample"),
        Some(None) => about.format.to_string(),
        None if view.profile.is_counted() => "counted exactly".into(),
        None => about.format.to_string(),
    };
    let title = format!("profile · {} · {amount}{per} · {}", about.event, view.name);
    document.blocks.push(Block::Title(title));
    let mut facts = Vec::new();
    if let Some(sampling) = &about.sampling {
        if let Some(leader) = &sampling.counted_with {
            facts.push(format!("counted at each sample of {leader}"));
        } else if let Some(frequency) = sampling.frequency_hz {
            facts.push(format!("{} samples a second asked for", grouped(frequency)));
        } else if let Some(period) = sampling.period {
            facts.push(format!("a sample every {}", figure(period as f64, view.unit())));
        }
        if !sampling.with_callers {
            facts.push("without callers".into());
        }
    }
    if let Some(duration_ns) = about.duration_ns {
        facts.push(format!("over {}", figure(duration_ns as f64, Unit::Ns)));
    }
    if let Some((share, cpu_ns)) = view.covered() {
        let cpu = figure(cpu_ns as f64, Unit::Ns);
        facts.push(format!("samples cover {:.1} % of {cpu} of CPU time", 100.0 * share));
    }
    if about.files > 1 {
        facts.push(format!("sum of {} files", about.files));
    }
    let host = about.host.as_ref().map(|host| match &about.kernel_release {
        Some(release) => format!("on {host}, Linux {release}"),
        None => format!("on {host}"),
    });
    facts.extend(host);
    if about.events.len() > 1 {
        facts.push(format!("events: {}", about.events.join(", ")));
    }
    if !facts.is_empty() {
        document.say(Mark::Note, facts.join("; "));
    }
    if let Some(command) = about.command.as_deref().filter(|command| *command != view.name) {
        document.say(Mark::Note, command);
    }
}

fn cells(name: Cell, figures: [&str; 3], module: &str) -> Vec<Cell> {
    let module = if module.is_empty() { Cell::Empty } else { Cell::File(module.into()) };
    [name].into_iter().chain(figures.map(Cell::figure)).chain([module]).collect()
}

fn row(view: &View<'_>, cost: &FunctionCost) -> Row {
    let inclusive = cost.inclusive.map_or("?".into(), |inclusive| view.share(inclusive));
    let figures = [&view.cost(cost.own), &view.share(cost.own), &inclusive];
    let name = Cell::Name(view.naming.symbol(&cost.function).into(), String::new());
    Row::of(cells(name, figures.map(String::as_str), short(&cost.function.module)))
}

/// The rows of functions that are not shown one by one, and of what belongs to none.
fn others(view: &View<'_>, functions: &[&FunctionCost]) -> impl Iterator<Item = Row> {
    let with_cost = functions.iter().filter(|cost| cost.own > 0).count() as u64;
    let own: u64 = functions.iter().map(|cost| cost.own).sum();
    let unattributed = view.profile.table.unattributed;
    let sum = |name: String, cost: u64| {
        Row::of(cells(Cell::text(name), [&view.cost(cost), &view.share(cost), ""], ""))
    };
    let others = (with_cost > 0).then(|| sum(counted(with_cost, "other function"), own));
    let unknown = (unattributed > 0).then(|| sum("[unattributed]".into(), unattributed));
    others.into_iter().chain(unknown)
}

/// Adds the losses, and the distortions by the profiler.
fn notes(document: &mut Document, view: &View<'_>) {
    let mut losses = losses::losses(view.profile);
    if let Some((share, _)) = view.covered().filter(|(share, _)| *share < COVERED_MIN) {
        losses.push(format!(
            "{:.1} % of the CPU time has no samples: they were lost or held back, the kernel was not \
             looked at, or processes ended before their first one (a higher --frequency sees more)",
            100.0 * (1.0 - share)
        ));
    }
    let total = view.profile.table.total.max(1) as f64;
    let worth = |distortion: &&Distortion| distortion.cost as f64 / total >= DISTORTION_SHARE_MIN;
    let distortions: Vec<&Distortion> = view.distortions.iter().filter(worth).collect();
    let circle = view.profile.table.functions.iter().any(|cost| cost.inclusive.is_none());
    if !losses.is_empty() || !distortions.is_empty() || circle {
        document.gap();
    }
    if circle {
        let said = match view.profile.table.edges.is_empty() {
            true => "?: the file has no calls, so it does not tell",
            false => "?: functions that call one another in a circle; the file does not tell",
        };
        document.say(Mark::Note, said);
    }
    for distortion in distortions {
        let named: Vec<String> = distortion
            .functions
            .iter()
            .take(NAMED)
            .map(|(function, cost)| {
                // Whole names would make a page of this note, so --full-names does not apply.
                let behind = behind(function);
                let room = NAME_WIDTH.saturating_sub(behind.width());
                let name = shorten(&view.naming.symbol(function), room);
                format!("{name}{behind} {}", view.share(*cost))
            })
            .collect();
        let more = match distortion.functions.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {} more (--json has all)", grouped(more as u64)),
        };
        let said = format!(
            "{} {}: {}{more}",
            view.share(distortion.cost),
            distortion.kind.meaning(),
            named.join(", ")
        );
        document.say(Mark::Doubt, said);
    }
    if let Some(sampling) = &view.profile.about.sampling
        && sampling.precise == Some(0)
        && !sampling.clock
    {
        let said = "samples of this event are imprecise (precise_ip 0): each may be some \
                    instructions late, in the next function even";
        document.say(Mark::Doubt, said);
    }
    for sentence in losses {
        document.say(Mark::Missing, sentence);
    }
}
