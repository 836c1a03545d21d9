//! The machines of guests in words: the CPU, its mitigations, page tables and clock; and boot options that changed nothing.

use super::{Comparison, Verdict};
use opcost_base::listing::few;
use opcost_base::number::grouped;
use opcost_model::plan::GuestPlan;
use opcost_model::recording::{GuestState, Recording};
use opcost_record::Architecture;

/// Features that decide which code Linux takes (arch/x86, its alternatives and static branches), the weightiest first.
const CHOOSES_CODE: [&str; 18] = [
    "pcid",
    "invpcid",
    "fsrm",
    "erms",
    "arch-capabilities",
    "spec-ctrl",
    "ibrs",
    "xsaves",
    "xsavec",
    "tsc-deadline",
    "x2apic",
    "rdpid",
    "clwb",
    "ibpb",
    "amd-stibp",
    "amd-ssbd",
    "ssbd",
    "xsaveerptr",
];

/// How many features that were left out a line names.
const FEATURES_SHOWN: usize = 4;

/// Boot options whose names contain one of these are about faults of CPUs (Documentation/admin-guide/hw-vuln).
const ABOUT_FAULTS: [&str; 16] = [
    "mitigations",
    "spec",
    "pti",
    "retbleed",
    "srso",
    "mds",
    "l1tf",
    "tsx",
    "mmio_stale_data",
    "reg_file_data",
    "gather_data",
    "srbds",
    "kvm.nx_huge",
    "indirect_target",
    "tsa",
    "vmscape",
];

/// What cannot be told without a landmark of the kernel: the landmark's word in the list of symbols, the function that it is in
/// current kernels, and the consequence.
const UNTOLD: [(&str, &str, &str); 12] = [
    ("system-call", "entry_SYSCALL_64", "system calls are not counted"),
    (
        "fault",
        "asm_exc_page_fault",
        "page faults are not counted, and instructions that fault count twice",
    ),
    ("trap", "asm_exc_int3", "handlers of traps stand below other callers"),
    (
        "interrupt",
        "irq_entries_start",
        "interrupts are not counted, and stand below what they interrupt",
    ),
    ("switch", "__switch_to_asm", "callers of different tasks are mixed up"),
    ("fork", "ret_from_fork", "new tasks stand below their parents' callers"),
    ("signal", "signal_setup_done", "calls of signal handlers are not counted"),
    ("signal-return", "__x64_sys_rt_sigreturn", "code behind a signal handler may stand below it"),
    ("exec", "start_thread", "a new program stands below the one that started it"),
    ("due", "resched_curr", "synchronous:k contains switches that a tick asked for"),
    ("yield", "schedule", "synchronous:k contains parts of switches that a tick asked for"),
    ("schedule", "__schedule", "synchronous:k contains switches that a tick asked for"),
];

/// A guest with the name of its variant.
type Named<'a> = (&'a str, &'a GuestState);

