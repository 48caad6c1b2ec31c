//! Folders of HDFS.

use bytes::Bytes;
use hdfs_native::client::FileStatus;
use hdfs_native::{Client, HdfsError};
use jiff::Timestamp;

use super::{ENTRIES_MAX, Error, File, READ_BYTES_MAX};
use crate::artifact::hdfs::failure;
use crate::artifact::request::Request;

/// Returns the names of the folders directly in the folder.
pub(super) async fn folders(
    client: &Client,
    folder: &str,
    request: &Request,
) -> Result<Vec<String>, Error> {
    let entries = entries(client, folder, false, request).await?;
    let folders = entries.iter().filter(|entry| entry.isdir);
    Ok(folders.filter_map(|entry| entry.path.rsplit('/').next()).map(str::to_owned).collect())
}

/// Returns the files at any depth, or directly in the folder, with paths relative to it.
pub(super) async fn files(
    client: &Client,
    folder: &str,
    is_deep: bool,
    request: &Request,
) -> Result<Vec<File>, Error> {
    let beginning = format!("/{folder}/");
    let entries = entries(client, folder, is_deep, request).await?;
    let files = entries.into_iter().filter(|entry| !entry.isdir).filter_map(|entry| {
        let millis = i64::try_from(entry.modification_time).unwrap_or(i64::MAX);
        Some(File {
            path: entry.path.strip_prefix(&beginning)?.to_owned(),
            size_bytes: entry.length as u64,
            changed: Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX),
        })
    });
    Ok(files.collect())
}

async fn entries(
    client: &Client,
    folder: &str,
    is_deep: bool,
    request: &Request,
) -> Result<Vec<FileStatus>, Error> {
    let listing = client.list_status_iter(&format!("/{folder}"), is_deep);
    let mut entries = Vec::new();
    while let Some(entry) = listing.next().await {
        match entry {
            Ok(entry) => entries.push(entry),
            // A missing folder is empty; one removed while it was listed is an error.
            Err(HdfsError::FileNotFound(_)) if entries.is_empty() => return Ok(Vec::new()),
            Err(error) => return Err(Error::of(failure(request, &error))),
        }
        if entries.len() > ENTRIES_MAX {
            return Err(Error::TooMany { folder: folder.to_owned() });
        }
    }
    Ok(entries)
}

pub(super) async fn read(client: &Client, path: &str, request: &Request) -> Result<Bytes, Error> {
    let failed = |error: HdfsError| Error::of(failure(request, &error));
    let mut file = client.read(&format!("/{path}")).await.map_err(failed)?;
    let length = file.file_length();
    if length as u64 > READ_BYTES_MAX {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    file.read_bytes(length).await.map_err(failed)
}

pub(super) async fn remove(client: &Client, folder: &str, request: &Request) -> Result<(), Error> {
    let removed = client.delete(&format!("/{folder}"), true).await;
    // An already removed file is a success.
    removed.map(drop).map_err(|error| Error::of(failure(request, &error)))
}
