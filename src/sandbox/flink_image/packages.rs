//! A Flink image out of packages: Debian's for the system and Java, Python's for Flink.
//!
//! Two layers: the system, which is the same for every version of Flink, and Flink. Both come
//! through the clients that the machine has, from where the machine is configured to get them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Archive, Options, make_empty, short_digest, write_whole};
use crate::sandbox::command::{SHORT, program, run, run_logged};
use crate::sandbox::error::Error;
use crate::sandbox::image::{Layer, Start, write_archive};
use crate::sandbox::process::remove;
use crate::sandbox::progress::Progress;
use crate::sandbox::requirements::{Purpose, check, pip};
use crate::sandbox::state::cache;

const ENTRYPOINT: &str = include_str!("../../../sandbox/flink-image/docker-entrypoint.sh");
/// What the image has beside a minimal system and Java.
const SYSTEM_PACKAGES: [&str; 6] =
    ["ca-certificates", "curl", "gettext-base", "gosu", "libjemalloc2", "procps"];
/// Java versions that run Flink, the one that most versions of Flink take first.
const JAVA_VERSIONS: [u32; 3] = [17, 21, 11];
/// User and group of Flink's containers, the ids of the official image.
const FLINK_ID: u32 = 9999;
/// Python versions that wheels of Flink were made for.
const PYTHON_VERSIONS: [&str; 6] = ["3.11", "3.10", "3.9", "3.8", "3.7", "3.6"];
/// Bound for each download, and for making the system.
const LONG: Duration = Duration::from_mins(20);
/// Folders whose content an image does without.
const NEEDLESS: [&str; 7] = [
    "var/cache/apt/archives",
    "var/lib/apt/lists",
    "var/log",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "tmp",
];

/// The layer with the system, and what has to be known of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct System {
    digest: String,
    java_home: String,
}

/// Makes the image, or as much of it as is not there.
pub(super) async fn archive(
    options: &Options,
    tag: &str,
    progress: &Progress<'_>,
) -> Result<Archive, Error> {
    if let Some(archive) = cached(options, tag)? {
        return Ok(archive);
    }
    check(Purpose::FlinkImage, false, options.install, progress).await?;
    let version = distribution(&options.version, progress).await?;
    let (system_layer, system) = system(progress).await?;

    let task = progress.task(format!("writing the image `{tag}` with Flink {version}"));
    let folder = folder(&version)?;
    let work = folder.join("work");
    make_empty(&work)?;
    let flink_layer = flink_layer(&folder.join("distribution"), &work).await?;
    let environment = [
        "PATH=/opt/flink/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            .to_owned(),
        "FLINK_HOME=/opt/flink".to_owned(),
        format!("JAVA_HOME={}", system.java_home),
        "LANG=C.UTF-8".to_owned(),
    ];
    let start = Start {
        entrypoint: &["/docker-entrypoint.sh"],
        arguments: &["help"],
        environment: &environment,
        folder: "/opt/flink",
    };
    let archive = located(&version, tag)?;
    let layers = [system_layer, flink_layer];
    write_archive(tag, &start, &layers, &work, &archive.file).await?;
    fs::remove_dir_all(&work).map_err(Error::file("remove", &work))?;
    write_whole(&resolution(&options.version)?, &version)?;
    task.done();
    Ok(archive)
}

/// The image, where it was made before.
pub(super) fn cached(options: &Options, tag: &str) -> Result<Option<Archive>, Error> {
    let Ok(version) = fs::read_to_string(resolution(&options.version)?) else { return Ok(None) };
    Ok(Some(located(version.trim(), tag)?).filter(|archive| archive.file.exists()))
}

/// Where the archive is kept, whether or not it is there.
fn located(version: &str, tag: &str) -> Result<Archive, Error> {
    let folder = folder(version)?;
    let key = short_digest(&["packages", version, tag, ENTRYPOINT, &SYSTEM_PACKAGES.join(" ")]);
    Ok(Archive {
        version: version.to_owned(),
        file: folder.join(format!("image-{key}.tar")),
        key,
        distribution: Some(folder.join("distribution")),
    })
}

fn folder(version: &str) -> Result<PathBuf, Error> {
    Ok(cache()?.join("flink").join(version))
}

/// The file that says which version `asked` came to mean.
fn resolution(asked: &str) -> Result<PathBuf, Error> {
    Ok(cache()?.join("flink").join(format!("{asked}.version")))
}

