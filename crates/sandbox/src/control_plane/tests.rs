use expect_test::expect;

use super::*;
use crate::network::Network;
use crate::state::FORMAT;

fn instance(kind: Kind) -> Instance {
    Instance {
        format: FORMAT,
        name: "dev".into(),
        kind,
        boot: "b".into(),
        build: "k".into(),
        kubeconfig: "/home/me/.kube/config".into(),
        context_before: None,
        images: vec![],
    }
}

fn arguments(kind: Kind, part: &str) -> String {
    let folder = Folder::of("dev").unwrap();
    let instance = instance(kind);
    let programs = Programs::locate().unwrap();
    let setup = Setup { folder: &folder, instance: &instance, programs: &programs };
    let daemon = match part {
        "etcd" => setup.etcd(),
        "controllers" => setup.controllers(),
        _ => setup.api_server(),
    };
    let text = daemon.arguments.join("\n") + "\n";
    text.replace(&*folder.path().to_string_lossy(), "DIR")
}

#[test]
fn whole_cluster_listens_on_its_own_network() {
    let kind = Kind::Full { network: Network::new(10, 200) };
    expect![[r#"
        --etcd-servers=https://127.0.0.1:2379
        --etcd-cafile=DIR/control-plane-ca.crt
        --etcd-certfile=DIR/control-plane.crt
        --etcd-keyfile=DIR/control-plane.key
        --token-auth-file=DIR/tokens.csv
        --service-account-issuer=https://kubernetes.default.svc.cluster.local
        --service-account-signing-key-file=DIR/signing.key
        --service-account-key-file=DIR/signing.key
        --authorization-mode=Node,RBAC
        --allow-privileged=true
        --advertise-address=10.200.255.2
        --cert-dir=DIR/certificates
        --secure-port=6443
        --service-cluster-ip-range=10.200.64.0/18
        --kubelet-preferred-address-types=InternalIP
        --kubelet-client-certificate=DIR/control-plane.crt
        --kubelet-client-key=DIR/control-plane.key
    "#]]
    .assert_eq(&arguments(kind, "API server"));
}

#[test]
fn control_plane_alone_listens_on_loopback_ports_only() {
    let kind = Kind::ControlPlane { ports: Ports { api: 1001, etcd: 1002, etcd_peer: 1003 } };
    let api_server = arguments(kind.clone(), "API server");
    assert!(api_server.contains("--bind-address=127.0.0.1\n"));
    assert!(api_server.contains("--secure-port=1001\n"));
    assert!(api_server.contains("--etcd-servers=https://127.0.0.1:1002\n"));
    expect![[r#"
        --name=sandbox
        --data-dir=DIR/etcd
        --listen-client-urls=https://127.0.0.1:1002
        --advertise-client-urls=https://127.0.0.1:1002
        --listen-peer-urls=https://127.0.0.1:1003
        --initial-advertise-peer-urls=https://127.0.0.1:1003
        --initial-cluster=sandbox=https://127.0.0.1:1003
        --client-cert-auth=true
        --trusted-ca-file=DIR/control-plane-ca.crt
        --cert-file=DIR/control-plane.crt
        --key-file=DIR/control-plane.key
        --peer-client-cert-auth=true
        --peer-trusted-ca-file=DIR/control-plane-ca.crt
        --peer-cert-file=DIR/control-plane.crt
        --peer-key-file=DIR/control-plane.key
        --unsafe-no-fsync=true
        --quota-backend-bytes=8589934592
    "#]]
    .assert_eq(&arguments(kind.clone(), "etcd"));
    let controllers = arguments(kind, "controllers");
    assert!(
        controllers.contains("--controllers=garbage-collector-controller,namespace-controller\n")
    );
    assert!(controllers.contains("--kube-api-qps=2000\n"));
    assert!(api_server.contains("--max-mutating-requests-inflight=2000\n"));
}

#[test]
fn every_identity_has_a_token_of_its_own() {
    let mut count = 0;
    let text = token_file("dev", || {
        count += 1;
        Ok(format!("t{count}"))
    });
    expect![[r#"
        t1,admin,admin,system:masters
        t2,system:kube-controller-manager,kube-controller-manager,
        t3,system:kube-scheduler,kube-scheduler,
        t4,system:kube-proxy,kube-proxy,
        t5,system:coredns,coredns,system:masters
        t6,system:node:dev,kubelet,system:nodes
    "#]]
    .assert_eq(&text.unwrap());
    assert_ne!(random_token().unwrap(), random_token().unwrap());
}

#[test]
fn bytes_become_base64() {
    assert_eq!(base64(b"CA"), "Q0E=");
}
