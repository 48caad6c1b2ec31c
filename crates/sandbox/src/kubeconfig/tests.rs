use expect_test::expect;

use super::*;

const ENTRY: Entry<'_> = Entry {
    name: "flink-sandbox",
    server: "https://10.200.255.2:6443",
    authority: "Q0E=",
    token: "0123",
};

const OTHERS: &str = "\
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- name: prod
  cluster: {server: 'https://prod:6443', tls-server-name: x}
users:
- name: prod
  user: {exec: {command: 'aws', args: ['eks', 'get-token'], env: null}}
contexts:
- name: prod
  context: {cluster: prod, user: prod, namespace: \"on\"}
current-context: prod
";

fn value(path: &Path) -> Value {
    serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn file_for_one_instance_is_complete() {
    expect![[r#"
        apiVersion: v1
        kind: Config
        clusters:
        - name: flink-sandbox
          cluster:
            certificate-authority-data: Q0E=
            server: https://10.200.255.2:6443
        users:
        - name: flink-sandbox
          user:
            token: "0123"
        contexts:
        - name: flink-sandbox
          context:
            cluster: flink-sandbox
            user: flink-sandbox
        current-context: flink-sandbox
    "#]]
    .assert_eq(&alone(&ENTRY));
}

#[tokio::test]
async fn other_entries_survive_coming_and_going() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, OTHERS).unwrap();
    let original = value(&path);

    let current = add(&path, &ENTRY, false).await.unwrap();
    assert_eq!(current, Current { is_ours: false, before: None });
    let with = value(&path);
    assert_eq!(with["current-context"], "prod");
    assert_eq!(with["clusters"][0], original["clusters"][0]);
    assert_eq!(with["clusters"][1]["name"], "flink-sandbox");

    take_out(&path, ENTRY.name, ENTRY.server, None).await.unwrap();
    assert_eq!(value(&path), original);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "something was left");
}

#[tokio::test]
async fn current_context_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, OTHERS).unwrap();
    let Current { is_ours, before } = add(&path, &ENTRY, true).await.unwrap();
    assert!(is_ours);
    assert_eq!(before.as_deref(), Some("prod"));
    assert_eq!(value(&path)["current-context"], "flink-sandbox");
    take_out(&path, ENTRY.name, ENTRY.server, before.as_deref()).await.unwrap();
    assert_eq!(value(&path)["current-context"], "prod");
}

#[tokio::test]
async fn entry_becomes_current_where_none_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/config");
    add(&path, &ENTRY, false).await.unwrap();
    assert_eq!(value(&path)["current-context"], "flink-sandbox");
    take_out(&path, ENTRY.name, ENTRY.server, Some("gone")).await.unwrap();
    assert_eq!(value(&path)["current-context"], "");
    assert_eq!(value(&path)["users"], json!([]));
}

#[tokio::test]
async fn adding_twice_is_adding_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    add(&path, &ENTRY, false).await.unwrap();
    add(&path, &Entry { token: "4567", ..ENTRY }, false).await.unwrap();
    let config = value(&path);
    assert_eq!(config["users"].as_array().unwrap().len(), 1);
    assert_eq!(config["users"][0]["user"]["token"], "4567");
}

#[tokio::test]
async fn cluster_of_the_same_name_that_is_not_ours_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    add(&path, &Entry { server: "https://elsewhere:6443", ..ENTRY }, true).await.unwrap();
    let before = value(&path);
    take_out(&path, ENTRY.name, ENTRY.server, None).await.unwrap();
    assert_eq!(value(&path), before);
}

#[tokio::test]
async fn file_that_is_no_kubeconfig_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    for text in ["- a\n- b\n", "clusters: 7\n", "a: [\n"] {
        std::fs::write(&path, text).unwrap();
        let refused = add(&path, &ENTRY, false).await.unwrap_err();
        assert!(refused.to_string().contains("left unchanged"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[tokio::test]
async fn link_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("dotfiles"), folder.path().join("config"));
    std::fs::write(&real, OTHERS).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    add(&link, &ENTRY, false).await.unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(value(&real)["clusters"][1]["name"], "flink-sandbox");
}
