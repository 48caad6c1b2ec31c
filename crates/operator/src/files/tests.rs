use std::path::PathBuf;

use serde_json::json;

use super::*;

/// Creates a folder with these files.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap()
}

fn here() -> Files {
    Files::here(|_| None)
}

#[tokio::test]
async fn a_file_that_cannot_become_an_object_is_reported_and_not_its_content() {
    let large = vec![b'x'; 1024 * 1024 + 1];
    let folder = folder(&[("keytab", b"\x05\x02hunter2"), ("large", &large), ("empty", b"")]);
    let path = |name: &str| text(folder.path().join(name));
    assert_eq!(here().inspect(&path("keytab")).await, OperatorFile::Readable);
    assert_eq!(Files::default().inspect(&path("keytab")).await, OperatorFile::Elsewhere);
    for (name, why) in [
        ("gone", "No such file"),
        (".", "it is not a file"),
        ("empty", "it is empty"),
        ("large", "1 MiB"),
    ] {
        let OperatorFile::Unusable(reason) = here().inspect(&path(name)).await else {
            panic!("`{name}` is no good")
        };
        assert!(reason.contains(why) && !reason.contains("xxx"), "{name}: {reason}");
    }
}

#[tokio::test]
async fn an_object_is_filled_where_the_operator_runs_and_has_no_data_elsewhere() {
    let folder = folder(&[("it.keytab", b"\x05\x02\xff"), ("krb5.conf", b"[libdefaults]\n")]);
    let path = |name: &str| text(folder.path().join(name));
    let object = |kind: &str, name: &str| FileObject {
        manifest: json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "it"}}),
        files: [(name.to_owned(), path(name))].into(),
    };
    let keytab = object("Secret", "it.keytab");
    let filled = here().fill(&keytab).await.unwrap();
    assert_eq!(filled["data"], json!({"it.keytab": "BQL/"}));
    assert!(!format!("{keytab:?}").contains("BQL/"));
    assert_eq!(Files::default().fill(&keytab).await.unwrap(), keytab.manifest);
    let krb5 = here().fill(&object("ConfigMap", "krb5.conf")).await.unwrap();
    assert_eq!(krb5["data"], json!({"krb5.conf": "[libdefaults]\n"}));
    // Contents that are not text are in another field.
    let binary = here().fill(&object("ConfigMap", "it.keytab")).await.unwrap();
    assert_eq!(
        (&binary["data"], &binary["binaryData"]["it.keytab"]),
        (&json!(null), &json!("BQL/"))
    );
    let lost = here().fill(&object("Secret", "lost")).await.unwrap_err();
    assert!(lost.to_string().contains(&path("lost")) && !lost.is_transient(), "{lost}");
}

#[tokio::test]
async fn the_files_of_an_object_have_room_for_a_mebibyte_together() {
    let half = vec![b'x'; 600 * 1024];
    let folder = folder(&[("core-site.xml", &half), ("hdfs-site.xml", &half)]);
    let object = FileObject {
        manifest: json!({"kind": "ConfigMap"}),
        files: HADOOP_CONF_FILES
            .map(|name| (name.to_owned(), text(folder.path().join(name))))
            .into(),
    };
    assert!(here().fill(&object).await.unwrap_err().to_string().contains("1 MiB"));
}

#[test]
fn hadoops_configuration_is_where_flink_reads_it() {
    let folder = folder(&[
        ("own/core-site.xml", b"<a/>"),
        ("own/log4j.properties", b"x"),
        ("home/conf/core-site.xml", b"<a/>"),
        ("home/conf/hdfs-site.xml", b"<a/>"),
        ("bare/readme", b"x"),
    ]);
    let path = |name: &str| text(folder.path().join(name));
    let found = |conf_dir: &str, home: &str| {
        let value = |name: &str| if name.is_empty() { String::new() } else { path(name) };
        let files = Files::here(|variable| match variable {
            "HADOOP_CONF_DIR" => Some(value(conf_dir)),
            "HADOOP_HOME" => Some(value(home)),
            _ => None,
        });
        files.hadoop_conf()
    };
    let conf = |directory: &str, files: &[&str]| {
        let files = files.iter().copied().map(str::to_owned).collect();
        Some(HadoopConf { directory: path(directory), files })
    };
    assert_eq!(found("own", "home"), conf("own", &["core-site.xml"]));
    assert_eq!(found("", "home"), conf("home/conf", &HADOOP_CONF_FILES));
    assert_eq!(found("bare", "home"), None, "the variable wins, whatever is there");
    assert_eq!(found("", ""), None);
    assert_eq!(Files::default().hadoop_conf(), None);
}
