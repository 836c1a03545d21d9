//! The files from which a running program maps code: its libraries, and files that it opens by name (`dlopen`).
//!
//! In user mode the program's file descriptors are QEMU's own, so the kernel can name the file behind a descriptor.
//!
//! **The plugin recognises code pages by their contents.** opcost does not know a program's mappings before a run, and asking
//! the guest would shift its counts. A code page equals the file's page.
//!
//! **The plugin recognises pages without their sites.** If a program patches itself, some of its pages equal no file's page.
//! The program's own table of sites says which bytes to leave out.

use std::fs;

/// The bit of `mmap`'s third argument that asks for code (`bits/mman.h`).
const PROT_EXEC: u64 = 4;
/// More files than any program opens.
const FILES_MAX: usize = 4096;

/// The files, in the order of their first mapping.
#[derive(Debug, Default)]
pub(crate) struct Mapped(Vec<String>);

impl Mapped {
    /// Notes a file if an `mmap` with these third and fifth arguments maps its code.
    pub(crate) fn map(&mut self, protection: u64, descriptor: u64) {
        if protection & PROT_EXEC == 0 || self.0.len() >= FILES_MAX {
            return;
        }
        // Without a file the descriptor is -1, as 32 bits.
        let Ok(descriptor) = u32::try_from(descriptor & u64::from(u32::MAX)) else { return };
        let found = fs::read_link(format!("/proc/self/fd/{descriptor}"));
        // A path that is no text is named in no profile.
        let path = found.ok().and_then(|path| path.into_os_string().into_string().ok());
        if let Some(path) = path.filter(|path| path.starts_with('/'))
            && !self.0.contains(&path)
        {
            self.0.push(path);
        }
    }

    pub(crate) fn paths(&self) -> &[String] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn files_are_noted_once_and_only_those_with_code() {
        let this = std::env::current_exe().unwrap();
        let file = File::open(&this).unwrap();
        let descriptor = file.as_raw_fd() as u64;
        let mut mapped = Mapped::default();
        for (protection, descriptor) in
            [(1, descriptor), (7, u64::MAX), (7, u64::from(u32::MAX)), (7, 1 << 20)]
        {
            mapped.map(protection, descriptor);
        }
        assert!(mapped.paths().is_empty(), "{mapped:?}");
        mapped.map(5, descriptor);
        mapped.map(5, descriptor);
        assert_eq!(mapped.paths(), [this.canonicalize().unwrap().to_str().unwrap()]);
    }
}
