//! `operator image`: an image that contains only this program.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use operator::install::values::published;
use sandbox::archive::{Start, configuration, hex, layer_file, manifest};

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
  kubectl flink operator image --file operator.tar --tag registry.example/kubectl-flink:0.1.0")]
pub(super) struct ImageArgs {
    /// Archive to write, in the format of `docker save`
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Name of the image
    #[arg(long, value_name = "NAME:TAG", default_value_t = default_tag())]
    tag: String,
    /// Bill of materials of this program, such as that of `make sbom`, which becomes a file of the image
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
}

fn default_tag() -> String {
    format!("{}:{}", published(), env!("CARGO_PKG_VERSION"))
}

/// Writes the archive.
pub(super) fn run(args: ImageArgs, printer: &Printer) -> anyhow::Result<()> {
    let ImageArgs { file, tag, sbom } = args;
    let path = std::env::current_exe().context("while looking for this program's own file")?;
    let program =
        std::fs::read(&path).with_context(|| format!("while reading `{}`", path.display()))?;
    check(&program)?;
    let sbom = sbom.map(|path| {
        std::fs::read(&path).with_context(|| format!("while reading `{}`", path.display()))
    });
    let sbom = sbom.transpose()?;
    let unfinished = file.with_extension("new");
    let shown = file.display();
    let writing = || format!("while writing `{shown}`");
    let mut output = File::create(&unfinished).with_context(writing)?;
    write(&mut output, &program, sbom.as_deref(), &tag).with_context(writing)?;
    output.sync_all().with_context(writing)?;
    std::fs::rename(&unfinished, &file).with_context(writing)?;
    printer.line(format_args!("{shown}: {tag}"))?;
    Ok(())
}

/// Rejects a dynamically linked program, as the image contains no libraries.
fn check(program: &[u8]) -> anyhow::Result<()> {
    use object::read::elf::{ElfFile64, ProgramHeader as _};
    let file: ElfFile64<'_> = ElfFile64::parse(program)
        .context("this program is not a 64-bit Linux program, which an image needs")?;
    let endian = file.endian();
    let is_dynamic =
        file.elf_program_headers().iter().any(|it| it.p_type(endian) == object::elf::PT_INTERP);
    if is_dynamic {
        return Err(Failure::new(
            "this program is dynamically linked, so it cannot run alone in an image",
        )
        .hint("build the static one and its image: make image")
        .into());
    }
    Ok(())
}

/// Certificate authorities for artifact stores and endpoints outside the cluster.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Where scanners of images look for bills of materials.
const SBOM: &str = "usr/share/sbom/kubectl-flink.cdx.json";

/// Writes the archive: a layer with the program, the certificate authorities of this machine and the bill of materials,
/// and its metadata. Times and owners are constants, so that the same program results in the same image.
fn write(output: &mut File, program: &[u8], sbom: Option<&[u8]>, tag: &str) -> std::io::Result<()> {
    let mut layer = tar::Builder::new(Vec::new());
    append(&mut layer, PROGRAM, program, 0o755)?;
    if let Ok(authorities) = std::fs::read(format!("/{AUTHORITIES}")) {
        append(&mut layer, AUTHORITIES, &authorities, 0o644)?;
    }
    if let Some(sbom) = sbom {
        append(&mut layer, SBOM, sbom, 0o644)?;
    }
    let layer = layer.into_inner()?;
    // The digest is that of the uncompressed layer; tools that load it detect the compression.
    let digest = hex(&Sha256::digest(&layer));
    let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
    compressed.write_all(&layer)?;
    let layer = compressed.finish()?;
    let start = Start {
        entrypoint: &[&format!("/{PROGRAM}")],
        arguments: &["operate"],
        folder: "/",
        user: Some(USER),
        labels: &[
            ("org.opencontainers.image.title", PROGRAM),
            ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION")),
            ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
            ("org.opencontainers.image.source", env!("CARGO_PKG_REPOSITORY")),
        ],
        ..Start::default()
    };
    let configuration = configuration(&start, &[&digest]);
    let manifest = manifest(tag, &[&digest]);
    let mut archive = tar::Builder::new(output);
    append(&mut archive, "manifest.json", manifest.to_string().as_bytes(), 0o644)?;
    append(&mut archive, "config.json", configuration.to_string().as_bytes(), 0o644)?;
    append(&mut archive, &layer_file(&digest), &layer, 0o644)?;
    archive.into_inner()?.flush()
}

fn append<W: std::io::Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    content: &[u8],
    mode: u32,
) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    archive.append_data(&mut header, name, content)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::Path;

    use super::*;

    #[test]
    fn an_image_has_its_bill_of_materials() {
        let mut file = tempfile::tempfile().unwrap();
        write(&mut file, b"program", Some(b"{}"), "a:1").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut archive = tar::Archive::new(file);
        let mut entries = archive.entries().unwrap().map(Result::unwrap);
        let is_layer = |name: &Path| name.extension().is_some_and(|it| it == "tar");
        let layer = entries.find(|entry| is_layer(&entry.path().unwrap())).unwrap();
        let mut layer = tar::Archive::new(flate2::read::GzDecoder::new(layer));
        let mut entries = layer.entries().unwrap().map(Result::unwrap);
        let mut sbom = entries.find(|entry| *entry.path().unwrap() == *Path::new(SBOM)).unwrap();
        let mut text = String::new();
        sbom.read_to_string(&mut text).unwrap();
        assert_eq!(text, "{}");
    }
}
