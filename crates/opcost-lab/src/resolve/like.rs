//! The emulator's model of a known CPU (`--like`).

use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_record::nearest::did_you_mean;
use std::ops::RangeInclusive;

/// The name for this computer's own CPU.
const HOST: &str = "host";

/// A CPU with the emulator's nearest model.
struct Like {
    /// The name for users: the microarchitecture.
    name: &'static str,
    /// The nearest model that QEMU has from 7.2 on, with its version: without one, the name means another model to another QEMU.
    model: &'static str,
    /// The vendor and family by CPUID.
    cpu: (&'static str, u32),
    /// The models by CPUID.
    models: &'static [RangeInclusive<u32>],
    /// The steppings by CPUID.
    steppings: RangeInclusive<u32>,
}

const AMD: &str = "AuthenticAMD";
const INTEL: &str = "GenuineIntel";
const ANY: RangeInclusive<u32> = 0..=15;

const fn like(
    name: &'static str,
    model: &'static str,
    cpu: (&'static str, u32),
    models: &'static [RangeInclusive<u32>],
) -> Like {
    Like { name, model, cpu, models, steppings: ANY }
}

/// Every name. Models and steppings are those of Linux (`arch/x86/include/asm/intel-family.h`, `arch/x86/kernel/cpu/amd.c`).
#[rustfmt::skip]
const LIKES: [Like; 17] = [
    like("nehalem",     "Nehalem-v2",            (INTEL, 6),  &[0x1a..=0x1a, 0x1e..=0x1f, 0x2e..=0x2e]),
    like("westmere",    "Westmere-v2",           (INTEL, 6),  &[0x25..=0x25, 0x2c..=0x2c, 0x2f..=0x2f]),
    like("sandybridge", "SandyBridge-v2",        (INTEL, 6),  &[0x2a..=0x2a, 0x2d..=0x2d]),
    like("ivybridge",   "IvyBridge-v2",          (INTEL, 6),  &[0x3a..=0x3a, 0x3e..=0x3e]),
    like("haswell",     "Haswell-v4",            (INTEL, 6),  &[0x3c..=0x3c, 0x3f..=0x3f, 0x45..=0x46]),
    like("broadwell",   "Broadwell-v4",          (INTEL, 6),  &[0x3d..=0x3d, 0x47..=0x47, 0x4f..=0x4f, 0x56..=0x56]),
    like("skylake",     "Skylake-Client-v3",     (INTEL, 6),  &[0x4e..=0x4e, 0x5e..=0x5e, 0x8e..=0x8e, 0x9e..=0x9e, 0xa5..=0xa6]),
    Like { steppings: 0..=4, ..like("skylake-server", "Skylake-Server-v3", (INTEL, 6), &[0x55..=0x55]) },
    like("cascadelake", "Cascadelake-Server-v3", (INTEL, 6),  &[0x55..=0x55]),
    like("icelake",     "Icelake-Server-v2",     (INTEL, 6),  &[0x6a..=0x6a, 0x6c..=0x6c, 0x7d..=0x7e, 0x8c..=0x8d, 0xa7..=0xa7]),
    like("alderlake",   "Icelake-Server-v2",     (INTEL, 6),  &[0x97..=0x97, 0x9a..=0x9a, 0xb7..=0xb7, 0xba..=0xba, 0xbf..=0xbf]),
    like("sapphirerapids", "Icelake-Server-v2",  (INTEL, 6),  &[0x8f..=0x8f, 0xad..=0xae, 0xcf..=0xcf]),
    like("zen",         "EPYC-v2",               (AMD, 0x17), &[0..=0x2f]),
    like("zen2",        "EPYC-Rome-v2",          (AMD, 0x17), &[0x30..=0xff]),
    like("zen3",        "EPYC-Milan-v1",         (AMD, 0x19), &[0..=0x0f, 0x20..=0x5f]),
    like("zen4",        "EPYC-Milan-v1",         (AMD, 0x19), &[0x10..=0x1f, 0x60..=0xff]),
    like("zen5",        "EPYC-Milan-v1",         (AMD, 0x1a), &[0..=0xff]),
];

/// The emulator's model that is nearest to a CPU.
///
/// `name`: a name of the table, or `host` for this computer's CPU; `cpuinfo`: the text of /proc/cpuinfo, if there is one.
///
/// # Errors
/// The name is unknown, or no row of the table has this computer's CPU.
pub(super) fn model_of(name: &str, cpuinfo: Option<&str>) -> Result<String> {
    let names = || LIKES.iter().map(|like| like.name).chain([HOST]);
    let known = || names().collect::<Vec<_>>().join(", ");
    if let Some(like) = LIKES.iter().find(|like| like.name == name) {
        return Ok(like.model.into());
    }
    if name != HOST {
        let near = did_you_mean(name, names());
        let why = format!(
            "--like {name}: unknown CPU{near}; there are {}; --cpu-model takes QEMU's own names",
            known()
        );
        return Err(fail(Status::Usage, why));
    }
    let cpu = cpuinfo.and_then(Cpu::first);
    if let Some(like) = cpu.as_ref().and_then(|cpu| LIKES.iter().find(|like| like.is(cpu))) {
        return Ok(like.model.into());
    }
    let found = match cpu {
        Some(Cpu { vendor, family, model, .. }) => {
            format!(
                "this computer's CPU ({vendor}, family {family}, model {model}) is in no row of opcost's table"
            )
        }
        None => "/proc/cpuinfo does not say which CPU this computer has".into(),
    };
    Err(fail(Status::Usage, format!("--like {HOST}: {found}; give the nearest of {}", known())))
}

/// A CPU as /proc/cpuinfo describes it.
struct Cpu<'a> {
    vendor: &'a str,
    family: u32,
    model: u32,
    stepping: u32,
}

impl Cpu<'_> {
    /// The first CPU.
    fn first(cpuinfo: &str) -> Option<Cpu<'_>> {
        let field = |name: &str| {
            let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            let mut values = fields.filter(|(key, _)| key.trim() == name);
            values.next().map(|(_, value)| value.trim())
        };
        let number = |name: &str| field(name)?.parse().ok();
        Some(Cpu {
            vendor: field("vendor_id")?,
            family: number("cpu family")?,
            model: number("model")?,
            stepping: number("stepping").unwrap_or(0),
        })
    }
}

