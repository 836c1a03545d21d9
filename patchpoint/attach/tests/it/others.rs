//! Programs beside the busy one: without shared objects, of several objects, or without patchpoint.

use crate::made::{Built, Busy, compile, library, or_skip, program, sources};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

/// A process that is killed with its owner.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program without shared objects; `None` if it cannot be built.
pub(crate) fn static_program() -> Option<PathBuf> {
    program()?;
    let library = library();
    let files = [vec![library.join("attach/tests/made/busy.c")], sources(&library)].concat();
    or_skip(&compile("busy-static", &library, &["-O2", "-static"], &files)).cloned()
}

/// Starts a program of several objects that share one library, `host.c`; `None` if it cannot be
/// built. `how`: `plain` or nothing, as the program takes it.
pub(crate) fn host(how: Option<&str>) -> Option<Busy> {
    let [host, second] = built_host()?;
    Some(Busy::start(Command::new(host).arg(second).args(how)))
}

/// The file of the program `host.c`.
pub(crate) fn host_program() -> Option<&'static Path> {
    built_host().map(|[host, _]| host.as_path())
}

fn built_host() -> Option<&'static [PathBuf; 2]> {
    static BUILT: OnceLock<Built<[PathBuf; 2]>> = OnceLock::new();
    program()?;
    or_skip(BUILT.get_or_init(build_host))
}

/// Builds the program `host.c` and the plugin that it opens.
fn build_host() -> Built<[PathBuf; 2]> {
    let library = library();
    let shared = ["-O2", "-fPIC", "-shared"];
    let patchpoint = compile("libpatchpoint.so", &library, &shared, &sources(&library))?;
    let plugin = |name: &str| {
        let source = library.join(format!("tests/{name}.c"));
        compile(name, &library, &shared, &[source, patchpoint.clone()])
    };
    let (first, second) = (plugin("plugin_first")?, plugin("plugin_second")?);
    let files = [library.join("attach/tests/made/host.c"), first, patchpoint.clone()];
    Ok([compile("host", &library, &["-O2"], &files)?, second])
}
