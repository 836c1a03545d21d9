use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

/// A tar that is being written, ustar.
#[derive(Default)]
struct Written(Vec<u8>);

impl Written {
    fn member(mut self, letter: u8, path: &str, contents: &[u8], link: &str) -> Written {
        let mut header = [0_u8; 512];
        header[..path.len()].copy_from_slice(path.as_bytes());
        header[100..107].copy_from_slice(b"0000750");
        header[108..115].copy_from_slice(b"0000007");
        header[116..123].copy_from_slice(b"0000010");
        header[124..135].copy_from_slice(format!("{:011o}", contents.len()).as_bytes());
        header[136..147].copy_from_slice(b"00000000123");
        header[148..156].copy_from_slice(b"        ");
        header[156] = letter;
        header[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header[257..263].copy_from_slice(b"ustar\0");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        self.0.extend(header);
        self.0.extend(contents);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, path: &str, contents: &[u8]) -> Written {
        self.member(b'0', path, contents, "")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// A folder for roots, and one for what is unpacked.
struct Folders(tempfile::TempDir);

impl Folders {
    fn new() -> Folders {
        Folders(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn read(&self, path: &Path) -> Result<Root, String> {
        let scratch = tempfile::tempdir_in(self.0.path()).unwrap().keep();
        read(path, Architecture::X86_64, 1, &scratch).map_err(|error| error.to_string())
    }

    fn tar(&self, written: Written) -> Result<Root, String> {
        self.read(&self.write("root.tar", &written.end()))
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn text(root: &Root, path: &str) -> Option<String> {
    let data = root.data(Path::new(path))?;
    Some(fs::read_to_string(&data.host).unwrap())
}

/// The paths, each with the first letter of its kind.
fn listed(root: &Root) -> Vec<String> {
    let letter = |entry: &Entry| match &entry.kind {
        Kind::Folder => "d".into(),
        Kind::File(_) => "f".into(),
        Kind::Link(target) => format!("l:{}", target.display()),
        Kind::Same(first) => format!("h:{}", first.display()),
    };
    root.entries
        .iter()
        .map(|(path, entry)| format!("{} {}", path.display(), letter(entry)))
        .collect()
}

/// Writes an image layout; a layer is a tar.
fn layout(place: &Folders, name: &str, architecture: &str, layers: &[Vec<u8>]) -> PathBuf {
    let put = |bytes: &[u8]| {
        let digest = sha256(bytes);
        place.write(&format!("{name}/blobs/sha256/{digest}"), bytes);
        serde_json::json!({"digest": format!("sha256:{digest}"), "size": bytes.len()})
    };
    let diff_ids: Vec<String> =
        layers.iter().map(|layer| format!("sha256:{}", sha256(layer))).collect();
    let config = serde_json::json!({
        "architecture": architecture, "os": "linux", "rootfs": {"diff_ids": diff_ids},
        "config": {"Env": ["PATH=/bin", "A=b=c"], "WorkingDir": "/srv"}
    });
    let layers: Vec<_> = layers.iter().map(|layer| put(&gzip(layer))).collect();
    let manifest =
        serde_json::json!({"config": put(config.to_string().as_bytes()), "layers": layers});
    let index = serde_json::json!({"manifests": [put(manifest.to_string().as_bytes())]});
    place.write(&format!("{name}/oci-layout"), b"{\"imageLayoutVersion\": \"1.0.0\"}");
    place.write(&format!("{name}/index.json"), index.to_string().as_bytes());
    place.path(name)
}

#[test]
fn a_folder_and_the_tars_that_gnu_tar_makes_of_it_are_the_same_root() {
    let place = Folders::new();
    let long = format!("deep/{}/{}", "a".repeat(120), "b".repeat(120));
    place.write("root/bin/program", b"\x7fELF and more");
    place.write(&format!("root/{long}"), b"long");
    place.write("root/proc/version", b"of this machine");
    let root = place.path("root");
    fs::set_permissions(root.join("bin/program"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(root.join("bin/program"), root.join("bin/again")).unwrap();
    symlink("/bin/program", root.join("far")).unwrap();
    symlink("../../../etc/shadow", root.join("out")).unwrap();
    symlink("x".repeat(150), root.join("longlink")).unwrap();
    let of_folder = place.read(&root).unwrap();
    let expected = [
        "/bin d".to_string(),
        "/bin/again f".into(),
        "/bin/program h:/bin/again".into(),
        "/deep d".into(),
        format!("/deep/{} d", "a".repeat(120)),
        format!("/{long} f"),
        "/far l:/bin/program".into(),
        format!("/longlink l:{}", "x".repeat(150)),
        "/out l:../../../etc/shadow".into(),
        "/proc d".into(),
    ];
    assert_eq!(listed(&of_folder), expected);
    let program = &of_folder.entries[Path::new("/bin/again")];
    let here = root.join("bin/program").metadata().unwrap();
    assert_eq!((program.mode, program.owner), (0o4755, (here.uid(), here.gid())));
    assert_eq!(of_folder.resolve(Path::new("/far")).unwrap(), Path::new("/bin/program"));
    assert_eq!(of_folder.resolve(Path::new("/out")), None);
    let found = |name: &str| of_folder.program(name.as_ref(), "/none:/bin".as_ref(), "/".as_ref());
    assert_eq!(found("program").unwrap(), Path::new("/bin/program"));
    assert_eq!(found("./far").unwrap(), Path::new("/./far"));
    assert_eq!((found("none"), found("bin")), (None, None));
    for format in ["gnu", "pax"] {
        for (ending, compression) in [("", "--utc"), (".gz", "--gzip"), (".zst", "--zstd")] {
            let tar = place.path(&format!("{format}.tar{ending}"));
            let made = Command::new("tar")
                .args(["--create", "--format", format, compression, "--directory"])
                .arg(&root)
                .arg("--file")
                .arg(&tar)
                .arg(".")
                .status();
            // zstd is a program of its own.
            if !made.is_ok_and(|status| status.success()) {
                continue;
            }
            let of_tar = place.read(&tar).unwrap();
            assert_eq!(of_folder.digest(), of_tar.digest(), "{format}{ending}");
            assert_eq!(text(&of_tar, &format!("/{long}")).unwrap(), "long");
        }
    }
}

#[test]
fn layers_lie_over_one_another_with_whiteouts() {
    let place = Folders::new();
    let one = Written::default()
        .member(b'5', "etc/", b"", "")
        .file("etc/kept", b"kept")
        .file("etc/gone", b"gone")
        .file("etc/replaced", b"old")
        .file("opaque/old", b"old")
        .file("opaque/deep/old", b"old")
        .file("folder/a", b"a")
        .member(b'2', "lib", b"", "usr/lib")
        .member(b'5', "usr/lib", b"", "")
        .member(b'1', "etc/hard", b"", "etc/gone");
    let two = Written::default()
        .file("etc/.wh.gone", b"")
        .file("etc/.wh..wh.plnk", b"")
        .file("etc/replaced", b"new")
        .file("opaque/new", b"new")
        .file("opaque/.wh..wh..opq", b"")
        .file("folder", b"no folder now")
        .file("lib/behind-a-link", b"x")
        .member(b'3', "disk", b"", "")
        .member(b'6', "pipe", b"", "");
    let layout = layout(&place, "image", "amd64", &[one.end(), two.end()]);
    let root = place.read(&layout).unwrap();
    let expected = [
        "/etc d",
        "/etc/hard f",
        "/etc/kept f",
        "/etc/replaced f",
        "/folder f",
        "/lib l:usr/lib",
        "/opaque d",
        "/opaque/new f",
        "/usr d",
        "/usr/lib d",
        "/usr/lib/behind-a-link f",
    ];
    assert_eq!(listed(&root), expected);
    // The other name of what is gone stays.
    assert_eq!(text(&root, "/etc/hard").unwrap(), "gone");
    assert_eq!(text(&root, "/etc/replaced").unwrap(), "new");
    assert_eq!(root.dropped.to_string(), "1 device nodes, 1 pipes and sockets");
    let entry = &root.entries[Path::new("/etc/kept")];
    assert_eq!((entry.mode, entry.owner, entry.changed_s), (0o750, (7, 8), 0o123));
    assert_eq!(root.environment[1], ("A".into(), "b=c".into()));
    assert_eq!(root.cwd.as_deref(), Some(Path::new("/srv")));
    // The same image in a tar.
    let tar = place.path("image.tar");
    let made = Command::new("tar").arg("-cf").arg(&tar).arg("-C").arg(&layout).arg(".").status();
    assert!(made.unwrap().success());
    assert_eq!(place.read(&tar).unwrap().digest(), root.digest());
}

#[test]
fn what_docker_saves_is_read_with_layers_that_are_links() {
    let place = Folders::new();
    let layer = Written::default().file("a", b"a").end();
    let diff_id = format!("sha256:{}", sha256(&layer));
    let config = serde_json::json!({
        "architecture": "amd64", "os": "linux", "rootfs": {"diff_ids": [diff_id, diff_id]}
    });
    let list = |names: &[&str]| {
        let one = |name: &&str| {
            serde_json::json!({
                "Config": "c.json", "RepoTags": [name], "Layers": ["1/layer.tar", "2/layer.tar"]
            })
        };
        serde_json::Value::from(names.iter().map(one).collect::<Vec<_>>()).to_string()
    };
    let saved = |list: &str, layer: &[u8]| {
        Written::default()
            .file("1/layer.tar", layer)
            .member(b'2', "2/layer.tar", b"", "../1/layer.tar")
            .file("c.json", config.to_string().as_bytes())
            .file("manifest.json", list.as_bytes())
    };
    let root = place.tar(saved(&list(&["me:1"]), &layer)).unwrap();
    assert_eq!(listed(&root), ["/a f"]);
    let said = place.tar(saved(&list(&["me:1", "me:2"]), &layer)).unwrap_err();
    assert!(said.ends_with("it has 2 images (me:1, me:2); save one of them alone"), "{said}");
    let said = place.tar(saved(&list(&["me:1"]), &Written::default().file("b", b"").end()));
    assert!(said.unwrap_err().contains("is damaged"), "another layer");
    // A root may have a file of this name.
    let root = place.tar(Written::default().file("manifest.json", b"[1]")).unwrap();
    assert_eq!(listed(&root), ["/manifest.json f"]);
}

#[test]
fn images_that_are_damaged_or_for_another_machine_are_refused() {
    let place = Folders::new();
    let layer = Written::default().file("a", b"a").end();
    let arm = layout(&place, "arm", "arm64", std::slice::from_ref(&layer));
    let said = place.read(&arm).unwrap_err();
    let advice = "it is an image for arm64, and the guest is x86-64; give an image for x86-64, or --architecture arm64";
    assert!(said.ends_with(advice), "{said}");
    let odd = layout(&place, "odd", "riscv64", std::slice::from_ref(&layer));
    assert!(place.read(&odd).unwrap_err().ends_with("give an image for x86-64"));
    let blobs = |image: &Path| {
        let files = fs::read_dir(image.join("blobs/sha256")).unwrap();
        files.map(|file| file.unwrap().path()).collect::<Vec<_>>()
    };
    // Any changed or missing blob is found, whichever it is.
    let whole = layout(&place, "whole", "amd64", std::slice::from_ref(&layer));
    assert_eq!(blobs(&whole).len(), 3);
    for blob in blobs(&whole) {
        let before = fs::read(&blob).unwrap();
        let mut changed = before.clone();
        let at = changed.len() / 2;
        changed[at] ^= 1;
        fs::write(&blob, &changed).unwrap();
        place.read(&whole).unwrap_err();
        fs::remove_file(&blob).unwrap();
        let said = place.read(&whole).unwrap_err();
        assert!(said.contains("the image lacks its"), "{said}");
        fs::write(&blob, before).unwrap();
    }
    place.read(&whole).unwrap();
    // A layer that is no secret of this machine.
    let blob = &blobs(&whole)[0];
    fs::remove_file(blob).unwrap();
    symlink("/etc/passwd", blob).unwrap();
    assert!(place.read(&whole).unwrap_err().contains("leads out of the root"));
}

#[test]
fn absurd_archives_are_refused_by_name() {
    let place = Folders::new();
    let written = Written::default;
    let refused = |tar: Written, expected: &str| {
        let said = place.tar(tar).unwrap_err();
        assert!(said.contains(expected), "{said}");
    };
    refused(written().file("../x", b""), "'../x' leads out of the root");
    refused(written().file("a/../../x", b""), "leads out of the root");
    refused(written().member(b'1', "x", b"", "../../etc/passwd"), "leads out of the root");
    refused(written().member(b'1', "x", b"", "none"), "hard link to 'none', which is not there");
    refused(written().member(b'2', "a", b"", "a").file("a/x", b""), "40 symbolic links");
    refused(written().file("a", b"").file("a/x", b""), "below '/a', which is no folder");
    refused(written().member(b'S', "a", b"", ""), "is sparse");
    refused(written().member(b'%', "a", b"", ""), "of the type '%'");
    refused(
        written().member(b'x', "a", b"99 path=x\n", "").file("a", b""),
        "malformed extended header",
    );
    refused(written(), "it has no files");
    // An absolute name is one below the root, and so is a target above it.
    let tar = written().file("/etc/x", b"x").member(b'2', "up", b"", "../../../etc");
    let root = place.tar(tar.file("up/y", b"y")).unwrap();
    assert_eq!(listed(&root), ["/etc d", "/etc/x f", "/etc/y f", "/up l:../../../etc"]);
    let whole = written().file("a", &[7; 2000]).file("b", b"b").end();
    let read = |bytes: &[u8]| place.read(&place.write("cut.tar", bytes)).unwrap_err();
    for length in [100, 512, 1000, 2560, 3000, 3072, 3500] {
        let said = read(&whole[..length]);
        assert!(said.contains("cut short") || said.contains("no tar"), "{length}: {said}");
    }
    let packed = gzip(&whole);
    assert!(read(&packed[..packed.len() / 2]).contains("in compressed data"));
    assert!(read(b"\xfd7zXZ\0 and more").contains("compressed with xz"));
    assert!(read(b"#!/bin/sh\n").contains("it is no tar"));
    assert!(place.read(&place.path("none")).unwrap_err().contains("No such file"));
    // A bomb: 90 MiB of zeros in 90 KiB.
    let bomb = written().file("a", &vec![0; 1 << 20]).end();
    let mut many = bomb[..bomb.len() - 1024].repeat(90);
    many.resize(many.len() + 1024, 0);
    let said = read(&gzip(&many));
    assert!(said.contains("more than 4 MiB, 4 times the guest's memory of 1 MiB"), "{said}");
}