impl Like {
    fn is(&self, cpu: &Cpu<'_>) -> bool {
        self.cpu == (cpu.vendor, cpu.family)
            && self.models.iter().any(|models| models.contains(&cpu.model))
            && self.steppings.contains(&cpu.stepping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn of_host(vendor: &str, family: u32, model: u32, stepping: u32) -> Result<String> {
        let text = format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: X: 1\n\
             stepping\t: {stepping}\n\nprocessor\t: 1\nvendor_id\t: Other\n"
        );
        model_of(HOST, Some(&text))
    }

    #[test]
    fn this_computers_cpu_has_its_nearest_model() {
        for (vendor, family, model, stepping, nearest) in [
            (AMD, 23, 1, 2, "EPYC-v2"),
            (AMD, 23, 49, 0, "EPYC-Rome-v2"),
            (AMD, 25, 1, 1, "EPYC-Milan-v1"),
            (AMD, 25, 17, 1, "EPYC-Milan-v1"),
            (INTEL, 6, 0x3f, 2, "Haswell-v4"),
            (INTEL, 6, 0x5e, 3, "Skylake-Client-v3"),
            (INTEL, 6, 0x55, 4, "Skylake-Server-v3"),
            (INTEL, 6, 0x55, 7, "Cascadelake-Server-v3"),
            (INTEL, 6, 0x8f, 8, "Icelake-Server-v2"),
        ] {
            assert_eq!(of_host(vendor, family, model, stepping).unwrap(), nearest, "{model:#x}");
        }
        let why = of_host("CentaurHauls", 6, 15, 1).unwrap_err().to_string();
        assert!(why.contains("(CentaurHauls, family 6, model 15) is in no row"), "{why}");
        assert!(why.contains("give the nearest of nehalem, "), "{why}");
        for text in [None, Some(""), Some("CPU part\t: 0xd0c\n")] {
            let why = model_of(HOST, text).unwrap_err().to_string();
            assert!(why.contains("does not say which CPU"), "{why}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_list() {
        let why = model_of("skylak", None).unwrap_err().to_string();
        assert!(
            why.contains("--like skylak: unknown CPU (did you mean skylake?); there are nehalem, "),
            "{why}"
        );
        assert!(why.contains("zen5, host;"), "{why}");
        assert_eq!(
            model_of("zen2", None).unwrap(),
            opcost_record::architecture::ARCHITECTURES[0].cpu_model
        );
    }

    #[test]
    fn the_help_has_every_name() {
        use clap::Args;
        let command = opcost_model::experiment::Experiment::augment_args(clap::Command::new("x"));
        let mut arguments = command.get_arguments();
        let like = arguments.find(|argument| argument.get_id() == "like").unwrap();
        let help = like.get_long_help().or(like.get_help()).unwrap().to_string();
        for name in LIKES.iter().map(|like| like.name).chain([HOST]) {
            assert!(
                help.split([' ', ',', ':', '.', '\n']).any(|word| word == name),
                "{name}: {help}"
            );
        }
    }

    #[test]
    fn the_emulator_has_every_model() {
        let Ok(output) = Command::new("qemu-system-x86_64").args(["-cpu", "help"]).output() else {
            crate::skip::skip!("no qemu-system-x86_64 to ask for its models");
            return;
        };
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        for Like { name, model, .. } in &LIKES {
            assert!(help.split_whitespace().any(|word| word == *model), "{name}: {model}");
        }
    }
}
