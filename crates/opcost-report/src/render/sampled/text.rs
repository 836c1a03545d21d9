//! A profile for people.

use super::{View, behind, callers, counted, losses, short};
use crate::render::Style;
use crate::render::names::{file, shorten};
use crate::render::page::{BOLD, DIM, PLAIN, Page, YELLOW, align, column, fit};
use opcost_base::number::{figure, grouped};
use opcost_profile::distortion::Distortion;
use opcost_profile::symbolise::Sampled;
use opcost_profile::table::FunctionCost;
use opcost_record::Unit;
use unicode_width::UnicodeWidthStr;

/// Minimum width of a cost, and the width of a share, in columns.
const COST_WIDTH_MIN: usize = 12;
const SHARE_WIDTH: usize = 10;
/// Width of the module, in columns.
const MODULE_WIDTH: usize = 14;
/// Functions named in the note on a distortion, at most.
const NAMED: usize = 3;
/// Maximum width of a name in a sentence, in columns.
const NAME_WIDTH: usize = 48;
/// If samples stand for a smaller part of the CPU time, a note explains the rest.
const COVERED_MIN: f64 = 0.9;
/// A distortion below this share is only in the JSON.
const DISTORTION_SHARE_MIN: f64 = 0.005;

/// The page that `opcost profile` prints.
pub fn text(view: &View<'_>, style: &Style) -> String {
    let mut page = Page::new(style);
    heading(&mut page, view);
    page.line("");
    let table = Table::of(view, page.width);
    let head = table.cells("function", ["self", "%", "incl. %"], "module");
    let head = page.paint(BOLD, &head);
    page.line(&head);
    let functions = &view.profile.table.functions;
    // Functions that only call others stand last, so a limit cuts them off first.
    let (shown, rest) = view.order.split_at(view.limit.min(functions.len()));
    for at in view.function.as_ref().map_or(shown, std::slice::from_ref) {
        table.row(&mut page, &functions[*at]);
        if view.callers || view.function.is_some() {
            callers::tree(&mut page, view, *at);
        }
    }
    if view.function.is_none() {
        let rest: Vec<&FunctionCost> = rest.iter().map(|at| &functions[*at]).collect();
        table.rest(&mut page, &rest);
    }
    let total = view.profile.table.total;
    let all = if total == 0 { "–" } else { "100.00 %" };
    let line = table.cells("total", [&view.cost(total), all, ""], "");
    let line = page.paint(BOLD, &line);
    page.line(&line);
    notes(&mut page, view);
    page.into_text()
}

fn heading(page: &mut Page, view: &View<'_>) {
    let about = &view.profile.about;
    let per = view.ops.map_or(String::new(), |ops| format!(" · per op of {}", grouped(ops)));
    let amount = match view.profile.sampled.as_ref().map(Sampled::samples_known) {
        Some(Some(samples)) => counted(samples, "sample"),
        Some(None) => about.format.to_string(),
        None => "counted exactly".into(),
    };
    page.wrap(BOLD, "", &format!("profile · {} · {amount}{per} · {}", about.event, view.name));
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
    let host = about.host.as_ref().map(|host| match &about.kernel_release {
        Some(release) => format!("on {host}, Linux {release}"),
        None => format!("on {host}"),
    });
    facts.extend(host);
    if about.events.len() > 1 {
        facts.push(format!("events: {}", about.events.join(", ")));
    }
    if !facts.is_empty() {
        page.wrap(DIM, "  ", &facts.join("; "));
    }
    if let Some(command) = about.command.as_deref().filter(|command| *command != view.name) {
        page.wrap(DIM, "  ", command);
    }
}

/// The widths of the columns.
struct Table<'a> {
    view: &'a View<'a>,
    name_width: usize,
    cost_width: usize,
}

impl<'a> Table<'a> {
    fn of(view: &'a View<'a>, width: usize) -> Table<'a> {
        // The total is the largest cost, but a smaller cost may have more digits.
        let functions = &view.profile.table.functions;
        let costs = view.order.iter().take(view.limit).map(|at| functions[*at].own);
        let costs: Vec<String> =
            costs.chain([view.profile.table.total]).map(|cost| view.cost(cost)).collect();
        let cost_width = column(costs.iter().map(String::as_str), COST_WIDTH_MIN);
        let taken = 2 + cost_width + 2 * SHARE_WIDTH + 2 + MODULE_WIDTH;
        let name_width = width.saturating_sub(taken).clamp(20, 70);
        Table { view, name_width, cost_width }
    }

    fn cells(&self, name: &str, [cost, own, inclusive]: [&str; 3], module: &str) -> String {
        format!(
            "  {}{}{}{}  {}",
            fit(name, self.name_width),
            align(cost, self.cost_width),
            align(own, SHARE_WIDTH),
            align(inclusive, SHARE_WIDTH),
            file(module, MODULE_WIDTH)
        )
    }

    fn row(&self, page: &mut Page, cost: &FunctionCost) {
        let name = self.view.naming.symbol(&cost.function);
        let width = if name.width() > self.name_width { page.width - 2 } else { self.name_width };
        let mut name = page.name(&name, "", width);
        // A long name stands on a line of its own.
        if name.width() > self.name_width {
            page.line(&format!("  {name}"));
            name.clear();
        }
        let inclusive = cost.inclusive.map_or("?".into(), |inclusive| self.view.share(inclusive));
        let figures = [&self.view.cost(cost.own), &self.view.share(cost.own), &inclusive];
        let line = self.cells(&name, figures.map(String::as_str), short(&cost.function.module));
        page.line(&line);
    }

    fn rest(&self, page: &mut Page, functions: &[&FunctionCost]) {
        let with_cost = functions.iter().filter(|cost| cost.own > 0).count() as u64;
        let own: u64 = functions.iter().map(|cost| cost.own).sum();
        if with_cost > 0 {
            let name = counted(with_cost, "other function");
            let line = self.cells(&name, [&self.view.cost(own), &self.view.share(own), ""], "");
            page.line(&line);
        }
        let unattributed = self.view.profile.table.unattributed;
        if unattributed > 0 {
            let figures = [&self.view.cost(unattributed), &self.view.share(unattributed), ""];
            let line = self.cells("[unattributed]", figures, "");
            page.line(&line);
        }
    }
}

/// Writes the losses, and the distortions by the profiler.
fn notes(page: &mut Page, view: &View<'_>) {
    page.note_shortened("  ");
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
        page.line("");
    }
    if circle {
        page.wrap(
            DIM,
            "  ",
            "?: functions that call one another in a circle; the file does not tell",
        );
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
        page.wrap(YELLOW, "! ", &said);
    }
    if let Some(sampling) = &view.profile.about.sampling
        && sampling.precise == Some(0)
        && !sampling.clock
    {
        let said = "samples of this event are imprecise (precise_ip 0): each may be some \
                    instructions late, in the next function even";
        page.wrap(YELLOW, "! ", said);
    }
    for sentence in losses {
        page.wrap(PLAIN, "– ", &sentence);
    }
}
