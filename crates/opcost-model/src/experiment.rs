//! An experiment as a user writes it: a TOML file, or the same fields as command-line flags.
//!
//! Each field is declared once, here. The field's name is the flag and the key in the file; the first
//! paragraph of its comment is the help text. [`crate::plan`] resolves the fields that are left open.
//!
//! **The seed is random for command lines on the host and fixed in the experiment files that ship**, so recordings of one
//! experiment do the same work.

use crate::guest_settings::guest_settings;
use crate::plan::{
    Aslr, Counted, EnvironmentPolicy, IgnoredStatuses, MachineKind, OpsPattern, PairsOfVariants,
    Priority, SameFile, Shard, SteppedOperation, Width,
};
use anyhow::{Context, Result, bail};
use clap::Args;
use opcost_base::time::TimeLimit;
use opcost_record::Architecture;
use opcost_record::nearest::did_you_mean;
use opcost_record::printable::printable_toml;
use opcost_source::sampling::CallGraph;
use serde::{Deserialize, Serialize, de};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The word for no shell.
pub const NO_SHELL: &str = "none";

const SCHEDULE: &str = "Schedule";
const METRICS: &str = "Metrics";
const PROFILE: &str = "Profile";
const CONDITIONS: &str = "Conditions of a run";
const GUEST: &str = "Emulated machine";
const HOOKS: &str = "Commands around the runs";

