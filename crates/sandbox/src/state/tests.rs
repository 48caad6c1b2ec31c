use super::*;

fn instance() -> Instance {
    Instance {
        format: FORMAT,
        name: "dev".into(),
        kind: Kind::ControlPlane { ports: Ports { api: 6443, etcd: 2379, etcd_peer: 2380 } },
        boot: "b".into(),
        build: "k".into(),
        kubeconfig: "/home/me/.kube/config".into(),
        context_before: None,
        images: vec![("flink:1.20".into(), "abc".into())],
    }
}

#[test]
fn instance_is_read_as_it_was_written() {
    for kind in [instance().kind, Kind::Full { network: Network::new(10, 200) }] {
        let instance = Instance { kind, ..instance() };
        let text = serde_json::to_string(&instance).unwrap();
        assert_eq!(parse(&text), Ok(instance));
    }
}

#[test]
fn file_of_another_form_is_refused() {
    let newer = serde_json::to_string(&Instance { format: FORMAT + 1, ..instance() }).unwrap();
    assert!(parse(&newer).unwrap_err().contains("format 2"));
    assert!(parse("{\"format\": 1").is_err());
    assert!(parse("").is_err());
}

#[test]
fn names_are_safe_as_parts_of_paths() {
    for good in ["a", "flink-sandbox", "e2e-1", &"a".repeat(NAME_LENGTH_MAX)] {
        assert!(is_name(good), "{good}");
    }
    let long = "a".repeat(NAME_LENGTH_MAX + 1);
    for bad in ["", ".", "..", "a/b", "-a", "a-", "A", "a b", "a.lock", &long] {
        assert!(!is_name(bad), "{bad}");
    }
}

#[test]
fn control_groups_of_two_state_folders_differ() {
    let group = |root: &str| Folder::within(Path::new(root), "dev").group();
    assert_eq!(group(SYSTEM), "kubectl-flink-dev");
    let (one, other) = (group("/home/me/state"), group("/home/you/state"));
    assert!(one.starts_with("kubectl-flink-dev_"), "{one}");
    assert_ne!(one, other);
    assert!(!is_name(one.trim_start_matches("kubectl-flink-")), "no instance of root has it");
}

#[test]
fn mount_inside_the_folder_is_found_and_one_alongside_it_is_not() {
    let mounts = "\
22 1 0:21 / / rw - ext4 /dev/vda rw
40 22 0:30 / /var/lib/kubectl-flink/dev2 rw - tmpfs tmpfs rw
41 22 0:31 / /var/lib/kubectl-flink/dev/kubelet/a\\040b rw - tmpfs tmpfs rw";
    let dev = Path::new("/var/lib/kubectl-flink/dev");
    assert_eq!(
        mount_below(mounts, dev).as_deref(),
        Some("/var/lib/kubectl-flink/dev/kubelet/a\\040b")
    );
    assert_eq!(mount_below(mounts, Path::new("/var/lib/kubectl-flink/de")), None);
}

#[test]
fn replaced_file_is_whole_private_and_leaves_nothing_alongside_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    fs::write(&path, "old and longer").unwrap();
    replace(&path, "new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn second_lock_waits_for_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = lock(folder.path(), "x.lock", "x", LOCK_WAIT).await.unwrap();
    let second = tokio::time::timeout(
        Duration::from_millis(200),
        lock(folder.path(), "x.lock", "x", LOCK_WAIT),
    );
    assert!(second.await.is_err(), "both got the lock");
    drop(first);
    lock(folder.path(), "x.lock", "x", LOCK_WAIT).await.unwrap();
}
