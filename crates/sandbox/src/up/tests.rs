use super::*;

/// An instance of which `part` is running: this process stands for it.
fn instance(folder: &Folder, kind: Kind, part: &str) -> Instance {
    folder.create().unwrap();
    let instance = Instance {
        format: FORMAT,
        name: "dev".into(),
        kind,
        boot: boot(),
        build: "k".into(),
        kubeconfig: "/kubeconfig".into(),
        context_before: None,
        images: vec![],
    };
    folder.write(&instance).unwrap();
    std::fs::copy("/proc/self/stat", folder.identity(part)).unwrap();
    instance
}

fn options(control_plane_only: bool) -> Options {
    Options {
        name: "dev".into(),
        control_plane_only,
        install: false,
        kubeconfig: None,
        switch_context: false,
        timeout: Duration::from_secs(1),
    }
}

const PORTS: Kind = Kind::ControlPlane { ports: Ports { api: 1, etcd: 2, etcd_peer: 3 } };

fn network() -> Kind {
    Kind::Full { network: Network::new(10, 200) }
}

#[test]
fn running_instance_is_used_again() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::within(root.path(), "dev");
    let control_plane = instance(&folder, PORTS, "etcd");
    assert_eq!(usable(&folder, &options(true)).unwrap(), Some(control_plane));

    let cluster = instance(&folder, network(), HOLDER);
    std::fs::write(folder.file(CONNECTED), "").unwrap();
    assert_eq!(usable(&folder, &options(false)).unwrap(), Some(cluster));
}

#[test]
fn running_instance_of_the_other_kind_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::within(root.path(), "dev");
    instance(&folder, PORTS, "etcd");
    let refused = usable(&folder, &options(false)).unwrap_err();
    assert!(refused.to_string().contains("without a node"), "{refused}");
    instance(&folder, network(), HOLDER);
    let refused = usable(&folder, &options(true)).unwrap_err();
    assert!(refused.to_string().contains("with a node"), "{refused}");
}

#[test]
fn what_a_crash_left_is_not_used() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::within(root.path(), "dev");
    assert_eq!(usable(&folder, &options(false)).unwrap(), None, "nothing is there");

    instance(&folder, network(), HOLDER);
    assert_eq!(usable(&folder, &options(false)).unwrap(), None, "the network is not complete");

    let mut earlier = instance(&folder, PORTS, "etcd");
    earlier.boot = "another boot".into();
    folder.write(&earlier).unwrap();
    assert_eq!(usable(&folder, &options(true)).unwrap(), None, "the machine was started anew");

    std::fs::write(folder.file("instance.json"), "{").unwrap();
    assert_eq!(usable(&folder, &options(true)).unwrap(), None, "the file was cut");
}

#[test]
fn ports_differ() {
    let Ports { api, etcd, etcd_peer } = free_ports().unwrap();
    assert!(api != etcd && etcd != etcd_peer && api != etcd_peer);
}
