//! The gaps in a profile, in sentences.

use super::{counted, share, short};
use opcost_page::names::shorten;
use opcost_profile::read::ReadProfile;
use opcost_profile::symbolise::{Sampled, Unnamed, Why, WithoutInlined};
use opcost_record::Function;
use opcost_record::printable::printable;

/// Samples without callers are reported if they are more than one in this many.
const ALONE_PARTS: u64 = 20;
/// Functions without frames that are named, at most.
const FRAMELESS_NAMED: usize = 3;
/// Maximum width of their names, in columns.
const NAME_COLUMNS: usize = 40;
/// A file's code without names has a line of its own if it has one sample in this many.
const UNNAMED_PARTS: u64 = 1_000;
/// Why callers are missing, and what helps.
const NO_FRAME_POINTERS: &str = "the code was built without frame pointers; build it with \
    -fno-omit-frame-pointer, or use --call-graph dwarf, which unwinds such stacks";

/// Why there is nothing to show of a profile without samples; `is_file`: whether a file has it.
pub fn without_samples(name: &str, profile: &ReadProfile, is_file: bool) -> String {
    let event = &profile.about.event;
    let losses = profile.sampled.as_ref().map(|sampled| &sampled.losses);
    let left_out = losses.map_or(0, |losses| losses.left_out);
    let others = losses.map_or(0, |losses| losses.other_events);
    match () {
        () if left_out > 0 => format!("{name}: --only leaves none of the samples of {event}"),
        () if others > 0 => format!(
            "{name} has no samples of {event}; it has {others} of other events (--event): {}",
            profile.about.events.join(", ")
        ),
        () if is_file => {
            format!("{name} has no samples at all; record for longer, or at a higher frequency")
        }
        () => format!(
            "{name}: no samples of {event} were taken: the work ended before the first one; let it work \
             for longer, or raise --frequency"
        ),
    }
}

/// Sentences on lost samples, missing callers, missing names, and files that could not be checked.
pub(super) fn losses(profile: &ReadProfile) -> Vec<String> {
    let mut said = Vec::new();
    if profile.about.unfinished {
        said.push(
            "the profiler did not live to finish the file: it was read as far as it goes, without \
             build ids to check files by"
                .to_string(),
        );
    }
    let about = &profile.about;
    if !about.without_samples.is_empty() {
        let without = about.without_samples.join(", ");
        said.push(format!(
            "no samples of {without}: {} is the first event that has some",
            about.event
        ));
    }
    if profile.table.unattributed > 0 {
        let part = share(profile.table.unattributed, profile.table.total);
        said.push(format!("{part} of the file's total is charged to no function: [unattributed]"));
    }
    let Some(sampled) = &profile.sampled else { return said };
    let total = sampled.samples_total();
    if sampled.samples_known().is_none() {
        let sentence = "the file does not say how many samples its costs are from, or whether they were \
                        counted, so nothing tells how far chance may move them";
        said.push(sentence.to_string());
    }
    let losses = &sampled.losses;
    let mut count = |number: u64, what: &str, more: &str| {
        if number > 0 {
            said.push(format!("{}{more}", counted(number, what)));
        }
    };
    count(losses.lost_events, "event", " lost for want of room: costs are too low by their share");
    count(losses.throttles, "time", ", sampling was stopped as samples came too fast");
    count(losses.stacks_cut, "stack", " cut off at the limit: outer callers are missing");
    count(losses.stacks_not_unwound, "copied stack", " not unwound: callers are missing");
    count(
        losses.stacks_beyond_copy,
        "stack",
        " went on beyond the copy: outer callers are missing; copy more (--stack-bytes 65528, perf's \
         --call-graph dwarf,65528)",
    );
    count(
        losses.stacks_astray,
        "stack",
        " could not be followed to the end, for want of unwind information: outer callers are missing",
    );
    count(losses.unmapped_samples, "sample", " where nothing was known to be mapped: [unmapped]");
    count(losses.guest_samples, "sample", " of a virtual machine's guest left out");
    count(losses.other_events, "sample", " of other events left out (--event)");
    count(losses.without_stack, "sample", " left out: their stacks are in no part of the file");
    count(losses.waiting, "sample", " of a thread that waited left out");
    let odd = &losses.odd_lines;
    if let Some((line, text)) = &odd.first {
        let lines = counted(odd.lines, "line");
        let (was, first) = if odd.lines == 1 { ("was", "it") } else { ("were", "the first") };
        said.push(format!(
            "{lines} of another form {was} left out; {first} is line {line}: {:?}",
            printable(text)
        ));
    }
    let damage = &losses.damage;
    if let Some(first) = damage.first_at {
        let of = first.file_name().unwrap_or("its file".into());
        let records = counted(damage.records, "broken record");
        let (the, was) = if damage.records == 1 { ("it", "was") } else { ("the first", "were") };
        said.push(format!("{records} {was} left out; {the} is at byte {} of {of}", first.at));
    }
    if let Some(place) = damage.rest_from {
        said.push(format!(
            "{} is damaged at byte {}: nothing behind it could be read; copy or record it again",
            place.file_name().unwrap_or("the file".into()),
            place.at
        ));
    }
    if losses.left_out > 0 {
        let all = losses.left_out.saturating_add(total);
        let part = share(losses.left_out, all);
        said.push(format!("{} left out (--only), {part}", counted(losses.left_out, "sample")));
    }
    let mut missing = Vec::new();
    // A program's first instructions have no callers either.
    if losses.samples_alone * ALONE_PARTS > total {
        let part = share(losses.samples_alone, total);
        missing.push(format!("{part} in functions without any caller"));
    }
    if losses.unmapped_callers > 0 {
        missing.push(format!("{} at no code", counted(losses.unmapped_callers, "caller")));
    }
    if !missing.is_empty() {
        said.push(format!("{}: {NO_FRAME_POINTERS}", missing.join(", ")));
    }
    said.extend(frameless(sampled, total));
    said.extend(unnamed(&sampled.unnamed, total));
    for (module, why) in &sampled.without_inlined {
        let why = match why {
            WithoutInlined::TooDeep => {
                "is nested too deep; compile the program again if it is yours"
            }
            WithoutInlined::Unreadable => {
                "cannot be read throughout; compile the program again if it is yours"
            }
            WithoutInlined::TooLarge => {
                "takes more memory than reading may take; allow more, for example --read-limit 8G"
            }
            WithoutInlined::Elsewhere => {
                "is partly in files that are not here or are of another build (.dwo or .dwp of \
                 -gsplit-dwarf, or dwz's)"
            }
        };
        said.push(format!(
            "inlined functions of {} are part of the functions that they were inlined into: its debug \
             information {why}",
            short(module)
        ));
    }
    if !sampled.unchecked.is_empty() {
        let modules: Vec<&str> = sampled.unchecked.iter().map(|module| short(module)).collect();
        let shown = modules.iter().take(4).copied().collect::<Vec<_>>().join(", ");
        let more = if modules.len() > 4 { ", …" } else { "" };
        said.push(format!(
            "not checked, as the file has no build id of them: {shown}{more}; names are right if \
             these are the files that were recorded"
        ));
    }
    said
}

