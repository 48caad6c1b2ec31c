//! `operator image`: an image that contains only this program.
//!
//! One archive in two formats, which name the same files: an image layout of the Open Container Initiative, and that of
//! `docker save`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cli::failure::Failure;
use crate::cli::layout::{CONFIGURATION, LAYER, Layout, MANIFEST, append, names};
use crate::cli::printer::Printer;
use operator::install::values::published;
use sandbox::archive::{Start, configuration, hex};

/// User and group of the container: any but root.
const USER: &str = "9999:9999";
const PROGRAM: &str = "kubectl-flink";

/// Arguments of `operator image`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # Write an archive, and load it into the sandbox
  kubectl flink operator image --file operator.tar
  kubectl flink sandbox load-image operator.tar

  # Push it to a registry with a tool of your choice
  kubectl flink operator image --file operator.tar --tag registry.example/flink:1
  skopeo copy docker-archive:operator.tar docker://registry.example/flink:1

  # Push it with its bill of materials
  kubectl flink operator image -f operator.tar --sbom sbom.cdx.json --tag registry.example/flink:1
  oras cp --recursive --from-oci-layout operator.tar:1 registry.example/flink:1")]
pub(super) struct ImageArgs {
    /// Archive to write: an OCI image layout, which is also in the format of `docker save`
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Name of the image
    #[arg(long, value_name = "NAME:TAG", default_value_t = default_tag())]
    tag: String,
    /// Bill of materials of the program, such as that of `make sbom`, which becomes a file of the image and is attached
    /// to it
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
    /// Statically linked kubectl-flink for the image, instead of this program; for Linux on amd64 or arm64
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

fn default_tag() -> String {
    format!("{}:{}", published(), env!("CARGO_PKG_VERSION"))
}

/// Writes the archive.
pub(super) fn run(args: ImageArgs, printer: &Printer) -> anyhow::Result<()> {
    let ImageArgs { file, tag, sbom, program } = args;
    let of_this = program.is_none();
    let path = match program {
        Some(path) => path,
        None => std::env::current_exe().context("while looking for this program's own file")?,
    };
    let program = read(&path)?;
    let named = if of_this { "this program".to_owned() } else { format!("`{}`", path.display()) };
    let architecture = architecture(&program, &named)?;
    let authorities = std::fs::read(format!("/{AUTHORITIES}")).ok();
    if authorities.is_none() {
        printer.warning(format_args!(
            "the image trusts no certificate authority, because this machine has no /{AUTHORITIES}: \
             the operator cannot fetch jars over https"
        ));
    }
    let sbom = sbom.map(|path| read(&path)).transpose()?;
    let image = Image { program: &program, architecture, authorities, sbom, tag: &tag };
    let unfinished = file.with_extension("new");
    let shown = file.display();
    let writing = || format!("while writing `{shown}`");
    let output = File::create(&unfinished).with_context(writing)?;
    let output = image.write(output).with_context(writing)?;
    output.sync_all().with_context(writing)?;
    std::fs::rename(&unfinished, &file).with_context(writing)?;
    printer.line(format_args!("{shown}: {tag}"))?;
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("while reading `{}`", path.display()))
}

/// Returns the architecture that a program is for, as images name it. Rejects a dynamically linked one, as the image
/// contains no libraries.
fn architecture(program: &[u8], named: &str) -> anyhow::Result<&'static str> {
    use object::elf::{EM_AARCH64, EM_X86_64, PT_INTERP};
    use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
    let file: ElfFile64<'_> = ElfFile64::parse(program)
        .with_context(|| format!("{named} is not a 64-bit Linux program, which an image needs"))?;
    let endian = file.endian();
    if file.elf_program_headers().iter().any(|it| it.p_type(endian) == PT_INTERP) {
        return Err(Failure::new(format!(
            "{named} is dynamically linked, so it cannot run alone in an image"
        ))
        .hint("build the static one and its image: make image")
        .into());
    }
    match file.elf_header().e_machine(endian) {
        EM_X86_64 => Ok("amd64"),
        EM_AARCH64 => Ok("arm64"),
        other => {
            Err(Failure::new(format!("{named} is for machine {other}, not amd64 or arm64")).into())
        }
    }
}

/// Certificate authorities for artifact stores and endpoints outside the cluster.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Where scanners of images look for bills of materials.
const SBOM: &str = "usr/share/sbom/kubectl-flink.cdx.json";
/// Media type of a bill of materials.
const CYCLONEDX: &str = "application/vnd.cyclonedx+json";

const LABELS: [(&str, &str); 4] = [
    ("org.opencontainers.image.title", PROGRAM),
    ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION")),
    ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
    ("org.opencontainers.image.source", env!("CARGO_PKG_REPOSITORY")),
];

/// What an image is made of.
struct Image<'a> {
    program: &'a [u8],
    architecture: &'static str,
    /// Certificate authorities of this machine.
    authorities: Option<Vec<u8>>,
    sbom: Option<Vec<u8>>,
    tag: &'a str,
}

impl Image<'_> {
    /// Writes the archive. Times and owners are constants, so that the same program results in the same image.
    fn write<W: Write>(self, output: W) -> io::Result<W> {
        let (layer, digest) = self.layer()?;
        let Self { architecture, sbom, tag, .. } = self;
        let start = Start {
            entrypoint: &[&format!("/{PROGRAM}")],
            arguments: &["operate"],
            folder: "/",
            user: Some(USER),
            labels: &LABELS,
            ..Start::default()
        };
        let mut configuration = configuration(&start, &[&digest]);
        configuration["architecture"] = json!(architecture);
        let mut layout = Layout::default();
        let layer = layout.add(LAYER, layer);
        let configuration = layout.add(CONFIGURATION, configuration.to_string().into_bytes());
        let file = |descriptor: &Value| Layout::file(descriptor).unwrap_or_default();
        let of_docker = json!([{
            "Config": file(&configuration), "RepoTags": [tag], "Layers": [file(&layer)],
        }]);
        let mut image = layout.add_manifest(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": configuration,
            "layers": [layer],
            "annotations": LABELS.map(|(name, value)| (name.to_owned(), json!(value)))
                .into_iter()
                .collect::<serde_json::Map<_, _>>(),
        }));
        image["platform"] = json!({"architecture": architecture, "os": "linux"});
        image["annotations"] = names(tag);
        layout.list(image.clone());
        if let Some(sbom) = sbom {
            layout.attach(&image, CYCLONEDX, "kubectl-flink.cdx.json", sbom);
        }
        layout.write(output, &[("manifest.json", of_docker.to_string().into_bytes())])
    }

    /// Returns the compressed layer, and the digest of the uncompressed one.
    fn layer(&self) -> io::Result<(Vec<u8>, String)> {
        let mut layer = tar::Builder::new(Vec::new());
        append(&mut layer, PROGRAM, self.program, 0o755)?;
        for (name, content) in [(AUTHORITIES, &self.authorities), (SBOM, &self.sbom)] {
            if let Some(content) = content {
                append(&mut layer, name, content, 0o644)?;
            }
        }
        let layer = layer.into_inner()?;
        let digest = hex(&Sha256::digest(&layer));
        let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
        compressed.write_all(&layer)?;
        Ok((compressed.finish()?, digest))
    }
}

#[cfg(test)]
mod tests;
