//! From a plan to a stored recording: makes the plan's machine ready, has the runs made, and notes how the machine changed.

use crate::hook::HookShell;
use crate::machine::emulated::Emulated;
use crate::machine::host::Host;
use crate::machine::{Machine, read_state};
use crate::progress::Progress;
use crate::run::{self, Ending};
use anyhow::Result;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::phases::Phases;
use opcost_base::scratch;
use opcost_model::plan::{MachineKind, Plan};
use opcost_model::recording::{DataState, MachineState, Recording, State};
use opcost_record::Record;
use opcost_store::store::{RecordingWriter, StoreError};
use opcost_sys::interrupt::Interrupt;
use opcost_sys::perf::LivePerf;
use std::path::Path;
use std::rc::Rc;

/// The machine that a plan runs on, ready to run the plan, and the machine's state.
pub fn machine_for<'a>(
    quiet: bool,
    plan: &Plan,
    interrupt: &'a Interrupt,
) -> Result<(Box<dyn Machine + 'a>, MachineState)> {
    match plan.machine() {
        MachineKind::Host => {
            let host = Host::new(plan, Rc::new(LivePerf::default()), interrupt)?;
            let state = read_state(Path::new("/"), plan, host.environment_bytes());
            Ok((Box::new(host), state))
        }
        MachineKind::Imported => Err(fail(
            Status::Usage,
            "these figures were imported, so there is nothing to run; look at them with opcost show",
        )),
        MachineKind::Attached => Err(fail(
            Status::Usage,
            "these runs were periods of a running program, and opcost is no longer attached to the program; \
             begin anew with opcost attach PID",
        )),
        MachineKind::Emulated => {
            let mut phases = Phases::new(quiet);
            let emulated =
                Emulated::new(plan, interrupt, &mut |phase, done| phases.report(phase, done));
            phases.end();
            let emulated = emulated?;
            let state = emulated.state();
            Ok((Box::new(emulated), state))
        }
    }
}

/// Makes the missing runs, and reads the recording back as it is stored.
///
/// The tuple has the machine, its state when it was made ready, and the flag that a signal sets.
pub fn make_runs(
    plan: &Plan,
    earlier: &[Record],
    (machine, state_before, interrupt): (&mut dyn Machine, &MachineState, &Interrupt),
    mut writer: RecordingWriter,
    progress: &mut dyn Progress,
) -> Result<(Ending, Recording)> {
    scratch::sweep();
    let id = writer.id().to_string();
    let ending =
        run::run(plan, earlier, machine, &mut HookShell { interrupt }, &mut writer, progress);
    match plan.machine() {
        MachineKind::Host => {
            let environment_bytes = state_before.environment_bytes.clone();
            let after = read_state(Path::new("/"), plan, environment_bytes);
            if let Ok(Ending::InputChanged(changed)) = &ending {
                // The report refuses a verdict by these two states.
                let with = |state: &MachineState, data: &DataState| MachineState {
                    data: vec![data.clone()],
                    ..state.clone()
                };
                let noted = writer
                    .complete_machine(&with(state_before, &changed.before))
                    .and_then(|()| writer.note_machine(&with(&after, &changed.after)));
                noted.map_err(StoreError::carried)?;
            } else if state_before.has_become(&after) {
                writer.note_machine(&after).map_err(StoreError::carried)?;
            }
        }
        _ => {
            if let Some(state) = machine.state_now() {
                writer.complete_machine(&state).map_err(StoreError::carried)?;
            }
        }
    }
    let state = ending.as_ref().map_or(State::Failed, Ending::state);
    let store = writer.end(state).map_err(StoreError::carried);
    // An error of a run names its recording already.
    let ending = ending
        .map_err(|error| match format!("{error:#}").contains(&id) {
            true => error,
            false => error.context(format!("recording {id}")),
        })
        .status(Status::Missing)?;
    let recording = store?.read(&id).map_err(StoreError::carried)?;
    Ok((ending, recording))
}
