//! One operation as a trace for Chrome's viewer and Perfetto, with instructions as the clock.

use crate::tree::Side;
use opcost_record::steps::{Step, StepCall, StepHow};
use serde_json::{Value, json};

/// The most events of a trace.
const EVENTS_MAX: usize = 1 << 20;

/// A call that is being written: its number, its start, and its next step.
struct Open {
    call: u32,
    start: u64,
    step: usize,
    /// The row on which it stands.
    thread: u32,
}

/// Writes an operation in the Trace Event Format: complete events, whose microseconds are instructions. Interrupts and the turns of
/// other tasks stand on rows of their own.
pub fn render(side: &Side<'_>) -> Value {
    let calls = &side.steps.calls;
    let totals = side.steps.totals();
    let mut events: Vec<Value> = Vec::new();
    for (thread, name) in [(1, "operation"), (2, "interrupts"), (3, "other tasks")] {
        let names = json!({ "name": name });
        events.push(
            json!({ "ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": names }),
        );
    }
    let (mut clock, mut left_out) = (0u64, 0u64);
    let root = calls.len() as u32 - 1;
    let mut open = vec![Open { call: root, start: 0, step: 0, thread: 1 }];
    while let Some(top) = open.last_mut() {
        let call = &calls[top.call as usize];
        let Some(step) = call.steps.get(top.step) else {
            let Open { call: number, start, thread, .. } = *top;
            open.pop();
            match events.len() < EVENTS_MAX {
                true => events.push(event(side, call, start, totals[number as usize], thread)),
                false => left_out += 1,
            }
            continue;
        };
        top.step += 1;
        let thread = top.thread;
        match *step {
            Step::Own(own) => clock = clock.saturating_add(own),
            Step::Branch { .. } => {}
            // With no room left, what is inside is skipped as a whole.
            Step::Call { call, .. } if events.len() >= EVENTS_MAX => {
                left_out += 1;
                clock = clock.saturating_add(totals[call as usize]);
            }
            Step::Call { call, .. } => {
                let thread = match calls[call as usize].how {
                    StepHow::Interrupt => 2,
                    StepHow::Task => 3,
                    _ => thread,
                };
                open.push(Open { call, start: clock, step: 0, thread });
            }
        }
    }
    let about = json!({
        "variant": side.name,
        "clock": "instructions",
        "operation": side.steps.operation,
        "calls_left_out": left_out,
    });
    json!({ "traceEvents": events, "otherData": about })
}

fn event(side: &Side<'_>, call: &StepCall, start: u64, total: u64, thread: u32) -> Value {
    let own = call.steps.iter().map(|step| if let Step::Own(own) = step { *own } else { 0 });
    let function = call.function.and_then(|number| side.functions.get(number as usize));
    let own: u64 = own.fold(0, u64::wrapping_add);
    json!({
        "ph": "X",
        "pid": 1,
        "tid": thread,
        "name": side.name_of(call),
        "cat": function.map_or("", |function| function.module.as_str()),
        "ts": start,
        "dur": total,
        "args": { "own": own },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::{call, functions, steps, to};

    #[test]
    fn calls_stand_where_their_instructions_begin() {
        let names = functions(&["main", "one"]);
        let interrupt = StepCall {
            function: None,
            how: StepHow::Interrupt,
            entry: 0,
            steps: vec![Step::Own(5)],
        };
        let main = vec![Step::Own(2), to(0), Step::Own(3), to(1), to(0), Step::Own(1)];
        let steps = steps(vec![call(1, vec![Step::Own(10)]), interrupt, call(0, main)]);
        let trace = render(&Side { name: "a", functions: &names, steps: &steps });
        let events = trace["traceEvents"].as_array().unwrap();
        let seen: Vec<(&str, u64, u64, u64, u64)> = events[3..]
            .iter()
            .map(|event| {
                let number = |name: &str| event[name].as_u64().unwrap();
                let own = event["args"]["own"].as_u64().unwrap();
                (event["name"].as_str().unwrap(), number("tid"), number("ts"), number("dur"), own)
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("one", 1, 2, 10, 10),
                ("[interrupt]", 2, 15, 5, 5),
                ("one", 1, 20, 10, 10),
                ("main", 1, 0, 31, 6),
            ]
        );
        assert_eq!(trace["otherData"]["clock"], "instructions");
    }
}
