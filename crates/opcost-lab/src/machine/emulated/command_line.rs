//! QEMU's command line: it makes runs of the same guest identical to the last instruction.

use opcost_kernel::disk::device_parameters;
use opcost_model::plan::{Aslr, GuestPlan};
use opcost_record::request::{BOOT_SEED, FW_CFG_NAME};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A machine with only the devices asked for, whose time is counted in instructions.
pub(super) const BARE: [&str; 11] = [
    "-accel",
    // The default size depends on the host's memory, and emptying the buffer may shift later events.
    "tcg,thread=single,tb-size=1024",
    "-icount",
    "shift=0,sleep=off",
    "-no-user-config",
    "-nodefaults",
    "-no-reboot",
    "-display",
    "none",
    "-monitor",
    "none",
];

/// How a guest gets its request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start<'a> {
    /// The guest boots and finds the request among its files.
    Boot {
        /// The guest's files.
        initrd: &'a Path,
    },
    /// The guest boots, and the machine stops where the guest waits for a request.
    Stop {
        /// The guest's files.
        initrd: &'a Path,
        /// The file for the guest's memory.
        memory: &'a Path,
    },
    /// The guest boots as for `Stop` and goes on with a request.
    Pass {
        /// The guest's files.
        initrd: &'a Path,
        /// The request.
        request: &'a Path,
    },
    /// The guest goes on where it stopped.
    ///
    /// The open file [`MEMORY_FD`] holds its memory and is not changed.
    Restore {
        /// The request.
        request: &'a Path,
    },
}

/// The files of one run of a booted guest.
#[derive(Clone, Copy, Debug)]
pub(super) struct GuestFiles<'a> {
    /// The kernel's image.
    pub(super) kernel: &'a Path,
    /// How the guest gets its request.
    pub(super) start: Start<'a>,
    /// The image of the guest's large files, which a guest that is restored does not read, and the size of the device's memory in bytes.
    pub(super) large: Option<(&'a Path, u64)>,
    /// The file for the console's output.
    pub(super) console: &'a Path,
    /// The file for the guest's messages.
    pub(super) channel: &'a Path,
}

/// The inputs that distinguish runs of a guest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    /// Seed of the guest's random numbers.
    pub(super) seed: u32,
    /// Bytes of padding.
    pub(super) padding_bytes: u16,
    /// Whether programs in the guest have a fixed layout.
    pub(super) aslr: Aslr,
}

/// Arguments that boot a guest.
///
/// Identical inputs give identical runs: time is counted in instructions (`-icount`), the clock
/// starts at a fixed date, and randomness is seeded (QEMU's documentation, "TCG Instruction
/// Counting" and `-seed`).
pub(super) fn system(guest: &GuestPlan, files: &GuestFiles<'_>, inputs: Inputs) -> Vec<OsString> {
    let seed = inputs.seed.to_string();
    let boot_options = boot_options(guest, inputs);
    let row = guest.architecture.row();
    let cpu_model = match files.start {
        Start::Boot { .. } => cpu_model(guest),
        _ => cpu_model(guest) + row.kept_cpu_properties,
    };
    let console = with_path("file,id=console,path=", files.console);
    let channel = with_path("file,id=channel,path=", files.channel);
    let machine: [(&str, &OsStr); 2] =
        [("-rtc", "base=2020-01-01T00:00:00,clock=vm".as_ref()), ("-cpu", cpu_model.as_ref())];
    let devices: [(&str, &OsStr); 6] = [
        ("-seed", seed.as_ref()),
        ("-kernel", files.kernel.as_os_str()),
        ("-append", boot_options.as_ref()),
        ("-chardev", &console),
        ("-chardev", &channel),
        ("-serial", "chardev:console".as_ref()),
    ];
    let own = row.devices.iter().map(|device| ("-device", OsStr::new(device)));
    let settings = guest.settings.values().into_iter().flat_map(|value| value.arguments);
    let pair = |(name, value): (&str, &OsStr)| [OsString::from(name), OsString::from(value)];
    BARE.iter()
        .map(OsString::from)
        .chain(machine.into_iter().flat_map(pair))
        .chain(settings.map(OsString::from))
        .chain(devices.into_iter().chain(own).flat_map(pair))
        .chain(start(guest, files.start))
        .chain(files.large.into_iter().flat_map(|large| large_files(files.start, large)))
        .collect()
}

