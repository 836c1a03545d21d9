//! The file systems that a guest's disk can have.

/// One row of [`FILE_SYSTEMS`].
#[derive(Debug)]
pub struct FileSystem {
    /// The name for mke2fs(8) and mount(2).
    pub name: &'static str,
    /// Options that the kernel needs for it, besides RAM disks.
    pub(super) needs: &'static [Need],
    /// Algorithms that its driver asks the kernel's crypto interface for, by the aliases of their modules. A computer that starts
    /// loads the implementation for its CPU by the CPU's own alias (udev(7)), so a guest needs it, too.
    pub(super) uses: &'static [&'static str],
    /// All features of the file system, so that counts are the same on every computer. The defaults
    /// differ between computers (mke2fs.conf(5)).
    pub(super) features: &'static str,
}

/// An option of the kernel's configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Need {
    /// The option's name without `CONFIG_`.
    pub(super) option: &'static str,
    /// The module that provides the option; `None` if the option is part of another module.
    pub(super) module: Option<&'static str>,
}

/// The option that every disk needs.
pub(super) const DEVICE: Need = Need { option: "BLK_DEV_RAM", module: Some("brd") };

const EXT4: Need = Need { option: "EXT4_FS", module: Some("ext4") };

/// Checksums of metadata and of the journal (fs/ext4/super.c).
const EXT4_USES: &[&str] = &["crypto-crc32c"];

/// Every file system. One driver has all three (Documentation/admin-guide/ext4.rst); they differ in
/// the journal and in how they find blocks of files.
pub const FILE_SYSTEMS: [FileSystem; 3] = [
    FileSystem {
        name: "ext4",
        needs: &[EXT4],
        uses: EXT4_USES,
        features: "has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,\
                   sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum",
    },
    FileSystem {
        name: "ext3",
        needs: &[EXT4],
        uses: EXT4_USES,
        features: "has_journal,ext_attr,resize_inode,dir_index,filetype,sparse_super,large_file",
    },
    FileSystem {
        name: "ext2",
        needs: &[EXT4, Need { option: "EXT4_USE_FOR_EXT2", module: None }],
        uses: EXT4_USES,
        features: "ext_attr,resize_inode,dir_index,filetype,sparse_super,large_file",
    },
];

impl FileSystem {
    /// Finds the row of a name.
    pub fn find(name: &str) -> Option<&'static FileSystem> {
        FILE_SYSTEMS.iter().find(|row| row.name == name)
    }

    /// All options that the kernel needs for a disk with this file system.
    pub(super) fn needs(&self) -> impl Iterator<Item = Need> {
        std::iter::once(DEVICE).chain(self.needs.iter().copied())
    }

    /// Whether the file system has a journal.
    pub(super) fn has_journal(&self) -> bool {
        self.features.split(',').any(|feature| feature == "has_journal")
    }
}
