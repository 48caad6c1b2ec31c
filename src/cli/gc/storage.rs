//! Files and ZooKeeper nodes that clusters keep outside of Kubernetes: finding, inspecting and removing them.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use jiff::Timestamp;

use api::version::FlinkVersion;
use clients::artifact::storage::{self, Error, File, Storage};
use clients::cluster::users::Users;
use clients::zookeeper::{self, Ensemble};
use config::cluster::is_zookeeper_high_availability_on;
use config::{FlinkConfig, OperatorConfig, options};
use state::garbage::storage::{
    Finding, Folder, Kind, Place, SAVEPOINT_PREFIX, View, is_uuid, names_in,
};
use state::garbage::{ClusterName, job_ids_in};
use state::metadata;

/// Number of folders read concurrently.
const CONCURRENCY: usize = 8;
/// Maximum number of configurations tried to open a place with.
const WAYS_MAX: usize = 5;
/// Number of attempts to read a folder in which a running job replaces files.
const TRIES: usize = 3;
/// The folders in `high-availability.storageDir` that do not belong to a cluster.
const RESULT_STORES: [&str; 2] = ["job-result-store", "application-result-store"];
const METADATA: &str = "_metadata";
/// Prefix of the files that Flink keeps of checkpoints in `high-availability.storageDir`.
const COMPLETED_CHECKPOINT: &str = "completedCheckpoint";

/// Everything that was found, and how to reach it.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) places: Vec<Place>,
    ways: BTreeMap<(Kind, String), Way>,
}

enum Way {
    /// The storage, and the files of each folder.
    Files(Box<Storage>, BTreeMap<String, Vec<File>>),
    /// A configuration that names the ensemble.
    ZooKeeper(Box<Configuration>),
}

/// A configuration that names a place: the operator's defaults alone, and everything merged.
#[derive(Clone)]
struct Configuration {
    operator: FlinkConfig,
    all: FlinkConfig,
}

/// The clusters that name a place, and their configurations.
#[derive(Default)]
struct Named {
    users: BTreeSet<ClusterName>,
    configurations: Vec<Configuration>,
}

/// Inspects every place that any cluster is configured with; `emit` is called with each place before it is read.
pub(super) async fn inspect(users: &Users, operator: &OperatorConfig, emit: impl Fn(&str)) -> Seen {
    let mut seen = Seen::default();
    for ((kind, uri), mut named) in places(users, operator) {
        let shown = storage::shown(&uri);
        emit(&shown);
        let (view, way) =
            inspect_place(kind, &uri, &named.configurations, &users.references.names).await;
        let others = users.users.iter().filter(|(_, user)| user.names_place(&uri));
        named.users.extend(others.map(|(cluster, _)| cluster.clone()));
        seen.ways.extend(way.map(|way| ((kind, shown.clone()), way)));
        seen.places.push(Place { kind, uri: shown, users: named.users, view });
    }
    seen
}