// --- Flink -----------------------------------------------------------------------------------

/// Makes sure that Flink itself is in the cache, and answers its exact version.
async fn distribution(asked: &str, progress: &Progress<'_>) -> Result<String, Error> {
    let is_exact = asked.split('.').count() == 3;
    if is_exact && folder(asked)?.join("distribution").exists() {
        return Ok(asked.to_owned());
    }
    let work = cache()?.join("flink/download");
    make_empty(&work)?;
    let task = progress.task(format!("downloading Flink {asked} (once, 230 MB)"));
    let wanted = if is_exact { asked.to_owned() } else { format!("{asked}.*") };
    let libraries = ["--no-binary=:all:".to_owned(), format!("apache-flink-libraries=={wanted}")];
    pip_download(&work, &libraries, |line| task.detail(line)).await?;
    let source = downloaded(&work, ".tar.gz")?;
    let version = version_of(&source).ok_or_else(|| {
        Error::Refused(format!("`{source}` is no source package of apache-flink-libraries"))
    })?;
    wheel(&work, &version).await?;
    task.done();

    let task = progress.task(format!("unpacking Flink {version}"));
    let mut command = program("tar");
    command.arg("-xzf").arg(work.join(&source)).arg("-C").arg(&work);
    run(&mut command, LONG).await?;
    let unpacked = work.join("wheel");
    let mut command = program("python3");
    command.args(["-m", "zipfile", "-e"]).arg(work.join(downloaded(&work, ".whl")?)).arg(&unpacked);
    run(&mut command, LONG).await?;

    let made = work.join(source.trim_end_matches(".tar.gz")).join("deps");
    for part in ["bin", "conf"] {
        let mut command = program("cp");
        command.arg("-r").arg(unpacked.join("pyflink").join(part)).arg(&made);
        run(&mut command, SHORT).await?;
    }
    for path in files(&made.join("bin"))? {
        // The archive of a wheel is unpacked without its permissions.
        let permissions =
            if path.extension().is_some_and(|end| end == "jar") { 0o644 } else { 0o755 };
        fs::set_permissions(&path, fs::Permissions::from_mode(permissions))
            .map_err(Error::file("change", &path))?;
    }
    for empty in ["log", "usrlib"] {
        let path = made.join(empty);
        fs::create_dir_all(&path).map_err(Error::file("make", &path))?;
    }
    let target = folder(&version)?;
    make_empty(&target)?;
    let target = target.join("distribution");
    fs::rename(&made, &target).map_err(Error::file("make", &target))?;
    fs::remove_dir_all(&work).map_err(Error::file("remove", &work))?;
    task.done();
    Ok(version)
}

/// Flink's scripts and default configuration; no wheel is for every Python and every system.
async fn wheel(work: &Path, version: &str) -> Result<(), Error> {
    let machine = std::env::consts::ARCH;
    let mut refused = None;
    for python in PYTHON_VERSIONS {
        let arguments = [
            "--only-binary=:all:".to_owned(),
            format!("--python-version={python}"),
            format!("--platform=manylinux1_{machine}"),
            format!("--platform=manylinux2014_{machine}"),
            format!("apache-flink=={version}"),
        ];
        match pip_download(work, &arguments, |_| {}).await {
            Ok(()) => return Ok(()),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| Error::Refused("no Python version is known".to_owned())))
}

async fn pip_download(
    work: &Path,
    arguments: &[String],
    each_line: impl FnMut(&str),
) -> Result<(), Error> {
    let Some(pip) = pip().await else {
        return Err(Error::Refused("pip has gone since it was looked for".to_owned()));
    };
    let mut command = program(&pip[0]);
    command.args(&pip[1..]).args(["download", "--no-deps", "--disable-pip-version-check"]);
    command.arg("--progress-bar=off").arg("--dest").arg(work).args(arguments);
    run_logged(&mut command, LONG, &cache()?.join("flink/download.log"), each_line).await
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::file("read", folder))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
}

/// Name of the file in `work` that ends like this.
fn downloaded(work: &Path, end: &str) -> Result<String, Error> {
    let names = files(work)?
        .into_iter()
        .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    names
        .into_iter()
        .find(|name| name.ends_with(end))
        .ok_or_else(|| Error::Refused(format!("pip left no file `*{end}` in `{}`", work.display())))
}

