//! Faults in files whose sizes are compared.
//!
//! If a message includes its cause, the cause is not a `source`, which would repeat it.

/// Why a file's sizes, or a function of it, cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum SizeError {
    /// The file's contents are of another kind, or broken.
    #[error("{file}: {error}")]
    Contents {
        /// The file as the user named it.
        file: String,
        /// The fault.
        error: ContentsError,
    },
    /// The files are for different machines.
    #[error(
        "{} is for {}, {} is for {}: sizes of different machines' code cannot be compared; give two files for one machine",
        .files[0], .machines[0], .files[1], .machines[1]
    )]
    Machines {
        /// The two files.
        files: [String; 2],
        /// The machine of each file.
        machines: [String; 2],
    },
    /// The file has no such function, or several.
    #[error("--function {name}: {found}")]
    Function {
        /// The name as given.
        name: String,
        /// The functions found instead, and the name to give.
        found: String,
    },
}

/// Why the sizes of a file's contents cannot be measured.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ContentsError {
    /// The file is empty.
    #[error("it is empty; build or copy it again")]
    Empty,
    /// The file is a kernel's image.
    #[error(
        "it is a kernel's image, which has no sections and no symbols; give the vmlinux of its build"
    )]
    KernelImage,
    /// The file is neither ELF nor an archive.
    #[error(
        "it is neither an ELF file nor an archive (ar) of them; give a program, library, object file, static archive or vmlinux"
    )]
    Foreign,
    /// The file is a core dump, or another ELF file that cannot be linked or run.
    #[error(
        "it is an ELF file of type {kind}, such as a core dump; give a program, library or object file"
    )]
    Kind {
        /// The file's `e_type`.
        kind: u16,
    },
    /// The file ends before the parts that its headers name.
    #[error(
        "it was cut short: its headers need {needs_bytes} bytes, it has {has_bytes}; copy it again"
    )]
    Truncated {
        /// The size that the headers need.
        needs_bytes: u64,
        /// The file's size.
        has_bytes: u64,
    },
    /// The headers contradict themselves.
    #[error("its headers are broken ({what}); build or copy it again")]
    Malformed {
        /// The fault.
        what: String,
    },
    /// The file has no section headers, so its parts are unknown.
    #[error(
        "its section headers were removed, so the sizes of its parts are unknown; give the file as the linker wrote it"
    )]
    NoSections,
    /// The archive has no ELF member.
    #[error("none of its {members} members is an ELF file; give an archive of object files")]
    NoMembers {
        /// The number of members.
        members: usize,
    },
    /// The archive only names its members.
    #[error(
        "it is a thin archive, which only names its members; give the object files, or an archive made without T (ar rcs)"
    )]
    Thin,
    /// The archive's objects are for several machines.
    #[error("its members are for different machines ({one} and {other}); give an archive for one")]
    MixedMachines {
        /// The machine of the first member.
        one: String,
        /// The other machine.
        other: String,
    },
    /// A member of the archive cannot be read.
    #[error("its member {member}: {error}")]
    Member {
        /// The member's name.
        member: String,
        /// The member's fault.
        error: Box<ContentsError>,
    },
}

impl From<object::read::Error> for ContentsError {
    fn from(error: object::read::Error) -> Self {
        ContentsError::Malformed { what: error.to_string() }
    }
}
