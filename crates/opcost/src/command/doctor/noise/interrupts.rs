//! `/proc/interrupts` and `/proc/softirqs` (`proc(5)`): a column for each CPU that is online. Pure.

use serde::Serialize;

/// One source of interrupts on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Source {
    /// The device, or the kind of interrupt.
    pub(super) name: String,
    /// The number of interrupts.
    pub(super) count: u64,
}

/// The counts of one CPU's column, in the order of the table; empty if the CPU has no column.
fn column(table: &str, cpu: usize) -> Vec<Source> {
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let heading = format!("CPU{cpu}");
    let Some(at) = head.iter().position(|name| *name == heading) else { return Vec::new() };
    let source = |line: &str| {
        let (label, rest) = line.split_once(':')?;
        let mut fields = rest.split_whitespace();
        // Rows such as ERR have one count for all CPUs.
        let counts: Vec<u64> =
            fields.by_ref().take(head.len()).map_while(|field| field.parse().ok()).collect();
        let count = *counts.get(at).filter(|_| counts.len() == head.len())?;
        let words: Vec<&str> = fields.collect();
        Some(Source { name: name(label.trim(), &words), count })
    };
    lines.filter_map(source).collect()
}

/// The name of a row: a device's row is numbered and ends with the name, other rows are described.
fn name(label: &str, words: &[&str]) -> String {
    let numbered = label.bytes().all(|byte| byte.is_ascii_digit());
    match words {
        [] => label.to_string(),
        [.., last] if numbered => last.to_string(),
        [kind @ .., "interrupts"] => kind.join(" "),
        words => words.join(" "),
    }
}

/// The interrupts added to one CPU's column between two readings, the most frequent first.
pub(super) fn since(before: &str, after: &str, cpu: usize) -> Vec<Source> {
    let earlier = column(before, cpu);
    let mut sources: Vec<Source> = column(after, cpu)
        .into_iter()
        .enumerate()
        .filter_map(|(row, now)| {
            // Rows keep their places unless a device came or went between.
            let then = earlier
                .get(row)
                .filter(|then| then.name == now.name)
                .or_else(|| earlier.iter().find(|then| then.name == now.name));
            let count = now.count.saturating_sub(then.map_or(0, |then| then.count));
            (count > 0).then_some(Source { name: now.name, count })
        })
        .collect();
    sources.sort_by_key(|source| std::cmp::Reverse(source.count));
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    // CPU 1 is offline.
    const BEFORE: &str = "\
           CPU0       CPU2
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 36:          0       3466  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
LOC:       4601       4743   Local timer interrupts
TLB:         10         20   TLB shootdowns
ERR:          0
";

    fn found(before: &str, after: &str, cpu: usize) -> Vec<(String, u64)> {
        since(before, after, cpu).into_iter().map(|source| (source.name, source.count)).collect()
    }

    #[test]
    fn what_came_in_between_is_told_by_name() {
        let after = BEFORE.replace("3466", "3470").replace("4743", "5743").replace(" 10 ", " 19 ");
        let expected = [("Local timer".to_string(), 1000), ("virtio1-req.0".to_string(), 4)];
        assert_eq!(found(BEFORE, &after, 2), expected);
        assert_eq!(found(BEFORE, &after, 0), [("TLB shootdowns".to_string(), 9)]);
        assert_eq!(found(BEFORE, &after, 1), []);
        assert_eq!(found("", "", 0), []);
    }

    #[test]
    fn a_device_that_came_meanwhile_moves_no_row() {
        let after = BEFORE
            .replace("LOC:", " 37:          0          3  PCI-MSIX   0-edge      nvme0q1\nLOC:")
            .replace("4743", "4750");
        let expected = [("Local timer".to_string(), 7), ("nvme0q1".to_string(), 3)];
        assert_eq!(found(BEFORE, &after, 2), expected);
    }

    #[test]
    fn softirqs_have_no_description() {
        let before = "                    CPU0       CPU1\n       TIMER:     10     20\n";
        let after = before.replace("20", "25");
        assert_eq!(found(before, &after, 1), [("TIMER".to_string(), 5)]);
    }
}
