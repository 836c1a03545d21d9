//! The noise map, for people.

use super::{CpuNoise, Heard, NoiseMap};
use opcost_base::number::{figure, magnitude};
use opcost_record::Unit;
use opcost_report::render::Style;
use opcost_report::render::page::{BOLD, GREEN, PLAIN, Page, YELLOW};

pub(super) fn text(map: &NoiseMap, style: &Style) -> String {
    let mut page = Page::new(style);
    let head =
        format!("each CPU kept busy by one thread for {} s, one after the other", map.seconds);
    page.wrap(BOLD, "", &head);
    page.line("");
    page.line("  CPU  time lost  longest gap   gaps/s  switches/s  interrupts/s   stolen");
    for cpu in &map.cpus {
        match &cpu.heard {
            Some(heard) => page.line(&row(cpu.cpu, heard)),
            None => page.wrap(
                YELLOW,
                &format!("  {:>3}  ", cpu.cpu),
                &format!(
                    "not listened to: {}",
                    cpu.refused.as_deref().unwrap_or("no reason given")
                ),
            ),
        }
        let traits = traits(cpu);
        if !traits.is_empty() {
            page.wrap(PLAIN, "       ", &traits.join(", "));
        }
    }
    page.line("");
    for (cpu, heard) in heard(map).filter(|(_, heard)| heard.disturbed()) {
        let by = match heard.causes().as_slice() {
            [] => "nobody that the kernel knows of".to_string(),
            causes => causes.join(", "),
        };
        page.wrap(YELLOW, "! ", &format!("CPU {cpu} is disturbed, probably by {by}"));
    }
    page.wrap(GREEN, "→ ", &advice(map));
    page.into_text()
}

fn heard(map: &NoiseMap) -> impl Iterator<Item = (usize, &Heard)> {
    map.cpus.iter().filter_map(|cpu| Some((cpu.cpu, cpu.heard.as_ref()?)))
}

fn row(cpu: usize, heard: &Heard) -> String {
    let gaps = &heard.gaps;
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".into());
    let stolen =
        heard.stolen_ns.map(|stolen| magnitude(stolen as f64 / gaps.listened_ns.max(1) as f64));
    format!(
        "  {cpu:>3} {:>10} {:>12} {:>8} {:>11} {:>13} {:>8}",
        magnitude(gaps.lost_share()),
        figure(gaps.longest_ns as f64, Unit::Ns),
        gaps.rate(gaps.gaps),
        or_dash(heard.switches.map(|switches| gaps.rate(switches).to_string())),
        gaps.rate(heard.interrupts_count()),
        or_dash(stolen),
    )
}

fn traits(cpu: &CpuNoise) -> Vec<String> {
    let mut traits = Vec::new();
    if cpu.isolated {
        traits.push("isolated".to_string());
    }
    if cpu.nohz_full {
        traits.push("nohz_full".into());
    }
    if !cpu.siblings.is_empty() {
        let siblings: Vec<String> = cpu.siblings.iter().map(usize::to_string).collect();
        traits.push(format!("shares its core with {}", siblings.join(", ")));
    }
    traits
}

fn advice(map: &NoiseMap) -> String {
    let Some(quietest) = map.quietest else {
        return "no CPU could be listened to".into();
    };
    if map.cpus.len() == 1 {
        return format!(
            "CPU {quietest} is the only one this process may use: opcost shares it with what it measures"
        );
    }
    let disturbed = heard(map).any(|(cpu, heard)| cpu == quietest && heard.disturbed());
    let but = if disturbed { ", and disturbed all the same" } else { "" };
    format!("CPU {quietest} is the quietest{but}: --cpu {quietest}")
}
