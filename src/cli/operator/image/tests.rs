use std::io::Read as _;

use expect_test::expect;

use super::*;

/// The header of a program for Linux, of which nothing else is looked at.
fn program(machine: u8) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    (header[16], header[18], header[20], header[52]) = (2, machine, 1, 64);
    header
}

fn image(sbom: Option<&str>) -> Vec<u8> {
    let sbom = sbom.map(|it| it.as_bytes().to_vec());
    let program = program(62);
    let authorities = Some(b"trusted".to_vec());
    let architecture = architecture(&program, "it").unwrap();
    let image = Image { program: &program, architecture, authorities, sbom, tag: "a.example/b:1" };
    image.write(Vec::new()).unwrap()
}

fn parsed(layout: &Layout, descriptor: &Value) -> Value {
    serde_json::from_slice(layout.content(descriptor).unwrap()).unwrap()
}

#[test]
fn an_image_has_its_bill_of_materials() {
    let layout = Layout::read(image(Some("{\"bomFormat\": \"CycloneDX\"}")).as_slice()).unwrap();
    let [image, attached] = layout.manifests() else { panic!("{:#?}", layout.manifests()) };
    assert_eq!(attached["artifactType"], CYCLONEDX);
    let manifest = parsed(&layout, attached);
    assert_eq!(manifest["artifactType"], CYCLONEDX);
    assert_eq!(manifest["subject"]["digest"], image["digest"]);
    assert_eq!(manifest["subject"]["size"], image["size"]);
    let sbom = layout.content(&manifest["layers"][0]).unwrap();
    assert_eq!(sbom, b"{\"bomFormat\": \"CycloneDX\"}");

    let layer = layout.content(&parsed(&layout, image)["layers"][0]).unwrap();
    let mut layer = tar::Archive::new(flate2::read::GzDecoder::new(layer));
    let mut entries = layer.entries().unwrap().map(Result::unwrap);
    let mut inside = entries.find(|entry| *entry.path().unwrap() == *Path::new(SBOM)).unwrap();
    let mut content = Vec::new();
    inside.read_to_end(&mut content).unwrap();
    assert_eq!(content, sbom);
}

#[test]
fn both_formats_of_an_archive_are_the_same_image() {
    let archive = image(None);
    assert_eq!(archive, image(None), "the same program, the same archive");
    let layout = Layout::read(archive.as_slice()).unwrap();
    let [image] = layout.manifests() else { panic!("{:#?}", layout.manifests()) };
    expect![[
        r#"{"org.opencontainers.image.ref.name":"1","io.containerd.image.name":"a.example/b:1"}"#
    ]]
    .assert_eq(&image["annotations"].to_string());
    expect![[r#"{"architecture":"amd64","os":"linux"}"#]].assert_eq(&image["platform"].to_string());
    let manifest = parsed(&layout, image);
    let configuration = parsed(&layout, &manifest["config"]);
    assert_eq!(configuration["architecture"], "amd64");
    let layer = layout.content(&manifest["layers"][0]).unwrap();
    let mut uncompressed = Vec::new();
    flate2::read::GzDecoder::new(layer).read_to_end(&mut uncompressed).unwrap();
    let digest = format!("sha256:{}", hex(&Sha256::digest(&uncompressed)));
    assert_eq!(configuration["rootfs"]["diff_ids"], json!([digest]));

    let mut files = tar::Archive::new(archive.as_slice());
    let mut entries = files.entries().unwrap().map(Result::unwrap);
    let entry = entries.find(|entry| *entry.path().unwrap() == *Path::new("manifest.json"));
    let of_docker: Value = serde_json::from_reader(entry.unwrap()).unwrap();
    let file = |descriptor| Layout::file(descriptor).unwrap();
    assert_eq!(
        of_docker,
        json!([{
            "Config": file(&manifest["config"]),
            "RepoTags": ["a.example/b:1"],
            "Layers": [file(&manifest["layers"][0])],
        }])
    );
}

#[test]
fn the_program_says_what_machine_its_image_is_for() {
    assert_eq!(architecture(&program(183), "it").unwrap(), "arm64");
    let described = |program: &[u8]| format!("{:#}", architecture(program, "it").unwrap_err());
    assert_eq!(described(&program(243)), "it is for machine 243, not amd64 or arm64");
    assert!(described(b"#!/bin/sh").starts_with("it is not a 64-bit Linux program"));
}