/// Arguments for the device with the guest's large files. A guest that goes on has the same devices, and writes are its own.
fn large_files(start: Start<'_>, (image, bytes): (&Path, u64)) -> [OsString; 4] {
    let file = |share| {
        let text = format!("memory-backend-file,id=files,size={bytes},share={share},mem-path=");
        with_path(&text, image)
    };
    let memory = match start {
        Start::Restore { .. } => format!("memory-backend-ram,id=files,size={bytes}").into(),
        // A shared memory is not part of the kept state.
        Start::Stop { .. } => file("on"),
        Start::Boot { .. } | Start::Pass { .. } => file("off"),
    };
    let device = "ivshmem-plain,memdev=files,master=on,addr=0x10".into();
    ["-object".into(), memory, "-device".into(), device]
}

/// The name of the guest's memory, for guests whose state is kept.
const MEMORY: &str = "memory";

/// The number of the monitor's socket in QEMU.
pub(super) const MONITOR_FD: i32 = 3;
/// The numbers of a kept state's files in QEMU.
pub(super) const MEMORY_FD: i32 = 4;
pub(super) const DEVICES_FD: i32 = 5;

/// Arguments by which the guest gets its request.
///
/// All kinds of boots have the same devices and the same list of fw_cfg files, which the firmware
/// reads. Stopped guests and others are therefore identical to the instruction.
fn start(guest: &GuestPlan, start: Start<'_>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let row = guest.architecture.row();
    let kept = PathBuf::from(format!("/proc/self/fd/{MEMORY_FD}"));
    let (initrd, request, watchdog, memory, share) = match start {
        Start::Boot { initrd } => {
            return ["-machine", row.machine_line, "-initrd"]
                .map(OsString::from)
                .into_iter()
                .chain([initrd.into()])
                .collect();
        }
        Start::Stop { initrd, memory } => (Some(initrd), None, "pause", Some(memory), "on"),
        Start::Pass { initrd, request } => (Some(initrd), Some(request), "none", None, ""),
        // The guest unpacked the files before it stopped.
        Start::Restore { request } => (None, Some(request), "none", Some(&*kept), "off"),
    };
    let mut add = |name: &str, value: OsString| arguments.extend([name.into(), value]);
    if let Some(initrd) = initrd {
        add("-initrd", initrd.into());
    }
    let size = format!("size={}M", guest.memory_mib);
    add(
        "-object",
        match memory {
            Some(path) => with_path(
                &format!("memory-backend-file,id={MEMORY},{size},share={share},mem-path="),
                path,
            ),
            None => format!("memory-backend-ram,id={MEMORY},{size}").into(),
        },
    );
    add("-machine", format!("{},memory-backend={MEMORY}", row.machine_line).into());
    add("-device", row.watchdog.into());
    add("-action", format!("watchdog={watchdog}").into());
    let name = format!("name={FW_CFG_NAME}");
    add(
        "-fw_cfg",
        match request {
            Some(path) => with_path(&format!("{name},file="), path),
            None => format!("{name},string=none").into(),
        },
    );
    if memory.is_some() {
        add("-chardev", format!("socket,id=monitor,fd={MONITOR_FD}").into());
        add("-qmp", "chardev:monitor".into());
    }
    if let Start::Restore { .. } = start {
        add("-incoming", "defer".into());
    }
    arguments
}

/// The kernel's command line: opcost's options, the variant's, then the padding.
fn boot_options(guest: &GuestPlan, inputs: Inputs) -> String {
    let row = guest.architecture.row();
    // These options fix the kernel's addresses, and skip tests of ciphers, which kernel 6.12 makes in the background of the first
    // work.
    let mut options = vec![format!(
        "console={} quiet panic=-1 rdinit=/init nokaslr {} cryptomgr.notests=1",
        row.console, row.boot
    )];
    if inputs.aslr == Aslr::Fixed {
        options.push("norandmaps".into());
    }
    if let Some(disk) = &guest.disk {
        // If RAM disks are a module, the kernel leaves these options to the loader of the module.
        options.push(device_parameters(disk, "brd."));
    }
    if !guest.boot.is_empty() {
        options.push(guest.boot.clone());
    }
    // The length does not depend on the seed.
    options.push(format!("{BOOT_SEED}{:010}", inputs.seed));
    options.push(format!("opcost.padding={}", "x".repeat(usize::from(inputs.padding_bytes))));
    options.join(" ")
}

