//! One operation step by step: its calls in their order, with the instructions between them.
//!
//! Calls with the same contents are kept once, so a loop of a million equal calls takes a million numbers and one call.

use crate::profile::{hexadecimal, number, small};
use serde::{Deserialize, Serialize};

/// The most calls that are kept of a region.
pub const CALLS_MAX: usize = 1 << 20;
/// The most steps that are kept of a region: instructions between calls, calls and branches.
pub const STEPS_MAX: usize = 1 << 22;
/// The most branches that are kept between two calls.
pub const BRANCHES_MAX: u16 = 256;

/// The steps of one operation, or of a whole run.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Steps {
    /// The operation's number from 1; 0 for the whole run.
    pub operation: u64,
    /// The number of operations that were told apart, and their number in the run.
    pub operations: [u64; 2],
    /// The instructions of the operation with the fewest, of the median one, and of the one with the most.
    pub range: [u64; 3],
    /// The number of operations with the same steps.
    pub alike: u64,
    /// The instructions that followed when the room for steps was used up.
    pub beyond: u64,
    /// The calls, those that a call makes before itself; the last one stands for the operation.
    pub calls: Vec<StepCall>,
    /// The conditional branches.
    pub branches: Vec<StepBranch>,
}

/// How a call began.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum StepHow {
    /// By a call.
    Call,
    /// By a jump from another function, which is left.
    Jump,
    /// By a system call, fault or trap: the kernel was entered.
    Entry,
    /// Before the operation.
    Before,
    /// An interrupt, apart from what it interrupted.
    Interrupt,
    /// Another task's turn.
    Task,
}

impl StepHow {
    /// Every way, with its letter in lines.
    pub const LETTERS: [(StepHow, &'static str); 6] = [
        (StepHow::Call, "c"),
        (StepHow::Jump, "j"),
        (StepHow::Entry, "e"),
        (StepHow::Before, "b"),
        (StepHow::Interrupt, "i"),
        (StepHow::Task, "t"),
    ];

    fn letter(self) -> &'static str {
        StepHow::LETTERS.iter().find(|(how, _)| *how == self).map_or("", |(_, letter)| letter)
    }

    /// Whether the work did not ask for the call.
    pub fn is_apart(self) -> bool {
        matches!(self, StepHow::Interrupt | StepHow::Task)
    }
}

/// A call, with what happened until its end.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StepCall {
    /// Index into the profile's functions; `None` for what is no function.
    pub function: Option<u32>,
    /// How it began.
    pub how: StepHow,
    /// Link address of its first block, as [`AddressCost::address`](crate::AddressCost).
    pub entry: u64,
    /// What happened, in order.
    pub steps: Vec<Step>,
}

/// One step of a call.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Step {
    /// The function's own instructions since the last call; they stand behind the branches among them.
    Own(u64),
    /// A conditional branch.
    Branch {
        /// Index into [`Steps::branches`].
        branch: u32,
        /// Whether it was taken.
        taken: bool,
        /// The values that were compared, where they can be read.
        values: Option<[u64; 2]>,
    },
    /// A call.
    Call {
        /// Index into [`Steps::calls`].
        call: u32,
        /// Link address of the instruction that made the call.
        from: u64,
    },
}

/// A conditional branch.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StepBranch {
    /// Index into the profile's functions.
    pub function: u32,
    /// Its link address.
    pub address: u64,
    /// The comparison in front of it, if it is known, and the branch, as assembly.
    pub text: String,
}

