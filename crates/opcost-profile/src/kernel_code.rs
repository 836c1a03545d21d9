//! Finds the code of the kernel and of its modules, if it is what was sampled.
//!
//! A vmlinux, and a module's file, must have the recorded build id; the user's own word does for a vmlinux where none is recorded.
//! The kernel moves as a whole at each boot, by the distance of one symbol from its place in vmlinux. Without that symbol, and in a
//! module, whose sections have places of their own, a function's place is its symbol's.

use crate::annotate::{AnnotateError, Costs, Own, Program};
use crate::read::{ReadProfile, unpacked};
use crate::space::{CodeFile, KernelReference, module_name};
use crate::symbolise::{KernelSource, Sources, function_starts, module_build_id, running_release};
use opcost_record::Function;
use opcost_record::printable::hexadecimal;
use opcost_record::profile::KERNEL;
use opcost_symbols::debug_files::by_build_id;
use opcost_symbols::elf;
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;
use opcost_sys::foreign_file;
use std::fs;
use std::path::{Path, PathBuf};

/// The most folders and files of modules that are looked at; Debian's kernels have 4,000 modules in 500 folders.
const ENTRIES_MAX: usize = 100_000;

/// Reads the kernel or the module that a function is in.
pub(super) fn program(
    profile: &ReadProfile,
    file: &CodeFile,
    function: &Function,
    sources: &Sources,
) -> Result<Program, AnnotateError> {
    let recorded = profile.about.kernel_release.clone();
    let release = recorded.or_else(running_release).unwrap_or_default();
    let release = release.trim();
    if function.module == KERNEL {
        return vmlinux(release, file, sources);
    }
    let module = || function.module.clone();
    let code = profile.code().1;
    let known = code.kernel_modules.iter().find(|one| one.name == function.module);
    let id = known.and_then(|known| known.build_id.clone());
    let id = id.or_else(|| module_build_id(file, &function.module));
    let none = |why| AnnotateError::NoModule { module: module(), kernel: release.into(), why };
    let Some(id) = id else {
        return Err(none("its build id was not recorded (perf record --buildid-all)"));
    };
    for folder in [sources.debug_files.folder(), Path::new("/")] {
        let folder = folder.join("lib/modules").join(release);
        for path in files_of_module(&folder, &function.module) {
            if let Some(program) = linked(&path, &id, sources) {
                return Ok(program);
            }
        }
    }
    Err(none("no file with its build id is there"))
}

/// Finds the vmlinux with the recorded build id.
fn vmlinux(release: &str, file: &CodeFile, sources: &Sources) -> Result<Program, AnnotateError> {
    let mut places: Vec<PathBuf> = Vec::new();
    if let KernelSource::File(path) = &sources.kernel {
        places.push(path.clone());
    }
    let debug = sources.debug_files.folder();
    let id = file.build_id.as_deref();
    if let Some(id) = id {
        let cache = sources.build_id_cache.as_deref().and_then(|cache| by_build_id(cache, id));
        places.extend(cache.map(|folder| folder.join("elf")));
        places.extend(by_build_id(debug, id).map(|path| path.with_extension("debug")));
        let named = [
            debug.join("boot").join(format!("vmlinux-{release}")),
            debug.join("lib/modules").join(release).join("vmlinux"),
            Path::new("/lib/modules").join(release).join("build/vmlinux"),
            Path::new("/boot").join(format!("vmlinux-{release}")),
        ];
        places.extend(named.into_iter().filter(|_| !release.is_empty()));
    }
    for path in places.iter().filter(|path| path.is_file()) {
        let Ok(bytes) = foreign_file::read(path, elf::WHOLE_BYTES_MAX) else { continue };
        if elf::is_elf(&bytes) && id.is_none_or(|id| elf::build_id(&bytes) == Ok(Some(id))) {
            return Program::of_bytes(path, bytes, path, sources);
        }
    }
    let id = id.map_or(String::new(), |id| format!(" (build id {})", hexadecimal(id)));
    Err(AnnotateError::NoKernelCode { kernel: release.into(), id })
}

