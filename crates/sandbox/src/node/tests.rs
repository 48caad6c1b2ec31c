use expect_test::expect;

use super::*;
use crate::programs::Programs;
use crate::state::{FORMAT, Folder, Instance, Kind};

fn with_node(check: impl FnOnce(&Node<'_>, &str)) {
    let network = Network::new(10, 200);
    let folder = Folder::within(Path::new("/var/lib/kubectl-flink"), "dev");
    let instance = Instance {
        format: FORMAT,
        name: "dev".into(),
        kind: Kind::Full { network },
        boot: "b".into(),
        build: "k".into(),
        kubeconfig: "/home/me/.kube/config".into(),
        context_before: None,
        images: vec![],
    };
    let programs = Programs::locate().unwrap();
    let setup = Setup { folder: &folder, instance: &instance, programs: &programs };
    check(&Node { setup, network }, &folder.path().to_string_lossy());
}

#[test]
fn container_runtime_keeps_to_the_instances_folders() {
    with_node(|node, folder| {
        let text = node.containerd(Path::new("/usr/lib/cni")).replace(folder, "DIR");
        for line in [
            "root = \"DIR/containerd\"",
            "state = \"/run/containerd/state\"",
            "restrict_oom_score_adj = true",
            "disable_apparmor = true",
            "SystemdCgroup = false",
            "sandbox_image = \"localhost/pause:1\"",
            "bin_dir = \"/usr/lib/cni\"",
            "conf_dir = \"DIR/networks\"",
        ] {
            assert!(text.lines().any(|found| found.trim() == line), "{line} is not in\n{text}");
        }
    });
}

#[test]
fn kubelet_accepts_either_kind_of_control_groups_and_stays_below_its_own() {
    with_node(|node, _| {
        let configuration = node.kubelet_configuration();
        assert_eq!(configuration["failCgroupV1"], false);
        assert_eq!(configuration["cgroupRoot"], "/kubectl-flink-dev");
        assert_eq!(configuration["clusterDNS"], json!(["10.200.0.1"]));
    });
}

#[test]
fn name_server_asks_the_cluster_first_and_nobody_else() {
    with_node(|node, folder| {
        expect![[r#"
            .:53 {
                bind 10.200.0.1
                errors
                ready 10.200.0.1:8181
                kubernetes cluster.local in-addr.arpa {
                    kubeconfig "DIR/coredns.kubeconfig" dev
                    pods insecure
                    ttl 5
                }
                # Any other name is answered with NXDOMAIN at once, also for IPv6: Java gives up on SERVFAIL.
                file "DIR/root.zone" .
            }
        "#]]
        .assert_eq(&node.name_server_configuration().replace(folder, "DIR"));
    });
}

#[test]
fn service_routing_leaves_the_machines_tables_alone() {
    with_node(|node, _| {
        let configuration = node.proxy_configuration(true);
        assert_eq!(configuration["conntrack"], json!({ "maxPerCore": 0 }));
        assert_eq!(configuration["clusterCIDR"], "10.200.0.0/18");
        assert_eq!(configuration["iptables"]["masqueradeAll"], false);
        assert_eq!(node.proxy_configuration(false)["iptables"]["masqueradeAll"], true);
    });
}
