//! Image layouts of the Open Container Initiative: content by its digest, and an index of the manifests in it.
//!
//! A layout is one archive here. The same content always gives the same archive, and content is only read under the
//! digest that it has.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use sandbox::archive::hex;

pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Configuration of what has none.
pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// Tag of a manifest.
pub const TAG: &str = "org.opencontainers.image.ref.name";
/// Full name of an image, for containerd.
const NAME: &str = "io.containerd.image.name";

const BLOBS: &str = "blobs/sha256/";
const LAYOUT: &str = "oci-layout";
const LIST: &str = "index.json";
/// Size of the largest layout that is read, in bytes: many times that of the operator's image.
const LARGEST: u64 = 4 << 30;

/// Content and manifests.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// By the digits of its digest.
    blobs: BTreeMap<String, Vec<u8>>,
    /// Descriptors of what the layout is about, each with its tag if it has one.
    manifests: Vec<Value>,
}

impl Layout {
    /// Adds content and returns its descriptor.
    pub fn add(&mut self, media_type: &str, content: Vec<u8>) -> Value {
        let digits = hex(&Sha256::digest(&content));
        let descriptor = json!({
            "mediaType": media_type, "digest": format!("sha256:{digits}"), "size": content.len(),
        });
        self.blobs.insert(digits, content);
        descriptor
    }

    /// Adds a manifest or an index, which says itself what it is.
    pub fn add_manifest(&mut self, manifest: &Value) -> Value {
        let media_type = manifest["mediaType"].as_str().unwrap_or(MANIFEST);
        self.add(media_type, manifest.to_string().into_bytes())
    }

    /// Lists a manifest in the index.
    pub fn list(&mut self, descriptor: Value) {
        self.manifests.push(descriptor);
    }

    /// Attaches a document to the manifest `subject`, as a referrer.
    pub fn attach(&mut self, subject: &Value, media_type: &str, file: &str, content: Vec<u8>) {
        let mut layer = self.add(media_type, content);
        layer["annotations"] = json!({"org.opencontainers.image.title": file});
        let config = self.add(EMPTY, b"{}".to_vec());
        let mut descriptor = self.add_manifest(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": media_type,
            "config": config,
            "layers": [layer],
            "subject": bare(subject),
        }));
        descriptor["artifactType"] = json!(media_type);
        self.list(descriptor);
    }

    /// Returns the descriptors of the index.
    pub fn manifests(&self) -> &[Value] {
        &self.manifests
    }

    /// Returns what a descriptor describes.
    pub fn content(&self, descriptor: &Value) -> io::Result<&[u8]> {
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        let content = digest.strip_prefix("sha256:").and_then(|digits| self.blobs.get(digits));
        let content = content.ok_or_else(|| wrong(format!("it has no content `{digest}`")))?;
        if descriptor["size"] != content.len() {
            return Err(wrong(format!("`{digest}` is not of the size that is said of it")));
        }
        Ok(content)
    }

    /// Returns the file of what a descriptor describes; `None` if that is not a descriptor of this layout.
    pub fn file(descriptor: &Value) -> Option<String> {
        let digits = descriptor["digest"].as_str()?.strip_prefix("sha256:")?;
        Some(blob(digits))
    }

    /// Writes the archive, with files of other formats next to the layout's own.
    pub fn write<W: Write>(&self, output: W, others: &[(&str, Vec<u8>)]) -> io::Result<W> {
        let mut archive = tar::Builder::new(output);
        let version = json!({"imageLayoutVersion": "1.0.0"});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests});
        for (name, text) in [(LAYOUT, version), (LIST, index)] {
            append(&mut archive, name, text.to_string().as_bytes(), 0o644)?;
        }
        for (name, content) in others {
            append(&mut archive, name, content, 0o644)?;
        }
        for (digits, content) in &self.blobs {
            append(&mut archive, &blob(digits), content, 0o644)?;
        }
        archive.into_inner()
    }

    /// Reads an archive; content that has another digest than its name, and content that is missing, are errors.
    pub fn read(archive: impl Read) -> io::Result<Self> {
        let mut layout = Self::default();
        let mut index = None;
        for entry in tar::Archive::new(archive.take(LARGEST)).entries()? {
            let mut entry = entry?;
            let name = entry.path()?.to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            if name == LIST {
                index = Some(serde_json::from_slice::<Value>(&content)?);
            } else if let Some(digits) = name.strip_prefix(BLOBS) {
                if hex(&Sha256::digest(&content)) != digits {
                    return Err(wrong(format!("the content of `{name}` has another digest")));
                }
                layout.blobs.insert(digits.to_owned(), content);
            }
        }
        let index = index.ok_or_else(|| wrong(format!("it has no `{LIST}`: no image layout")))?;
        layout.manifests = index["manifests"].as_array().cloned().unwrap_or_default();
        for descriptor in &layout.manifests {
            layout.check(descriptor)?;
        }
        Ok(layout)
    }

    /// Checks that all that a manifest or an index names is there.
    fn check(&self, descriptor: &Value) -> io::Result<()> {
        let manifest: Value = serde_json::from_slice(self.content(descriptor)?)?;
        for below in manifest["manifests"].as_array().into_iter().flatten() {
            self.check(below)?;
        }
        let layers = manifest["layers"].as_array().into_iter().flatten();
        for below in manifest.get("config").into_iter().chain(layers) {
            self.content(below)?;
        }
        Ok(())
    }
}

/// Returns a layout with one index of the images for different machines, and with what is attached to them.
pub fn of_all_machines(layouts: Vec<Layout>) -> io::Result<Layout> {
    let mut all = Layout::default();
    let (mut images, mut attached, mut names) = (Vec::<Value>::new(), Vec::new(), Value::Null);
    for Layout { blobs, manifests } in layouts {
        all.blobs.extend(blobs);
        for mut descriptor in manifests {
            let Some(annotations) =
                descriptor.as_object_mut().and_then(|it| it.remove("annotations"))
            else {
                attached.push(descriptor);
                continue;
            };
            if !names.is_null() && names != annotations {
                return Err(wrong(format!("images of two names: {names} and {annotations}")));
            }
            let platform = &descriptor["platform"];
            if platform.is_null() || images.iter().any(|image| image["platform"] == *platform) {
                return Err(wrong(format!("no machine or two images for it: {platform}")));
            }
            names = annotations;
            images.push(descriptor);
        }
    }
    if images.is_empty() {
        return Err(wrong("there is no image with a name"));
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": images});
    let mut index = all.add_manifest(&index);
    index["annotations"] = names;
    all.list(index);
    all.manifests.extend(attached);
    Ok(all)
}

/// Returns the annotations of a named image, such as `registry.example/flink:1`.
pub fn names(name: &str) -> Value {
    let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    json!({TAG: tag, NAME: name})
}

/// Returns the name of content in an archive.
fn blob(digits: &str) -> String {
    format!("{BLOBS}{digits}")
}

/// Adds a file to an archive, the same for whoever and whenever.
pub fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    content: &[u8],
    mode: u32,
) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    archive.append_data(&mut header, name, content)
}

/// Returns a descriptor without what only an index says.
fn bare(descriptor: &Value) -> Value {
    json!({
        "mediaType": descriptor["mediaType"],
        "digest": descriptor["digest"],
        "size": descriptor["size"],
    })
}

fn wrong(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;
