//! Many jars at a time: what they take of memory, disk and turns.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::routing::post;
use clients::artifact::{Fetched, Jars};
use clients::flink::{Client, Deadlines, KnownFile};
use futures::StreamExt;
use futures::future::join_all;
use tokio::time::timeout;

use crate::support::{PREFIX, Store, request, serve};

const JAR: &[u8] = b"PK\x03\x04 of the shop";
/// Long enough to see that something waits.
const MOMENT: Duration = Duration::from_millis(300);
/// Longer than anything takes that does not wait.
const LONG: Duration = Duration::from_mins(1);

/// Fetches the jar for this many jobs at the same time.
async fn fetch_all(count: usize, store: &Store, folder: &Path) -> Vec<Fetched> {
    let (jars, uri) = (Jars::default(), format!("{}/app.jar", store.address));
    let request = request(("shop", &uri), folder, &[], &[]);
    let all = join_all((0..count).map(|_| jars.fetch(&request)));
    timeout(LONG, all).await.unwrap().into_iter().map(Result::unwrap).collect()
}

#[tokio::test]
async fn jobs_with_the_same_jar_share_one_download() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::serve(JAR, "\"v1\"", false).await;
    let all = fetch_all(8, &store, folder.path()).await;
    // The jar, and for those that came after it was asked for, whether it is still the same.
    assert_eq!(store.asked(), (2, 1));
    let paths: BTreeSet<_> = all.iter().map(Fetched::path).collect();
    assert_eq!(paths.len(), 1);
    let path = all[0].path().to_owned();
    drop(all);
    assert!(!path.exists());
}

#[tokio::test]
async fn jobs_share_a_download_of_a_store_that_names_no_version() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::serve(JAR, "", false).await;
    let all = fetch_all(8, &store, folder.path()).await;
    assert_eq!(store.asked(), (2, 0));
    assert!(all.iter().all(|one| std::fs::read(one.path()).unwrap() == JAR));
}

#[tokio::test]
async fn jobs_with_other_secrets_share_no_download() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::serve(JAR, "", false).await;
    let (jars, uri) = (Jars::default(), format!("{}/app.jar", store.address));
    let key = format!("{PREFIX}.http.header");
    let of = |token: &str| {
        let header = format!("Authorization:{token}");
        request(("shop", &uri), folder.path(), &[], &[(&key, &header)])
    };
    let requests = ["first", "second", "third", "fourth"].map(of);
    let all = join_all(requests.iter().map(|request| jars.fetch(request))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(store.asked(), (4, 0));
}

#[tokio::test]
async fn a_store_that_does_not_answer_holds_up_only_its_own_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let hanging = Arc::new(AtomicUsize::new(0));
    let address = {
        let hanging = Arc::clone(&hanging);
        let answer = move |uri: Uri| async move {
            if uri.path().starts_with("/good") {
                return Body::from(JAR);
            }
            hanging.fetch_add(1, Ordering::SeqCst);
            let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(JAR))]);
            Body::from_stream(first.chain(futures::stream::pending()))
        };
        serve(Router::new().fallback(answer)).await
    };
    let jars = Jars::default();
    for number in 0..100 {
        let uri = format!("{address}/bad-{number}.jar");
        let request = request(("attic", &uri), folder.path(), &[], &[]);
        let jars = jars.clone();
        tokio::spawn(async move { jars.fetch(&request).await.map(drop) });
    }
    while hanging.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(MOMENT).await;
    let count = hanging.load(Ordering::SeqCst);
    assert!(count <= 8, "{count} at a time");
    let uri = format!("{address}/good.jar");
    // A jar of unknown size takes the room of the largest, of which the other namespace has only a share.
    let request = request(("shop", &uri), folder.path(), &[], &[]);
    timeout(LONG, jars.fetch(&request)).await.expect("it has its own turns").unwrap();
}

#[tokio::test]
async fn jars_on_the_disk_are_bounded_until_they_are_uploaded() {
    let folder = tempfile::tempdir().unwrap();
    let mut jar = JAR.to_vec();
    jar.resize(1 << 20, b'.');
    let store = Store::serve(&jar, "", false).await;
    let jars = Jars::default();
    let fetch = async |namespace: &str, name: &str, within: Duration| {
        let uri = format!("{}/{name}.jar", store.address);
        let size = [(&*format!("{PREFIX}.max-size"), "1 mb")];
        let request = request((namespace, &uri), folder.path(), &size, &[]);
        timeout(within, jars.fetch(&request)).await.map(Result::unwrap)
    };
    let first = fetch("shop", "a", LONG).await.unwrap();
    let _second = fetch("shop", "b", LONG).await.unwrap();
    assert!(fetch("shop", "c", MOMENT).await.is_err(), "it waits for room");
    let _third = fetch("attic", "a", LONG).await.unwrap();
    let _fourth = fetch("attic", "b", LONG).await.unwrap();
    assert!(fetch("cellar", "a", MOMENT).await.is_err(), "it waits for room");
    drop(first);
    fetch("cellar", "a", LONG).await.unwrap();
}

