use super::*;
use crate::event::{Mapping, UserStack};

const MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;
const STACK: u64 = 0x7fff_0000;

/// A sample at this address.
fn sample<'a>(address: u64, chain: &'a [u64], user_stack: Option<UserStack<'a>>) -> Sample<'a> {
    Sample {
        time_ns: None,
        pid: 7,
        tid: 7,
        cpu: None,
        event: 0,
        period: 1,
        address,
        in_kernel: false,
        chain,
        user_stack,
    }
}

/// The process's space with this code alone.
fn space(address: u64, bytes: u64, file_offset: u64, path: &[u8]) -> Spaces {
    let mut spaces = Spaces::default();
    let (build_id, executable) = (None, true);
    spaces.map(&Mapping { pid: 7, address, bytes, file_offset, path, build_id, executable });
    spaces
}

/// Unwinds an interruption at `ip` with this stack and the frame pointer `bp`.
fn callers(ip: u64, bp: u64, stack: &[u64], kernel: &[u64]) -> (Vec<u64>, Unfinished) {
    let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    let registers = [bp, STACK, ip];
    let user_stack = UserStack { registers_mask: MASK, registers: &registers, bytes: &bytes };
    let sample = sample(ip, kernel, Some(user_stack));
    let (mut unwinder, mut chain) = (Unwinder::default(), vec![99]);
    let spaces = space(0x1000, 0x8000, 0, b"//anon");
    unwinder.complete(&sample, &spaces, |_| None, &mut chain);
    (chain, unwinder.take_unfinished())
}

#[test]
fn without_unwind_information_frame_pointers_are_followed() {
    // Two frames of a frame pointer and a return address each, then the end.
    let stack = [1, STACK + 32, 0x1234, 2, 0, 0x5678, 3, 4];
    let (chain, cut) = callers(0x1000, STACK + 8, &stack, &[]);
    assert_eq!(chain, [CONTEXT_USER, 0x1000, 0x1234, 0x5678]);
    assert_eq!(cut, Unfinished::default());
}

#[test]
fn a_stack_that_goes_on_beyond_its_copy_is_counted() {
    let stack = [1, STACK + 800, 0x1234, 2];
    let kernel = [-128i64 as u64, 0xffff_ffff_8000_0000];
    let (chain, cut) = callers(0x1000, STACK + 8, &stack, &kernel);
    assert_eq!(chain, [kernel[0], kernel[1], CONTEXT_USER, 0x1000, 0x1234]);
    assert_eq!(cut, Unfinished { beyond_copy: 1, astray: 0 });
}

#[test]
fn a_caller_where_no_code_is_ends_the_chain() {
    // The number of arguments, above a program's first function, ends the chain too.
    for (caller, astray) in [(3, 0), (0x9_0000, 1)] {
        let stack = [1, STACK + 32, caller, 2, 0, 0x5678, 3, 4];
        let (chain, unfinished) = callers(0x1000, STACK + 8, &stack, &[]);
        assert_eq!(chain, [CONTEXT_USER, 0x1000]);
        assert_eq!(unfinished, Unfinished { beyond_copy: 0, astray });
    }
}

#[test]
fn a_sample_without_a_copy_keeps_its_chain() {
    let sample = sample(5, &[CONTEXT_USER, 5, 6], None);
    let (mut unwinder, mut chain) = (Unwinder::default(), Vec::new());
    unwinder.complete(&sample, &Spaces::default(), |_| None, &mut chain);
    let stack = UserStack { registers_mask: 1, registers: &[5], bytes: &[1] };
    assert_eq!(chain, [CONTEXT_USER, 5, 6]);
    // A sample with other registers keeps its chain too.
    let sample = Sample { user_stack: Some(stack), ..sample };
    unwinder.complete(&sample, &Spaces::default(), |_| None, &mut chain);
    assert_eq!(
        (chain, unwinder.take_unfinished()),
        (vec![CONTEXT_USER, 5, 6], Unfinished::default())
    );
}