/// Describes the machines of guests: a line for each fact; where variants differ, a line for each of them. Empty unless kernels were
/// booted and said something.
pub(super) fn describe(guests: &[Named<'_>]) -> Vec<String> {
    [lines(guests, machine), mitigations(guests), alternatives(guests), unnamed(guests)].concat()
}

/// "alternatives: 4,204 of 27,854 patched; detected: LSE atomic instructions, Spectre-v4". Where variants differ, only what not all of
/// them detected. Empty if no kernel says anything.
fn alternatives(guests: &[Named<'_>]) -> Vec<String> {
    let says = |guest: &GuestState| guest.alternatives.is_some() || !guest.detected.is_empty();
    // Kernels of other architectures may say nothing.
    let (all, guests) = (guests, guests.iter().copied().filter(|(_, guest)| says(guest)));
    let guests: Vec<Named<'_>> = guests.collect();
    let in_all = |name: &String| guests.iter().all(|(_, guest)| guest.detected.contains(name));
    let differ = guests.iter().any(|(_, guest)| !guest.detected.iter().all(in_all));
    let mut text = lines(&guests, |guest| {
        let count = match guest.alternatives {
            Some(known) => format!("{} of {} patched", grouped(known.patched), grouped(known.all)),
            None => "not known".into(),
        };
        let names = guest.detected.iter().filter(|name| !(differ && in_all(name)));
        let names: Vec<&str> = names.map(String::as_str).collect();
        match (names.is_empty(), differ) {
            (true, true) => format!("alternatives: {count}; detected: only what every variant did"),
            (true, false) => format!("alternatives: {count}"),
            (false, true) => {
                format!("alternatives: {count}; detected, unlike others: {}", names.join(", "))
            }
            (false, false) => format!("alternatives: {count}; detected: {}", names.join(", ")),
        }
    });
    if let ([line], true) = (&mut text[..], guests.len() < all.len()) {
        let names: Vec<&str> = guests.iter().map(|(name, _)| *name).collect();
        *line = format!("{}: {line}", few(&names));
    }
    text
}

/// "the kernel's symbols do not name signal_setup_done: calls of signal handlers are not counted".
fn unnamed(guests: &[Named<'_>]) -> Vec<String> {
    if guests.iter().all(|(_, guest)| guest.unnamed.is_empty()) {
        return Vec::new();
    }
    lines(guests, |guest| {
        let missing = UNTOLD.iter().filter(|(word, ..)| guest.unnamed.iter().any(|it| it == word));
        let missing: Vec<_> = missing.map(|(_, name, why)| format!("{name} ({why})")).collect();
        match missing.is_empty() {
            true => "the kernel's symbols name all that counting needs".into(),
            false => format!("the kernel's symbols do not name {}", missing.join(", ")),
        }
    })
}

/// The text of one fact, with the names of its variants if the variants differ.
fn lines(guests: &[Named<'_>], fact: impl Fn(&GuestState) -> String) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, guest) in guests {
        let text = fact(guest);
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(name),
            None => groups.push((text, vec![name])),
        }
    }
    let alone = groups.len() == 1;
    let line = |(text, names): (String, Vec<&str>)| match alone {
        true => text,
        false => format!("{}: {text}", few(&names)),
    };
    groups.into_iter().map(line).collect()
}

/// "CPU EPYC-Rome-v2 without xsaves, ibrs, rdpid, ibpb and 15 others; 4-level page tables; clock tsc".
fn machine(guest: &GuestState) -> String {
    let rank = |name: &&String| {
        let place = CHOOSES_CODE.iter().position(|known| known == name);
        place.unwrap_or(CHOOSES_CODE.len())
    };
    let mut left_out: Vec<&String> = guest.left_out.iter().collect();
    left_out.sort_by_key(rank);
    let shown = left_out.iter().take(FEATURES_SHOWN).map(|name| name.as_str());
    let shown = shown.collect::<Vec<_>>().join(", ");
    let without = match left_out.len().saturating_sub(FEATURES_SHOWN) {
        0 if shown.is_empty() => String::new(),
        0 => format!(" without {shown}"),
        more => format!(" without {shown} and {more} more"),
    };
    let levels = match guest.page_table_levels {
        Some(levels) => format!("{levels}-level page tables"),
        None => "page table levels not known".into(),
    };
    let clock = match &guest.clocksource {
        Some(name) => format!("clock {name}"),
        None => "clock source not known".into(),
    };
    format!("CPU {}{without}; {levels}; {clock}", guest.cpu_model)
}

/// "mitigations: retbleed, spectre_v1; vulnerable: l1tf; 14 faults do not affect this CPU". If variants differ, each has a line with
/// the faults in which they do, and another line has the rest.
fn mitigations(guests: &[Named<'_>]) -> Vec<String> {
    let known: Vec<_> = guests.iter().filter_map(|(_, guest)| guest.mitigations.as_ref()).collect();
    let same = |name: &String| {
        let mut states = known.iter().map(|states| states.get(name));
        let first = states.next().flatten();
        states.all(|state| state == first)
    };
    let (mut differ, mut is_known) = (false, true);
    for (_, guest) in guests {
        is_known &= guest.mitigations.is_some();
        differ |= guest.mitigations.iter().flat_map(|states| states.keys()).any(|name| !same(name));
    }
    let mut text = lines(guests, |guest| match &guest.mitigations {
        None => {
            "mitigations: not known, since this kernel lists no vulnerabilities in sysfs".into()
        }
        Some(states) if differ => summary(states.iter().filter(|(name, _)| !same(name)), true),
        Some(states) => summary(states.iter(), false),
    });
    if let (true, true, Some(states)) = (differ, is_known, known.first()) {
        let rest: Vec<_> = states.iter().filter(|(name, _)| same(name)).collect();
        // "mitigations: none" would contradict the lines above.
        if !rest.is_empty() && rest.iter().all(|(_, state)| kind_of(state) == UNAFFECTED) {
            text.push(format!("every variant: {}", harmless(rest.len())));
        } else if !rest.is_empty() {
            text.push(format!("every variant: {}", summary(rest.into_iter(), false)));
        }
    }
    text
}

/// Summarises faults and what the kernel does about them; `detailed`: how it mitigates them, too.
fn summary<'a>(
    states: impl Iterator<Item = (&'a String, &'a String)> + Clone,
    detailed: bool,
) -> String {
    let named = |kind: &str| -> Vec<String> {
        let of_kind = states.clone().filter(|(_, state)| kind_of(state) == kind);
        let words = of_kind.map(|(name, state)| match mitigation(state) {
            // A second measure is against a fault that has no file of its own.
            Some(mitigation) if detailed || mitigation.contains(',') => {
                format!("{name} ({mitigation})")
            }
            _ => name.clone(),
        });
        words.collect()
    };
    let unaffected = named(UNAFFECTED).len();
    if unaffected == states.clone().count() {
        return format!("mitigations: none; {}", harmless(unaffected));
    }
    let parts = [("mitigations", MITIGATED), ("vulnerable", VULNERABLE), ("not known", OTHER)];
    let parts = parts.map(|(what, kind)| (what, named(kind)));
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let mut parts: Vec<String> =
        parts.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect();
    if unaffected > 0 {
        parts.push(harmless(unaffected));
    }
    parts.join("; ")
}

/// "12 faults do not affect this CPU".
fn harmless(faults: usize) -> String {
    match faults {
        1 => "1 fault does not affect this CPU".into(),
        _ => format!("{faults} faults do not affect this CPU"),
    }
}

const MITIGATED: &str = "Mitigation";
const VULNERABLE: &str = "Vulnerable";
const UNAFFECTED: &str = "Not affected";
const OTHER: &str = "";

/// How the kernel's word for a fault begins (Documentation/ABI/testing/sysfs-devices-system-cpu).
fn kind_of(state: &str) -> &'static str {
    // "Vulnerable: Safe RET, no microcode": the kernel's mitigation is in use.
    if state.contains("Safe RET") {
        return MITIGATED;
    }
    let kinds = [MITIGATED, VULNERABLE, UNAFFECTED];
    kinds.into_iter().find(|kind| state.starts_with(kind)).unwrap_or(OTHER)
}

/// The first words of the kernel's about a mitigation, with the names behind commas: `CSV2, BHB`. Parts of several words are about
/// other things (`IBPB: conditional`).
fn mitigation(state: &str) -> Option<String> {
    let rest = state.strip_prefix("Mitigation: ")?;
    let mut parts = rest.split(';').next()?.split(',').map(str::trim);
    let first = parts.next()?.split(" and ").next()?;
    let names = parts.take_while(|part| !part.is_empty() && !part.contains([' ', ':']));
    Some(std::iter::once(first).chain(names).collect::<Vec<_>>().join(", "))
}

/// Why boot options that differ decided nothing, as a clause, if that is so: nothing else differs, both kernels found the same CPU,
/// and either every count of the comparison is the same, or the options are about mitigations that are the same on both sides.
pub(super) fn no_effect(
    recording: &Recording,
    comparison: &Comparison,
    index: usize,
) -> Option<String> {
    let (one, two) = comparison.comparisons[index];
    let plans = [one, two].map(|side| recording.plan.variants[side].guest.as_ref());
    let [Some(plan), Some(other)] = plans else { return None };
    let same_else = GuestPlan { boot: other.boot.clone(), ..plan.clone() } == *other;
    let mut changes = comparison.rows.iter().map(|row| &row.changes[index]);
    let same_counts = changes.all(|change| match change.verdict {
        Verdict::Unchanged => change.identical,
        verdict => verdict == Verdict::Unavailable,
    });
    if plan.boot == other.boot || !same_else {
        return None;
    }
    let guests = [recording.guest(one)?, recording.guest(two)?];
    let mut decides = comparison.rows.iter().filter(|row| row.primary);
    let same = match decides.next().is_some_and(|row| row.changes[index].identical) {
        _ if same_counts => Same::Everything,
        true => Same::Primary,
        false => Same::Nothing,
    };
    reason(plan.architecture, guests, [&plan.boot, &other.boot], same)
}

/// The counts that two guests have in common.
#[derive(Clone, Copy, PartialEq)]
enum Same {
    /// All.
    Everything,
    /// The counts of the primary metric.
    Primary,
    Nothing,
}

/// Why options that differ decided nothing in two guests, as far as is known.
fn reason(
    architecture: Architecture,
    guests: [&GuestState; 2],
    boots: [&str; 2],
    same: Same,
) -> Option<String> {
    let (row, same_counts) = (architecture.row(), same == Same::Everything);
    let [one, two] = guests;
    if one.cpu_flags != two.cpu_flags {
        return None;
    }
    let options = boots.map(|boot| boot.split_whitespace().collect::<Vec<_>>());
    let mitigations = one.mitigations.as_ref().zip(two.mitigations.as_ref());
    let changed: Vec<&str> = mitigations
        .into_iter()
        .flat_map(|(states, others)| {
            states.iter().filter(|(name, state)| others.get(*name) != Some(state))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    let is_about_faults = |option: &&str| ABOUT_FAULTS.iter().any(|word| option.contains(word));
    // Linux 6.1 lists `spectre_v2=`, which it reads without registering it, among the options that it does not know.
    let is_unknown = |option: &str| {
        if is_about_faults(&option) && !changed.is_empty() {
            return false;
        }
        let mut lists = guests.iter().filter_map(|guest| guest.unknown_options.as_ref());
        lists.any(|list| list.split_whitespace().any(|unknown| unknown == option))
    };
    let differing: Vec<&str> = [0, 1]
        .into_iter()
        .flat_map(|side| {
            let other = &options[1 - side];
            options[side].iter().filter(move |option| !other.contains(option)).copied()
        })
        .collect();
    let unknown: Vec<&str> =
        differing.iter().filter(|option| is_unknown(option)).copied().collect();
    // A boot with other options has its ticks and its memory elsewhere.
    let chance = match same_counts {
        true => "",
        false => "; counts differ as two boots of one kernel do (ticks, memory)",
    };
    if !unknown.is_empty() {
        let is_all = unknown.len() == differing.len();
        return (same_counts || is_all)
            .then(|| format!("the kernel does not know {}{chance}", unknown.join(" and ")));
    }
    let about_faults = match same_counts {
        true => differing.iter().any(is_about_faults),
        // Another option may make the counts differ.
        false => differing.iter().all(is_about_faults),
    };
    let (states, _) = mitigations?;
    let unaffected = states.values().filter(|state| kind_of(state) == UNAFFECTED).count();
    let elsewhere =
        format!("{} asks on a CPU with more faults than {}", row.faulty_cpu, one.cpu_model);
    let is_known = match same {
        Same::Everything => true,
        Same::Primary => about_faults,
        Same::Nothing => about_faults && changed.is_empty() && row.lists_mitigations,
    };
    if !is_known {
        return None;
    }
    Some(match (about_faults, changed.is_empty()) {
        (_, false) => format!(
            "the boot options changed the mitigations of {}, and this work runs none of the code that \
             differs{chance}; {}; {elsewhere}",
            changed.join(" and "),
            harmless(unaffected)
        ),
        (true, true) if unaffected == states.len() => format!(
            "both kernels ran without mitigations, since no fault that the kernel knows affects this \
             CPU, so the boot options decided nothing{chance}; {elsewhere}"
        ),
        (true, true) => {
            format!(
                "both kernels ran with the same mitigations, so the boot options decided nothing{chance}; \
                 {elsewhere}"
            )
        }
        (false, true) => {
            "both kernels found the same CPU features and ran with the same mitigations; \
                          the boot options changed nothing that this work runs"
                .into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_model::recording::Alternatives;
    use opcost_record::symbols::Landmark;

    fn guest(left_out: &[&str], mitigations: Option<&[(&str, &str)]>) -> GuestState {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, state)| (name.to_string(), state.to_string())).collect()
        };
        GuestState {
            cpu_model: "EPYC-Rome-v2".into(),
            left_out: left_out.iter().map(ToString::to_string).collect(),
            page_table_levels: Some(4),
            clocksource: Some("tsc".into()),
            mitigations: mitigations.map(map),
            ..GuestState::default()
        }
    }

    #[test]
    fn the_machine_is_one_line_that_names_the_weightiest_features() {
        let all = ["misalignsse", "osvw", "rdpid", "xsaves", "topoext", "ibrs"];
        assert_eq!(
            machine(&guest(&all, None)),
            "CPU EPYC-Rome-v2 without ibrs, xsaves, rdpid, misalignsse and 2 more; 4-level page \
             tables; clock tsc"
        );
        let bare = GuestState { page_table_levels: None, clocksource: None, ..guest(&[], None) };
        assert_eq!(
            machine(&bare),
            "CPU EPYC-Rome-v2; page table levels not known; clock source not known"
        );
        assert!(machine(&guest(&["fsrm"], None)).starts_with("CPU EPYC-Rome-v2 without fsrm;"));
    }

    #[test]
    fn a_report_names_what_the_symbols_lack_and_what_that_means() {
        let words: Vec<&str> = UNTOLD.iter().map(|(word, ..)| *word).collect();
        let named: Vec<&str> = Landmark::NAMES.iter().map(|(_, word)| *word).collect();
        assert_eq!(words, named[..words.len()]);
        let whole = guest(&[], None);
        let lacking = GuestState { unnamed: vec!["signal".into(), "due".into()], ..whole.clone() };
        assert_eq!(unnamed(&[("a", &whole)]), Vec::<String>::new());
        let text = "the kernel's symbols do not name signal_setup_done (calls of signal handlers are not \
                    counted), resched_curr (synchronous:k contains switches that a tick asked for)";
        let one = unnamed(&[("a", &lacking)]);
        assert_eq!(one, [text]);
        let two = unnamed(&[("a", &whole), ("b", &lacking)]);
        assert_eq!(two[0], "a: the kernel's symbols name all that counting needs");
        assert!(two[1].starts_with("b: the kernel's symbols do not name signal_setup_done"));
        assert_eq!(describe(&[("a", &lacking)]).last(), one.first());
    }

    #[test]
    fn alternatives_are_counted_and_named_by_the_features_that_chose_them() {
        let of = |patched: Option<u64>, detected: &[&str]| GuestState {
            alternatives: patched.map(|patched| Alternatives { all: 27_854, patched }),
            detected: detected.iter().map(ToString::to_string).collect(),
            ..guest(&[], None)
        };
        let [old, new] = [of(Some(1204), &["PAN", "SSBS"]), of(Some(4204), &["PAN", "LSE", "SVE"])];
        let same = alternatives(&[("a", &new), ("b", &new)]);
        assert_eq!(same, ["alternatives: 4,204 of 27,854 patched; detected: PAN, LSE, SVE"]);
        let [one, two] = alternatives(&[("a", &old), ("b", &new)]).try_into().unwrap();
        assert_eq!(one, "a: alternatives: 1,204 of 27,854 patched; detected, unlike others: SSBS");
        assert!(
            two.ends_with("4,204 of 27,854 patched; detected, unlike others: LSE, SVE"),
            "{two}"
        );
        let fewer = alternatives(&[("a", &of(Some(7), &["PAN"])), ("b", &new)]);
        assert!(fewer[0].ends_with("7 of 27,854 patched; detected: only what every variant did"));
        assert_eq!(
            alternatives(&[("a", &of(Some(7), &[]))]),
            ["alternatives: 7 of 27,854 patched"]
        );
        let silent = of(None, &[]);
        let one = alternatives(&[("a", &silent), ("b", &old)]);
        assert_eq!(one, ["b: alternatives: 1,204 of 27,854 patched; detected: PAN, SSBS"]);
        let unread = alternatives(&[("a", &of(None, &["PAN"]))]);
        assert_eq!(unread, ["alternatives: not known; detected: PAN"]);
        assert_eq!(alternatives(&[("a", &of(None, &[]))]), Vec::<String>::new());
    }

    #[test]
    fn mitigations_are_named_by_what_the_kernel_does() {
        let some: &[(&str, &str)] = &[
            ("l1tf", "Not affected"),
            ("meltdown", "Vulnerable"),
            ("odd", "Unknown: No mitigations"),
            ("spec_rstack_overflow", "Vulnerable: Safe RET, no microcode"),
            ("spectre_v2", "Mitigation: Retpolines; STIBP: disabled"),
        ];
        let said = |states| mitigations(&[("x", &guest(&[], states))]);
        let line = "mitigations: spec_rstack_overflow, spectre_v2; vulnerable: meltdown; not known: odd; 1 \
                    fault does not affect this CPU";
        assert_eq!(said(Some(some)), [line]);
        let second: &[(&str, &str)] = &[
            ("meltdown", "Mitigation: PTI"),
            ("mds", "Mitigation: Clear CPU buffers, IBPB: conditional"),
            ("spectre_v2", "Mitigation: CSV2, BHB"),
        ];
        assert_eq!(said(Some(second)), ["mitigations: mds, meltdown, spectre_v2 (CSV2, BHB)"]);
        let none = said(Some(&[("l1tf", "Not affected"), ("mds", "Not affected")]));
        assert_eq!(none, ["mitigations: none; 2 faults do not affect this CPU"]);
        let missing = "mitigations: not known, since this kernel lists no vulnerabilities in sysfs";
        assert_eq!(said(None), [missing]);
    }

    #[test]
    fn variants_with_other_mitigations_stand_side_by_side() {
        let [off, auto] = [
            ("Vulnerable; STIBP: x", "Not affected"),
            ("Mitigation: PTI and x; y", "Not affected"),
        ]
        .map(|(a, c)| guest(&[], Some(&[("a", a), ("b", "Vulnerable: x, y"), ("c", c)])));
        let [other, same] = [
            [("a", "Vulnerable"), ("c", "Not affected")],
            [("a", "Mitigation: PTI"), ("c", "Not affected")],
        ]
        .map(|states| guest(&[], Some(&states)));
        let rest = describe(&[("off", &other), ("auto", &same)]);
        assert_eq!(rest[3], "every variant: 1 fault does not affect this CPU");
        let [other, same] = [[("a", "Vulnerable")], [("a", "Mitigation: PTI")]]
            .map(|states| guest(&[], Some(&states)));
        assert_eq!(describe(&[("off", &other), ("auto", &same)]).len(), 3, "no fault is left");
        let silent = guest(&["fsrm"], None);
        assert_eq!(
            describe(&[("off", &off), ("auto", &auto)]),
            [
                "CPU EPYC-Rome-v2; 4-level page tables; clock tsc",
                "off: vulnerable: a",
                "auto: mitigations: a (PTI)",
                "every variant: vulnerable: b; 1 fault does not affect this CPU",
            ]
        );
        let lines = describe(&[("one", &off), ("two", &silent), ("three", &off)]);
        assert_eq!(lines[0], "one, three: CPU EPYC-Rome-v2; 4-level page tables; clock tsc");
        assert!(lines[1].starts_with("two: CPU EPYC-Rome-v2 without fsrm;"), "{lines:?}");
        assert!(lines[2].starts_with("one, three: vulnerable: a, b; 1 fault"), "{lines:?}");
        assert!(lines[3].starts_with("two: mitigations: not known"), "{lines:?}");
        assert_eq!(describe(&[]), Vec::<String>::new());
    }

    #[test]
    fn options_without_effect_are_answered_with_the_reason() {
        const NONE: &[(&str, &str)] = &[("a", "Not affected"), ("b", "Not affected")];
        let said = |one: GuestState, two: GuestState, boots: [&str; 2]| {
            reason(Architecture::X86_64, [&one, &two], boots, Same::Everything)
        };
        let same = |states| {
            said(
                guest(&[], Some(states)),
                guest(&[], Some(states)),
                ["quiet spectre_v2=off", "quiet"],
            )
        };
        assert!(same(NONE).unwrap().contains("ran without mitigations, since no fault"));
        let some: &[(&str, &str)] = &[("a", "Mitigation: PTI"), ("b", "Not affected")];
        assert!(same(some).unwrap().starts_with("both kernels ran with the same mitigations, so"));
        let [off, auto] = [
            guest(&[], Some(&[("a", "Vulnerable"), ("b", "Not affected")])),
            guest(&[], Some(some)),
        ];
        let boots = ["mitigations=off", "mitigations=auto"];
        let why = said(off.clone(), auto.clone(), boots).unwrap();
        assert!(
            why.starts_with("the boot options changed the mitigations of a, and this work"),
            "{why}"
        );
        assert!(why.contains("; 1 fault does not affect this CPU; --like skylake asks"), "{why}");
        let plain = said(auto.clone(), auto.clone(), ["nosmap", ""]).unwrap();
        assert!(plain.ends_with("changed nothing that this work runs"), "{plain}");
        let unknown =
            |list: &str| GuestState { unknown_options: Some(list.into()), ..auto.clone() };
        let why = said(unknown("foo=1 odd"), unknown("foo=2 odd"), ["odd foo=1", "odd foo=2"]);
        assert_eq!(why.unwrap(), "the kernel does not know foo=1 and foo=2");
        // Counts that differ are the boot's if nothing but mitigations was asked for, and they are the same.
        let differ = |one: &GuestState, two: &GuestState, boots| {
            reason(Architecture::X86_64, [one, two], boots, Same::Nothing)
        };
        let why = differ(&auto, &auto, boots).unwrap();
        assert!(
            why.contains("decided nothing; counts differ as two boots of one kernel do"),
            "{why}"
        );
        assert_eq!(differ(&off, &auto, boots), None);
        // Where the list of vulnerabilities does not have all, the options may have decided it.
        let arm = |same| reason(Architecture::Aarch64, [&auto, &auto], ["kpti=0", "kpti=1"], same);
        assert_eq!(arm(Same::Nothing), None);
        assert!(arm(Same::Everything).unwrap().contains("--cpu-model cortex-a72 asks on a CPU"));
        let why = reason(Architecture::X86_64, [&off, &auto], boots, Same::Primary).unwrap();
        assert!(why.contains("runs none of the code that differs; counts differ as"), "{why}");
        assert_eq!(differ(&auto, &auto, ["nosmap mitigations=off", "mitigations=auto"]), None);
        let why = differ(&unknown("foo=1"), &unknown(""), ["foo=1", ""]).unwrap();
        assert!(why.starts_with("the kernel does not know foo=1; counts differ"), "{why}");
        // An option that changed mitigations is known, whatever the kernel's log says.
        let listed = GuestState { unknown_options: Some("spectre_v2=off".into()), ..off.clone() };
        assert_eq!(differ(&listed, &auto, ["spectre_v2=off", ""]), None);
        // Other features, or a kernel that says nothing about faults: no reason is known.
        let flags = GuestState { cpu_flags: Some("smap".into()), ..auto.clone() };
        assert_eq!(said(auto.clone(), flags, ["nosmap", ""]), None);
        assert_eq!(said(guest(&[], None), auto, boots), None);
    }
}