/// A JobManager that takes jars, and the bodies that arrived in full.
async fn job_manager() -> (Client, Arc<AtomicUsize>) {
    let arrived = Arc::new(AtomicUsize::new(0));
    let upload = {
        let arrived = Arc::clone(&arrived);
        move |body: Body| async move {
            let (mut size, mut chunks) = (0, body.into_data_stream());
            while let Some(chunk) = chunks.next().await {
                let Ok(chunk) = chunk else { return "{}" };
                size += chunk.len();
            }
            arrived.fetch_add(size, Ordering::SeqCst);
            r#"{"filename":"/tmp/1_app.jar","status":"success"}"#
        }
    };
    let router = Router::new().route("/jars/upload", post(upload));
    let address = serve(router.layer(DefaultBodyLimit::disable())).await;
    (Client::at(&address, Deadlines::default()).unwrap(), arrived)
}

/// A jar of this size on the disk.
fn jar_file(folder: &Path, size: usize) -> KnownFile {
    use sha2::Digest;
    let mut jar = JAR.to_vec();
    jar.resize(size, b'.');
    let path = folder.join("app.jar");
    std::fs::write(&path, &jar).unwrap();
    let sum = Bytes::copy_from_slice(&sha2::Sha256::digest(&jar));
    KnownFile { path, size_bytes: size as u64, sha256: format!("{sum:x}") }
}

#[test]
fn the_upload_of_a_jar_takes_no_memory_for_its_size() {
    const SIZE: usize = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let file = jar_file(folder.path(), SIZE);
    // The JobManager has a thread of its own, whose memory is not counted.
    let server = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (client, arrived) = server.block_on(job_manager());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let info = allocation_counter::measure(|| {
        let id = runtime.block_on(client.upload_jar_file("app.jar", file.clone())).unwrap();
        assert_eq!(id, "1_app.jar");
    });
    assert!(arrived.load(Ordering::SeqCst) > SIZE);
    assert!(info.bytes_max < SIZE as u64 / 8, "{} bytes", info.bytes_max);
}

#[tokio::test]
async fn a_jar_that_changed_on_the_disk_is_not_uploaded() {
    let folder = tempfile::tempdir().unwrap();
    let (client, arrived) = job_manager().await;
    let size = 1 << 20;
    for change in [
        |path: &Path| std::fs::write(path, vec![b'x'; 1 << 20]).unwrap(),
        |path: &Path| std::fs::write(path, b"short").unwrap(),
        |path: &Path| std::fs::remove_file(path).unwrap(),
    ] {
        let file = jar_file(folder.path(), size);
        change(&file.path);
        let error = client.upload_jar_file("app.jar", file).await.unwrap_err();
        assert!(error.to_string().contains("/jars/upload"), "{error}");
    }
    assert_eq!(arrived.load(Ordering::SeqCst), 0);
    client.upload_jar_file("app.jar", jar_file(folder.path(), size)).await.unwrap();
    assert!(arrived.load(Ordering::SeqCst) > size);
}

/// Prints the memory, the disk space and the time of many jobs with one large jar.
#[test]
#[ignore = "prints figures, and sends 25 GB over loopback"]
fn fifty_jobs_with_one_large_jar() {
    const JOBS: usize = 50;
    const CHUNK: usize = 1 << 20;
    const CHUNKS: usize = 500;
    static LARGE: [u8; CHUNK] = [b'.'; CHUNK];
    let answer = || async {
        let first = Bytes::from_static(b"PK\x03\x04");
        let rest = Bytes::from_static(&LARGE).slice(first.len()..);
        let others = (1..CHUNKS).map(|_| Bytes::from_static(&LARGE));
        let all = [first, rest].into_iter().chain(others).map(Ok::<_, std::io::Error>);
        let length = (CHUNK * CHUNKS).to_string();
        ([("content-length", length)], Body::from_stream(futures::stream::iter(all)))
    };
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let begun = std::time::Instant::now();
    let disk_bytes = runtime.block_on(async {
        let address = serve(Router::new().fallback(answer)).await;
        let (client, arrived) = job_manager().await;
        let uri = format!("{address}/app.jar");
        let sizes = [(&*format!("{PREFIX}.max-size"), "1 gb")];
        let request = request(("shop", &uri), folder.path(), &sizes, &[]);
        let (jars, most) = (Jars::default(), AtomicUsize::new(0));
        let upload = async || {
            let fetched = jars.fetch(&request).await.unwrap();
            most.fetch_max(disk_bytes(folder.path()), Ordering::SeqCst);
            let Fetched { size_bytes, ref sha256, .. } = fetched;
            let (path, sha256) = (fetched.path().to_owned(), sha256.clone());
            let file = KnownFile { path, size_bytes, sha256 };
            client.upload_jar_file("app.jar", file).await.unwrap();
        };
        join_all((0..JOBS).map(|_| upload())).await;
        assert!(arrived.load(Ordering::SeqCst) > JOBS * CHUNK * CHUNKS);
        most.into_inner()
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!(
        "{JOBS} jobs, {CHUNKS} MiB: {memory}, {} MiB on the disk, {:?}",
        disk_bytes >> 20,
        begun.elapsed()
    );
}

/// Returns the size of all files below a folder.
fn disk_bytes(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => usize::try_from(metadata.len()).unwrap(),
        Err(_) => 0,
    });
    sizes.sum()
}
