//! Compiles the C library into this crate, or finds an installed one.
//!
//! `PATCHPOINT_LINK`: `bundled` (the default) or `installed`, found by pkg-config.

use std::env;
use std::path::{Path, PathBuf};

const SOURCES: [&str; 17] = [
    "alternative",
    "lock",
    "memory",
    "null",
    "pages",
    "place",
    "registry",
    "sort",
    "status",
    "stub",
    "sync",
    "transaction",
    "trap",
    "users",
    "variants",
    "write",
    "writer",
];

fn main() {
    // The folder `c` has links to the C library in the repository, and a copy in a package. It is looked up now, since the package
    // may have moved since this program was compiled.
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
    let library = Path::new(&here).join("c");
    println!("cargo::rerun-if-env-changed=PATCHPOINT_LINK");
    println!("cargo::rustc-check-cfg=cfg(patchpoint_native)");
    let set = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let portable = env::var_os("CARGO_FEATURE_PORTABLE").is_some();
    let arch = set("ARCH");
    let patched = arch == "x86_64" || arch == "aarch64" && set("ENDIAN") == "little";
    let native = patched && set("OS") == "linux" && !portable;
    if native {
        println!("cargo::rustc-cfg=patchpoint_native");
    }
    let compiler = |include: &Path| {
        let mut build = cc::Build::new();
        build.std("c11").warnings(true).extra_warnings(true).include(include);
        // Optimised in debug builds, too, so that changing code is as fast there.
        build.opt_level(2).flag_if_supported("-ffunction-sections");
        if native {
            // Sites call missing operations indirectly: their functions begin with endbr64 or bti.
            build.flag_if_supported(match arch.as_str() {
                "x86_64" => "-fcf-protection",
                _ => "-mbranch-protection=standard",
            });
        }
        if !native {
            build.define("PATCHPOINT_PORTABLE", None);
        }
        build
    };

    // The C header makes the program's entry in the registry, so that C and Rust agree. It comes before the library, as linkers take
    // what they need out of archives in this order.
    let object = |include: &Path| {
        println!("cargo::rerun-if-changed=src/object.c");
        compiler(include).file("src/object.c").compile("patchpoint_object");
    };
    let include = match env::var("PATCHPOINT_LINK").as_deref() {
        Err(_) | Ok("bundled") => {
            let include = library.join("include");
            object(&include);
            bundled(&library, native.then_some(arch.as_str()), compiler(&include));
            include
        }
        Ok("installed") => {
            let include = installed();
            object(&include);
            include
        }
        Ok(other) => panic!("PATCHPOINT_LINK is '{other}': use 'bundled' or 'installed'"),
    };
    // The C side of tests.
    for peer in ["peer", "peer_sizes"] {
        let file = format!("tests/{peer}.c");
        println!("cargo::rerun-if-changed={file}");
        if Path::new(&file).exists() {
            compiler(&include).cargo_metadata(false).file(file).compile(peer);
        }
    }
}

/// `native`: the architecture whose sites are patched.
fn bundled(library: &Path, native: Option<&str>, mut build: cc::Build) {
    for folder in ["src", "include"] {
        println!("cargo::rerun-if-changed={}", library.join(folder).display());
    }
    for source in SOURCES {
        build.file(library.join(format!("src/{source}.c")));
    }
    let architecture: &[&str] = match native {
        Some("x86_64") => &["x86_64", "x86_64_decode", "x86_64_recognise"],
        Some(_) => &["aarch64", "aarch64_recognise"],
        None => &["portable"],
    };
    for source in architecture {
        build.file(library.join(format!("src/arch/{source}.c")));
    }
    build.compile("patchpoint");
}

fn installed() -> PathBuf {
    // The crate's own version: other minor versions have another ABI.
    let number = |part: &str| -> u32 {
        let number = env::var(format!("CARGO_PKG_VERSION_{part}"));
        number.ok().and_then(|number| number.parse().ok()).expect("cargo gives the version")
    };
    let (major, minor) = (number("MAJOR"), number("MINOR"));
    let (first, next) = (format!("{major}.{minor}"), format!("{major}.{}", minor + 1));
    let mut config = pkg_config::Config::new();
    match config.range_version(first.as_str()..next.as_str()).probe("patchpoint") {
        Ok(found) => found.include_paths.first().cloned().unwrap_or("/usr/include".into()),
        Err(error) => panic!(
            "PATCHPOINT_LINK=installed, but pkg-config finds no patchpoint: {error}\n\
             install the C library and set PKG_CONFIG_PATH to where patchpoint.pc is, \
             or use PATCHPOINT_LINK=bundled"
        ),
    }
}