/// Declares a struct with the settings of a guest between the given fields; with `flags`, they are flags, too.
macro_rules! with_guest_settings {
    ([ $( $(#[$($help:tt)*])* $field:ident $value:tt: $type:ident = $row:expr; )* ]
     flags $(#[$($meta:tt)*])* pub struct $name:ident { $($before:tt)* } then { $($after:tt)* }) => {
        $(#[$($meta)*])*
        pub struct $name {
            $($before)*
            $(
                $(#[$($help)*])*
                #[arg(long, value_name = $value, help_heading = GUEST)]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
            $($after)*
        }
    };
    ([ $( $(#[$($help:tt)*])* $field:ident $value:tt: $type:ident = $row:expr; )* ]
     fields $(#[$($meta:tt)*])* pub struct $name:ident { $($before:tt)* } then { $($after:tt)* }) => {
        $(#[$($meta)*])*
        pub struct $name {
            $($before)*
            $(
                $(#[$($help)*])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
            $($after)*
        }
    };
}

guest_settings! { with_guest_settings flags
/// Everything that can be said of an experiment; absent fields take their defaults in the plan.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Experiment {
    /// Name under which recordings of this experiment are stored
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// The question this experiment answers, printed above the table
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,

    /// What to call this recording in lists and histories, for example a version or a ticket
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,

    /// Runs of each variant [default: on this host at least twice the fewest that can decide every
    /// metric, and more until each variant had 3 s; on the emulated machine the fewest, with
    /// --until-settled]
    ///
    /// The default looks at the clock and never at the difference, so it costs no error rate.
    ///
    /// On the emulated machine, one pair shows the exact difference in one layout of memory, five
    /// pairs also how far layouts alone shift the counts, and the fewest that can decide every metric
    /// give each its interval.
    ///
    /// Up to 31 pairs, the order of the variants is drawn for each pair, and pairs are compared. From
    /// 32 on, two pairs make a block in randomised mirrored order (ABBA or BAAB), so that drift and
    /// slot effects cancel, and blocks are compared. Fewer pairs than the plan computes leave some
    /// verdicts inconclusive, and the table says so.
    #[arg(long, short = 'n', visible_alias = "runs", value_name = "N", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none", alias = "runs")]
    pub pairs: Option<u32>,

    /// Stop as soon as the interval of the primary metric's change is this narrow from end to end,
    /// for example 0.5%; --pairs then is the most [default: make all pairs]
    ///
    /// Looked at from the fewest pairs on that can decide every metric, after whole blocks.
    #[arg(long, value_name = "WIDTH", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_width: Option<Width>,

    /// Stop as soon as exact counts settle the answer: after two pairs if both sides counted the same
    /// to the instruction, or at one look after five pairs (more for several comparisons) if the primary
    /// metric's counts lie farther apart than layouts shift them. For the emulated machine [default: on
    /// there without --pairs]
    ///
    /// The look costs part of the primary metric's error rate, so the rate of the report stays the same.
    #[arg(long, help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "is_false")]
    pub until_settled: bool,

    /// Stop after the block in which this much time is spent, for example 60s; --pairs is then the
    /// upper limit [default: no limit]
    #[arg(long, value_name = "TIME", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<TimeLimit>,

    /// Make at least this many runs of each variant, whatever --budget, --until-width or the default
    /// length say
    #[arg(long, short = 'm', value_name = "N", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_runs: Option<u32>,

    /// The shard to make of it; no part of the experiment, so no key of its file.
    #[arg(skip)]
    #[serde(skip)]
    pub shard: Option<Shard>,

    /// In each block, make K runs of each variant behind one another, and leave out the first of them: a
    /// run then never finds what another variant left behind. K is 2 or more, and --pairs counts the
    /// compared runs. For this host [default: variants take turns run by run]
    #[arg(long, value_name = "K", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,

    /// Warm-up runs of each variant, recorded but not compared [default: 1]
    #[arg(long, value_name = "N", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,

    /// Seed of the order of runs, of layouts and of the workload's operations; `random` draws one
    /// [default: 1 on the emulated machine, drawn on this host]
    #[arg(long, value_name = "N|random", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,

    /// Which variants to compare: each with the baseline, or every two
    #[arg(long, value_name = "WHICH", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs_of_variants: Option<PairsOfVariants>,

    /// Stop a run that takes longer, for example 30s or 1500ms [default: no limit]
    #[arg(long, value_name = "TIME", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeLimit>,

    /// Make the runs of a block in one process, whose code path opcost exchanges between the runs:
    /// same heap, same layout, same memory pages. On the emulated machine, make them in one boot.
    /// For workloads whose variants differ in path=… only
    #[arg(long, help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "is_false")]
    pub in_process: bool,

    /// Blocks that opcost makes in one process; the process is then the unit of the test [default:
    /// 1]
    #[arg(long, value_name = "N", help_heading = SCHEDULE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks_per_process: Option<u32>,

    /// Where the work runs [default: host]
    #[arg(long, value_name = "MACHINE", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineKind>,

    /// Pin every run to this CPU [default: not pinned]
    #[arg(long, value_name = "CPU", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,

    /// Scheduling priority of the runs: with real-time, no ordinary program takes the CPU from them
    /// (SCHED_FIFO). Pins them to --cpu, else to the last CPU; needs root, CAP_SYS_NICE or ulimit -r,
    /// and a second CPU. The kernel ends a run that computes for a minute, or for --timeout, without
    /// a pause [default: normal]
    #[arg(long, value_name = "PRIORITY", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,

    /// Address space layout: the same for every run, or a new layout for each run [default: fixed
    /// for workloads, randomised for commands]
    #[arg(long, value_name = "HOW", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aslr: Option<Aslr>,

    /// Environment of the runs: this shell's, a small fixed one, or this shell's with padding
    /// drawn anew for each block [default: fixed for workloads, inherit for commands]
    #[arg(long, value_name = "HOW", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentPolicy>,

    /// Environment variable for the runs of every variant, KEY=VALUE; may be repeated
    #[arg(long = "env", value_name = "KEY=VALUE", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,

    /// Working directory of the runs [default: this one]
    #[arg(long, value_name = "DIR", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,

    /// Run commands through this shell instead of directly (plain --shell means /bin/sh, none no shell)
    #[arg(long, value_name = "SHELL", num_args = 0..=1, require_equals = true,
          default_missing_value = "/bin/sh", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,

    /// File that is the standard input of every run of a command, from its beginning; a relative path
    /// begins at the working directory of the runs. If it is repeated, each file makes a variant
    /// [default: null]
    #[arg(long, value_name = "FILE|null", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub input: Vec<String>,

    /// Where the standard output of a command goes: null, inherit (as --show-output), pipe (which opcost
    /// reads and forgets; not in a guest), or a file that each run makes anew. If it is repeated, each
    /// makes a variant [default: null, in a guest a file in memory]
    #[arg(long, value_name = "null|pipe|inherit|FILE", help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub output: Vec<String>,

    /// Show what the commands print instead of discarding it
    #[arg(long, help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "is_false")]
    pub show_output: bool,

    /// Treat a run that ends with a status other than 0 as finished, and compare it; with STATUSES only
    /// these, for example 1,2
    #[arg(long, short = 'i', value_name = "STATUSES", num_args = 0..=1, require_equals = true,
          default_missing_value = IgnoredStatuses::ALL, default_value_t, hide_default_value = true,
          help_heading = CONDITIONS)]
    #[serde(skip_serializing_if = "IgnoredStatuses::is_none")]
    pub ignore_failure: IgnoredStatuses,

    /// Events to count, in perf's syntax: cycles:u, {a,b}:k, r01c2, cpu/event=0x3c/; may be
    /// repeated [default: see opcost list events]
    #[arg(long = "event", short = 'e', visible_alias = "events", value_name = "EVENTS", help_heading = METRICS)]
    #[serde(rename = "events", skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,

    /// Count each region by itself that the program marks with opcost.h or the crate opcost-region; a
    /// run that marks none has failed. For commands
    #[arg(long, help_heading = METRICS)]
    #[serde(skip_serializing_if = "is_false")]
    pub regions: bool,

    /// Read the number of operations from what each command prints, and show every metric per
    /// operation: a regular expression that matches once a run, on standard output or standard error,
    /// with one group around the whole number, for example 'events: +([0-9]+)'
    ///
    /// For programs that run for a time: their total says nothing of what an operation costs.
    #[arg(long, value_name = "REGEX", help_heading = METRICS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<OpsPattern>,

    /// The metric that decides; declared before the first run [default: OPCOST_PRIMARY, else wall,
    /// or task-clock while other programs compete for the CPUs; on the emulated machine instructions,
    /// or instructions-synchronous:k where kernels, their options or boot options differ, or CPU
    /// models of workloads]
    ///
    /// Other programs compete if tasks waited for a CPU in over 10 % of the last 10 s. Warm-up runs show
    /// it, too, if they use one CPU each: other tasks have over 50 turns a second, or wall spreads more
    /// than twice as far as task-clock (--warmup 4 or more).
    #[arg(long, value_name = "METRIC", help_heading = METRICS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,

    /// Waive a rule of the comparability ledger; opcost prints the waiver; may be repeated
    #[arg(long, value_name = "RULE", help_heading = METRICS)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,

    /// Compare the functions of the baseline's file OLD with those of the variant's file NEW, each
    /// given by path or name; may be repeated [default: opcost matches files by path, name or role]
    #[arg(long = "match", value_name = "OLD=NEW", help_heading = PROFILE)]
    #[serde(rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<SameFile>,

    /// Sample each run on the host. The report then says which functions a change of task-clock
    /// comes from. Runs on the emulated machine always have exact profiles
    #[arg(long, help_heading = PROFILE)]
    #[serde(skip_serializing_if = "is_false")]
    pub profile: bool,

    /// Samples a second on each busy CPU [default: 997]
    #[arg(long, short = 'F', value_name = "HZ", help_heading = PROFILE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<u64>,

    /// How the callers of a sampled function are found [default: fp]
    #[arg(long, value_name = "HOW", help_heading = PROFILE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_graph: Option<CallGraph>,

    /// Bytes of the stack that the kernel copies with each sample for --call-graph dwarf, 8 to
    /// 65528. More bytes find more callers, and cost more [default: 8192]
    #[arg(long, value_name = "BYTES", help_heading = PROFILE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_bytes: Option<u32>,

    /// Command run once before the first run; repeated, one for each variant
    #[arg(long, value_name = "CMD", help_heading = HOOKS)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub setup: Vec<String>,

    /// Command run before each run, outside the measurement; repeated, one for each variant. It finds
    /// the run's number among the variant's runs, from 0, or warmup-0 and so on, in HYPERFINE_ITERATION
    #[arg(long, value_name = "CMD", help_heading = HOOKS)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub prepare: Vec<String>,

    /// Command that rebuilds a variant. opcost runs it for each variant before the blocks of each
    /// build; OPCOST_BUILD holds the build's number. The build is then the unit of the test
    #[arg(long, value_name = "CMD", help_heading = HOOKS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<String>,

    /// Blocks that opcost runs with each build [default: 1]
    #[arg(long, value_name = "N", help_heading = HOOKS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks_per_build: Option<u32>,

    /// Command run after each run, outside the measurement; repeated, one for each variant
    #[arg(long, value_name = "CMD", help_heading = HOOKS)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub conclude: Vec<String>,

    /// Command run once after the last run, also after Ctrl-C; repeated, one for each variant
    #[arg(long, value_name = "CMD", help_heading = HOOKS)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub cleanup: Vec<String>,

    /// Kernel to boot: a bzImage, a build folder, debian:cloud, debian:rt, debian:amd64, the name of a
    /// kernel that opcost kernel build made, or with --kernel-tree a revision of that tree; none counts
    /// a command alone, under user-mode emulation. If it is repeated, each kernel makes a variant
    /// [default: command, a small one for commands]
    #[arg(long, value_name = "KERNEL", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub kernel: Vec<String>,

    /// Git tree of Linux whose revisions --kernel names, for example --kernel-tree ~/linux --kernel
    /// v6.12 --kernel HEAD. opcost builds each commit in a worktree of its own, once
    #[arg(long, value_name = "DIR", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_tree: Option<PathBuf>,

    /// Configuration of the revisions of --kernel-tree: a whole .config, or fragments over tinyconfig,
    /// in order [default: a small one that builds in minutes, kernels/base.config and native.config]
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many_paths")]
    pub kernel_config: Vec<PathBuf>,

    /// Options for the kernel's command line, for example mitigations=off. If it is repeated, each
    /// makes a variant
    #[arg(long, value_name = "OPTIONS", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub boot: Vec<String>,

    /// CPU of the emulated machine in QEMU's words, for example Skylake-Client-v1 or max,-avx512f.
    /// If it is repeated, each CPU makes a variant [default:
    /// EPYC-Rome-v2]
    #[arg(long, value_name = "MODEL", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub cpu_model: Vec<String>,

    /// CPU of the emulated machine by a known CPU: nehalem, westmere, sandybridge, ivybridge, haswell,
    /// broadwell, skylake, skylake-server, cascadelake, icelake, alderlake, sapphirerapids, zen, zen2,
    /// zen3, zen4, zen5, or host for this computer's. opcost takes QEMU's nearest model; the report has the features
    /// that QEMU leaves out of it. If it is repeated, each CPU makes a variant
    #[arg(long, value_name = "CPU", conflicts_with = "cpu_model", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub like: Vec<String>,
} then {
    /// Disk of the emulated machine, in its memory, mounted on /disk: FILESYSTEM[,OPTION…]:SIZE
    /// with mount options, for example ext4:64M or ext4,data=journal:64M. The file systems are
    /// ext4, ext3 and ext2. If it is repeated, each disk makes a variant [default: none]
    #[arg(long, value_name = "DISK", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub disk: Vec<String>,

    /// Root file system of the guest, in which command and service are: a folder, a tar (also .gz or .zst), an
    /// OCI image layout, or a file that docker save wrote. If it is repeated, each root makes a variant
    /// [default: the command with its libraries and files]
    #[arg(long, value_name = "ROOT", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub root: Vec<String>,

    /// Program of the root to start before the command and to end after it, outside the measurement; it
    /// runs, and is counted, while the command runs. Repeated, one for each variant
    #[arg(long, value_name = "CMD", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub service: Vec<String>,

    /// When the service is ready, so that the command may begin: port:NUMBER (a listener), file:/PATH
    /// (in the guest) or run:COMMAND (succeeds). Repeated, one for each variant
    #[arg(long, value_name = "SIGN", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub ready: Vec<String>,

    /// File or folder to pack for the guest, PATH or PATH:PATH_IN_GUEST; may be repeated. opcost
    /// always packs the command's program, its libraries and the files that its arguments name
    #[arg(long, value_name = "PATH", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pack: Vec<String>,

    /// Folder that guests have at /tree: what is packed of it is found there, so that counts do not
    /// depend on where the folder is here [default: every file has its path of this machine]
    #[arg(long, value_name = "DIR", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<PathBuf>,

    /// Run each command once on this machine first, and pack every file that the command opens,
    /// executes or looks up by path. Use this for interpreters and for programs that open libraries
    /// by name
    #[arg(long, help_heading = GUEST)]
    #[serde(skip_serializing_if = "is_false")]
    pub pack_used: bool,

    /// Do not run the commands on this machine first where no --kernel is given; their guests have
    /// the programs, their libraries, the files that arguments name, and --pack
    #[arg(long, help_heading = GUEST, conflicts_with = "pack_used")]
    #[serde(skip_serializing_if = "is_false")]
    pub pack_only: bool,

    /// Boot a guest for every run. By default, variants on one kernel with the same boot options and
    /// one CPU go on from the kept state of a guest that was booted once
    #[arg(long, help_heading = GUEST)]
    #[serde(skip_serializing_if = "is_false")]
    pub fresh_boots: bool,

    /// Model the caches and predictors of a core as well, without its cycles. This adds metrics, marked
    /// as modelled, and makes runs slower
    #[arg(long, help_heading = GUEST)]
    #[serde(skip_serializing_if = "is_false")]
    pub model: bool,

    /// Model the cycles of a core as well, with what they were spent on, by function. The estimate is
    /// the same on every computer; the report says how far off it may be (docs/cycles.md)
    #[arg(long, conflicts_with = "model", help_heading = GUEST)]
    #[serde(skip_serializing_if = "is_false")]
    pub cycles: bool,

    /// Behind the first ten million instructions, model the cycles of one slice of 3,000 in so many;
    /// caches and predictors still see everything. This is faster, and the report says how far off the
    /// slices may be from all (docs/cycles.md)
    #[arg(long, value_name = "N", requires = "cycles", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles_one_in: Option<u16>,

    /// The core that is modelled: a file, or the name of one that ships (opcost list cores)
    #[arg(long, value_name = "CORE", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<String>,

    /// A cache of the modelled core in place of its own: l1i=32K:8, l1d=…, l2=… or llc=… (size, ways);
    /// may be repeated
    #[arg(long, value_name = "CACHE", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache: Vec<String>,

    /// Count totals only, without functions: every figure has the same digits, and runs take little
    /// more time than the emulator alone (docs/emulation.md)
    #[arg(long, conflicts_with_all = ["model", "cycles"], help_heading = GUEST)]
    #[serde(skip_serializing_if = "is_false")]
    pub no_functions: bool,

    /// Count each instruction by its address, too, for costs by line, and where branches and indirect calls go
    #[arg(long, conflicts_with_all = ["no_functions", "model", "cycles"], help_heading = GUEST)]
    #[serde(skip_serializing_if = "is_false")]
    pub addresses: bool,

    /// Record one operation step by step: its calls in their order with their exact instructions. A comparison
    /// shows both sides, and the branch at which they part. OP is the operation's number [default: the
    /// median one by instructions; of a command, the whole run], FUNCTION, whose calls are then the
    /// operations, or FUNCTION:NUMBER
    #[arg(
        long, value_name = "OP", num_args = 0..=1, require_equals = true, default_missing_value = "median",
        conflicts_with_all = ["no_functions", "addresses", "model", "cycles"], help_heading = GUEST
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<SteppedOperation>,

    /// Count an exact event of 'opcost list events' too, such as allocations, or a group: heap, memory, …,
    /// kernel, all; may be repeated. footprint counts different cache lines and pages. calls:FUNCTION counts calls;
    /// FUNCTION is a name as profiles show it, or FILE:NAME. A * stands for any text and makes a row for each
    /// function. With :k behind the name only the kernel's functions count, with :u only those of programs
    #[arg(long, value_name = "EVENT", conflicts_with = "no_functions", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub count: Vec<Counted>,

    /// Emulated machines that run at the same time [default: one for each CPU, at most 4; 1 with
    /// --prepare or --conclude]
    #[arg(long, short = 'j', value_name = "N", help_heading = GUEST)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,

    /// Parameters whose values each make a variant of what names them as {NAME}.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scan: Vec<Scan>,

    /// Kernels to build, by the name that variants give them.
    #[arg(skip)]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, KernelRecipe>,

    /// The variants; the first is the baseline.
    #[arg(skip)]
    #[serde(rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
}
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Reads a list, or a single text as a list of one.
fn one_or_many<'de, D: serde::Deserializer<'de>, T: TryFrom<String, Error: fmt::Display>>(
    texts: D,
) -> Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a string or a list of strings")]
    enum Texts {
        One(String),
        Many(Vec<String>),
    }
    let texts = match Texts::deserialize(texts)? {
        Texts::One(text) => vec![text],
        Texts::Many(texts) => texts,
    };
    texts.into_iter().map(|text| T::try_from(text).map_err(de::Error::custom)).collect()
}

/// How to build a kernel; paths in a file are relative to that file's folder.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct KernelRecipe {
    /// A kernel source tree or tarball [default: Debian's linux-source package].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<PathBuf>,
    /// Configuration fragments, over tinyconfig, in order.
    #[serde(deserialize_with = "one_or_many_paths")]
    pub config: Vec<PathBuf>,
    /// Patches, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many_paths")]
    pub patch: Vec<PathBuf>,
    /// Whether clang, lld and LLVM's other tools build it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub llvm: bool,
    /// Another compiler than gcc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cc: Option<String>,
}

fn one_or_many_paths<'de, D: serde::Deserializer<'de>>(texts: D) -> Result<Vec<PathBuf>, D::Error> {
    one_or_many(texts)
}

/// A parameter and its values: listed, or every `step` from `min` to `max`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Scan {
    /// The parameter's name: `{NAME}` stands for its value.
    pub name: String,
    /// The listed values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Scalar>,
    /// The first value, in place of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Scalar>,
    /// The upper bound of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Scalar>,
    /// The distance from one value to the next [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Scalar>,
}

guest_settings! { with_guest_settings fields
/// One of the things compared: a command or a built-in workload with parameters.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Variant {
    /// Column heading; by default made from the command or the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A command line, split like a shell does, or a list of arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// A built-in workload, `NAME` or `NAME:KEY=VALUE,...`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Parameters of the workload that `workload` does not have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Scalar>,
    /// Environment variables of this variant only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory of this variant only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Folder that this variant's guests have at /tree, in place of the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<PathBuf>,
    /// Standard input of this variant only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Where the standard output of this variant goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Where this variant prints the number of its operations, in place of the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<OpsPattern>,
    /// Command run before each run of this variant, in place of the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// Command run after each run of this variant, in place of the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conclude: Option<String>,
    /// Command run once before the first run, in this variant's environment, behind the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Command run once after the last run, in this variant's environment, before the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<String>,
    /// Kernel this variant boots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Options for the command line of this variant's kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// CPU of this variant's emulated machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// CPU of this variant's emulated machine by a known CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
} then {
    /// Disk of this variant's emulated machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Root file system of this variant's guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Service beside this variant's command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// When this variant's service is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// The value of each scanned parameter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scanned: BTreeMap<String, String>,
}
}

/// A command as written: one line, or arguments already split.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged, expecting = "a command line or a list of arguments")]
pub enum Command {
    /// One line, split like a shell does.
    Line(String),
    /// Already split.
    Argv(Vec<String>),
    /// Already split, with a word that is no UTF-8.
    Words(#[serde(with = "opcost_base::os_text::words")] Vec<OsString>),
}

impl Command {
    /// Makes a command of its words.
    pub fn of_words(words: &[OsString]) -> Command {
        let texts = words.iter().map(|word| word.to_str().map(str::to_string)).collect();
        match texts {
            Some(texts) => Command::Argv(texts),
            None => Command::Words(words.to_vec()),
        }
    }
}

/// Where random numbers of an experiment begin.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged, expecting = "a whole number from 0 on, or \"random\"")]
pub enum Seed {
    /// A fixed seed: repetitions draw the same numbers.
    Number(u64),
    /// A seed that opcost draws.
    Drawn(SeedWord),
}

/// The word for a seed that opcost draws.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SeedWord {
    /// `random`
    Random,
}

impl Seed {
    /// A seed that opcost draws.
    pub const RANDOM: Seed = Seed::Drawn(SeedWord::Random);
    // The largest integer that TOML has.
    const NUMBER_MAX: u64 = i64::MAX as u64;

    /// The number; `None` if opcost draws it.
    pub fn number(self) -> Option<u64> {
        match self {
            Seed::Number(number) => Some(number),
            Seed::Drawn(SeedWord::Random) => None,
        }
    }

    /// The seed for a number; `None` if TOML cannot hold the number.
    pub fn of_number(number: u64) -> Option<Seed> {
        (number <= Seed::NUMBER_MAX).then_some(Seed::Number(number))
    }
}

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Seed, String> {
        match (text, text.parse().ok().and_then(Seed::of_number)) {
            ("random", _) => Ok(Seed::RANDOM),
            (_, Some(seed)) => Ok(seed),
            (_, None) => {
                Err(format!("a seed is a number from 0 to {}, or random", Seed::NUMBER_MAX))
            }
        }
    }
}

/// A parameter's value as TOML may write it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged, expecting = "a string, a number, true or false")]
pub enum Scalar {
    /// `true` and `false` mean `on` and `off`.
    Switch(bool),
    /// A whole number.
    Integer(i64),
    /// A fraction.
    Float(f64),
    /// Anything else.
    Text(String),
}

impl Scalar {
    /// The value as the workload's table of parameters reads it.
    pub fn text(&self) -> String {
        match self {
            Scalar::Switch(true) => "on".into(),
            Scalar::Switch(false) => "off".into(),
            Scalar::Integer(number) => number.to_string(),
            Scalar::Float(number) => number.to_string(),
            Scalar::Text(text) => text.clone(),
        }
    }
}

impl Experiment {
    /// The shell that runs commands.
    pub fn shell(&self) -> Option<&str> {
        self.shell.as_deref().filter(|shell| *shell != NO_SHELL)
    }

    /// Reads an experiment file, with overrides.
    ///
    /// `sets` are `KEY=VALUE` texts (`pairs=10`, `variant.off.params.ops=1000`: a variant is given
    /// by its name or its number from 0). `flags` are fields given on the command line; they
    /// override the file and `sets`.
    ///
    /// # Errors
    /// Names the file with line, column and what was expected there, or the override that fails.
    pub fn read(path: &Path, sets: &[String], flags: &Experiment) -> Result<Experiment> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read experiment file '{}'", path.display()))?;
        // Parse the text itself first, so that errors carry line and column.
        let mut experiment: Experiment = toml::from_str(&text).map_err(|error| {
            anyhow::anyhow!(
                "experiment file '{}': {}",
                path.display(),
                without_list(error.to_string().trim_end())
            )
        })?;
        if experiment.name.is_none() {
            experiment.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        }
        experiment.put_paths_below(path.parent().unwrap_or(Path::new("")));
        experiment.overridden(sets, flags)
    }

    /// This experiment with overrides; arguments and errors as in [`read`](Self::read).
    pub fn overridden(self, sets: &[String], flags: &Experiment) -> Result<Experiment> {
        let mut table = toml::Table::try_from(&self).context("experiment to table")?;
        for set in sets {
            apply_set(&mut table, set).with_context(|| format!("--set {set}"))?;
            let _: Experiment = table.clone().try_into().map_err(|error: toml::de::Error| {
                anyhow::anyhow!("--set {set}: {}", without_list(error.message()))
            })?;
        }
        table.extend(toml::Table::try_from(flags).context("flags to table")?);
        table.try_into().context("flags over the experiment file")
    }

    /// Moves paths that are relative to the experiment file's folder below another folder.
    fn put_paths_below(&mut self, folder: &Path) {
        let of_tree = self.kernel_tree.iter_mut().chain(&mut self.kernel_config);
        of_tree.for_each(|path| *path = folder.join(&*path));
        for recipe in self.kernels.values_mut() {
            let paths = recipe.source.iter_mut().chain(&mut recipe.config).chain(&mut recipe.patch);
            paths.for_each(|path| *path = folder.join(&*path));
        }
    }

    /// The experiment as the text of a file that may be in any folder.
    ///
    /// `here`: the absolute folder that relative paths start from.
    ///
    /// # Errors
    /// The same as those of [`to_toml`](Self::to_toml).
    pub fn to_toml_anywhere(&self, here: &Path) -> Result<String> {
        let mut absolute = self.clone();
        absolute.put_paths_below(here);
        absolute.to_toml()
    }

    /// The experiment as the text of a file that [`read`](Self::read) takes.
    pub fn to_toml(&self) -> Result<String> {
        let text = toml::to_string_pretty(self).context("cannot write the experiment as TOML")?;
        Ok(printable_toml(&text))
    }
}

/// A reader's words about an unknown field, with the names that are near in place of all names.
fn without_list(said: &str) -> String {
    let Some((said, all)) = said.split_once(", expected one of ") else { return said.into() };
    let near = did_you_mean(
        said.rsplit('`').nth(1).unwrap_or_default(),
        all.split('`').skip(1).step_by(2),
    );
    if near.is_empty() { format!("{said}, expected one of {all}") } else { format!("{said}{near}") }
}

/// Sets one field of a table by its dotted path.
fn apply_set(table: &mut toml::Table, set: &str) -> Result<()> {
    let Some((path, value)) = set.split_once('=') else {
        bail!("expected KEY=VALUE, for example pairs=10");
    };
    // A value that is no TOML by itself is a string: --set primary=wall.
    let value = toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_string()));
    let (parents, last) = match path.rsplit_once('.') {
        Some((parents, last)) => (parents.split('.').collect(), last),
        None => (Vec::new(), path),
    };
    let mut parents = parents.into_iter();
    let mut here = table;
    while let Some(key) = parents.next() {
        here = match here.entry(key).or_insert_with(|| toml::Table::new().into()) {
            toml::Value::Table(inner) => inner,
            toml::Value::Array(items) => {
                let which = parents.next().unwrap_or_default();
                let names: Vec<String> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        item.get("name")
                            .and_then(|name| name.as_str())
                            .map_or(index.to_string(), str::to_string)
                    })
                    .collect();
                let index =
                    names.iter().position(|name| name == which).or_else(|| which.parse().ok());
                match index.and_then(|index| items.get_mut(index)) {
                    Some(toml::Value::Table(inner)) => inner,
                    _ => bail!("no {key} '{which}'; there are: {}", names.join(", ")),
                }
            }
            _ => bail!("'{key}' has no fields"),
        };
    }
    here.insert(last.to_string(), value);
    Ok(())
}

#[cfg(test)]
#[path = "experiment_tests.rs"]
mod tests;