/// The version out of `apache_flink_libraries-1.20.5.tar.gz`.
fn version_of(source: &str) -> Option<String> {
    let (name, version) = source.strip_suffix(".tar.gz")?.rsplit_once('-')?;
    (name.replace('_', "-") == "apache-flink-libraries").then(|| version.to_owned())
}

/// The layer with Flink, as it is seen from the image's root.
async fn flink_layer(distribution: &Path, work: &Path) -> Result<Layer, Error> {
    let script = work.join("docker-entrypoint.sh");
    fs::write(&script, ENTRYPOINT).map_err(Error::file("write", &script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .map_err(Error::file("change", &script))?;
    let layer = work.join("flink.tar");
    let mut command = tar_command();
    command.args(["--owner=0", "--group=0"]).arg("-C").arg(work);
    run(command.arg("-cf").arg(&layer).arg("docker-entrypoint.sh"), LONG).await?;
    let mut command = tar_command();
    command.arg(format!("--owner={FLINK_ID}")).arg(format!("--group={FLINK_ID}"));
    command.arg("--transform=s,^[.],opt/flink,S").arg("-C").arg(distribution);
    run(command.arg("-rf").arg(&layer).arg("."), LONG).await?;
    Layer::of_file(&layer).await
}

/// `tar` whose archives depend on nothing but the files.
fn tar_command() -> tokio::process::Command {
    let mut command = program("tar");
    command.args(["--numeric-owner", "--sort=name"]);
    command
}

// --- System ----------------------------------------------------------------------------------

/// The layer with a minimal system and Java.
async fn system(progress: &Progress<'_>) -> Result<(Layer, System), Error> {
    let suite = suite()?;
    let mirror = mirror(&suite)?;
    let java = java_package().await;
    let folder = cache()?.join("images");
    fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
    let key = short_digest(&[&suite, &java, &SYSTEM_PACKAGES.join(" "), std::env::consts::ARCH]);
    let (layer, facts) =
        (folder.join(format!("system-{key}.tar")), folder.join(format!("system-{key}.json")));
    let known = fs::read_to_string(&facts).ok();
    if let Some(system) = known.and_then(|text| serde_json::from_str::<System>(&text).ok())
        && layer.exists()
    {
        return Ok((Layer { file: layer, digest: system.digest.clone() }, system));
    }

    let task = progress.task(format!("making a minimal {suite} with {java} (once)"));
    let root = folder.join("root");
    make_empty(&root)?;
    let log = folder.join("debootstrap.log");
    remove(&log)?;
    let mut packages = vec![java.as_str()];
    packages.extend(SYSTEM_PACKAGES);
    // In a mount namespace of its own: what it mounts is gone with it, however it ends.
    let mut command = program("unshare");
    command.arg("--mount").arg("debootstrap").arg("--variant=minbase");
    command.arg(format!("--include={}", packages.join(",")));
    command.arg(format!("--components={}", mirror.components.join(",")));
    command.arg(&suite).arg(&root).arg(&mirror.address);
    command.env("PATH", crate::sandbox::node::system_path().unwrap_or_default());
    run_logged(&mut command, LONG, &log, |line| task.detail(line)).await?;
    add_user(&root).await?;
    strip(&root)?;

    let unfinished = layer.with_extension("new");
    let mut command = tar_command();
    for special in ["./dev/*", "./proc/*", "./sys/*"] {
        command.arg(format!("--exclude={special}"));
    }
    command.arg("-C").arg(&root).arg("-cf").arg(&unfinished).arg(".");
    run(&mut command, LONG).await?;
    fs::rename(&unfinished, &layer).map_err(Error::file("write", &layer))?;
    let layer = Layer::of_file(&layer).await?;
    let system = System { digest: layer.digest.clone(), java_home: java_home(&root)? };
    write_whole(&facts, &serde_json::to_string(&system).unwrap_or_default())?;
    fs::remove_dir_all(&root).map_err(Error::file("remove", &root))?;
    task.done();
    Ok((layer, system))
}

async fn add_user(root: &Path) -> Result<(), Error> {
    let id = FLINK_ID.to_string();
    let group = ["groupadd", "--system", "--gid", &id, "flink"];
    let user = [
        "useradd",
        "--system",
        "--uid",
        &id,
        "--gid",
        "flink",
        "--home-dir",
        "/opt/flink",
        "flink",
    ];
    for words in [&group[..], &user[..]] {
        let mut command = program("chroot");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").arg(root).args(words);
        run(&mut command, SHORT).await?;
    }
    Ok(())
}

/// Removes what belongs to this machine or is of no use in a container.
fn strip(root: &Path) -> Result<(), Error> {
    for folder in NEEDLESS.iter().map(|folder| root.join(folder)) {
        for path in files(&folder).unwrap_or_default() {
            let removed = if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.map_err(Error::file("remove", &path))?;
        }
    }
    // Kubernetes gives every container its own.
    for file in ["etc/resolv.conf", "etc/hostname"] {
        remove(&root.join(file))?;
    }
    Ok(())
}

fn java_home(root: &Path) -> Result<String, Error> {
    let folder = root.join("usr/lib/jvm");
    let mut homes: Vec<_> = files(&folder)?
        .into_iter()
        .filter(|path| path.join("bin/java").exists() && !path.is_symlink())
        .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
        .collect();
    homes.sort();
    homes.pop().map(|name| format!("/usr/lib/jvm/{name}")).ok_or_else(|| {
        Error::Refused("the system was made without Java: see the log of debootstrap".to_owned())
    })
}

/// The newest Java among those that Flink runs on which this machine's packages have.
async fn java_package() -> String {
    let name = |version: u32| format!("openjdk-{version}-jre-headless");
    for version in JAVA_VERSIONS {
        let mut command = program("apt-cache");
        command.args(["show", "--no-all-versions", &name(version)]);
        if run(&mut command, SHORT).await.is_ok_and(|said| said.contains("Package:")) {
            return name(version);
        }
    }
    name(JAVA_VERSIONS[0])
}

/// Code name of this machine's distribution.
fn suite() -> Result<String, Error> {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    code_name(&text).ok_or_else(|| {
        Error::Refused(
            "/etc/os-release names no VERSION_CODENAME: an image can be built from packages on \
             Debian and Ubuntu only"
                .to_owned(),
        )
    })
}

fn code_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(value.trim().trim_matches('"').to_owned()).filter(|name| !name.is_empty())
}

/// Where a suite's packages come from.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Mirror {
    address: String,
    components: Vec<String>,
}