/// The CPU in QEMU's words.
fn cpu_model(guest: &GuestPlan) -> String {
    format!("{}{}", guest.cpu_model, guest.architecture.row().cpu_properties)
}

/// Arguments that run one program under user-mode emulation, up to the program itself.
///
/// `root`: the folder that has the system's files of a program for another architecture.
pub(super) fn user(
    guest: &GuestPlan,
    root: Option<&Path>,
    argv0: &OsStr,
    inputs: Inputs,
) -> Vec<OsString> {
    let seed = inputs.seed.to_string();
    let cpu_model = cpu_model(guest);
    let options = ["-cpu", &cpu_model, "-seed", &seed].map(OsString::from).into_iter();
    let root = root.into_iter().flat_map(|root| ["-L".into(), root.into()]);
    options.chain(root).chain(["-0".into(), argv0.to_os_string()]).collect()
}

/// Arguments that load the plugin.
///
/// `arguments`: `KEY=VALUE` texts without paths; `paths`: keys with paths.
pub(super) fn plugin(
    plugin: &Path,
    arguments: &[String],
    paths: &[(&str, &Path)],
) -> Vec<OsString> {
    let mut text = with_path("file=", plugin);
    for argument in arguments {
        text.push(",");
        text.push(argument);
    }
    for (key, path) in paths {
        text.push(",");
        text.push(with_path(&format!("{key}="), path));
    }
    vec!["-plugin".into(), text]
}

