//! Reads static archives: the objects in them, one after another.

use super::error::ContentsError;
use super::inventory::{Inventory, Places};
use super::object_file;
use object::read::archive::ArchiveFile;
use opcost_symbols::demangle::printable;
use opcost_symbols::elf::is_elf;

/// Whether a file that starts with `bytes` is an archive, thin archives included (ar(5)).
pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(&object::archive::MAGIC) || bytes.starts_with(&object::archive::THIN_MAGIC)
}

/// A member's name and contents.
pub(super) type Member<'d> = (&'d [u8], &'d [u8]);

/// Returns the members of an archive.
pub(super) fn members(bytes: &[u8]) -> Result<Vec<Member<'_>>, ContentsError> {
    let archive = ArchiveFile::parse(bytes)?;
    if archive.is_thin() {
        return Err(ContentsError::Thin);
    }
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member?;
        members.push((member.name(), member.data(bytes)?));
    }
    Ok(members)
}

/// Takes the inventory of an archive; a note lists the members that are not ELF files.
pub(super) fn read(bytes: &[u8]) -> Result<Inventory<'_>, ContentsError> {
    let members = members(bytes)?;
    let mut whole = Inventory::default();
    let mut places = Places::new();
    let mut foreign = Vec::new();
    let (mut objects, all) = (0, members.len());
    for (name, contents) in members {
        let shown = || printable(&String::from_utf8_lossy(name));
        if !is_elf(contents) {
            foreign.push(shown());
            continue;
        }
        let part = object_file::read(contents, Some(name), None)
            .map_err(|error| ContentsError::Member { member: shown(), error: Box::new(error) })?;
        if objects == 0 {
            whole.machine.clone_from(&part.machine);
        } else if whole.machine != part.machine {
            let (one, other) = (whole.machine, part.machine);
            return Err(ContentsError::MixedMachines { one, other });
        }
        objects += 1;
        whole.append(part, &mut places);
    }
    if objects == 0 {
        return Err(ContentsError::NoMembers { members: all });
    }
    whole.notes.insert(0, format!("archive of {objects} objects"));
    if !foreign.is_empty() {
        let shown = foreign.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if foreign.len() > 3 { ", …" } else { "" };
        whole.notes.push(format!(
            "members that are no ELF files are left out: {} ({shown}{more})",
            foreign.len()
        ));
    }
    Ok(whole)
}
