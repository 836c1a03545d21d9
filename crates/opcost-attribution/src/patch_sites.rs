//! Code that a key of patchpoint would make cheaper, as far as counts of instructions prove it.
//!
//! - A **branch** whose one way was never executed depended on a flag that did not change while the program was counted. The code
//!   loads and tests the flag each time. With a key of patchpoint one instruction, a jump or nothing, stands in the place of all of
//!   these.
//! - An **indirect call** that always went to one function is a direct call with a key. The instruction that loads the pointer goes,
//!   and with a retpoline all instructions of the retpoline. A retpoline returns to its target, so no transfer names its caller. The
//!   calls of the caller do: those that its direct calls leave over went through its retpolines.
//! - A **value** in memory that nothing can change while the program runs is a constant in the instruction with a key. No instruction
//!   goes, only the load.

use crate::annotation::{AnnotatedInstruction, Annotation};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest executions, and the least part of the function's cost that would go, for a site to be worth a line.
const EXECUTIONS_MIN: u64 = 100;
const PART_MIN: f64 = 0.005;
/// The most instructions between a load and the call or test that uses it.
const BETWEEN_MAX: usize = 8;

/// A place in code that a key would make cheaper.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PatchSite {
    /// The address of the branch, the call or the load, as linked.
    pub address: u64,
    /// What did not change.
    pub kind: SiteKind,
    /// Index into [`Annotation::sources`] and the line, if known.
    pub place: Option<(usize, u32)>,
    /// Executions in all runs.
    pub executions: u64,
    /// Instructions that a key takes away in all runs: executions times those beside the one that stays.
    pub removed: u64,
}

/// What did not change at a site.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SiteKind {
    /// The way of a branch; holds the flag in memory, by its name or place.
    Branch(String),
    /// The target of an indirect call; holds the target's function.
    Call(String),
    /// The value of a variable; holds the variable, by its name or place.
    Value(String),
}

/// A site in a function of a comparison.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundSite {
    /// The baseline and the variant of the comparison.
    pub sides: [usize; 2],
    /// The variant that executed the site.
    pub of: usize,
    /// The function.
    pub function: String,
    /// The source file and the line, if known.
    pub place: Option<(String, u32)>,
    /// The site.
    pub site: PatchSite,
}

/// A function's code in order.
struct Executed<'a> {
    annotation: &'a Annotation,
    code: Vec<(&'a AnnotatedInstruction, Option<(usize, u32)>)>,
    counts: BTreeMap<u64, u64>,
}

/// Finds the sites of a counted function; those that take most away come first.
pub fn patch_sites(annotation: &Annotation) -> Vec<PatchSite> {
    let mut code = BTreeMap::new();
    for line in &annotation.lines {
        let own = line.source.map(|source| (source, line.number));
        for one in &line.instructions {
            let place = one.inlined.as_ref().map_or(own, |(_, place)| *place);
            code.insert(one.address, (one, place));
        }
    }
    let code: Vec<_> = code.into_values().collect();
    let counts = code.iter().map(|(one, _)| (one.address, executions(one))).collect();
    let executed = Executed { annotation, code, counts };
    let whole = Annotation::cost(&annotation.own) as f64;
    // Each site with the instructions that it removes or makes cheaper, by their places in the code.
    let mut found: Vec<(PatchSite, u64, Vec<usize>)> = Vec::new();
    found.extend(executed.branches());
    found.extend(executed.calls());
    let used: BTreeSet<usize> = found.iter().flat_map(|(.., used)| used).copied().collect();
    found.extend(executed.values(&used));
    found.retain(|(site, cheaper, _)| {
        site.executions >= EXECUTIONS_MIN && *cheaper as f64 >= PART_MIN * whole
    });
    let mut sites: Vec<PatchSite> = found.into_iter().map(|(site, ..)| site).collect();
    sites.sort_by_key(|site| (u64::MAX - site.removed, u64::MAX - site.executions, site.address));
    sites
}

