//! The noise map, for people.

use super::{CpuNoise, Heard, NoiseMap};
use opcost_base::number::{figure, magnitude};
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table, Tone};
use opcost_record::Unit;

pub(super) fn document(map: &NoiseMap) -> Document {
    let mut document = Document::titled(format!(
        "each CPU kept busy by one thread for {} s, one after the other",
        map.seconds
    ));
    document.gap();
    let heads =
        ["CPU", "time lost", "longest gap", "gaps/s", "switches/s", "interrupts/s", "stolen"];
    document.table(Table {
        caption: None,
        columns: heads.map(Column::fixed).into_iter().chain([Column::below("")]).collect(),
        rows: map.cpus.iter().map(row).collect(),
    });
    document.gap();
    for (cpu, heard) in heard(map).filter(|(_, heard)| heard.disturbed()) {
        let by = match heard.causes().as_slice() {
            [] => "nobody that the kernel knows of".to_string(),
            causes => causes.join(", "),
        };
        document.say(Mark::Doubt, format!("CPU {cpu} is disturbed, probably by {by}"));
    }
    document.say_in(Mark::Conclusion, Tone::Better, advice(map));
    document
}

fn heard(map: &NoiseMap) -> impl Iterator<Item = (usize, &Heard)> {
    map.cpus.iter().filter_map(|cpu| Some((cpu.cpu, cpu.heard.as_ref()?)))
}

fn row(cpu: &CpuNoise) -> Row {
    let mut about = traits(cpu);
    let figures = match &cpu.heard {
        Some(heard) => figures(heard).map(Cell::Figure),
        None => {
            let why = cpu.refused.as_deref().unwrap_or("no reason given");
            about.insert(0, format!("not listened to: {why}"));
            [const { Cell::Empty }; 6]
        }
    };
    let cells = [Cell::text(cpu.cpu.to_string())].into_iter().chain(figures);
    Row::of(cells.chain([Cell::text(about.join(", "))]).collect())
}

fn figures(heard: &Heard) -> [String; 6] {
    let gaps = &heard.gaps;
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".into());
    let stolen =
        heard.stolen_ns.map(|stolen| magnitude(stolen as f64 / gaps.listened_ns.max(1) as f64));
    [
        magnitude(gaps.lost_share()),
        figure(gaps.longest_ns as f64, Unit::Ns),
        gaps.rate(gaps.gaps).to_string(),
        or_dash(heard.switches.map(|switches| gaps.rate(switches).to_string())),
        gaps.rate(heard.interrupts_count()).to_string(),
        or_dash(stolen),
    ]
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