/// The files below a folder that may have a module's code.
fn files_of_module(folder: &Path, module: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            let (path, kind) = (entry.path(), entry.file_type());
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.strip_suffix(".debug").unwrap_or(&name);
            match kind {
                _ if seen > ENTRIES_MAX => return found,
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() && module_name(name).as_deref() == Some(module) => {
                    found.push(path);
                }
                _ => {}
            }
        }
    }
    found
}

/// Reads a module's file, if it has a build id.
fn linked(path: &Path, id: &[u8], sources: &Sources) -> Option<Program> {
    let bytes = foreign_file::read(path, elf::WHOLE_BYTES_MAX).ok()?;
    let budget = Budget::new(sources.limit_bytes, bytes.len() as u64);
    let bytes = unpacked(bytes, &budget).ok()?;
    let bytes = elf::linked(bytes).ok()?;
    if elf::build_id(&bytes) != Ok(Some(id)) {
        return None;
    }
    let (read, kept) = foreign_file::in_memory(&bytes).ok()?;
    let program = Program::of_bytes(&read, bytes, path, sources).ok()?;
    let modified = fs::metadata(path).and_then(|found| found.modified()).ok();
    Some(Program { modified, kept: Some(kept), ..program })
}

/// Returns the costs at the addresses as linked.
pub(super) fn as_linked(
    profile: &ReadProfile,
    file: &CodeFile,
    function: &Function,
    program: &Program,
    costs: Costs,
    sources: &Sources,
) -> Costs {
    let code = profile.code().1;
    let symbols = program.debug.as_deref().unwrap_or(&program.bytes);
    let moved = |known: &KernelReference| {
        Some(known.address.wrapping_sub(elf::address_of(symbols, &known.symbol)?))
    };
    if function.module == KERNEL
        && let Some(shift) = code.kernel_reference.as_ref().and_then(moved)
    {
        let linked = |(at, own): (u64, Own)| {
            let at = at.wrapping_sub(shift);
            program.code.offset(at).map(|_| (at, own))
        };
        return costs.into_iter().filter_map(linked).collect();
    }
    let mut costs = costs;
    costs.sort_by_key(|(at, _)| *at);
    let addresses: Vec<u64> = costs.iter().map(|(at, _)| *at).collect();
    let starts = function_starts(file, code.kernel_reference.as_ref(), &addresses, sources);
    let mut places: KeyedMap<String, Option<u64>> = KeyedMap::default();
    let linked = |((at, own), start): ((u64, Own), Option<(String, u64)>)| {
        let (symbol, start) = start?;
        let place =
            places.entry(symbol).or_insert_with_key(|symbol| elf::address_of(symbols, symbol));
        let at = (*place)?.checked_add(at.checked_sub(start)?)?;
        program.code.offset(at).map(|_| (at, own))
    };
    costs.into_iter().zip(starts).filter_map(linked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_costs::{CodeCosts, PlaceCost};
    use crate::read::about::About;
    use crate::space::{CodeKind, KernelModule};
    use crate::symbolise::{Sampled, lines};
    use crate::table::FunctionTable;
    use opcost_sys::budget::LIMIT_BYTES;
    use std::process::Command;

    const SOURCE: &str = "extern int outside(int);\nint first(int x) { return x; }\nint second(int x) {\n  return outside(x) + first(x) * 3;\n}\n";
    /// Where the module's functions were when it was sampled.
    const LIST: &str = "ffffffffc0001000 t first\t[my_mod]\nffffffffc0002000 t second\t[my_mod]\nffffffffc0003000 t last\t[my_mod]\nffffffff81000000 T _text\n";

    /// Builds a module with debug information; `false` without compiler or linker.
    fn built(folder: &Path, id: &str) -> bool {
        let ran = |command: &mut Command| command.status().is_ok_and(|status| status.success());
        let at = |name: &str| folder.join(name);
        fs::write(at("my.c"), SOURCE).unwrap();
        // Each function has a section, as a kernel's module may have.
        let options = ["-g", "-O0", "-ffunction-sections", "-fcf-protection=none", "-c", "-o"];
        let compiled = ["cc", "gcc"].iter().any(|compiler| {
            ran(Command::new(compiler).args(options).args([at("my.o"), at("my.c")]))
        });
        let module = at("lib/modules/6.1.0/kernel/my-mod.ko");
        fs::create_dir_all(module.parent().unwrap()).unwrap();
        let id = format!("--build-id=0x{id}");
        compiled && ran(Command::new("ld").args(["-r", &id, "-o"]).args([module, at("my.o")]))
    }

    fn profile(build_id: Option<Vec<u8>>) -> ReadProfile {
        let module = Function::new("second", "[my_mod]");
        let addresses = 0xffff_ffff_c000_0000..0xffff_ffff_c000_4000;
        let modules = vec![KernelModule { name: "[my_mod]".into(), addresses, build_id }];
        let mut sampled = Sampled::default();
        sampled.profile.functions = vec![module];
        sampled.code = CodeCosts { kernel_modules: modules, ..CodeCosts::default() };
        sampled.code.places = vec![PlaceCost {
            file: 0,
            offset: 0xffff_ffff_c000_2000,
            function: 0,
            inlined: Vec::new(),
            cost: 7,
            samples: 7,
        }];
        let about = About { kernel_release: Some("6.1.0".into()), ..About::default() };
        let table = FunctionTable::of(&sampled);
        ReadProfile { about, table, sampled: Some(sampled), code: CodeCosts::default() }
    }

    #[test]
    fn a_module_has_its_lines_and_the_names_of_what_it_calls() {
        let folder = tempfile::tempdir().unwrap();
        if !built(folder.path(), "0102030405060708") {
            return crate::skip::skip!("no compiler and linker");
        }
        fs::write(folder.path().join("list"), LIST).unwrap();
        let sources = Sources {
            kernel: KernelSource::File(folder.path().join("list")),
            debug_files: folder.path().into(),
            build_id_cache: None,
            inlined: true,
            limit_bytes: LIMIT_BYTES,
        };
        let kernel = CodeFile { kind: CodeKind::Kernel, path: "[kernel]".into(), build_id: None };
        let second = Function::new("second", "[my_mod]");
        let known = profile(Some(vec![1, 2, 3, 4, 5, 6, 7, 8]));
        let program = program(&known, &kernel, &second, &sources).unwrap();
        let start = elf::address_of(&program.bytes, "second").unwrap();
        let costs = vec![(0xffff_ffff_c000_2000, Own { cost: 7, samples: 7, executions: 0 })];
        let costs = as_linked(&known, &kernel, &second, &program, costs, &sources);
        assert_eq!((costs.len(), costs[0].0), (1, start));
        assert_ne!(elf::address_of(&program.bytes, "first"), Some(start));
        let found = lines(&program.path, &[start], &sources);
        assert_eq!(found.places[0][0].line, Some(3), "{found:?}");
        assert_eq!(Path::new(&found.files[0].path), folder.path().join("my.c"));
        let pieces = program.pieces(&second, [start]).unwrap();
        // The call's distance leads to the address that the function of the kernel got.
        let outside = elf::address_of(&program.bytes, "outside").unwrap();
        let piece = pieces[0].clone();
        let offset = program.code.offset(start).unwrap() as usize;
        let code = &program.bytes[offset..offset + (piece.end - piece.start) as usize];
        let calls = code.windows(5).enumerate().filter(|(_, bytes)| bytes[0] == 0xe8);
        let targets: Vec<u64> = calls
            .map(|(at, bytes)| {
                let distance = i32::from_le_bytes(bytes[1..].try_into().unwrap());
                (start + at as u64 + 5).wrapping_add_signed(distance.into())
            })
            .collect();
        if cfg!(target_arch = "x86_64") {
            assert!(targets.contains(&outside), "{targets:x?} {outside:x}");
        }
        let refused = |profile: &ReadProfile| {
            let error = super::program(profile, &kernel, &second, &sources);
            error.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(refused(&profile(Some(vec![9; 8]))).contains("no file with its build id is there"));
        assert!(refused(&profile(None)).contains("--buildid-all"));
    }

    #[test]
    fn damage_to_a_module_is_an_error_or_another_module() {
        let folder = tempfile::tempdir().unwrap();
        if !built(folder.path(), "0102") {
            return crate::skip::skip!("no compiler and linker");
        }
        let whole = fs::read(folder.path().join("lib/modules/6.1.0/kernel/my-mod.ko")).unwrap();
        for at in (0..whole.len()).step_by(3) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            let _ = elf::linked(bytes);
            let _ = elf::linked(whole[..at].to_vec());
        }
    }
}