impl Seen {
    /// Removes what was found if it has not changed since, and returns whether it did.
    ///
    /// # Errors
    /// Files and nodes that were not removed yet are found again by the next run.
    pub(super) async fn remove(&self, finding: &Finding) -> anyhow::Result<bool> {
        match self.ways.get(&(finding.kind, finding.place.clone())) {
            Some(Way::Files(storage, files)) => {
                let listed = files.get(&finding.below).map(Vec::as_slice).unwrap_or_default();
                Ok(storage.remove(&finding.below, listed).await?)
            }
            Some(Way::ZooKeeper(configuration)) => {
                let Configuration { operator, mut all } = (**configuration).clone();
                all.force(&options::HA_CLUSTER_ID, &finding.below);
                zookeeper::delete(&Ensemble::from_config(&all, &operator)?, None).await?;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

/// Returns every place that a cluster's configuration names.
fn places(users: &Users, operator: &OperatorConfig) -> BTreeMap<(Kind, String), Named> {
    let mut places: BTreeMap<(Kind, String), Named> = BTreeMap::new();
    for (cluster, user) in &users.users {
        // Defaults may apply to one version of Flink only.
        let versions = FlinkVersion::ALL.iter().copied().filter(|of| user.mentions(of.into_str()));
        let versions: Vec<_> = std::iter::once(None).chain(versions.map(Some)).collect();
        for own in &user.configurations {
            let mut found = BTreeMap::new();
            for version in &versions {
                let operator = operator.defaults(&cluster.namespace, *version);
                let mut all = operator.clone();
                all.overlay(own);
                all.force(&options::HA_CLUSTER_ID, &cluster.name);
                for place in places_in(&operator, &all) {
                    let (operator, all) = (operator.clone(), all.clone());
                    found.entry(place).or_insert(Configuration { operator, all });
                }
            }
            for (place, configuration) in found {
                let named = places.entry(place).or_default();
                named.users.insert(cluster.clone());
                if named.configurations.len() < WAYS_MAX {
                    named.configurations.push(configuration);
                }
            }
        }
    }
    places
}

fn places_in(operator: &FlinkConfig, config: &FlinkConfig) -> Vec<(Kind, String)> {
    let uri = |option| config.text_of(option).map(|uri| uri.trim().trim_end_matches('/'));
    let uri = |option| uri(option).filter(|uri| !uri.is_empty()).map(str::to_owned);
    let mut places = Vec::new();
    places.extend(uri(&options::CHECKPOINT_DIRECTORY).map(|uri| (Kind::Checkpoints, uri)));
    places.extend(uri(&options::SAVEPOINT_DIRECTORY).map(|uri| (Kind::Savepoint, uri)));
    if let Some(uri) = uri(&options::HA_STORAGE_DIRECTORY) {
        let stores = RESULT_STORES.map(|store| (Kind::JobResultStore, format!("{uri}/{store}")));
        places.extend(stores);
        places.push((Kind::HaStorage, uri));
    }
    if is_zookeeper_high_availability_on(config) {
        // An ensemble that cannot be reached is shown as written.
        let quorum = config.text_of(&options::ZOOKEEPER_QUORUM).unwrap_or_default().trim();
        let place = Ensemble::from_config(config, operator).map(|ensemble| ensemble.place());
        let place = place.unwrap_or_else(|_| format!("zookeeper://{quorum}"));
        places.push((Kind::ZooKeeperNodes, place));
    }
    places
}

/// Opens the place with the first configuration that works, and inspects all of it.
async fn inspect_place(
    kind: Kind,
    uri: &str,
    configurations: &[Configuration],
    mentioned: &BTreeSet<String>,
) -> (View, Option<Way>) {
    let mut why = String::new();
    for configuration in configurations {
        let Configuration { operator, all } = configuration;
        let looked = if kind == Kind::ZooKeeperNodes {
            inspect_zookeeper(configuration).await
        } else {
            inspect_storage(kind, uri, (operator, all), mentioned).await
        };
        match looked {
            Ok((folders, way)) => return (View::Complete(folders), Some(way)),
            Err(Error::Hidden { problem }) => why = problem,
            Err(other) => return (View::Failed(other.to_string()), None),
        }
    }
    (View::Hidden(why), None)
}

async fn inspect_zookeeper(configuration: &Configuration) -> Result<(Vec<Folder>, Way), Error> {
    let from = |error: zookeeper::Error| {
        let problem = error.to_string();
        if error.is_transient() { Error::Failed { problem } } else { Error::Hidden { problem } }
    };
    let Configuration { operator, all } = configuration;
    let found = zookeeper::clusters(&Ensemble::from_config(all, operator).map_err(from)?).await;
    let folders = found.map_err(from)?.into_iter().map(|found| Folder {
        cluster: Some(found.name.clone()),
        changed: Timestamp::from_millisecond(found.changed_millis).ok(),
        size_bytes: found.size_bytes,
        count: found.nodes,
        is_recognized: found.is_of_flink,
        has_state: found.has_state,
        is_in_use: found.is_in_use,
        // The cluster's storage holds the files that its nodes refer to.
        names: [found.name.to_ascii_lowercase()].into(),
        path: found.name,
    });
    Ok((folders.collect(), Way::ZooKeeper(Box::new(configuration.clone()))))
}

async fn inspect_storage(
    kind: Kind,
    uri: &str,
    (operator, config): (&FlinkConfig, &FlinkConfig),
    mentioned: &BTreeSet<String>,
) -> Result<(Vec<Folder>, Way), Error> {
    let storage = Storage::open(uri, operator, config)?;
    let paths = paths(kind, &storage).await?;
    let looked: Vec<_> = stream::iter(paths)
        .map(|path| {
            let storage = &storage;
            async move { inspect_files(kind, storage, path, mentioned).await }
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    let mut folders = Vec::new();
    let mut files = BTreeMap::new();
    for one in looked {
        let (folder, its) = one?;
        files.insert(folder.path.clone(), its);
        folders.push(folder);
    }
    Ok((folders, Way::Files(Box::new(storage), files)))
}

/// Returns the folders whose names fit the kind.
async fn paths(kind: Kind, storage: &Storage) -> Result<Vec<String>, Error> {
    let mut paths = storage.folders("").await?;
    match kind {
        Kind::Savepoint => paths.retain(|name| name.starts_with(SAVEPOINT_PREFIX)),
        Kind::Checkpoints => paths.retain(|name| job_ids_in(name).eq([name.as_str()])),
        Kind::HaStorage | Kind::ZooKeeperNodes => {
            paths.retain(|name| !RESULT_STORES.contains(&name.as_str()));
        }
        Kind::JobResultStore => {
            let mut runs = Vec::new();
            for cluster in &paths {
                let names = storage.folders(cluster).await?;
                let of_runs = names.iter().filter(|name| is_uuid(name));
                runs.extend(of_runs.map(|name| format!("{cluster}/{name}")));
            }
            paths = runs;
        }
    }
    Ok(paths)
}

/// Returns a folder, with the names in its metadata, and its files.
async fn inspect_files(
    kind: Kind,
    storage: &Storage,
    path: String,
    mentioned: &BTreeSet<String>,
) -> Result<(Folder, Vec<File>), Error> {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let mut is_retained = mentioned.contains(&name);
    let mut tries = 1;
    loop {
        let listed = if is_retained {
            metadata_in(kind, storage, &path).await
        } else if kind == Kind::HaStorage && has_more_than_blobs(storage, &path).await? {
            is_retained = true;
            continue;
        } else {
            storage.files(&path).await
        };
        let files = match listed {
            Ok(files) => files,
            // A folder with too many files to be evaluated can still refer to others.
            Err(Error::TooMany { .. }) if !is_retained => {
                is_retained = true;
                continue;
            }
            Err(error) => return Err(error),
        };
        match names_of(kind, storage, &path, &files).await {
            Ok((names, has_metadata)) => {
                let mut folder = folder(kind, path, &files, names, has_metadata);
                folder.is_recognized &= !is_retained;
                return Ok((folder, files));
            }
            // A running job has replaced a checkpoint in the meantime.
            Err(Error::Failed { .. }) if tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Returns the files that may be metadata in a folder that is kept.
async fn metadata_in(kind: Kind, storage: &Storage, path: &str) -> Result<Vec<File>, Error> {
    if kind != Kind::Checkpoints {
        return storage.files_directly_in(path).await;
    }
    let mut files = Vec::new();
    for checkpoint in storage.folders(path).await? {
        if checkpoint.starts_with("chk-") {
            files.extend(storage.files_directly_in(&format!("{path}/{checkpoint}")).await?);
        }
    }
    Ok(files)
}

/// Returns whether the folder of a cluster holds more than blobs: users may keep other files in it, and many of them.
async fn has_more_than_blobs(storage: &Storage, path: &str) -> Result<bool, Error> {
    Ok(storage.folders(path).await?.iter().any(|name| name != "blob"))
}

/// Returns the names in all metadata of the folder, and whether any file starts as Flink's metadata does.
async fn names_of(
    kind: Kind,
    storage: &Storage,
    path: &str,
    files: &[File],
) -> Result<(BTreeSet<String>, bool), Error> {
    let (mut names, mut has_metadata) = (BTreeSet::new(), true);
    for file in files {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let is_metadata = match kind {
            Kind::Savepoint => file.path == format!("{path}/{METADATA}"),
            Kind::Checkpoints => name == METADATA,
            Kind::HaStorage => name.starts_with(COMPLETED_CHECKPOINT),
            Kind::JobResultStore | Kind::ZooKeeperNodes => false,
        };
        if is_metadata {
            let bytes = storage.read(file).await?;
            has_metadata &=
                kind == Kind::HaStorage || bytes.starts_with(&metadata::MAGIC.to_be_bytes());
            if let Some(error) = metadata::unknown(&bytes) {
                let problem = format!("what `{}` refers to is not known: {error}", file.path);
                return Err(Error::Failed { problem });
            }
            names.extend(names_in(&String::from_utf8_lossy(&bytes)));
        }
    }
    Ok((names, has_metadata))
}

fn folder(
    kind: Kind,
    path: String,
    files: &[File],
    names: BTreeSet<String>,
    has_metadata: bool,
) -> Folder {
    let below = |file: &File| file.path[path.len()..].trim_start_matches('/').to_owned();
    let is_recognized = !files.is_empty()
        && has_metadata
        && match kind {
            Kind::Savepoint => files.iter().any(|file| below(file) == METADATA),
            _ => files.iter().all(|file| is_of_flink(kind, &below(file))),
        };
    let cluster = match kind {
        Kind::HaStorage | Kind::JobResultStore => path.split('/').next().map(str::to_owned),
        Kind::ZooKeeperNodes | Kind::Checkpoints | Kind::Savepoint => None,
    };
    Folder {
        cluster,
        changed: files.iter().map(|file| file.changed).max(),
        size_bytes: files.iter().map(|file| file.size_bytes).sum(),
        count: files.len() as u64,
        is_recognized,
        has_state: match kind {
            Kind::JobResultStore => false,
            // Jars and logs alone are not state.
            Kind::HaStorage => files.iter().any(|file| !below(file).starts_with("blob/")),
            Kind::ZooKeeperNodes | Kind::Checkpoints | Kind::Savepoint => true,
        },
        is_in_use: false,
        names,
        path,
    }
}

/// Returns whether Flink writes a file with this path into a folder of the kind.
fn is_of_flink(kind: Kind, path: &str) -> bool {
    let (first, is_folder) = path.split_once('/').map_or((path, false), |(first, _)| (first, true));
    match kind {
        Kind::HaStorage if is_folder => first == "blob",
        Kind::HaStorage => {
            let beginnings = [
                COMPLETED_CHECKPOINT,
                "submittedJobGraph",
                "submittedExecutionPlan",
                "submittedApplication",
                "mesosWorker",
            ];
            beginnings.iter().any(|beginning| first.starts_with(beginning))
        }
        Kind::Checkpoints => {
            let number = first.strip_prefix("chk-");
            let is_number = number.is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            });
            is_folder && (is_number || matches!(first, "shared" | "taskowned"))
        }
        Kind::JobResultStore => {
            !is_folder && first.rsplit_once('.').is_some_and(|(_, end)| end == "json")
        }
        Kind::Savepoint | Kind::ZooKeeperNodes => true,
    }
}

#[cfg(test)]
mod tests;
