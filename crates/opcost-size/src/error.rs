//! What can be wrong with the files whose sizes are compared.
//!
//! A cause that a message says already is no `source`, which would say it again.

/// Why a file's sizes, or a function of it, cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum SizeError {
    /// Its contents are of another kind, or broken.
    #[error("{file}: {error}")]
    Contents {
        /// The file as the user named it.
        file: String,
        /// What is wrong.
        error: ContentsError,
    },
    /// They are for different machines.
    #[error(
        "{} is for {}, {} is for {}: sizes of different machines' code cannot be compared; give two files for one machine",
        .files[0], .machines[0], .files[1], .machines[1]
    )]
    Machines {
        /// The two files.
        files: [String; 2],
        /// Their machines.
        machines: [String; 2],
    },
    /// There is no such function, or more than one.
    #[error("--function {name}: {found}")]
    Function {
        /// The name as given.
        name: String,
        /// What was found instead, and what to give.
        found: String,
    },
}

/// Why bytes are no object to measure.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ContentsError {
    /// There are none.
    #[error("it is empty; build or copy it again")]
    Empty,
    /// Neither ELF nor an archive.
    #[error(
        "it is neither an ELF file nor an archive (ar) of them; give a program, library, object file, static archive or vmlinux"
    )]
    Foreign,
    /// A core dump, or another kind of ELF file without code to link or run.
    #[error(
        "it is an ELF file of type {kind}, such as a core dump; give a program, library or object file"
    )]
    Kind {
        /// Its `e_type`.
        kind: u16,
    },
    /// It ends before what its headers name.
    #[error(
        "it was cut short: its headers need {needs_bytes} bytes, it has {has_bytes}; copy it again"
    )]
    Truncated {
        /// Bytes that its headers name.
        needs_bytes: u64,
        /// Its size.
        has_bytes: u64,
    },
    /// Its headers contradict themselves.
    #[error("its headers are broken ({what}); build or copy it again")]
    Malformed {
        /// What is wrong.
        what: String,
    },
    /// No section headers, so that nothing is known of its parts.
    #[error(
        "its section headers were removed, so the sizes of its parts are unknown; give the file as the linker wrote it"
    )]
    NoSections,
    /// An archive without a single ELF member.
    #[error("none of its {members} members is an ELF file; give an archive of object files")]
    NoMembers {
        /// All members.
        members: usize,
    },
    /// An archive that names its members only.
    #[error(
        "it is a thin archive, which only names its members; give the object files, or an archive made without T (ar rcs)"
    )]
    Thin,
    /// An archive of several machines' objects.
    #[error("its members are for different machines ({one} and {other}); give an archive for one")]
    MixedMachines {
        /// The first member's.
        one: String,
        /// The one that differs.
        other: String,
    },
    /// A member cannot be read.
    #[error("its member {member}: {error}")]
    Member {
        /// The member's name.
        member: String,
        /// What is wrong with it.
        error: Box<ContentsError>,
    },
}

impl From<object::read::Error> for ContentsError {
    fn from(error: object::read::Error) -> Self {
        ContentsError::Malformed { what: error.to_string() }
    }
}
