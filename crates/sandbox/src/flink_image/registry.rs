//! Pulls an image from a registry into an archive, without a container engine.
//!
//! The protocol is the distribution specification of the Open Container Initiative; every piece is checked against the
//! digest under which it was requested.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use super::make_empty;
use crate::archive::{architecture, hex};
use crate::command::{program, run};
use crate::error::Error;
use crate::progress::Progress;

/// Time to connect after which a registry is treated as unreachable.
const CONNECT: Duration = Duration::from_secs(4);
/// Time limit for a manifest, which is small.
const SMALL: Duration = Duration::from_secs(30);
/// Time limit for one layer.
const LARGE: Duration = Duration::from_mins(20);

/// Supported media types of manifests: lists for many architectures, and single images.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// An image in a registry.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    /// Address, such as `https://registry.example`.
    pub(super) registry: String,
    pub(super) repository: String,
    pub(super) tag: String,
}

/// Pulls the image for this machine's architecture, and names it `name` in the archive.
pub(super) async fn pull(
    reference: &Reference,
    name: &str,
    target: &Path,
    progress: &Progress<'_>,
) -> Result<(), Error> {
    let image = format!("{}/{}:{}", reference.registry, reference.repository, reference.tag);
    let work = target.with_extension("pull");
    make_empty(&work)?;
    let result = Pull { reference, image, work: &work, progress }.run(name, target).await;
    // Partial downloads are useless; a failure to remove them must not hide another error.
    let removed = fs::remove_dir_all(&work).map_err(Error::file("remove", &work));
    result.and(removed)
}

struct Pull<'a> {
    reference: &'a Reference,
    image: String,
    work: &'a Path,
    progress: &'a Progress<'a>,
}

/// A piece of an image, identified by its digest.
#[derive(Clone, Debug)]
struct Piece {
    digest: String,
    size: u64,
}

