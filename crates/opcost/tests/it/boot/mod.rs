//! Guests and single programs in the emulator, started without opcost around them.

use crate::needs;
use opcost_lab::machine::emulated::initramfs::Initramfs;
use opcost_record::Report;
use opcost_record::channel::{Frame, decode};
use opcost_record::emulation::{Emulation, RegionCost};
use opcost_record::message::MessageError;
use opcost_record::request::GuestRequest;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The kernel image and the guest's /init, if this machine has what booting needs.
pub(crate) fn machine() -> Option<(PathBuf, PathBuf)> {
    Some((needs::kernel()?.into(), needs::beside("opcost-guest")?))
}

/// Boots, and returns the frames that the guest sent.
pub(crate) fn boot(kernel: &Path, initramfs: &Initramfs) -> Vec<Frame> {
    boot_with(kernel, initramfs, tempfile::tempdir().unwrap().path(), &["-m", "512"])
}

/// Boots with `memory_mib` MiB of memory.
pub(crate) fn boot_in(memory_mib: u32, kernel: &Path, initramfs: &Initramfs) -> Vec<Frame> {
    let memory_mib = memory_mib.to_string();
    boot_with(kernel, initramfs, tempfile::tempdir().unwrap().path(), &["-m", &memory_mib])
}

/// The end of a program, its report, and its counts.
pub(crate) struct Ended {
    pub(crate) succeeded: bool,
    pub(crate) report: Result<Report, MessageError>,
    pub(crate) regions: Vec<RegionCost>,
}

/// Emulates the guest's program alone, without a kernel, doing the work of a request; `None`
/// without the emulator.
pub(crate) fn work_counted(request: &GuestRequest) -> Option<Ended> {
    needs::emulator().then_some(())?;
    let folder = tempfile::tempdir().unwrap();
    let (report, file) = (folder.path().join("report"), folder.path().join("request"));
    let (plugin, guest) = (plugin(&report)?, needs::beside("opcost-guest")?);
    fs::write(&file, request.encode()).unwrap();
    let mut qemu = guarded("qemu-x86_64");
    qemu.args(["-cpu", "max", "-plugin", &plugin]).arg(guest).arg("work").arg(file);
    let output = qemu.stdin(Stdio::null()).output().unwrap();
    let succeeded = output.status.success();
    Some(Ended {
        succeeded,
        report: Report::decode(&output.stdout),
        // A program that fails before its regions has no counts.
        regions: if succeeded { counts(&report) } else { Vec::new() },
    })
}

/// A program under `timeout`, which guards against hanging and has no part in measurements.
fn guarded(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["300", program]);
    command
}

/// The argument that loads the counting plugin.
fn plugin(report: &Path) -> Option<String> {
    let plugin = needs::beside("libopcost_emu.so")?;
    Some(format!("{},out={},profile=off", plugin.display(), report.display()))
}

fn counts(report: &Path) -> Vec<RegionCost> {
    let mut runs = Emulation::decode(&fs::read(report).unwrap()).unwrap().runs;
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

fn boot_with(
    kernel: &Path,
    initramfs: &Initramfs,
    folder: &Path,
    arguments: &[&str],
) -> Vec<Frame> {
    let path = |name: &str| folder.join(name);
    fs::write(path("initramfs"), initramfs.bytes().unwrap()).unwrap();
    let argument = |prefix: &str, path: &Path| format!("{prefix}{}", path.display());
    let mut qemu = guarded("qemu-system-x86_64");
    qemu.args(["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", "max"]);
    qemu.arg("-no-reboot").args(arguments);
    qemu.args(["-seed", "1", "-rtc", "base=2020-01-01T00:00:00,clock=vm", "-nodefaults"]);
    qemu.args(["-display", "none", "-device", "isa-debugcon,iobase=0xe9,chardev=channel"]);
    qemu.arg("-serial").arg(argument("file:", &path("console")));
    qemu.arg("-chardev").arg(argument("file,id=channel,path=", &path("channel")));
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(path("initramfs")).arg("-append").arg(
        "console=ttyS0 quiet panic=-1 rdinit=/init nokaslr mitigations=off norandmaps \
         nolapic_timer no_timer_check",
    );
    let output = qemu.stdin(Stdio::null()).output().unwrap();
    let console = fs::read(path("console")).unwrap_or_default();
    let console = String::from_utf8_lossy(&console);
    assert!(output.status.success(), "{output:?}\n{console}");
    let sent = fs::read(path("channel")).unwrap_or_default();
    decode(&sent).unwrap_or_else(|error| panic!("{error}\n{console}"))
}
