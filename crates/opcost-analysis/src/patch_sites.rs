//! Branches that a key of patchpoint would make cheaper, as far as the counts of instructions prove it.
//!
//! A branch whose one way was never executed depended on a flag that did not change while the program was counted. The code loads and
//! tests the flag each time. With a key of patchpoint one instruction, a jump or nothing, stands in the place of all of these.

use crate::annotation::{AnnotatedInstruction, Annotation};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest executions, and the least part of the function's cost that would go, for a site to be worth a line.
const EXECUTIONS_MIN: u64 = 100;
const PART_MIN: f64 = 0.005;

/// A branch on a flag that did not change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PatchSite {
    /// The address of the branch, as linked.
    pub address: u64,
    /// The variable in memory: its name, or its place.
    pub flag: String,
    /// Index into [`Annotation::sources`] and the line, if known.
    pub place: Option<(usize, u32)>,
    /// Executions of the branch in all runs.
    pub executions: u64,
    /// Instructions that a key takes away in all runs: executions times those beside the one that stays.
    pub removed: u64,
}

/// Finds the branches of a counted function that went one way each time; those that take most away come first.
pub fn patch_sites(annotation: &Annotation) -> Vec<PatchSite> {
    let executions =
        |one: &AnnotatedInstruction| one.own.iter().map(|own| own.executions).sum::<u64>();
    let mut code = BTreeMap::new();
    for line in &annotation.lines {
        let own = line.source.map(|source| (source, line.number));
        for one in &line.instructions {
            let place = one.inlined.as_ref().map_or(own, |(_, place)| *place);
            code.insert(one.address, (one, place));
        }
    }
    let code: Vec<_> = code.into_values().collect();
    let counts: BTreeMap<u64, u64> =
        code.iter().map(|(one, _)| (one.address, executions(one))).collect();
    let start = |one: &AnnotatedInstruction| one.address.wrapping_sub(one.code.offset);
    let executed = || code.iter().map(|(one, _)| *one).filter(|one| executions(one) > 0);
    let targets: BTreeSet<u64> =
        executed().filter_map(|one| Some(start(one).wrapping_add(one.code.target?))).collect();
    // Jumps by tables, and from a part that was split off, have targets that the code does not name.
    let first = executed().next().map(start);
    let is_plain =
        executed().all(|one| Some(start(one)) == first && !one.code.text.contains("jmp *"));
    let whole = Annotation::cost(&annotation.own) as f64;
    let mut sites = Vec::new();
    for at in 1..code.len() {
        let (branch, place) = code[at];
        let count = executions(branch);
        let Some(target) = branch.code.target.filter(|_| is_conditional(&branch.code.text)) else {
            continue;
        };
        let next = code.get(at + 1).map(|(next, _)| next.address);
        let taken = counts.get(&start(branch).wrapping_add(target));
        let passed = next.and_then(|next| counts.get(&next));
        // A way is known not to be taken if nothing there was executed at all, or if the other way's code was executed as often
        // as the branch and nothing else leads there.
        let is_alone = || is_plain && next.is_some_and(|next| !targets.contains(&next));
        let one_way = [taken, passed].contains(&Some(&0)) || passed == Some(&count) && is_alone();
        if count < EXECUTIONS_MIN || !one_way {
            continue;
        }
        let before = |back: usize| {
            let (one, _) = code.get(at.checked_sub(back)?)?;
            (executions(one) == count).then_some(one.code.text.as_str())
        };
        let Some(test) = before(1).filter(|text| is_test(text)) else { continue };
        let loaded = || {
            let load = before(2).filter(|text| text.starts_with("mov"))?;
            let into = load.rsplit(", ").next()?;
            // A comparison with something else that changes is no test of the flag.
            let is_flag = constant_or(test, into).is_some_and(|other| other == into);
            is_flag.then(|| in_memory(load))?
        };
        let direct = || constant_or(test, "").and_then(in_memory);
        let found = direct().map(|flag| (flag, 1)).or_else(|| Some((loaded()?, 2)));
        let Some((flag, beside)) = found else { continue };
        let removed = count.saturating_mul(beside);
        if removed as f64 >= PART_MIN * whole {
            let address = branch.address;
            sites.push(PatchSite { address, flag, place, executions: count, removed });
        }
    }
    sites.sort_by_key(|site| (u64::MAX - site.removed, site.address));
    sites
}

fn is_conditional(text: &str) -> bool {
    text.starts_with('j') && !text.starts_with("jmp")
}

fn is_test(text: &str) -> bool {
    ["cmp", "test"].iter().any(|name| text.starts_with(name))
}

/// The second operand of a test whose first is a constant or `register`.
fn constant_or<'t>(test: &'t str, register: &str) -> Option<&'t str> {
    let (_, operands) = test.split_once(' ')?;
    let (first, second) = operands.split_once(", ")?;
    (first.starts_with('$') || first == register).then_some(second)
}

