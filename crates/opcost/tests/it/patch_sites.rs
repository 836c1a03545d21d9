//! Sites for patchpoint below the table of a comparison: programs of known construction, with and without retpolines.

use crate::lab::{Lab, compile};
use crate::needs;
use serde_json::Value;

/// A table of operations with one target and one with two, a value that cannot change and one that can, a flag that never changes.
const SITES: &str = "#include <stdlib.h>
struct ops { long (*get)(long); long (*put)(long); };
__attribute__((noinline)) static long quick(long at) { return at + 1; }
__attribute__((noinline)) static long slow(long at) { return at + 2; }
struct ops single = { quick, quick }, several = { quick, slow };
extern const volatile long limit; __attribute__((noinline)) static void rare(void) { __asm__ volatile(\"\"); }
volatile long moving = 3, fixed;
__attribute__((noinline)) long work(long rounds) {
    long sum = 0;
    for (long at = 0; at < rounds; at++) {
        sum += single.get(at);
#ifdef SEVERAL
        sum += (at & 1 ? several.get : several.put)(at);
#endif
        sum += limit;
        sum += moving;
        if (fixed)
            rare();
    }
    return sum;
}
__asm__(\".pushsection .rodata; limit: .quad 3; .type limit, @object; .size limit, 8; .popsection\");
int main(int count, char **words) { return work(atol(words[1])) == 0; }
";

/// Compares 5,000 and 6,000 rounds of a program, and returns the lab and the comparison's JSON.
fn compared(options: &[&str]) -> (Lab, Value) {
    let lab = Lab::new();
    compile(&lab, "sites", SITES, &[&["-O2", "-g", "-fno-pie", "-no-pie"], options].concat());
    let compare = ["compare", "-q", "--machine", "emulated", "--kernel", "none", "--addresses"];
    let runs = ["-n", "2", "--warmup", "0", "./sites 5000", "./sites 6000"];
    lab.run(&[&compare[..], &runs].concat()).expect(0);
    let json = lab.json(&["show", "last", "--json"]);
    (lab, json)
}

/// The sites of the variant in `work`: what is named, the line, the executions and the removed instructions of one round.
fn sites(json: &Value) -> Vec<(&str, u64, u64, u64)> {
    let all = json["opcost"]["patch_sites"].as_array().into_iter().flatten();
    let of = |site: &Value| site["of"] == site["variant"] && site["function"] == "work";
    all.filter(|site| of(site))
        .map(|site| {
            let named = ["flag", "target", "variable"].map(|key| site[key].as_str());
            let number = |key: &str| site[key].as_u64().unwrap();
            let executions = number("executions");
            assert_eq!(executions % 6000, 0, "{site}");
            let beside = number("removed_instructions") / executions;
            let runs = executions / 6000;
            (named.into_iter().flatten().next().unwrap(), number("line"), runs, beside)
        })
        .collect()
}

#[test]
fn a_comparison_names_the_sites_that_the_counts_prove() {
    if !needs::programs(&["gcc"]) || !needs::emulator() {
        return;
    }
    let (lab, json) = compared(&["-DSEVERAL"]);
    let runs = sites(&json)[0].2;
    // The flag's load and its test, or one instruction for both.
    let mut found = sites(&json);
    let flag = found.remove(0);
    assert!(flag == ("fixed", 17, runs, 2) || flag == ("fixed", 17, runs, 1), "{flag:?} {found:?}");
    found.sort_unstable();
    let load = ("limit", 15, runs, 0);
    assert_eq!(found, [load, ("quick", 11, runs, 0)]);
    let text = lab.run(&["show", "last"]).expect(0).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "patchpoint: the branch on fixed at sites.c:17 in work (./sites 6000) went one way",
        "patchpoint: the indirect call at sites.c:11 in work (./sites 6000) went to quick in all",
    ] {
        assert!(words.contains(said), "{text}");
    }
    assert!(!words.contains("moving") && !words.contains("went to slow"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    // diff names them, too, also of two recordings.
    assert_eq!(lab.json(&["diff", "last", "--json"])["patch_sites"], json["opcost"]["patch_sites"]);
    let [one, two] = ["5000", "6000"].map(|rounds| {
        let measure = ["measure", "-q", "--machine", "emulated", "--kernel", "none", "-n", "2"];
        let program = format!("./sites {rounds}");
        let options = ["--warmup", "0", "--addresses", "--json", &program];
        let json = lab.json(&[&measure[..], &options].concat());
        json["opcost"]["recording"].as_str().unwrap().to_string()
    });
    let between = ["diff", &one, &two, "--allow", "work"];
    let text = lab.run(&between).expect(0).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "patchpoint: the branch on fixed at sites.c:17 in work (./sites 6000) went one way in all 12,000 executions";
    assert!(words.contains(said), "{text}");
    let found = lab.json(&[&between[..], &["--json"]].concat());
    let all = json["opcost"]["patch_sites"].as_array().unwrap();
    assert_eq!(found["patch_sites"].as_array().map(Vec::len), Some(all.len()), "{found}");
    // A recording of another computer names files that are not those of this one.
    let file = lab.path("one.opcost").display().to_string();
    lab.run(&["export", "-o", &file]).expect(0);
    let other = Lab::new();
    other.run(&["import", &file]).expect(0);
    let json = other.json(&["show", "last", "--json"]);
    assert!(json["opcost"]["patch_sites"].is_null());
}

#[test]
fn a_call_through_a_retpoline_has_one_target_or_no_line() {
    if !needs::programs(&["gcc"]) || !needs::emulator() {
        return;
    }
    let retpolines = ["-mindirect-branch=thunk", "-fcf-protection=none"];
    let (_lab, json) = compared(&retpolines);
    let found = sites(&json);
    // The load of the pointer, and the retpoline's call, store and return.
    let call = found.iter().find(|site| site.0 == "quick");
    assert!(call.is_some_and(|site| (site.1, site.3) == (11, 4)), "{found:?}");
    let (_lab, json) = compared(&[&retpolines[..], &["-DSEVERAL"]].concat());
    let found = sites(&json);
    assert!(!found.is_empty() && found.iter().all(|site| site.0 != "quick"), "{found:?}");
}

#[test]
fn a_kernel_with_retpolines_has_the_sites_of_one_without_and_three_instructions_more_at_each() {
    let Some(kernel) = needs::kernel() else { return };
    let vmlinux = std::fs::read(kernel.replace("bzImage", "vmlinux")).unwrap_or_default();
    let name = b"__x86_indirect_thunk_rax";
    if !vmlinux.windows(name.len()).any(|part| part == name) {
        return crate::skip::skip!("the kernel has no retpolines, or no vmlinux");
    }
    let lab = Lab::new();
    let compare = ["compare", "-q", "--machine", "emulated", "--addresses", "-n", "1"];
    let boots = ["--boot", "spectre_v2=off", "--boot", "spectre_v2=retpoline"];
    let work = ["--warmup", "0", "--kernel", &kernel, "-w", "pipe:ops=200"];
    lab.run(&[&compare[..], &boots, &work].concat()).expect(0);
    let json = lab.json(&["show", "last", "--json"]);
    let all = json["opcost"]["patch_sites"].as_array().cloned().unwrap_or_default();
    let of = |variant: &str| -> Vec<_> {
        let own = all.iter().filter(|site| site["of"] == variant && site["kind"] == "call");
        own.map(|site| {
            let number = |key: &str| site[key].as_u64().unwrap();
            let beside = number("removed_instructions") / number("executions");
            (site["address"].to_string(), site["target"].to_string(), beside)
        })
        .collect()
    };
    let [plain, thunks] = ["spectre_v2=off", "spectre_v2=retpoline"].map(of);
    assert!(!thunks.is_empty(), "{all:?}");
    for (address, target, beside) in thunks {
        // The call, the store and the return of the retpoline.
        let same = (address, target, beside - 3);
        assert!(plain.contains(&same), "{same:?} {plain:?}");
    }
}
