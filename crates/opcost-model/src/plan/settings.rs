//! The choices of an experiment: where work runs, in what layout and environment, and which variants are compared.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Where work runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MachineKind {
    /// This computer, under its own kernel.
    #[default]
    Host,
    /// An emulated computer that counts every instruction, kernel included.
    Emulated,
    /// None: the figures are another tool's.
    #[value(skip)]
    Imported,
    /// A program that runs already, on this computer.
    #[value(skip)]
    Attached,
}

impl MachineKind {
    /// The machine's name in headings.
    pub fn words(self) -> &'static str {
        match self {
            MachineKind::Host => "this host",
            MachineKind::Emulated => "emulated machine",
            MachineKind::Imported => "imported figures",
            MachineKind::Attached => "a running program",
        }
    }
}

/// Address space layout randomisation of the runs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Aslr {
    /// Off: the same layout in every run.
    Fixed,
    /// On: a new layout in each run.
    Randomised,
    /// As this shell has it.
    Inherit,
}

/// Scheduling priority of the runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// As other programs.
    #[default]
    Normal,
    /// Before all ordinary programs, on a CPU of their own.
    RealTime,
}

/// Environment variables of the runs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum EnvironmentPolicy {
    /// This shell's.
    Inherit,
    /// PATH, HOME and LANG only.
    Fixed,
    /// This shell's, and padding of a length drawn anew for each block.
    Randomised,
}

/// The pairs of variants that opcost compares.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PairsOfVariants {
    /// Each with the first.
    #[default]
    Baseline,
    /// Every two.
    All,
}