fn executions(one: &AnnotatedInstruction) -> u64 {
    one.own.iter().map(|own| own.executions).sum()
}

/// The address of the first byte of the piece of code that an instruction is in.
fn start(one: &AnnotatedInstruction) -> u64 {
    one.address.wrapping_sub(one.code.offset)
}

impl Executed<'_> {
    fn text(&self, at: usize) -> &str {
        &self.code[at].0.code.text
    }

    /// Makes a site of an instruction; `beside`: the instructions beside the one that stays; `used`: the places of those that go.
    fn site(
        &self,
        at: usize,
        kind: SiteKind,
        beside: u64,
        used: Vec<usize>,
    ) -> (PatchSite, u64, Vec<usize>) {
        let (one, place) = self.code[at];
        let executions = executions(one);
        let removed = executions.saturating_mul(beside);
        let cheaper = if matches!(kind, SiteKind::Branch(_)) { removed } else { executions };
        (PatchSite { address: one.address, kind, place, executions, removed }, cheaper, used)
    }

    /// The branches that went one way each time.
    fn branches(&self) -> Vec<(PatchSite, u64, Vec<usize>)> {
        let executed = || self.code.iter().map(|(one, _)| *one).filter(|one| executions(one) > 0);
        let targets: BTreeSet<u64> =
            executed().filter_map(|one| Some(start(one).wrapping_add(one.code.target?))).collect();
        // Jumps by tables, and from a part that was split off, have targets that the code does not name.
        let first = executed().next().map(start);
        let is_plain =
            executed().all(|one| Some(start(one)) == first && !one.code.text.contains("jmp *"));
        let mut sites = Vec::new();
        for at in 1..self.code.len() {
            let branch = self.code[at].0;
            let count = executions(branch);
            let Some(target) = branch.code.target.filter(|_| is_conditional(&branch.code.text))
            else {
                continue;
            };
            let next = self.code.get(at + 1).map(|(next, _)| next.address);
            let taken = self.counts.get(&start(branch).wrapping_add(target));
            let passed = next.and_then(|next| self.counts.get(&next));
            // A way is known not to be taken if nothing there was executed at all, or if the other way's code was executed as often
            // as the branch and nothing else leads there.
            let is_alone = || is_plain && next.is_some_and(|next| !targets.contains(&next));
            let one_way =
                [taken, passed].contains(&Some(&0)) || passed == Some(&count) && is_alone();
            if count == 0 || !one_way {
                continue;
            }
            let before = |back: usize| {
                let at = at.checked_sub(back)?;
                (executions(self.code[at].0) == count).then(|| self.text(at))
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
            let used = (at - beside..=at).collect();
            sites.push(self.site(at, SiteKind::Branch(flag), beside as u64, used));
        }
        sites
    }

    /// The indirect calls that went to one function each time.
    fn calls(&self) -> Vec<(PatchSite, u64, Vec<usize>)> {
        let by_retpoline = self.retpoline_target();
        let mut sites = Vec::new();
        for at in 0..self.code.len() {
            let Some(callee) = called(self.text(at)).filter(|_| executions(self.code[at].0) > 0)
            else {
                continue;
            };
            let retpoline = self.annotation.flow.retpolines.get(callee);
            let is_indirect = callee.starts_with('*');
            let known = self.only_target(at);
            let (target, thunk) = match (known, is_retpoline(callee), retpoline) {
                // Where the machine needs no retpolines, the kernel has put plain calls in their places.
                (Some(target), true, _) => (target, 0),
                (Some(target), false, _) if is_indirect => (target, 0),
                (None, true, Some(thunk)) if !self.has_transfers(at) => match &by_retpoline {
                    Some(target) => (target.as_str(), *thunk),
                    None => continue,
                },
                _ => continue,
            };
            // A call to another file goes through a slot that the loader fills once.
            if callee.contains('@') {
                continue;
            }
            let pointer = callee.trim_end_matches(')').rsplit(['_', '%']).next();
            let load = pointer.and_then(|register| self.load_of(at, register));
            let used = load.into_iter().chain([at]).collect();
            let beside = thunk + u64::from(load.is_some());
            sites.push(self.site(at, SiteKind::Call(target.into()), beside, used));
        }
        sites
    }

    fn has_transfers(&self, at: usize) -> bool {
        let address = self.code[at].0.address;
        self.annotation.flow.transfers.iter().any(|(from, ..)| *from == address)
    }

    /// The function to which an indirect call went each time that it finished.
    fn only_target(&self, at: usize) -> Option<&str> {
        let one = self.code[at].0;
        let mut went =
            self.annotation.flow.transfers.iter().filter(|(from, ..)| *from == one.address);
        let (_, (target, _), times) = went.next()?;
        (went.next().is_none() && *times == executions(one)).then_some(target)
    }

    /// The function that all calls through retpolines reached: the only one that the direct calls leave over, as often as the
    /// retpolines were called.
    fn retpoline_target(&self) -> Option<String> {
        let mut through = 0u64;
        let mut direct: BTreeMap<&str, u64> = BTreeMap::new();
        for at in 0..self.code.len() {
            let Some(callee) = called(self.text(at)) else { continue };
            let count = executions(self.code[at].0);
            if is_retpoline(callee) {
                through = through.checked_add(count)?;
            }
            if !callee.starts_with('*') {
                *direct.entry(callee).or_default() += count;
            }
        }
        for (_, (target, _), times) in &self.annotation.flow.transfers {
            *direct.entry(target).or_default() += times;
        }
        let mut left = None;
        // Callees jump to the thunk that returns for them, which counts as a call of their caller's.
        let callees = self.annotation.flow.callees.iter();
        for (callee, calls) in callees.filter(|(callee, _)| !callee.ends_with("_return_thunk")) {
            let known = direct.remove(callee.as_str()).unwrap_or(0);
            match calls.checked_sub(known)? {
                0 => {}
                rest if left.is_none() => left = Some((callee, rest)),
                _ => return None,
            }
        }
        left.filter(|(_, rest)| *rest == through).map(|(callee, _)| callee.clone())
    }

    /// The instruction that loads the pointer in a register for the call at a place, if nothing else needs it: the register is lost
    /// in the call, and it passes no argument.
    fn load_of(&self, at: usize, register: &str) -> Option<usize> {
        if !["rax", "r10", "r11"].contains(&register) {
            return None;
        }
        let count = executions(self.code[at].0);
        for back in (at.saturating_sub(BETWEEN_MAX)..at).rev() {
            let (one, text) = (self.code[back].0, self.text(back));
            let moves = text.starts_with("mov") && text.contains('(');
            if executions(one) != count || called(text).is_some() || text.starts_with('j') {
                return None;
            }
            if moves && text.rsplit(", ").next()?.strip_prefix('%') == Some(register) {
                return Some(back);
            }
            if names(text, register) {
                return None;
            }
        }
        None
    }

    /// The loads of values that nothing can change; `used`: instructions that belong to other sites.
    fn values(&self, used: &BTreeSet<usize>) -> Vec<(PatchSite, u64, Vec<usize>)> {
        let is_load = |at: &usize| {
            let code = &self.code[*at].0.code;
            let into = code.text.rsplit(", ").next().unwrap_or_default();
            let is_general = into.starts_with('%') && !into.contains("mm") && !into.contains('(');
            code.is_constant && code.text.starts_with("mov") && is_general
        };
        let loads = (0..self.code.len()).filter(|at| !used.contains(at)).filter(is_load);
        let site = |at: usize| {
            let variable = in_memory(self.text(at)).filter(|name| !name.contains('"'))?;
            Some(self.site(at, SiteKind::Value(variable), 0, vec![at]))
        };
        loads.filter_map(site).collect()
    }
}

