use super::*;

fn image(architecture: &str, name: &str) -> Layout {
    let mut layout = Layout::default();
    let config = layout.add(CONFIGURATION, architecture.as_bytes().to_vec());
    let layer = layout.add(LAYER, b"the same for all".to_vec());
    let mut image = layout.add_manifest(&json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
    }));
    image["platform"] = json!({"architecture": architecture, "os": "linux"});
    image["annotations"] = names(name);
    layout.list(image.clone());
    layout.attach(&image, "text/plain", "about.txt", architecture.as_bytes().to_vec());
    layout
}

fn written(layout: &Layout) -> Vec<u8> {
    layout.write(Vec::new(), &[]).unwrap()
}

#[test]
fn images_of_all_machines_are_one_index_with_what_is_attached_to_each() {
    let name = "a.example/b:1";
    let all = of_all_machines(vec![image("amd64", name), image("arm64", name)]).unwrap();
    let all = Layout::read(written(&all).as_slice()).unwrap();
    let [index, of_amd64, of_arm64] = all.manifests() else { panic!("{:#?}", all.manifests()) };
    assert_eq!((&index["mediaType"], &index["annotations"]), (&json!(INDEX), &names(name)));
    let parsed =
        |descriptor| -> Value { serde_json::from_slice(all.content(descriptor).unwrap()).unwrap() };
    let images = parsed(index)["manifests"].as_array().unwrap().clone();
    for ((image, attached), architecture) in
        images.iter().zip([of_amd64, of_arm64]).zip(["amd64", "arm64"])
    {
        assert_eq!(image["platform"]["architecture"], architecture);
        assert_eq!(image.get("annotations"), None, "only the index has the name");
        assert_eq!(parsed(attached)["subject"]["digest"], image["digest"]);
        let config = all.content(&parsed(image)["config"]).unwrap();
        assert_eq!(config, architecture.as_bytes());
    }
    assert_eq!(images.len(), 2);
}

#[test]
fn images_that_are_not_one_are_not_joined() {
    let refused = |layouts| of_all_machines(layouts).unwrap_err().to_string();
    let (amd64, other) = (image("amd64", "a.example/b:1"), image("arm64", "a.example/b:2"));
    assert!(refused(vec![amd64.clone(), amd64.clone()]).contains("two images"));
    assert!(refused(vec![amd64, other]).contains("images of two names"));
    assert!(refused(vec![Layout::default()]).contains("no image"));
}

#[test]
fn content_is_only_taken_for_what_it_is() {
    let layout = image("amd64", "b:1");
    let archive = written(&layout);
    assert_eq!(written(&Layout::read(archive.as_slice()).unwrap()), archive);
    let refused =
        |layout: &Layout| Layout::read(written(layout).as_slice()).unwrap_err().to_string();
    let digits = hex(&Sha256::digest("the same for all"));
    let mut other = layout.clone();
    other.blobs.insert(digits.clone(), b"something else".to_vec());
    assert!(refused(&other).contains("another digest"));
    other.blobs.remove(&digits);
    assert!(refused(&other).contains("it has no content"));
    let mut longer = layout;
    longer.manifests[0]["size"] = json!(1);
    assert!(refused(&longer).contains("not of the size"));
    assert!(Layout::read(&b""[..]).unwrap_err().to_string().contains("no image layout"));
}
