//! The layer with the system: a minimal Debian with Java, the same for every version of Flink.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mirror::{mirror, suite};
use super::{FLINK_ID, files, make_empty, short_digest, tar_command, write_whole};
use crate::command::{SHORT, program, run, run_logged, system_path};
use crate::error::Error;
use crate::image::Layer;
use crate::process::remove;
use crate::progress::Progress;
use crate::state::cache;

/// Packages of the image besides a minimal system and Java.
pub(super) const PACKAGES: [&str; 6] =
    ["ca-certificates", "curl", "gettext-base", "gosu", "libjemalloc2", "procps"];
/// Java versions that run Flink, in order of preference for most versions of Flink.
const JAVA_VERSIONS: [u32; 3] = [17, 21, 11];
/// Time limit for building the system.
const LONG: Duration = Duration::from_mins(20);
/// Folders whose content an image does not need.
const NEEDLESS: [&str; 7] = [
    "var/cache/apt/archives",
    "var/lib/apt/lists",
    "var/log",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "tmp",
];

/// Facts about the layer, as stored in the cache.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct System {
    digest: String,
    pub(super) java_home: String,
}

/// Returns the layer with a minimal system and Java.
pub(super) async fn system(progress: &Progress<'_>) -> Result<(Layer, System), Error> {
    let suite = suite()?;
    let mirror = mirror(&suite)?;
    let java = java_package().await;
    let folder = cache()?.join("images");
    fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
    let key = short_digest(&[&suite, &java, &PACKAGES.join(" "), std::env::consts::ARCH]);
    let (layer, facts) =
        (folder.join(format!("system-{key}.tar")), folder.join(format!("system-{key}.json")));
    let known = fs::read_to_string(&facts).ok();
    if let Some(system) = known.and_then(|text| serde_json::from_str::<System>(&text).ok())
        && layer.exists()
    {
        return Ok((Layer { file: layer, digest: system.digest.clone() }, system));
    }

    let task = progress.task(format!("creating a minimal {suite} with {java} (once)"));
    let root = folder.join("root");
    make_empty(&root)?;
    let log = folder.join("debootstrap.log");
    remove(&log)?;
    let mut packages = vec![java.as_str()];
    packages.extend(PACKAGES);
    // In its own mount namespace: its mounts disappear with it, however it ends.
    let mut command = program("unshare");
    command.arg("--mount").arg("debootstrap").arg("--variant=minbase");
    command.arg(format!("--include={}", packages.join(",")));
    command.arg(format!("--components={}", mirror.components.join(",")));
    command.arg(&suite).arg(&root).arg(&mirror.address);
    command.env("PATH", system_path());
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

/// Removes what belongs to this machine or is useless in a container.
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
        Error::Refused("the system was created without Java: see the log of debootstrap".to_owned())
    })
}

/// Returns the package of the first of `JAVA_VERSIONS` that this machine's package sources have.
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