/// A path after a prefix, with its commas doubled, since commas separate options (QEMU's manual).
fn with_path(prefix: &str, path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut text = prefix.as_bytes().to_vec();
    for byte in path.as_os_str().as_bytes() {
        text.push(*byte);
        if *byte == b',' {
            text.push(b',');
        }
    }
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_kernel::disk::DiskSpec;
    use opcost_model::guest_settings::GuestSettings;
    use opcost_record::Architecture;

    fn guest() -> GuestPlan {
        GuestPlan {
            boot: "mitigations=off".into(),
            cpu_model: "Skylake-Client-v1".into(),
            settings: GuestSettings { memory_mib: 256, ..GuestSettings::default() },
            ..GuestPlan::default()
        }
    }

    fn inputs() -> Inputs {
        Inputs { seed: 7, padding_bytes: 3, aslr: Aslr::Fixed }
    }

    fn files() -> GuestFiles<'static> {
        GuestFiles {
            kernel: Path::new("/k"),
            start: Start::Boot { initrd: Path::new("/i") },
            large: None,
            console: Path::new("/t,mp/console"),
            channel: Path::new("/tmp/channel"),
        }
    }

    fn text(arguments: &[OsString]) -> String {
        arguments.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn what_fixes_a_run_is_given() {
        let line = text(&system(&guest(), &files(), inputs()));
        for part in [
            "-icount shift=0,sleep=off",
            "-accel tcg,thread=single",
            "-rtc base=2020-01-01T00:00:00,clock=vm",
            "-seed 7",
            "-cpu Skylake-Client-v1,check=off -m 256M",
            "path=/t,,mp/console",
            "norandmaps mitigations=off opcost.seed=0000000007 opcost.padding=xxx",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!line.contains("-smp"), "{line}");
        let settings = GuestSettings { cpus: 2, ..GuestSettings::default() };
        let line = text(&system(&GuestPlan { settings, ..guest() }, &files(), inputs()));
        assert!(line.contains(" -m 1024M -smp 2 -"), "{line}");
        let disk = Some(DiskSpec::parse("ext4:64M").unwrap());
        let line = text(&system(&GuestPlan { disk, ..guest() }, &files(), inputs()));
        assert!(
            line.contains(" norandmaps brd.rd_nr=1 brd.rd_size=65536 mitigations=off "),
            "{line}"
        );
        let random = Inputs { aslr: Aslr::Randomised, ..inputs() };
        assert!(!text(&system(&guest(), &files(), random)).contains("norandmaps"));
    }

    #[test]
    fn guests_that_stop_pass_or_are_restored_have_the_same_machine() {
        let (initrd, memory, request) = (Path::new("/i"), Path::new("/m,m"), Path::new("/r"));
        let line = |start| text(&system(&guest(), &GuestFiles { start, ..files() }, inputs()));
        let stop = line(Start::Stop { initrd, memory });
        let pass = line(Start::Pass { initrd, request });
        let restore = line(Start::Restore { request });
        for line in [&stop, &pass, &restore] {
            assert!(
                line.contains("-cpu Skylake-Client-v1,check=off,rdrand=off,rdseed=off "),
                "{line}"
            );
            assert!(line.contains("-machine pc,memory-backend=memory -device ib700"), "{line}");
            assert_eq!(line.matches("-fw_cfg name=opt/org.opcost/request,").count(), 1, "{line}");
        }
        assert!(stop.contains("share=on,mem-path=/m,,m"));
        assert!(restore.contains("share=off,mem-path=/proc/self/fd/4 "));
        assert!(
            stop.contains("watchdog=pause") && !pass.contains("pause") && !pass.contains("qmp")
        );
        assert!(!restore.contains("-initrd") && restore.ends_with("-incoming defer"));
    }

    #[test]
    fn large_files_are_shared_only_with_a_guest_that_stops() {
        let (initrd, memory, request) = (Path::new("/i"), Path::new("/m"), Path::new("/r"));
        let large = Some((Path::new("/f,"), 4096));
        let line =
            |start| text(&system(&guest(), &GuestFiles { start, large, ..files() }, inputs()));
        let device = " -device ivshmem-plain,memdev=files,master=on,addr=0x10";
        for (start, object) in [
            (Start::Boot { initrd }, "file,id=files,size=4096,share=off,mem-path=/f,,"),
            (Start::Stop { initrd, memory }, "file,id=files,size=4096,share=on,mem-path=/f,,"),
            (Start::Pass { initrd, request }, "file,id=files,size=4096,share=off,mem-path=/f,,"),
            (Start::Restore { request }, "ram,id=files,size=4096"),
        ] {
            let line = line(start);
            let end = format!(" -object memory-backend-{object}{device}");
            assert!(line.ends_with(&end), "{end} in {line}");
        }
    }

    #[test]
    fn an_arm64_guest_has_the_machine_of_its_row() {
        let settings =
            GuestSettings { architecture: Architecture::Aarch64, ..GuestSettings::default() };
        let guest = GuestPlan { cpu_model: "neoverse-n1".into(), settings, ..guest() };
        let line = text(&system(&guest, &files(), inputs()));
        for part in [
            "-machine virt,dtb-randomness=off -initrd /i",
            "-cpu neoverse-n1 -m 1024M",
            "-device pci-serial,chardev=channel,addr=0x2",
            "console=ttyAMA0 quiet panic=-1 rdinit=/init nokaslr 8250.nr_uarts=0 cryptomgr.notests=1",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!line.contains("isa-"), "{line}");
        let start = Start::Restore { request: Path::new("/r") };
        let line = text(&system(&guest, &GuestFiles { start, ..files() }, inputs()));
        let machine =
            "-machine virt,dtb-randomness=off,memory-backend=memory -device i6300esb,addr=0x3";
        assert!(line.contains(machine) && line.contains("-cpu neoverse-n1 "), "{line}");
    }

    #[test]
    fn a_foreign_program_gets_its_system_s_folder() {
        let guest = GuestPlan { cpu_model: "neoverse-n1".into(), ..GuestPlan::default() };
        let line = |root: Option<&str>| {
            text(&user(&guest, root.map(Path::new), OsStr::new("./a"), inputs()))
        };
        assert_eq!(line(None), "-cpu neoverse-n1,check=off -seed 7 -0 ./a");
        assert_eq!(line(Some("/r")), "-cpu neoverse-n1,check=off -seed 7 -L /r -0 ./a");
    }

    #[test]
    fn runs_differ_by_seed_and_padding_only() {
        let one = system(&guest(), &files(), inputs());
        let other =
            system(&guest(), &files(), Inputs { seed: 8, padding_bytes: 9, aslr: Aslr::Fixed });
        let differing = one.iter().zip(&other).filter(|(one, other)| one != other).count();
        assert_eq!((one.len(), differing), (other.len(), 2));
    }

    #[test]
    fn the_plugin_gets_its_paths() {
        let arguments = ["mode=system".to_string()];
        let line = text(&plugin(Path::new("/a,b.so"), &arguments, &[("out", Path::new("/o"))]));
        assert_eq!(line, "-plugin file=/a,,b.so,mode=system,out=/o");
    }
}