impl Pull<'_> {
    async fn run(&self, name: &str, target: &Path) -> Result<(), Error> {
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .user_agent(concat!("kubectl-flink/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| self.failed(error))?;
        let task = self.progress.task(format!("asking for {}", self.image));
        let (token, answer) = self.manifest(&client).await?;
        task.done();
        let media_type = media_type(&answer);
        let body = answer.bytes().await.map_err(|error| self.failed(error))?;
        let list: Value = self.parse(&body)?;
        let (manifest, media_type) = match list["manifests"].as_array() {
            None => (body.to_vec(), media_type),
            Some(choices) => {
                let digest = self.for_this_machine(choices)?;
                let path = format!("manifests/{digest}");
                let answer = self.get(&client, &path, token.as_deref(), SMALL).await?;
                let media_type = media_type_of(&answer, &media_type);
                let body = answer.bytes().await.map_err(|error| self.failed(error))?;
                self.check(&digest, &digest_of(&body))?;
                (body.to_vec(), media_type)
            }
        };
        let parsed: Value = self.parse(&manifest)?;
        let pieces = self.pieces(&parsed)?;
        let blobs = self.work.join("blobs/sha256");
        fs::create_dir_all(&blobs).map_err(Error::file("make", &blobs))?;
        let megabytes = pieces.iter().map(|piece| piece.size).sum::<u64>() / 1_000_000;
        let task = self.progress.bar(
            format!("pulling {} ({megabytes} MB)", self.image),
            pieces.len().try_into().unwrap_or(u64::MAX),
        );
        for piece in &pieces {
            self.download(&client, piece, token.as_deref(), &blobs).await?;
            task.advance();
        }
        task.done();
        self.write(name, &manifest, &media_type, target).await
    }

    /// Returns the manifest, and the token that was needed.
    async fn manifest(&self, client: &Client) -> Result<(Option<String>, Response), Error> {
        let path = format!("manifests/{}", self.reference.tag);
        let answer = self.send(client, &path, None, SMALL).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok((None, self.accepted(answer)?));
        }
        let challenge = answer.headers().get(WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let Some(address) = token_address(challenge) else {
            return Err(self.failed(format!("it requires `{challenge}`, which is not supported")));
        };
        let answer = client.get(address).timeout(SMALL).send().await;
        let answer = self.accepted(answer.map_err(|error| self.failed(error))?)?;
        let body: Value = answer.json().await.map_err(|error| self.failed(error))?;
        let token = body["token"].as_str().or(body["access_token"].as_str());
        let Some(token) = token.map(str::to_owned) else {
            return Err(self.failed("it returned no token"));
        };
        let answer = self.get(client, &path, Some(&token), SMALL).await?;
        Ok((Some(token), answer))
    }

    async fn get(
        &self,
        client: &Client,
        path: &str,
        token: Option<&str>,
        limit: Duration,
    ) -> Result<Response, Error> {
        self.accepted(self.send(client, path, token, limit).await?)
    }

    async fn send(
        &self,
        client: &Client,
        path: &str,
        token: Option<&str>,
        limit: Duration,
    ) -> Result<Response, Error> {
        let Reference { registry, repository, tag: _ } = self.reference;
        let address = format!("{}/v2/{repository}/{path}", registry.trim_end_matches('/'));
        let mut request = client.get(address).header(ACCEPT, MANIFESTS).timeout(limit);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        request.send().await.map_err(|error| self.failed(error))
    }

    fn accepted(&self, answer: Response) -> Result<Response, Error> {
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(self.failed(format!("it answered {}", answer.status())))
    }

    async fn download(
        &self,
        client: &Client,
        piece: &Piece,
        token: Option<&str>,
        blobs: &Path,
    ) -> Result<(), Error> {
        let path = blobs.join(piece.digest.trim_start_matches("sha256:"));
        let mut answer = self.get(client, &format!("blobs/{}", piece.digest), token, LARGE).await?;
        let mut file = tokio::fs::File::create(&path).await.map_err(Error::file("write", &path))?;
        let mut digest = Sha256::new();
        while let Some(bytes) = answer.chunk().await.map_err(|error| self.failed(error))? {
            digest.update(&bytes);
            file.write_all(&bytes).await.map_err(Error::file("write", &path))?;
        }
        file.flush().await.map_err(Error::file("write", &path))?;
        self.check(&piece.digest, &format!("sha256:{}", hex(&digest.finalize())))
    }

    /// Writes the archive, in the layout of the image specification.
    async fn write(
        &self,
        name: &str,
        manifest: &[u8],
        media_type: &str,
        target: &Path,
    ) -> Result<(), Error> {
        let digest = digest_of(manifest);
        let layout = json!({ "imageLayoutVersion": "1.0.0" });
        let index = json!({
            "schemaVersion": 2,
            "manifests": [{
                "mediaType": media_type,
                "digest": digest,
                "size": manifest.len(),
                "annotations": { "io.containerd.image.name": full_name(name) },
            }],
        });
        let files: [(PathBuf, Vec<u8>); 3] = [
            ("oci-layout".into(), layout.to_string().into_bytes()),
            ("index.json".into(), index.to_string().into_bytes()),
            (
                format!("blobs/sha256/{}", digest.trim_start_matches("sha256:")).into(),
                manifest.into(),
            ),
        ];
        for (file, bytes) in files {
            let path = self.work.join(file);
            fs::write(&path, bytes).map_err(Error::file("write", &path))?;
        }
        let unfinished = target.with_extension("new");
        let mut command = program("tar");
        command.arg("-C").arg(self.work).arg("-cf").arg(&unfinished);
        run(command.args(["oci-layout", "index.json", "blobs"]), LARGE).await?;
        fs::rename(&unfinished, target).map_err(Error::file("write", target))
    }

    fn for_this_machine(&self, choices: &[Value]) -> Result<String, Error> {
        let wanted = architecture();
        let choice = choices.iter().find(|choice| {
            choice["platform"]["os"] == "linux" && choice["platform"]["architecture"] == wanted
        });
        let digest = choice.and_then(|choice| choice["digest"].as_str());
        digest
            .filter(|digest| is_digest(digest))
            .map(str::to_owned)
            .ok_or_else(|| self.failed(format!("it has no image for linux and {wanted}")))
    }

    fn pieces(&self, manifest: &Value) -> Result<Vec<Piece>, Error> {
        let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
        let described = std::iter::once(manifest["config"].clone()).chain(layers);
        let pieces: Option<Vec<Piece>> = described
            .map(|piece| {
                let digest = piece["digest"].as_str().filter(|digest| is_digest(digest))?;
                Some(Piece { digest: digest.to_owned(), size: piece["size"].as_u64()? })
            })
            .collect();
        pieces
            .filter(|pieces| pieces.len() > 1)
            .ok_or_else(|| self.failed("its manifest lists no layers by SHA-256"))
    }

    fn parse(&self, body: &[u8]) -> Result<Value, Error> {
        serde_json::from_slice(body).map_err(|error| self.failed(error))
    }

    fn check(&self, asked: &str, got: &str) -> Result<(), Error> {
        if asked == got {
            return Ok(());
        }
        Err(self.failed(format!("for {asked} it returned {got}")))
    }

    fn failed(&self, message: impl ToString) -> Error {
        Error::Registry { image: self.image.clone(), message: message.to_string() }
    }
}

fn media_type(answer: &Response) -> String {
    media_type_of(answer, "application/vnd.oci.image.manifest.v1+json")
}

fn media_type_of(answer: &Response, default: &str) -> String {
    let value = answer.headers().get(reqwest::header::CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or(default).to_owned()
}

fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Returns whether this is `sha256:` and 64 digits, and so safe as a file name.
fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|digits| {
        digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns where to get a token, from `Bearer realm="https://..",service="..",scope=".."`.
fn token_address(challenge: &str) -> Option<url::Url> {
    let (scheme, parameters) = challenge.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameter = |name: &str| {
        let start = parameters.find(&format!("{name}=\""))? + name.len() + 2;
        let rest = &parameters[start..];
        rest.find('"').map(|end| &rest[..end])
    };
    let mut address = url::Url::parse(parameter("realm")?).ok()?;
    for name in ["service", "scope"] {
        if let Some(value) = parameter(name) {
            address.query_pairs_mut().append_pair(name, value);
        }
    }
    Some(address)
}

/// Returns the name as the container runtime stores it: `docker.io/library/flink:1.20`.
fn full_name(name: &str) -> String {
    match name.split_once('/') {
        None => format!("docker.io/library/{name}"),
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
    }
}

#[cfg(test)]
mod tests;
