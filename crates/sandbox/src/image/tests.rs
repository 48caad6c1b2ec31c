use super::*;

#[test]
fn names_of_imported_images_are_found() {
    let said = "unpacking docker.io/library/flink:1.20 (sha256:27a5)...done\n\
                unpacking localhost/a:1 (sha256:00)...done\nelapsed: 1s\n";
    assert_eq!(imported(said), ["docker.io/library/flink:1.20", "localhost/a:1"]);
    assert!(imported("").is_empty());
}

#[tokio::test]
async fn archive_holds_manifest_configuration_and_layers() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("layer.tar"), "not really a tar").unwrap();
    let layer = Layer::of_file(&path("layer.tar")).await.unwrap();
    assert_eq!(layer.digest, hex(&Sha256::digest("not really a tar")));

    let target = path("image.tar");
    write_archive("a:1", &Start::default(), std::slice::from_ref(&layer), &path("work"), &target)
        .await
        .unwrap();
    let listed = run(program("tar").arg("-tf").arg(&target), SHORT).await.unwrap();
    let layer_name = format!("{}.tar", layer.digest);
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["manifest.json", "config.json", &layer_name]);
    let mut extract = program("tar");
    let content = run(extract.arg("-xOf").arg(&target).arg(&layer_name), SHORT).await.unwrap();
    assert_eq!(content, "not really a tar", "the archive has a link in place of the layer");
}