/// Functions whose direct callers are missing.
fn frameless(sampled: &Sampled, total: u64) -> Option<String> {
    let samples: u64 = sampled.frameless.iter().map(|(_, samples)| samples).sum();
    if samples * ALONE_PARTS <= total {
        return None;
    }
    let name = |(function, samples): &(u32, u64)| {
        let Function { symbol, module, .. } = &sampled.profile.functions[*function as usize];
        let symbol = shorten(symbol, NAME_COLUMNS);
        format!("{symbol} ({}) {}", short(module), share(*samples, total))
    };
    let named: Vec<String> = sampled.frameless.iter().take(FRAMELESS_NAMED).map(name).collect();
    let more = if sampled.frameless.len() > FRAMELESS_NAMED { ", …" } else { "" };
    Some(format!(
        "{} in functions that keep no frame pointer, so that what stands for their callers are those \
         callers' callers: {}{more}; --call-graph dwarf finds the callers of such functions",
        share(samples, total),
        named.join(", "),
    ))
}

/// Code without names, and why.
fn unnamed(modules: &[Unnamed], total: u64) -> Vec<String> {
    let sentence = |module: &str, part: &str, why: &Why| {
        let module = short(module);
        match why {
            Why::Gone => {
                format!("{part} in {module}: the file is gone, so its functions have no names")
            }
            Why::OtherBuild if module == "[kernel]" => format!(
                "{part} in another kernel than the one that runs: its functions have no names; give \
                 its System.map with --kernel-symbols"
            ),
            Why::OtherBuild => format!(
                "{part} in {module}: the file is another build now, so its functions have no names"
            ),
            Why::Doubtful if module == "[kernel]" => format!(
                "{part} in the kernel of another computer or version, without a build id: its functions have \
                 no names; give its System.map with --kernel-symbols, or take the running kernel's names \
                 with --trust-files"
            ),
            Why::Doubtful => format!(
                "{part} in {module}, which no build id confirms, and which is another computer's or has \
                 changed since the recording: its functions have no names (--trust-files)"
            ),
            Why::Unreadable(what) => format!("{part} in {module}, which cannot be read: {what}"),
            Why::Hidden => format!(
                "{part} in the kernel, which hides its addresses: read as root with \
                 kernel.kptr_restrict at 0 or 1, or give its System.map with --kernel-symbols"
            ),
            Why::Stripped => format!("{part} in code of {module} that has no symbol"),
            Why::NotLookedUp => format!(
                "{part} in addresses of {module} that nobody looked up: open the file in the Firefox \
                 Profiler where it was recorded and save it again, or record with perf"
            ),
            Why::NoMap => {
                format!("{part} in code that was made at run time without a map for perf")
            }
            Why::Unmapped => format!("{part} where nothing was known to be mapped"),
        }
    };
    let told = modules.iter().filter(|unnamed| unnamed.why != Why::Unmapped);
    let (large, small): (Vec<&Unnamed>, Vec<&Unnamed>) =
        told.partition(|unnamed| unnamed.samples.saturating_mul(UNNAMED_PARTS) >= total);
    let say = |row: &&Unnamed| sentence(&row.module, &share(row.samples, total), &row.why);
    // One small row is said as briefly by itself.
    if small.len() <= 1 {
        return large.iter().chain(&small).map(say).collect();
    }
    let samples: u64 = small.iter().map(|unnamed| unnamed.samples).sum();
    let rest = format!(
        "{} in code of {} more files without names (--json has all)",
        share(samples, total),
        small.len()
    );
    large.iter().map(say).chain([rest]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_parts_without_names_are_one_line() {
        let row = |module: &str, samples| Unnamed {
            module: format!("/usr/bin/{module}"),
            why: Why::Stripped,
            samples,
        };
        let rows = [row("find", 900), row("cc1", 10), row("grep", 9), row("dash", 0)];
        let large = "9.00 % in code of find that has no symbol";
        assert_eq!(
            unnamed(&rows, 10_000),
            [
                large,
                "0.10 % in code of cc1 that has no symbol",
                "0.09 % in code of 2 more files without names (--json has all)",
            ]
        );
        assert_eq!(
            unnamed(&[row("find", 900), row("grep", 9)], 10_000),
            [large, "0.09 % in code of grep that has no symbol"]
        );
    }
}