/// The variable at a fixed place in memory that an instruction reads: `flag` of `cmpl $0x0, flag(%rip)`.
fn in_memory(text: &str) -> Option<String> {
    let (before, _) = text.split_once("(%rip)")?;
    let name = before.rsplit([' ', ',']).next()?;
    // What a CPU or a thread has for itself is no flag of the program, and constants are none either.
    let is_variable = !name.is_empty() && !name.contains([':', '[', '%']);
    is_variable.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotation::{AnnotatedLine, Own};
    use opcost_record::Function;
    use opcost_size::Instruction;

    /// A function of one line, with the text, the target and the executions of each instruction; each takes four bytes.
    fn annotation(code: &[(&str, Option<u64>, u64)]) -> Annotation {
        let own = |executions| vec![Own { cost: executions, samples: 0, executions }];
        let instructions = (0..).step_by(4).zip(code).map(|(offset, (text, target, count))| {
            let code = Instruction { offset, text: (*text).into(), target: *target };
            AnnotatedInstruction { address: 0x1000 + offset, code, own: own(*count), inlined: None }
        });
        let line = AnnotatedLine {
            source: Some(0),
            number: 7,
            instructions: instructions.collect(),
            ..AnnotatedLine::default()
        };
        Annotation {
            function: Function::new("f", "/f"),
            sources: Vec::new(),
            main: Some(0),
            lines: vec![line],
            own: own(code.iter().map(|(.., count)| count).sum()),
            totals: vec![1],
            instructions: code.len(),
            is_disassembled: true,
        }
    }

    #[test]
    fn a_branch_that_went_one_way_each_time_is_a_site_and_no_other() {
        let compared = |next: u64, target: u64| {
            patch_sites(&annotation(&[
                ("cmpl $0x0, flag(%rip)", None, 1000),
                ("jne 0x10", Some(12), 1000),
                ("add %eax, %ebx", None, next),
                ("ret", None, target),
            ]))
        };
        let site = |removed| PatchSite {
            address: 0x1004,
            flag: "flag".into(),
            place: Some((0, 7)),
            executions: 1000,
            removed,
        };
        assert_eq!(compared(0, 1000), [site(1000)]);
        assert_eq!(compared(1000, 0), [site(1000)]);
        assert_eq!(compared(999, 1), []);
        // The way that was taken is also reached from elsewhere, and leads nowhere else.
        let joined = |jump: (&'static str, Option<u64>)| {
            patch_sites(&annotation(&[
                ("jmp 0x10", Some(16), 10),
                ("cmpl $0x0, flag(%rip)", None, 1000),
                ("jne 0x10", Some(16), 1000),
                (jump.0, jump.1, 1000),
                ("ret", None, 1010),
            ]))
        };
        let site_at = |address| PatchSite { address, ..site(1000) };
        assert_eq!(joined(("nop", None)), [site_at(0x1008)]);
        assert_eq!(joined(("jne 0xc", Some(12))), [], "the next instruction is also jumped to");
        assert_eq!(joined(("jmp *table(,%rax,8)", None)), [], "by a table, perhaps");
        let own = [
            ("cmpl $0x0, %gs:flag(%rip)", None, 1000),
            ("jne 0x8", Some(8), 1000),
            ("ret", None, 0),
        ];
        assert_eq!(patch_sites(&annotation(&own)), [], "each CPU has its own");
        let loaded = |load: &str, test: &str| {
            patch_sites(&annotation(&[
                (load, None, 1000),
                (test, None, 1000),
                ("je 0x10", Some(16), 1000),
                ("nop", None, 1000),
                ("ret", None, 0),
            ]))
        };
        let found = PatchSite { address: 0x1008, ..site(2000) };
        assert_eq!(loaded("movzbl flag(%rip), %eax", "test %eax, %eax"), [found]);
        assert_eq!(loaded("mov flag(%rip), %eax", "test %ebx, %ebx"), []);
        assert_eq!(loaded("mov (%rdi), %eax", "test %eax, %eax"), []);
        assert_eq!(loaded("mov flag(%rip), %eax", "cmp $0x3, %eax").len(), 1);
        for test in ["cmp %eax, 0x80(%r10)", "cmp %ebx, %eax", "cmp %ebx, flag(%rip)"] {
            assert_eq!(loaded("mov flag(%rip), %eax", test), [], "{test}");
        }
        // The test is also reached from elsewhere, or the branch leaves the function.
        let others = annotation(&[
            ("mov flag(%rip), %eax", None, 10),
            ("test %eax, %eax", None, 1000),
            ("je 0x10", Some(12), 1000),
            ("ret", None, 0),
        ]);
        assert_eq!(patch_sites(&others), []);
        let beyond = |next: u64| {
            patch_sites(&annotation(&[
                ("cmpl $0x0, flag(%rip)", None, 1000),
                ("jne 0x1000", Some(4000), 1000),
                ("ret", None, next),
            ]))
        };
        assert_eq!((beyond(1000), beyond(400)), (vec![site(1000)], vec![]));
        let rare = annotation(&[
            ("cmpl $0x0, flag(%rip)", None, 99),
            ("jne 0x10", Some(8), 99),
            ("ret", None, 0),
        ]);
        assert_eq!(patch_sites(&rare), []);
    }
}
