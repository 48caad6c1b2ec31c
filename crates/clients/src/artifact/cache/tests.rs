use super::*;
use crate::artifact::source::Keys;
use config::FlinkConfig;

const JAR: &[u8] = b"PK\x03\x04 a jar";

fn request(uri: &str, folder: &Path, cache_size: &str) -> Request {
    let operator: FlinkConfig = [
        ("kubernetes.operator.user.artifacts.base.dir", folder.to_str().unwrap()),
        ("kubernetes.operator.user.artifacts.cache.max-size", cache_size),
    ]
    .into_iter()
    .collect();
    Request::from_config("shop", uri, &operator, &FlinkConfig::new()).unwrap()
}

fn cache(request: &Request) -> Option<Cache> {
    Cache::of(Scheme::Http, request, &Keys::of(Scheme::Http, request).unwrap().cached)
}

fn jar(folder: &Path, content: &[u8]) -> Jar {
    let path = temporary_file(folder).unwrap().into_temp_path();
    fs::write(&path, content).unwrap();
    let sha256 = hex(&Sha256::digest(content));
    Jar::new(path, content.len() as u64, sha256)
}

async fn keep(request: &Request, content: &[u8]) {
    let jar = jar(&request.directory, content);
    cache(request).unwrap().keep(&jar, "\"v1\"").await;
}

async fn find(request: &Request) -> Option<Copy> {
    cache(request).unwrap().find(request).await
}

#[tokio::test]
async fn a_copy_is_found_by_its_uri_and_outlives_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let request = request("https://h/a.jar", folder.path(), "1 mb");
    assert!(find(&request).await.is_none());
    keep(&request, JAR).await;
    let copy = find(&request).await.unwrap();
    assert_eq!(copy.validator, "\"v1\"");
    fs::remove_dir_all(folder.path().join("cache")).unwrap();
    assert_eq!(fs::read(&copy.jar.path).unwrap(), JAR);
    let other = Request { uri: "https://h/b.jar".to_owned(), ..request };
    assert!(find(&other).await.is_none());
}

#[tokio::test]
async fn a_damaged_copy_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let request = request("https://h/a.jar", folder.path(), "1 mb");
    keep(&request, JAR).await;
    fs::write(cache(&request).unwrap().jar(), b"PK\x03\x04 another").unwrap();
    assert!(find(&request).await.is_none());
}

#[tokio::test]
async fn a_copy_with_another_sum_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut request = request("https://h/a.jar", folder.path(), "1 mb");
    keep(&request, JAR).await;
    request.checksum = Some(crate::artifact::Checksum { sha256: "0".repeat(64) });
    assert!(find(&request).await.is_none());
}

#[tokio::test]
async fn the_cache_stays_within_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let big = vec![b'x'; 400];
    for name in ["a", "b", "c", "d"] {
        keep(&request(&format!("https://h/{name}.jar"), folder.path(), "1000"), &big).await;
        // File systems distinguish times only by some milliseconds.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(find(&request("https://h/a.jar", folder.path(), "1000")).await.is_none());
    assert!(find(&request("https://h/d.jar", folder.path(), "1000")).await.is_some());
    let jars = fs::read_dir(folder.path().join("cache")).unwrap().flatten();
    let size: u64 = jars
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "jar"))
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    assert!(size <= 1000, "{size}");
    keep(&request("https://h/e.jar", folder.path(), "1000"), &vec![b'x'; 2000]).await;
    assert!(find(&request("https://h/e.jar", folder.path(), "1000")).await.is_none());
}

#[test]
fn a_size_of_0_turns_the_cache_off() {
    let folder = tempfile::tempdir().unwrap();
    let request = request("https://h/a.jar", folder.path(), "0");
    assert!(cache(&request).is_none());
}
