//! The operator's folder for jars. What is in it is submitted to clusters, so nobody else may write to it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::Error;
use config::{FlinkConfig, options};

/// Returns the folder that administrators chose, or the one of a container. Where that cannot be created it is one of
/// the user's own.
pub(super) fn of(operator: &FlinkConfig) -> Result<PathBuf, Error> {
    let option = &options::USER_ARTIFACTS_BASE_DIR;
    let path = PathBuf::from(operator.get(option)?);
    if operator.is_set(option) || fs::create_dir_all(&path).is_ok() {
        return Ok(path);
    }
    let of_user = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = of_user("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let cache = cache.or_else(|| Some(of_user("HOME")?.join(".cache")));
    let failed =
        |path: &Path, problem: String| Error::Disk { path: path.display().to_string(), problem };
    let cache = cache.ok_or_else(|| {
        failed(&path, "it cannot be created, and there is no home directory".to_owned())
    })?;
    let own = cache.join("kubectl-flink/artifacts");
    make_private(&own).map_err(|problem| failed(&own, problem))?;
    Ok(own)
}

/// Creates the folder, unless it is there and only this user may write to it.
fn make_private(folder: &Path) -> Result<(), String> {
    let described = |error: std::io::Error| error.to_string();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(described)?;
    let metadata = fs::symlink_metadata(folder).map_err(described)?;
    let user = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() {
        return Err("it is not a directory".to_owned());
    }
    if metadata.uid() != user {
        return Err(format!("it belongs to user {}, and this is user {user}", metadata.uid()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err("other users have access to it; remove it, or empty it and `chmod 700`".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("kubectl-flink/artifacts");
        make_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        make_private(&folder).unwrap();
        for mode in [0o777, 0o750, 0o720] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let problem = make_private(&folder).unwrap_err();
            assert!(problem.contains("other users have access"), "{problem}");
        }
        let link = parent.path().join("link");
        symlink(&folder, &link).unwrap();
        assert_eq!(make_private(&link).unwrap_err(), "it is not a directory");
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("artifacts");
        make_private(&folder).unwrap();
        // Only root can give it away; others find one that root has.
        let folder = if chown(&folder, Some(12345), None).is_ok() { folder } else { "/".into() };
        let problem = make_private(&folder).unwrap_err();
        assert!(problem.contains("it belongs to user"), "{problem}");
    }
}
