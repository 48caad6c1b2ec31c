//! Adds an instance to a kubeconfig, and removes it, without losing anything else in the file.
//!
//! The file is edited as plain values, so fields that this program does not know are kept; it is locked as `kubectl`
//! does it and replaced atomically.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::error::Error;
use super::process::{remove, wait_for};
use super::state::replace;

/// How long another program may keep the file locked.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// A context, with its cluster and user.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// Name of context, cluster and user.
    pub(super) name: &'a str,
    pub(super) server: &'a str,
    /// PEM text of the certificate authority, in base64.
    pub(super) authority: &'a str,
    pub(super) token: &'a str,
}

/// Returns the file to which `kubectl` would write a new context.
pub(super) fn default_path() -> Result<PathBuf, Error> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> =
        std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if let Some(path) = listed.iter().find(|path| path.exists()).or(listed.last()) {
        return std::path::absolute(path).map_err(Error::file("find", path));
    }
    std::env::home_dir().map(|home| home.join(".kube/config")).ok_or_else(|| {
        Error::Refused("there is no home folder: name a file with --kubeconfig".to_owned())
    })
}

/// Returns a kubeconfig with only this entry, which is current.
pub(super) fn alone(entry: &Entry<'_>) -> String {
    let mut config = json!({});
    // An empty object is a valid kubeconfig, so this cannot fail.
    if let Ok(root) = sections(&mut config) {
        merge(root, entry);
        root.insert("current-context".to_owned(), json!(entry.name));
    }
    text(&config)
}

/// The current context of a kubeconfig after an entry was added.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Current {
    /// Whether the new entry is the current one.
    pub(super) is_ours: bool,
    /// The previously current context, if that was another one and has changed.
    pub(super) before: Option<String>,
}

/// Adds the entry, or replaces the one of its name.
///
/// The entry becomes current if none is, or if `switch` is set.
pub(super) async fn add(path: &Path, entry: &Entry<'_>, switch: bool) -> Result<Current, Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
    }
    let mut result = Current { is_ours: false, before: None };
    edit(path, |root| {
        merge(root, entry);
        let current = root.get("current-context").and_then(Value::as_str).unwrap_or_default();
        result.is_ours = current == entry.name || switch || current.is_empty();
        if result.is_ours && current != entry.name {
            result.before = Some(current.to_owned()).filter(|name| !name.is_empty());
            root.insert("current-context".to_owned(), json!(entry.name));
        }
    })
    .await?;
    Ok(result)
}

/// Removes the entry if it still belongs to the instance, and makes `before` current again if the entry was current.
pub(super) async fn take_out(
    path: &Path,
    name: &str,
    server: &str,
    before: Option<&str>,
) -> Result<(), Error> {
    if !path.exists() {
        return Ok(());
    }
    edit(path, |root| unmerge(root, name, server, before)).await
}

/// Lists of named items.
const LISTS: [(&str, &str); 3] =
    [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];

fn merge(root: &mut Map<String, Value>, entry: &Entry<'_>) {
    let values = [
        json!({ "certificate-authority-data": entry.authority, "server": entry.server }),
        json!({ "token": entry.token }),
        json!({ "cluster": entry.name, "user": entry.name }),
    ];
    for ((list, field), value) in LISTS.into_iter().zip(values) {
        let named = json!({ "name": entry.name, field: value });
        let Some(items) = items(root, list) else { continue };
        match items.iter_mut().find(|item| item["name"] == entry.name) {
            Some(item) => *item = named,
            None => items.push(named),
        }
    }
}

fn unmerge(root: &mut Map<String, Value>, name: &str, server: &str, before: Option<&str>) {
    // If another cluster has been given the name since, it stays.
    let is_ours = items(root, "clusters").is_some_and(|clusters| {
        clusters.iter().any(|item| item["name"] == name && item["cluster"]["server"] == server)
    });
    if !is_ours {
        return;
    }
    for (list, _) in LISTS {
        if let Some(items) = items(root, list) {
            items.retain(|item| item["name"] != name);
        }
    }
    if root.get("current-context").is_some_and(|current| current == name) {
        let before = before.filter(|before| {
            items(root, "contexts")
                .is_some_and(|contexts| contexts.iter().any(|item| item["name"] == *before))
        });
        root.insert("current-context".to_owned(), json!(before.unwrap_or_default()));
    }
}

fn items<'a>(root: &'a mut Map<String, Value>, list: &str) -> Option<&'a mut Vec<Value>> {
    root.get_mut(list).and_then(Value::as_array_mut)
}

/// Makes sure that the value is a kubeconfig with its three lists.
fn sections(config: &mut Value) -> Result<&mut Map<String, Value>, String> {
    if config.is_null() {
        *config = json!({});
    }
    let Value::Object(root) = config else {
        return Err("expected a mapping of `clusters`, `users` and `contexts`".to_owned());
    };
    for (key, value) in [("apiVersion", "v1"), ("kind", "Config")] {
        root.entry(key).or_insert_with(|| json!(value));
    }
    for (list, _) in LISTS {
        let items = root.entry(list).or_insert_with(|| json!([]));
        if items.is_null() {
            *items = json!([]);
        }
        if !items.is_array() {
            return Err(format!("`{list}` is not a list"));
        }
    }
    Ok(root)
}

fn text(config: &Value) -> String {
    // Cannot fail: a JSON value always has a YAML form.
    serde_yaml::to_string(config).unwrap_or_else(|_| config.to_string())
}

/// Reads, changes and writes the file under its lock.
async fn edit(path: &Path, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), Error> {
    // A kubeconfig may be a link into a folder of dotfiles, and must stay one.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let _lock = lock(&path).await?;
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) if source.kind() == ErrorKind::NotFound => String::new(),
        Err(source) => return Err(Error::file("read", &path)(source)),
    };
    let unusable = |message: String| {
        Error::Refused(format!(
            "kubeconfig `{}` cannot be used, so it is left unchanged: {message}",
            path.display()
        ))
    };
    let mut config: Value = if before.trim().is_empty() {
        json!({})
    } else {
        serde_yaml::from_str(&before).map_err(|error| unusable(error.to_string()))?
    };
    let unchanged = config.clone();
    change(sections(&mut config).map_err(unusable)?);
    if config == unchanged && !before.is_empty() {
        return Ok(());
    }
    replace(&path, &text(&config))
}

/// The lock file that `kubectl config` uses; removed on drop.
struct Lock(PathBuf);

impl Drop for Lock {
    fn drop(&mut self) {
        drop(remove(&self.0));
    }
}

async fn lock(path: &Path) -> Result<Lock, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock = PathBuf::from(name);
    let taken = wait_for(LOCK_WAIT, async || {
        match OpenOptions::new().create_new(true).write(true).open(&lock) {
            Ok(_) => Some(Ok(())),
            Err(source) if source.kind() == ErrorKind::AlreadyExists => None,
            Err(source) => Some(Err(Error::file("write", &lock)(source))),
        }
    });
    match taken.await {
        Some(taken) => taken.map(|()| Lock(lock)),
        None => Err(Error::TimedOut {
            what: format!(
                "kubeconfig was still locked by `{}` (remove that file if no kubectl is running)",
                lock.display()
            ),
            after: LOCK_WAIT,
            log: None,
        }),
    }
}

#[cfg(test)]
mod tests;