/// Whether a function is a retpoline: it calls the function whose address is in a register.
pub fn is_retpoline(symbol: &str) -> bool {
    ["__x86_indirect_thunk_", "__x86_indirect_call_thunk_", "__llvm_retpoline_"]
        .iter()
        .any(|beginning| symbol.starts_with(beginning))
}

/// The function that an instruction calls; begins with `*` for an indirect call.
fn called(text: &str) -> Option<&str> {
    let (name, callee) = text.split_once(' ')?;
    // The array of retpolines begins with that of rax (Linux, arch/x86/lib/retpoline.S), whose name profiles have.
    let callee = match callee {
        "__x86_indirect_thunk_array" => "__x86_indirect_thunk_rax",
        callee => callee,
    };
    name.starts_with("call").then_some(callee)
}

/// Whether an instruction names a 64-bit register, or a part of it.
fn names(text: &str, register: &str) -> bool {
    let parts = match register {
        "rax" => &["%rax", "%eax", "%ax", "%al", "%ah"][..],
        "r10" => &["%r10"],
        _ => &["%r11"],
    };
    parts.iter().any(|part| text.contains(part))
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
    use crate::annotation::{AnnotatedLine, Flow, Own};
    use opcost_record::Function;
    use opcost_size::Instruction;

    /// A function of one line, with the text, the target and the executions of each instruction; each takes four bytes.
    fn annotation(code: &[(&str, Option<u64>, u64)]) -> Annotation {
        let own = |executions| vec![Own { cost: executions, samples: 0, executions }];
        let instructions = (0..).step_by(4).zip(code).map(|(offset, (text, target, count))| {
            let code = Instruction {
                offset,
                text: (*text).into(),
                target: *target,
                is_constant: text.contains("LIMIT"),
            };
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
            flow: Flow::default(),
        }
    }

    /// The kinds, executions and removed instructions of a function's sites.
    fn sites(annotation: &Annotation) -> Vec<(SiteKind, u64, u64)> {
        let of = |site: PatchSite| (site.kind, site.executions, site.removed);
        patch_sites(annotation).into_iter().map(of).collect()
    }

    #[test]
    fn code_of_64_bit_arm_has_no_sites() {
        let mut code = annotation(&[
            ("ldr w8, flag", None, 1000),
            ("cbz w8, +0x10", Some(16), 1000),
            ("mov x0, x19", None, 0),
            ("blr x9", None, 1000),
            ("ret", None, 1000),
        ]);
        code.flow.transfers = vec![(0x100c, ("only".into(), 0x2000), 1000)];
        assert_eq!(sites(&code), []);
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
            kind: SiteKind::Branch("flag".into()),
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

    #[test]
    fn an_indirect_call_with_one_target_is_a_site_and_no_other() {
        let call = |code: &[(&str, Option<u64>, u64)], went: &[(u64, &str, u64)]| {
            let mut made = annotation(code);
            let of = |(from, to, times): &(u64, &str, u64)| (*from, ((*to).into(), 0x40), *times);
            made.flow.transfers = went.iter().map(of).collect();
            sites(&made)
        };
        let site = |removed| (SiteKind::Call("quick".into()), 1000, removed);
        let plain = [("call *ops+0x8(%rip)", None, 1000), ("ret", None, 1000)];
        assert_eq!(call(&plain, &[(0x1000, "quick", 1000)]), [site(0)]);
        assert_eq!(call(&plain, &[(0x1000, "quick", 999), (0x1000, "slow", 1)]), []);
        assert_eq!(call(&plain, &[(0x1000, "quick", 999)]), [], "one went where nobody knows");
        assert_eq!(call(&plain, &[]), []);
        let slot = [("call *puts@got(%rip)", None, 1000)];
        assert_eq!(call(&slot, &[(0x1000, "puts", 1000)]), [], "the loader's slot");
        let loaded = |between: &'static str, register: &'static str, entered: u64| {
            let code = [
                (
                    if register == "rax" { "mov (%rdi), %rax" } else { "mov (%rdi), %rbx" },
                    None,
                    entered,
                ),
                (between, None, 1000),
                (if register == "rax" { "call *%rax" } else { "call *%rbx" }, None, 1000),
            ];
            call(&code, &[(0x1008, "quick", 1000)])
        };
        assert_eq!(loaded("mov %rbp, %rsi", "rax", 1000), [site(1000)]);
        assert_eq!(
            loaded("test %eax, %eax", "rax", 1000),
            [site(0)],
            "the pointer has another use"
        );
        assert_eq!(loaded("mov %rbp, %rsi", "rbx", 1000), [site(0)], "the callee keeps it");
        assert_eq!(loaded("mov %rbp, %rsi", "rax", 10), [site(0)], "the load is not repeated");
    }

    #[test]
    fn a_retpoline_has_one_target_if_the_direct_calls_leave_over_one_function() {
        let code = [
            ("mov (%rdi), %rax", None, 1000),
            ("call __x86_indirect_thunk_array", None, 1000),
            ("call quick", None, 200),
            ("call other", None, 300),
        ];
        let called = |callees: &[(&str, u64)]| {
            let mut made = annotation(&code);
            made.flow.callees =
                callees.iter().map(|(name, calls)| ((*name).into(), *calls)).collect();
            made.flow.retpolines = BTreeMap::from([("__x86_indirect_thunk_rax".into(), 3)]);
            sites(&made)
        };
        let thunk = ("__x86_indirect_thunk_rax", 1000);
        // The load and the three instructions of the retpoline.
        let site = (SiteKind::Call("quick".into()), 1000, 4000);
        assert_eq!(called(&[thunk, ("quick", 1200), ("other", 300)]), std::slice::from_ref(&site));
        let returned = ("srso_return_thunk", 2500);
        assert_eq!(called(&[thunk, returned, ("quick", 1200), ("other", 300)]), [site]);
        assert_eq!(called(&[thunk, ("quick", 1199), ("other", 301)]), []);
        assert_eq!(called(&[thunk, ("quick", 1200), ("other", 300), ("odd", 1)]), []);
        assert_eq!(called(&[thunk, ("quick", 1100), ("other", 300), ("odd", 100)]), []);
        assert_eq!(called(&[thunk, ("quick", 1201), ("other", 300)]), []);
        assert_eq!(called(&[thunk, ("quick", 200), ("other", 300), ("odd", 999)]), []);
        assert_eq!(called(&[thunk, ("quick", 1100), ("other", 300), ("quick", 100)]), [], "two");
        // The kernel put an indirect call in the place of the retpoline's.
        let mut patched = annotation(&code[..2]);
        patched.flow.transfers = vec![(0x1004, ("quick".into(), 0x40), 1000)];
        assert_eq!(sites(&patched), [(SiteKind::Call("quick".into()), 1000, 1000)]);
    }

    #[test]
    fn a_load_of_a_value_that_cannot_change_is_a_site_and_no_other() {
        let of = |text| sites(&annotation(&[(text, None, 1000), ("ret", None, 10)]));
        let site = |name: &str| [(SiteKind::Value(name.into()), 1000, 0)];
        assert_eq!(of("mov LIMIT(%rip), %rax"), site("LIMIT"));
        assert_eq!(of("movslq LIMIT+0x8(%rip), %rcx"), site("LIMIT+0x8"));
        for text in [
            "mov limit(%rip), %rax",
            "mov %rax, LIMIT(%rip)",
            "movss LIMIT(%rip), %xmm0",
            "lea LIMIT(%rip), %rax",
            "mov %gs:LIMIT(%rip), %rax",
        ] {
            assert_eq!(of(text), [], "{text}");
        }
        // The branch takes its load with it.
        let tested = annotation(&[
            ("mov LIMIT(%rip), %eax", None, 1000),
            ("test %eax, %eax", None, 1000),
            ("je 0x10", Some(16), 1000),
            ("nop", None, 1000),
            ("ret", None, 0),
        ]);
        assert_eq!(sites(&tested), [(SiteKind::Branch("LIMIT".into()), 1000, 2000)]);
    }
}