#[test]
fn unwind_information_of_a_mapped_file_is_found_where_it_is_mapped() {
    let path = std::env::current_exe().unwrap();
    let contents = std::fs::read(path).unwrap();
    let sections = sections(&contents).unwrap();
    assert!(sections.info.eh_frame.is_some());
    let text = sections.info.text_svma.clone().unwrap();
    let held = |(_, address, bytes): &&(u64, u64, u64)| {
        *address <= text.start && text.start < address + bytes
    };
    let (offset, address, bytes) = *sections.segments.iter().find(held).unwrap();
    // The dynamic linker maps whole pages, as here.
    let (page, start) = (offset & !4095, 0x5555_0000_0000);
    let module = module(&sections, start, page, bytes + offset - page).unwrap();
    assert_eq!(module.base_avma(), start + offset - page - address);
    assert!(super::module(&sections, start, u64::MAX - 4096, 4096).is_none());
    assert!(super::sections(b"no program").is_none());
    // Each file is read once.
    let spaces = space(start, 4096, page, b"/bin/work");
    let (mut unwinder, mut chain, mut reads) = (Unwinder::default(), Vec::new(), 0);
    let registers = [0, STACK, start];
    let stack = UserStack { registers_mask: MASK, registers: &registers, bytes: &[0; 64] };
    let sample = sample(start, &[], Some(stack));
    for _ in 0..3 {
        let mut read = |_: &CodeFile| {
            reads += 1;
            Some(contents.clone())
        };
        unwinder.complete(&sample, &spaces, &mut read, &mut chain);
        assert_eq!(chain[..2], [CONTEXT_USER, start]);
    }
    assert_eq!(reads, 1);
}

/// The dynamic linker binds functions at their first call, and with `LD_BIND_NOT` at every call. Callers are behind it.
#[test]
fn callers_are_found_through_the_lazy_binder() {
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        command.args(arguments).current_dir(folder.path()).env("LD_BIND_NOT", "1");
        command.output().is_ok_and(|output| output.status.success())
    };
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("one.c", "long one(long n) { return n + 1; }");
    write(
        "main.c",
        "extern long one(long);
         __attribute__((noinline, noipa)) long inner(long n) { long s = 0; for (; n; n--) s = one(s); return s; }
         __attribute__((noinline, noipa)) long outer(long n) { return inner(n) + 1; }
         int main(void) { return outer(400000) == 3; }",
    );
    let compiled = run("gcc", &["-O2", "-fPIC", "-shared", "-o", "libone.so", "one.c"])
        && run("gcc", &["-O2", "-Wl,-z,lazy", "-o", "main", "main.c", "./libone.so"]);
    let record = ["record", "-q", "-N", "-F", "2000", "-e", "cpu-clock:u", "-o", "main.data"];
    let copies = ["--call-graph", "dwarf,4096", "./main"];
    if !compiled || !run("perf", &[&record[..], &copies].concat()) {
        return crate::skip::skip!("there is no gcc here, or perf may not record");
    }
    let sources = crate::symbolise::Sources {
        kernel: crate::symbolise::KernelSource::Nothing,
        debug_files: "/nonexistent".into(),
        build_id_cache: None,
        inlined: false,
        limit_bytes: opcost_sys::budget::LIMIT_BYTES,
    };
    let path = folder.path().join("main.data");
    let read = crate::read::read(&path, &crate::read::Wanted::default(), &sources).unwrap();
    let sampled = read.sampled.as_ref().unwrap();
    let table = &read.table;
    let cost = |name: &str| table.functions.iter().find(|cost| cost.function.symbol == name);
    let all = table.total;
    // Nearly all of the time is spent in the binder, and the loop called it.
    let binder = table.functions.iter().filter(|cost| cost.function.module.contains("/ld-"));
    let own: u64 = binder.map(|cost| cost.own).sum();
    assert!(own * 2 > all, "{own} of {all}");
    for name in ["inner", "outer", "main"] {
        let inclusive = cost(name).unwrap().inclusive.unwrap();
        assert!(inclusive * 10 > all * 9, "{name}: {inclusive} of {all}");
    }
    let samples = sampled.samples_total();
    assert!(sampled.losses.stacks_astray * 20 < samples, "{:?}", sampled.losses);
}
