//! The bill of materials.

use expect_test::expect;
use serde_json::json;

#[path = "../../bench/sbom/document.rs"]
mod document;

#[test]
fn it_names_what_goes_into_the_program_and_nothing_else() {
    let package = |name: &str, license: &str| {
        json!({
            "id": format!("{name} 1.0.0"), "name": name, "version": "1.0.0", "license": license,
            "repository": format!("https://example.com/{name}"),
        })
    };
    let needs = |name: &str, kind: Option<&str>| json!({"pkg": format!("{name} 1.0.0"), "dep_kinds": [{"kind": kind}]});
    let metadata = json!({
        "packages": [
            package("flink", "Apache-2.0"), package("serde", "MIT/Apache-2.0"),
            package("cc", "MIT"), package("proptest", "MIT"), package("far", "MIT"),
        ],
        "resolve": {
            "root": "flink 1.0.0",
            "nodes": [
                {"id": "flink 1.0.0", "deps": [
                    needs("serde", None), needs("proptest", Some("dev")), needs("cc", Some("build")),
                ]},
                {"id": "serde 1.0.0", "deps": [needs("far", None)]},
                {"id": "far 1.0.0", "deps": []},
                {"id": "cc 1.0.0", "deps": []},
                {"id": "proptest 1.0.0", "deps": []},
            ],
        },
    });
    let lock = "version = 4\n\n[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nchecksum = \"0123\"\n\n[[package]]\nname = \"flink\"\nversion = \"1.0.0\"\n";
    let bill = document::of(&metadata, lock).unwrap();
    let names = |list: &str| {
        let all = bill[list].as_array().unwrap().iter();
        all.map(|it| it["bom-ref"].as_str().or(it["ref"].as_str()).unwrap()).collect::<Vec<_>>()
    };
    let libraries = ["pkg:cargo/cc@1.0.0", "pkg:cargo/far@1.0.0", "pkg:cargo/serde@1.0.0"];
    assert_eq!(names("components"), libraries);
    assert_eq!(names("dependencies").len(), 4);
    assert_eq!(bill["dependencies"][2]["dependsOn"], json!([libraries[0], libraries[2]]));
    assert_eq!(bill["metadata"]["component"]["type"], "application");
    expect![[r#"
        {
          "type": "library",
          "bom-ref": "pkg:cargo/serde@1.0.0",
          "name": "serde",
          "version": "1.0.0",
          "purl": "pkg:cargo/serde@1.0.0",
          "licenses": [
            {
              "expression": "MIT OR Apache-2.0"
            }
          ],
          "hashes": [
            {
              "alg": "SHA-256",
              "content": "0123"
            }
          ],
          "externalReferences": [
            {
              "type": "vcs",
              "url": "https://example.com/serde"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&bill["components"][2]).unwrap());
    let unknown = json!({"resolve": {"root": "flink 1.0.0"}, "packages": []});
    assert!(document::of(&unknown, lock).is_err());
}
