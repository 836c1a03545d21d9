//! Reads OCI image layouts (OCI image specification, image-layout.md) and what `docker save` writes, in a folder or a tar.

use crate::names::Names;
use crate::stream::{Hashed, Limits, decompressed, open};
use crate::tar::{MemberKind, Tar};
use crate::{Fault, Root, resolved};
use opcost_record::Architecture;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The most bytes of a description: more than any image has.
const DESCRIPTION_BYTES_MAX: u64 = 4 << 20;

/// The most images, and the deepest lists of lists.
const IMAGES_MAX: usize = 256;
const DEPTH_MAX: usize = 4;

/// The most layers; Docker allows 127.
const LAYERS_MAX: usize = 1000;

/// The list of an image layout, and of `docker save`.
const INDEX: &str = "index.json";
const LAYOUT: &str = "oci-layout";
const SAVED: &str = "manifest.json";

/// The place of an image's blobs.
pub(crate) enum Store {
    Folder(PathBuf),
    Archive {
        /// The tar, not compressed.
        file: PathBuf,
        /// Its members.
        members: BTreeMap<PathBuf, StoredMember>,
    },
}

/// A member of an archive.
pub(crate) enum StoredMember {
    At { offset: u64, length: u64 },
    Link(PathBuf),
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
struct Descriptor {
    digest: String,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
struct Platform {
    os: String,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// A manifest or a list of manifests.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed {
    Index(Index),
    Manifest(Manifest),
}

/// One image in the list of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct Config {
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<RunConfig>,
    #[serde(default)]
    rootfs: Layers,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RunConfig {
    #[serde(default)]
    env: Option<Vec<String>>,
    #[serde(default)]
    working_dir: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
struct Layers {
    #[serde(default)]
    diff_ids: Vec<String>,
}

/// An image that was found.
struct Image {
    name: String,
    config: Config,
    /// The blobs of its layers, with their digests if their names are none.
    layers: Vec<(String, Option<String>)>,
}

/// The architecture by an image's word for it.
pub(crate) fn architecture(name: &str) -> Option<Architecture> {
    match name {
        "amd64" => Some(Architecture::X86_64),
        "arm64" => Some(Architecture::Aarch64),
        _ => None,
    }
}

/// Reads a file: a tar of a root, or one of an image.
pub(crate) fn read_file(
    path: &Path,
    architecture: Architecture,
    mut names: Names,
) -> Result<Root, Fault> {
    let scratch = names.scratch().join("archive");
    let (file, members) = index(path, &scratch, &mut names.limits)?;
    let store = Store::Archive { file: file.clone(), members };
    let root = match store.is_image() {
        true => store.read(architecture, names),
        false => {
            names.add_tar(open(&file)?, false)?;
            Ok(names.finish())
        }
    };
    // The contents are files of their own by now.
    if file == scratch {
        let _ = fs::remove_file(scratch);
    }
    root
}

/// Unpacks an archive's compression, and finds its members.
fn index(
    path: &Path,
    scratch: &Path,
    limits: &mut Limits,
) -> Result<(PathBuf, BTreeMap<PathBuf, StoredMember>), Fault> {
    let of_stream = *limits;
    let mut input = open(path)?;
    let mut plain = path.to_path_buf();
    {
        let (stream, is_compressed) = decompressed(&input)?;
        if is_compressed {
            plain = scratch.to_path_buf();
            let written = File::create(scratch)
                .and_then(|mut file| io::copy(&mut limits.bounded(stream), &mut file));
            written.map_err(|source| match source.kind() {
                io::ErrorKind::FileTooLarge => of_stream.exceeded(),
                io::ErrorKind::UnexpectedEof => Fault::CutShort("in compressed data".into()),
                _ => Fault::system(format!("cannot unpack it to '{}'", scratch.display()))(source),
            })?;
        }
    }
    if plain != path {
        input = open(&plain)?;
    }
    input.rewind().map_err(Fault::system("it cannot be read"))?;
    let mut members = BTreeMap::new();
    let mut tar = Tar::new(io::BufReader::with_capacity(1 << 16, input), of_stream);
    while let Some(member) = tar.next()? {
        let (offset, length) = (tar.offset(), member.length);
        let place = match member.kind {
            MemberKind::File => StoredMember::At { offset, length },
            MemberKind::Link(target) => StoredMember::Link(target),
            MemberKind::Same(target) => StoredMember::Link(Path::new("/").join(target)),
            _ => continue,
        };
        if members.len() >= crate::ENTRIES_MAX {
            return Err(Fault::TooMany);
        }
        members.insert(
            member
                .path
                .components()
                .skip_while(|part| part.as_os_str() == "/" || part.as_os_str() == ".")
                .collect(),
            place,
        );
    }
    Ok((plain, members))
}

impl Store {
    /// The image in a folder, if it is no root.
    pub(crate) fn in_folder(folder: &Path) -> Option<Store> {
        let store = Store::Folder(folder.to_path_buf());
        store.is_image().then_some(store)
    }

    /// Whether there is an image, not files of a root.
    fn is_image(&self) -> bool {
        let is_saved = || self.json::<Vec<Saved>>("list", SAVED).is_ok();
        (self.has(LAYOUT) && self.has(INDEX)) || (self.has(SAVED) && is_saved())
    }

    /// Reads the image for an architecture.
    pub(crate) fn read(&self, wanted: Architecture, mut names: Names) -> Result<Root, Fault> {
        let image = self.choose(self.images()?, wanted)?;
        if image.layers.len() > LAYERS_MAX {
            let why = format!("it has {} layers", image.layers.len());
            return Err(Fault::Description { what: "manifest", why });
        }
        let diff_ids = &image.config.rootfs.diff_ids;
        if diff_ids.len() != image.layers.len() {
            let why = format!(
                "it has {} layers, and its configuration {}",
                image.layers.len(),
                diff_ids.len()
            );
            return Err(Fault::Description { what: "manifest", why });
        }
        for ((blob, digest), diff_id) in image.layers.iter().zip(diff_ids) {
            names.layer += 1;
            self.add_layer(&mut names, blob, digest.as_deref(), diff_id)?;
        }
        let run = image.config.config.unwrap_or_default();
        let environment = run.env.unwrap_or_default();
        let environment = environment.iter().filter_map(|text| text.split_once('='));
        let environment =
            environment.map(|(key, value)| (OsString::from(key), OsString::from(value)));
        let cwd = run.working_dir.filter(|folder| folder.is_absolute());
        Ok(Root { environment: environment.collect(), cwd, ..names.finish() })
    }

    /// Lays a layer over those below, and checks its digests: that of the blob, and that of the tar in it.
    fn add_layer(
        &self,
        names: &mut Names,
        blob: &str,
        digest: Option<&str>,
        diff_id: &str,
    ) -> Result<(), Fault> {
        let mut limits = names.limits;
        let mut packed = Hashed::new(self.open("layer", blob)?);
        let unreadable = || Fault::system(format!("cannot read the layer '{blob}'"));
        let found = {
            let (stream, _) = decompressed(&mut packed)?;
            let mut plain = Hashed::new(limits.bounded(stream));
            names.add_tar(&mut plain, true)?;
            plain.digest().map_err(unreadable())?
        };
        names.limits.spend(limits);
        check("layer", diff_id, found)?;
        match digest {
            Some(digest) => check("layer", digest, packed.digest().map_err(unreadable())?),
            None => Ok(()),
        }
    }

    /// The images, each once.
    fn images(&self) -> Result<Vec<Image>, Fault> {
        // docker save of today writes both lists; a layout says more.
        match self.has(INDEX) && self.has(LAYOUT) {
            true => {
                let mut images = BTreeMap::new();
                let index: Index = self.json("list", INDEX)?;
                self.collect(index, String::new(), 0, &mut images)?;
                Ok(images.into_values().collect())
            }
            false => {
                let saved: Vec<Saved> = self.json("list", SAVED)?;
                saved.into_iter().take(IMAGES_MAX).map(|saved| self.saved(saved)).collect()
            }
        }
    }

    fn saved(&self, saved: Saved) -> Result<Image, Fault> {
        let name = saved.repo_tags.unwrap_or_default().join(" ");
        let name = if name.is_empty() { "without a name".into() } else { name };
        let config = self.json("configuration", &saved.config)?;
        let layers = saved.layers.into_iter().map(|layer| (layer, None)).collect();
        Ok(Image { name, config, layers })
    }

    fn collect(
        &self,
        index: Index,
        above: String,
        depth: usize,
        images: &mut BTreeMap<String, Image>,
    ) -> Result<(), Fault> {
        for descriptor in index.manifests {
            // Attestations say so.
            let is_other =
                descriptor.platform.as_ref().is_some_and(|platform| platform.os == "unknown");
            if is_other || images.contains_key(&descriptor.digest) {
                continue;
            }
            if depth == DEPTH_MAX || images.len() == IMAGES_MAX {
                let why = format!("it lists more than {IMAGES_MAX} images, or lists in lists");
                return Err(Fault::Description { what: "list", why });
            }
            let annotation = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
            let name = annotation.iter().find_map(|key| descriptor.annotations.get(*key)).cloned();
            let mut name = name.unwrap_or_else(|| above.clone());
            // A layout may leave out the images of other architectures.
            let blob = blob(&descriptor.digest)?;
            if descriptor.platform.is_some() && !self.has(&blob) {
                continue;
            }
            match self.checked("manifest", &descriptor.digest)? {
                Listed::Index(index) => self.collect(index, name, depth + 1, images)?,
                Listed::Manifest(manifest) => {
                    let config: Config = self.checked("configuration", &manifest.config.digest)?;
                    if name.is_empty() {
                        name = descriptor.digest.chars().take(19).collect();
                    }
                    let layers = manifest.layers.into_iter();
                    let layers =
                        layers.map(|layer| Ok((self::blob(&layer.digest)?, Some(layer.digest))));
                    let layers = layers.collect::<Result<_, Fault>>()?;
                    images.insert(descriptor.digest, Image { name, config, layers });
                }
            }
        }
        Ok(())
    }

    fn choose(&self, images: Vec<Image>, wanted: Architecture) -> Result<Image, Fault> {
        let (mut fit, others): (Vec<Image>, Vec<Image>) = images.into_iter().partition(|image| {
            let is_linux = image.config.os.is_empty() || image.config.os == "linux";
            is_linux && architecture(&image.config.architecture) == Some(wanted)
        });
        match fit.len() {
            1 => Ok(fit.remove(0)),
            0 if others.is_empty() => {
                Err(Fault::Description { what: "list", why: "it names no image".into() })
            }
            0 => {
                let mut found: Vec<String> =
                    others.into_iter().map(|image| image.config.architecture).collect();
                found.sort();
                found.dedup();
                Err(Fault::Architecture { found, wanted })
            }
            _ => Err(Fault::Several(fit.into_iter().map(|image| image.name).collect())),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.place(name).is_ok_and(|place| match (self, place) {
            (Store::Folder(folder), None) => folder.join(name).is_file(),
            (_, place) => place.is_some(),
        })
    }

    /// The place of a member in an archive; `None` in a folder.
    fn place(&self, name: &str) -> Result<Option<(u64, u64)>, Fault> {
        let missing = || Fault::Missing { what: "part", name: name.into() };
        let plain =
            |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
        if !Path::new(name).components().all(plain) {
            return Err(Fault::Outside(name.into()));
        }
        let Store::Archive { members, .. } = self else { return Ok(None) };
        let member = |at: &Path| members.get(at.strip_prefix("/").unwrap_or(at));
        // Old Dockers save a layer that two images share as a link.
        let found = resolved(Path::new(name), &|at| match member(at)? {
            StoredMember::Link(target) => Some(target.clone()),
            StoredMember::At { .. } => None,
        });
        match found.as_deref().and_then(member) {
            Some(StoredMember::At { offset, length }) => Ok(Some((*offset, *length))),
            _ => Err(missing()),
        }
    }

    fn open(&self, what: &'static str, name: &str) -> Result<impl Read, Fault> {
        let missing = |_| Fault::Missing { what, name: name.into() };
        let (file, offset, length) = match (self, self.place(name).map_err(missing)?) {
            (Store::Archive { file, .. }, Some((offset, length))) => (open(file)?, offset, length),
            (Store::Folder(folder), _) => {
                let path = folder.join(name);
                // A link in a folder of others must not lead out of it.
                let real = path.canonicalize().ok().zip(folder.canonicalize().ok());
                match real {
                    Some((real, folder)) if !real.starts_with(&folder) => {
                        return Err(Fault::Outside(name.into()));
                    }
                    Some((real, _)) if real.is_file() => (open(&real)?, 0, u64::MAX),
                    _ => return Err(missing(Fault::Empty)),
                }
            }
            (Store::Archive { .. }, None) => return Err(missing(Fault::Empty)),
        };
        let mut file = file;
        file.seek(SeekFrom::Start(offset)).map_err(Fault::system("it cannot be read"))?;
        Ok(file.take(length))
    }

    /// Reads a description.
    fn json<T: DeserializeOwned>(&self, what: &'static str, name: &str) -> Result<T, Fault> {
        self.description(what, name).and_then(|bytes| parsed(what, &bytes))
    }

    /// Reads a description with this digest.
    fn checked<T: DeserializeOwned>(&self, what: &'static str, digest: &str) -> Result<T, Fault> {
        let bytes = self.description(what, &blob(digest)?)?;
        let found = Hashed::new(&bytes[..]).digest().unwrap_or_default();
        check(what, digest, found)?;
        parsed(what, &bytes)
    }

    fn description(&self, what: &'static str, name: &str) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        let mut input = self.open(what, name)?.take(DESCRIPTION_BYTES_MAX + 1);
        input.read_to_end(&mut bytes).map_err(Fault::system(format!("cannot read '{name}'")))?;
        match bytes.len() as u64 > DESCRIPTION_BYTES_MAX {
            true => Err(Fault::Description { what, why: "it is longer than 4 MiB".into() }),
            false => Ok(bytes),
        }
    }
}

fn parsed<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes)
        .map_err(|error| Fault::Description { what, why: error.to_string() })
}

/// The path of a blob in a layout.
fn blob(digest: &str) -> Result<String, Fault> {
    match digest.strip_prefix("sha256:") {
        Some(hexadecimal)
            if hexadecimal.len() == 64
                && hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            Ok(format!("blobs/sha256/{hexadecimal}"))
        }
        _ => {
            let why = format!("its digest '{digest}' is none of SHA-256");
            Err(Fault::Description { what: "manifest", why })
        }
    }
}

/// Compares a digest with what was found.
fn check(what: &'static str, digest: &str, found: String) -> Result<(), Fault> {
    let found = format!("sha256:{found}");
    match digest == found {
        true => Ok(()),
        false => Err(Fault::Digest { what, name: digest.into(), found }),
    }
}