/// The mirror that this machine's own packages come from.
fn mirror(suite: &str) -> Result<Mirror, Error> {
    let folder = Path::new("/etc/apt/sources.list.d");
    let mut paths = files(folder).unwrap_or_default();
    paths.sort();
    paths.insert(0, PathBuf::from("/etc/apt/sources.list"));
    paths
        .iter()
        .find_map(|path| {
            let text = fs::read_to_string(path).ok()?;
            match path.extension()?.to_str()? {
                "list" => mirror_in_lines(&text, suite),
                "sources" => mirror_in_paragraphs(&text, suite),
                _ => None,
            }
        })
        .ok_or_else(|| {
            Error::Refused(format!(
                "no source of packages for `{suite}` is in /etc/apt/sources.list or sources.list.d"
            ))
        })
}

fn is_mirror(address: &str) -> bool {
    ["http://", "https://", "file:/"].iter().any(|scheme| address.starts_with(scheme))
}

/// Lines such as `deb [options] http://mirror/debian bookworm main`.
fn mirror_in_lines(text: &str, suite: &str) -> Option<Mirror> {
    text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        let mut words = rest.split_whitespace();
        let address = words.next().filter(|address| is_mirror(address))?.to_owned();
        (words.next()? == suite)
            .then(|| Mirror { address, components: words.map(str::to_owned).collect() })
    })
}

/// Paragraphs of `Types:`, `URIs:`, `Suites:` and `Components:`.
fn mirror_in_paragraphs(text: &str, suite: &str) -> Option<Mirror> {
    let without_comments: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#')).map(str::trim_end).collect();
    without_comments.split(|line| line.is_empty()).find_map(|paragraph| {
        let words = |field: &str| -> Vec<String> {
            let found = paragraph.iter().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case(field).then_some(value)
            });
            found.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        let is_for_us = words("Types").iter().any(|kind| kind == "deb")
            && words("Suites").iter().any(|found| found == suite)
            && words("Enabled") != ["no"];
        let address = words("URIs").into_iter().find(|address| is_mirror(address))?;
        is_for_us.then(|| Mirror { address, components: words("Components") })
    })
}

#[cfg(test)]
mod tests;
