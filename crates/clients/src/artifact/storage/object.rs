//! Folders of object stores, which are common prefixes of names.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, PutOptions};

use super::{ENTRIES_MAX, Error, File, PAGE_SIZE, READ_BYTES_MAX};
use crate::artifact::object::{Objects, failure};
use crate::artifact::request::Request;

/// Returns the names of the folders directly in the folder.
pub(super) async fn folders(
    store: &dyn Objects,
    folder: &str,
    request: &Request,
) -> Result<Vec<String>, Error> {
    let (mut names, mut token) = (Vec::new(), None);
    loop {
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(PAGE_SIZE),
            page_token: token,
            ..Default::default()
        };
        let page = page(store, folder, options, request).await?;
        let found = page.result.common_prefixes.iter().filter_map(|path| path.filename());
        names.extend(found.map(str::to_owned));
        bound(names.len(), folder)?;
        token = page.page_token;
        if token.is_none() {
            return Ok(names);
        }
    }
}

/// Returns the files at any depth, or directly in the folder, with paths relative to it.
pub(super) async fn files(
    store: &dyn Objects,
    folder: &str,
    is_deep: bool,
    request: &Request,
) -> Result<Vec<File>, Error> {
    let beginning = format!("{folder}/");
    let (mut files, mut token) = (Vec::new(), None);
    loop {
        let options = PaginatedListOptions {
            delimiter: (!is_deep).then(|| "/".into()),
            max_keys: Some(PAGE_SIZE),
            page_token: token,
            ..Default::default()
        };
        let page = page(store, folder, options, request).await?;
        for object in page.result.objects {
            // An empty rest is a marker that some tools write for the folder itself.
            let Some(path) = object.location.as_ref().strip_prefix(&beginning) else { continue };
            // Without a time, it is treated as new.
            let changed = Timestamp::from_millisecond(object.last_modified.timestamp_millis());
            files.push(File {
                path: path.to_owned(),
                size_bytes: object.size,
                changed: changed.unwrap_or(Timestamp::MAX),
            });
        }
        bound(files.len(), folder)?;
        token = page.page_token;
        if token.is_none() {
            return Ok(files);
        }
    }
}

async fn page(
    store: &dyn Objects,
    folder: &str,
    options: PaginatedListOptions,
    request: &Request,
) -> Result<object_store::list::PaginatedListResult, Error> {
    let beginning = format!("{folder}/");
    let beginning = (!folder.is_empty()).then_some(beginning.as_str());
    let page = store.list_paginated(beginning, options).await;
    page.map_err(|error| Error::of(failure(request, &error)))
}

fn bound(count: usize, folder: &str) -> Result<(), Error> {
    if count > ENTRIES_MAX {
        return Err(Error::TooMany { folder: folder.to_owned() });
    }
    Ok(())
}

pub(super) async fn read(
    store: &dyn Objects,
    path: &str,
    request: &Request,
) -> Result<Bytes, Error> {
    let failed = |error| Error::of(failure(request, &error));
    let found = store.get_opts(&parse(path)?, GetOptions::default()).await.map_err(failed)?;
    if found.meta.size > READ_BYTES_MAX {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    found.bytes().await.map_err(failed)
}

pub(super) async fn put(
    store: &dyn Objects,
    path: &str,
    content: Bytes,
    request: &Request,
) -> Result<(), Error> {
    let put = store.put_opts(&parse(path)?, content.into(), PutOptions::default()).await;
    put.map(drop).map_err(|error| Error::of(failure(request, &error)))
}

pub(super) async fn remove(
    store: &dyn Objects,
    paths: Vec<String>,
    request: &Request,
) -> Result<(), Error> {
    let paths = paths.iter().map(|path| parse(path)).collect::<Result<Vec<_>, _>>()?;
    store
        .delete_stream(stream::iter(paths).map(Ok).boxed())
        .try_for_each(|_| async { Ok(()) })
        .await
        .map_err(|error| Error::of(failure(request, &error)))
}

/// Parses the path as it was listed, without escaping it again.
fn parse(path: &str) -> Result<Path, Error> {
    Path::parse(path).map_err(|error| Error::Failed { problem: error.to_string() })
}
