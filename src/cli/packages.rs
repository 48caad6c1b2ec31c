//! The hidden `__layout`: image layouts of what a release publishes, written by `dist/release.sh`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

use super::layout::{Layout, MANIFEST, TAG, of_all_machines};
use super::printer::Printer;

const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const OF_CHART: &str = "application/vnd.cncf.helm.config.v1+json";
const REPOSITORY: &str = "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml";
const OF_REPOSITORY: &str = "application/vnd.cncf.artifacthub.config.v1+yaml";
/// Tag under which Artifact Hub looks for what is known about a repository.
const REPOSITORY_TAG: &str = "artifacthub.io";

/// Arguments of the hidden `__layout`.
#[derive(Args)]
pub struct LayoutArgs {
    #[command(subcommand)]
    of: Of,
}

#[derive(Subcommand)]
enum Of {
    /// One index of the images for different machines
    Images {
        /// Archives of `operator image`
        #[arg(required = true)]
        images: Vec<PathBuf>,
        /// Archive to write
        #[arg(long)]
        file: PathBuf,
    },
    /// A chart as `helm push` publishes it
    Chart {
        /// Packaged chart
        package: PathBuf,
        /// What Artifact Hub is told about the repository
        #[arg(long)]
        repository: Option<PathBuf>,
        /// Archive to write
        #[arg(long)]
        file: PathBuf,
    },
}

/// Writes the layout, and prints the digest of each tag in it.
pub fn layout(args: LayoutArgs, printer: &Printer) -> anyhow::Result<()> {
    let (layout, file) = match args.of {
        Of::Images { images, file } => {
            let read = |path: &PathBuf| -> anyhow::Result<Layout> {
                let reading = || format!("while reading the image `{}`", path.display());
                Layout::read(File::open(path).with_context(reading)?).with_context(reading)
            };
            let layouts = images.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
            let all = of_all_machines(layouts).context("while joining the images")?;
            (all, file)
        }
        Of::Chart { package, repository, file } => {
            let repository = repository.map(|path| read(&path)).transpose()?;
            let chart = chart(read(&package)?, repository)
                .with_context(|| format!("while reading the chart `{}`", package.display()))?;
            (chart, file)
        }
    };
    let writing = || format!("while writing `{}`", file.display());
    let output = File::create(&file).with_context(writing)?;
    layout.write(output, &[]).with_context(writing)?;
    for manifest in layout.manifests() {
        if let (Some(tag), Some(digest)) =
            (manifest["annotations"][TAG].as_str(), manifest["digest"].as_str())
        {
            printer.line(format_args!("{tag} {digest}"))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("while reading `{}`", path.display()))
}

/// Returns the layout of a packaged chart: its `Chart.yaml` as the configuration, and the package as the only layer.
fn chart(package: Vec<u8>, repository: Option<Vec<u8>>) -> anyhow::Result<Layout> {
    let about = about(&package)?;
    let text = |name: &str| about[name].as_str().map(str::to_owned);
    let (Some(name), Some(version)) = (text("name"), text("version")) else {
        bail!("its Chart.yaml has no name or version");
    };
    let annotations = [
        ("title", Some(name)),
        ("version", Some(version.clone())),
        ("description", text("description")),
        ("url", text("home")),
        ("source", about["sources"][0].as_str().map(str::to_owned)),
    ];
    let annotations: Map<String, Value> = annotations
        .into_iter()
        .filter_map(|(key, value)| Some((format!("org.opencontainers.image.{key}"), json!(value?))))
        .collect();
    let mut layout = Layout::default();
    let config = layout.add(OF_CHART, about.to_string().into_bytes());
    let layer = layout.add(CHART, package);
    // A tag has no plus sign, which Helm replaces in the same way.
    let tag = version.replace('+', "_");
    list(&mut layout, &tag, config, layer, annotations);
    if let Some(repository) = repository {
        let config = layout.add(OF_REPOSITORY, Vec::new());
        let mut layer = layout.add(REPOSITORY, repository);
        layer["annotations"] = json!({"org.opencontainers.image.title": "artifacthub-repo.yml"});
        list(&mut layout, REPOSITORY_TAG, config, layer, Map::new());
    }
    Ok(layout)
}

fn list(
    layout: &mut Layout,
    tag: &str,
    config: Value,
    layer: Value,
    annotations: Map<String, Value>,
) {
    let mut manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
    });
    if !annotations.is_empty() {
        manifest["annotations"] = Value::Object(annotations);
    }
    let mut descriptor = layout.add_manifest(&manifest);
    descriptor["annotations"] = json!({TAG: tag});
    layout.list(descriptor);
}

/// Returns the `Chart.yaml` of a packaged chart, which is in its only folder.
fn about(package: &[u8]) -> anyhow::Result<Value> {
    for entry in tar::Archive::new(GzDecoder::new(package)).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if path.components().count() == 2 && path.ends_with("Chart.yaml") {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            return Ok(serde_yaml::from_str(&text)?);
        }
    }
    bail!("it has no Chart.yaml")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn packaged(about: &str) -> Vec<u8> {
        let output = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(output);
        crate::cli::layout::append(&mut archive, "c/Chart.yaml", about.as_bytes(), 0o644).unwrap();
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn a_chart_is_laid_out_as_helm_pushes_it() {
        let package = packaged("name: c\nversion: 1.0.0+a\nhome: https://c.example\n");
        let layout = chart(package.clone(), Some(b"owners: []\n".to_vec())).unwrap();
        let mut archive = Vec::new();
        layout.write(&mut archive, &[]).unwrap();
        let layout = Layout::read(archive.as_slice()).unwrap();
        let [of_chart, repository] = layout.manifests() else { panic!("{layout:?}") };
        assert_eq!(of_chart["annotations"][TAG], "1.0.0_a");
        let manifest: Value = serde_json::from_slice(layout.content(of_chart).unwrap()).unwrap();
        assert_eq!(layout.content(&manifest["layers"][0]).unwrap(), package);
        let config = String::from_utf8(layout.content(&manifest["config"]).unwrap().to_vec());
        expect![[r#"{"name":"c","version":"1.0.0+a","home":"https://c.example"}"#]]
            .assert_eq(&config.unwrap());
        expect![[r#"
            {
              "org.opencontainers.image.title": "c",
              "org.opencontainers.image.version": "1.0.0+a",
              "org.opencontainers.image.url": "https://c.example"
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&manifest["annotations"]).unwrap());
        assert_eq!(repository["annotations"][TAG], REPOSITORY_TAG);
        assert!(chart(packaged("name: c\n"), None).is_err());
        assert!(chart(b"no archive".to_vec(), None).is_err());
    }
}