impl Steps {
    /// Checks that numbers are known, and that calls stand behind those that they make.
    ///
    /// # Errors
    /// The contradiction, in a few words.
    pub(crate) fn check(&self, functions: usize) -> Result<(), &'static str> {
        let known = |function: u32| match (function as usize) < functions {
            true => Ok(()),
            false => Err("no such function"),
        };
        let steps: usize = self.calls.iter().map(|call| call.steps.len()).sum();
        if self.calls.is_empty() || self.calls.len() > CALLS_MAX || steps > 2 * STEPS_MAX {
            return Err("no steps, or too many");
        }
        self.branches.iter().try_for_each(|branch| known(branch.function))?;
        for (place, call) in self.calls.iter().enumerate() {
            call.function.map_or(Ok(()), known)?;
            for step in &call.steps {
                match step {
                    Step::Call { call, .. } if *call as usize >= place => {
                        return Err("a call comes before one that it makes");
                    }
                    Step::Branch { branch, .. } if *branch as usize >= self.branches.len() => {
                        return Err("no such branch");
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The instructions of each call with all that it calls.
    pub fn totals(&self) -> Vec<u64> {
        let mut totals: Vec<u64> = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let of = |step: &Step| match step {
                Step::Own(own) => *own,
                Step::Call { call, .. } => totals.get(*call as usize).copied().unwrap_or(0),
                Step::Branch { .. } => 0,
            };
            let total = call.steps.iter().map(of).fold(0u64, u64::wrapping_add);
            totals.push(total);
        }
        totals
    }

    /// The same steps without the values, which may be a user's secrets.
    pub fn without_values(&self) -> Steps {
        let mut steps = self.clone();
        for step in steps.calls.iter_mut().flat_map(|call| &mut call.steps) {
            if let Step::Branch { values, .. } = step {
                *values = None;
            }
        }
        steps
    }

    /// Writes lines: `S` with the numbers in front; `B FUNCTION ADDRESS TEXT` for each branch; and for each call
    /// `C FUNCTION HOW ENTRY STEPS…` with the steps `OWN`, `bBRANCH+` or `bBRANCH-` with `:LEFT:RIGHT`, and `cCALL@FROM`.
    pub(crate) fn write_lines(&self, lines: &mut Vec<String>) {
        let Steps { operation, operations, range, alike, beyond, .. } = self;
        let [told, all] = operations;
        let [least, median, most] = range;
        lines.push(format!("S {operation} {told} {all} {least} {median} {most} {alike} {beyond}"));
        for StepBranch { function, address, text } in &self.branches {
            lines.push(format!("B {function} {address:x} {text}"));
        }
        for StepCall { function, how, entry, steps } in &self.calls {
            let function = function.map_or("-".to_string(), |function| function.to_string());
            let mut line = format!("C {function} {} {entry:x}", how.letter());
            for step in steps {
                line += &match step {
                    Step::Own(own) => format!(" {own}"),
                    Step::Call { call, from } => format!(" c{call}@{from:x}"),
                    Step::Branch { branch, taken, values } => {
                        let sign = if *taken { '+' } else { '-' };
                        let values = values.map(|[left, right]| format!(":{left:x}:{right:x}"));
                        format!(" b{branch}{sign}{}", values.unwrap_or_default())
                    }
                };
            }
            lines.push(line);
        }
    }

    /// Reads the rest of a line behind its word.
    ///
    /// # Errors
    /// The line's fault, in a few words.
    pub(crate) fn read_line(&mut self, word: &str, rest: &str) -> Result<(), &'static str> {
        match word {
            "S" => {
                let fields = rest.split(' ').map(number).collect::<Result<Vec<u64>, _>>()?;
                let [operation, told, all, least, median, most, alike, beyond] = fields[..] else {
                    return Err("steps have eight figures");
                };
                let (operations, range) = ([told, all], [least, median, most]);
                *self = Steps { operation, operations, range, alike, beyond, ..Steps::default() };
            }
            "B" => {
                let mut fields = rest.splitn(3, ' ');
                let mut next = || fields.next().ok_or("a branch has three fields");
                let (function, address, text) = (small(next()?)?, hexadecimal(next()?)?, next()?);
                self.branches.push(StepBranch { function, address, text: text.into() });
            }
            _ => {
                let mut fields = rest.split(' ');
                let mut next = || fields.next().ok_or("a call has three fields");
                let function = match next()? {
                    "-" => None,
                    function => Some(small(function)?),
                };
                let letter = next()?;
                let how = StepHow::LETTERS.iter().find(|(_, known)| *known == letter);
                let (how, entry) = (how.ok_or("no such way of a call")?.0, hexadecimal(next()?)?);
                let steps = fields.map(step).collect::<Result<Vec<Step>, _>>()?;
                self.calls.push(StepCall { function, how, entry, steps });
            }
        }
        Ok(())
    }
}

/// Reads a step of a line.
fn step(field: &str) -> Result<Step, &'static str> {
    if let Some(call) = field.strip_prefix('c') {
        let (call, from) = call.split_once('@').ok_or("a call has no address")?;
        return Ok(Step::Call { call: small(call)?, from: hexadecimal(from)? });
    }
    let Some(branch) = field.strip_prefix('b') else { return Ok(Step::Own(number(field)?)) };
    let at = branch.find(['+', '-']).ok_or("a branch goes nowhere")?;
    let (branch, rest) = branch.split_at(at);
    let values = match rest[1..].strip_prefix(':').map(|values| values.split_once(':')) {
        None if rest.len() == 1 => None,
        Some(Some((left, right))) => Some([hexadecimal(left)?, hexadecimal(right)?]),
        _ => return Err("a branch compares two values"),
    };
    Ok(Step::Branch { branch: small(branch)?, taken: rest.starts_with('+'), values })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Steps {
        let call = |function, how, steps| StepCall { function, how, entry: 0x1000, steps };
        let branch = |taken, values| Step::Branch { branch: 0, taken, values };
        Steps {
            operation: 3,
            operations: [5, 6],
            range: [1, 2, u64::MAX],
            alike: 2,
            beyond: 7,
            calls: vec![
                call(
                    Some(1),
                    StepHow::Call,
                    vec![branch(true, Some([u64::MAX, 0])), branch(false, None), Step::Own(30)],
                ),
                call(None, StepHow::Interrupt, vec![Step::Own(5)]),
                call(
                    Some(0),
                    StepHow::Before,
                    vec![
                        Step::Own(4),
                        Step::Call { call: 0, from: u64::MAX },
                        Step::Call { call: 1, from: 0 },
                        Step::Call { call: 0, from: 1 },
                    ],
                ),
            ],
            branches: vec![StepBranch {
                function: 1,
                address: 0x1004,
                text: "cmp $1,%eax; jne 0x1010".into(),
            }],
        }
    }

    #[test]
    fn a_call_that_is_made_twice_counts_twice() {
        assert_eq!(sample().totals(), [30, 5, 69]);
        assert_eq!(sample().check(2), Ok(()));
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let mut lines = Vec::new();
        sample().write_lines(&mut lines);
        let mut read = Steps::default();
        for line in &lines {
            let (word, rest) = line.split_once(' ').unwrap();
            read.read_line(word, rest).unwrap();
        }
        assert_eq!(read, sample());
        for (word, rest) in [
            ("S", "1 2"),
            ("B", "1 x y"),
            ("C", "0 c"),
            ("C", "0 z 0"),
            ("C", "0 c 0 c1"),
            ("C", "0 c 0 b1"),
            ("C", "0 c 0 b1+:3"),
            ("C", "0 c 0 b1+x"),
            ("C", "0 c 0 -5"),
        ] {
            assert!(Steps::default().read_line(word, rest).is_err(), "{word} {rest}");
        }
    }

    #[test]
    fn contradictions_are_named() {
        let fault = |change: &dyn Fn(&mut Steps)| {
            let mut steps = sample();
            change(&mut steps);
            steps.check(2).unwrap_err()
        };
        assert_eq!(fault(&|it| it.calls.clear()), "no steps, or too many");
        assert_eq!(fault(&|it| it.calls[0].function = Some(2)), "no such function");
        assert_eq!(fault(&|it| it.branches[0].function = 2), "no such function");
        assert_eq!(fault(&|it| it.branches.clear()), "no such branch");
        let itself = Step::Call { call: 0, from: 0 };
        assert_eq!(
            fault(&|it| it.calls[0].steps.push(itself)),
            "a call comes before one that it makes"
        );
    }

    #[test]
    fn values_can_be_left_out() {
        let steps = sample().without_values();
        assert!(!format!("{steps:?}").contains("values: Some"));
        assert_eq!(steps.totals(), sample().totals());
    }
}
