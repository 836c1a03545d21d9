//! A function by line and by instruction, for programs.

use super::{View, state};
use opcost_analysis::annotation::{AnnotatedInstruction, AnnotatedLine, Annotation, Own};
use opcost_analysis::patch_sites::{PatchSite, SiteKind, patch_sites};
use serde_json::{Value, json as value};

/// Version of the document.
const SCHEMA: u32 = 1;

/// The document that `opcost profile --annotate --json` prints: every line and every instruction.
pub fn json(view: &View<'_>) -> Value {
    let annotation = view.annotation;
    value!({
        "schema": SCHEMA,
        "event": view.event,
        "kind": if view.counted { "counted" } else { "sampled" },
        "symbol": annotation.function.symbol,
        "module": annotation.function.module,
        "cost": Annotation::cost(&annotation.own),
        "total": annotation.totals.iter().sum::<u64>(),
        "instructions": annotation.instructions,
        "sources": sources(annotation),
        "patch_sites": sites(annotation),
        "lines": annotation.lines.iter().map(|line| self::line(annotation, line)).collect::<Vec<_>>(),
    })
}

/// The code that a key of patchpoint would make cheaper.
fn sites(annotation: &Annotation) -> Vec<Value> {
    let shown = |site: &PatchSite| {
        let mut shown = self::site(site);
        shown["source"] = site.place.map(|(source, _)| source).into();
        shown["line"] = site.place.map(|(_, line)| line).into();
        shown
    };
    patch_sites(annotation).iter().map(shown).collect()
}

/// A site without its place in the source.
pub(in crate::render) fn site(site: &PatchSite) -> Value {
    let (kind, named, name) = match &site.kind {
        SiteKind::Branch(flag) => ("branch", "flag", flag),
        SiteKind::Call(target) => ("call", "target", target),
        SiteKind::Value(variable) => ("value", "variable", variable),
    };
    value!({
        "address": format!("{:#x}", site.address),
        "kind": kind,
        named: name,
        "executions": site.executions,
        "removed_instructions": site.removed,
    })
}

/// The source files, and whether they are the compiled ones.
pub(super) fn sources(annotation: &Annotation) -> Vec<Value> {
    let sources = annotation.sources.iter();
    sources.map(|source| value!({"path": source.path, "state": state(source)})).collect()
}

fn line(annotation: &Annotation, line: &AnnotatedLine) -> Value {
    let parts = line
        .parts
        .iter()
        .map(|part| value!({"function": part.function, "cost": Annotation::cost(&part.own)}));
    let lines = line.inlined.iter().map(|one| {
        let ((source, line), cost) = (one.place, Annotation::cost(&one.own));
        value!({"function": one.function, "source": source, "line": line, "cost": cost})
    });
    value!({
        "source": line.source,
        "line": (line.number > 0).then_some(line.number),
        "text": annotation.text(line.source, line.number),
        "cost": Annotation::cost(&line.own),
        "samples": samples(&line.own),
        "inlined": parts.collect::<Vec<_>>(),
        "inlined_lines": lines.collect::<Vec<_>>(),
        "instructions": line.instructions.iter().map(instruction).collect::<Vec<_>>(),
    })
}

/// An instruction with its costs.
pub(super) fn instruction(instruction: &AnnotatedInstruction) -> Value {
    let executions: u64 = instruction.own.iter().map(|own| own.executions).sum();
    value!({
        "address": format!("{:#x}", instruction.address),
        "text": instruction.code.text,
        "inlined": instruction.inlined.as_ref().map(|(function, _)| function),
        "cost": Annotation::cost(&instruction.own),
        "samples": samples(&instruction.own),
        "executions": (executions > 0).then_some(executions),
    })
}

fn samples(own: &[Own]) -> Option<u64> {
    Some(own.iter().map(|own| own.samples).sum()).filter(|samples| *samples > 0)
}
