use expect_test::expect;

use super::*;

fn job_manager_of(pod: Value) -> Value {
    json!({
        "metadata": { "name": "lab", "namespace": "shop" },
        "spec": { "template": { "metadata": { "labels": { "app": "lab" } }, "spec": pod } },
    })
}

fn rendered(pod: Value, image: Option<&str>) -> Value {
    let job_manager = job_manager_of(pod);
    let input = GatewayInput {
        cluster: "lab",
        uid: "u-1",
        job_manager: &job_manager,
        image,
        rest_port: 8081,
        port: 8083,
    };
    gateway_pod(&input).unwrap()
}

fn native() -> Value {
    json!({
        "serviceAccount": "flink",
        "serviceAccountName": "flink",
        "hostNetwork": false,
        "dnsPolicy": "ClusterFirst",
        "initContainers": [
            { "name": "connectors", "image": "curl" },
            { "name": "forwarder", "image": "fluent-bit", "restartPolicy": "Always" },
        ],
        "containers": [
            { "name": "sidecar", "image": "fluent-bit" },
            {
                "name": "flink-main-container",
                "image": "flink:1.20",
                "imagePullPolicy": "IfNotPresent",
                "command": ["/docker-entrypoint.sh"],
                "args": ["bash", "-c", "kubernetes-jobmanager.sh kubernetes-session "],
                "env": [{ "name": "S3_ENDPOINT", "value": "http://s3" }],
                "ports": [{ "name": "rest", "containerPort": 8081 }],
                "livenessProbe": { "httpGet": { "port": "rest" } },
                "resources": { "limits": { "cpu": "4", "memory": "8Gi" } },
                "volumeMounts": [{ "name": "flink-config-volume", "mountPath": "/opt/flink/conf" }],
            },
        ],
        "volumes": [{ "name": "flink-config-volume", "configMap": { "name": "flink-config-lab" } }],
        "affinity": {
            "nodeAffinity": { "a": 1 },
            "podAntiAffinity": { "b": 2 },
        },
    })
}

#[test]
fn a_gateway_has_what_the_job_manager_has_and_none_of_its_labels() {
    let text = serde_yaml::to_string(&rendered(native(), None)).unwrap();
    expect![[r#"
        apiVersion: v1
        kind: Pod
        metadata:
          labels:
            app.kubernetes.io/instance: lab
            app.kubernetes.io/managed-by: kubectl-flink
            app.kubernetes.io/name: flink-sql-gateway
          namespace: shop
          ownerReferences:
          - apiVersion: flink.apache.org/v1beta1
            blockOwnerDeletion: false
            controller: false
            kind: FlinkDeployment
            name: lab
            uid: u-1
        spec:
          serviceAccountName: flink
          initContainers:
          - name: connectors
            image: curl
          volumes:
          - name: flink-config-volume
            configMap:
              name: flink-config-lab
          affinity:
            nodeAffinity:
              a: 1
          automountServiceAccountToken: false
          containers:
          - image: flink:1.20
            imagePullPolicy: IfNotPresent
            command:
            - /docker-entrypoint.sh
            env:
            - name: S3_ENDPOINT
              value: http://s3
            - name: JVM_ARGS
              value: -XX:MaxRAMPercentage=60
            volumeMounts:
            - name: flink-config-volume
              mountPath: /opt/flink/conf
            args:
            - bash
            - -c
            - exec "${FLINK_HOME:-/opt/flink}/bin/sql-gateway.sh" start-foreground "$@"
            - sql-gateway
            - -Dexecution.target=remote
            - -Drest.address=lab-rest.shop
            - -Drest.port=8081
            - -Dhigh-availability.type=NONE
            - -Dsql-gateway.endpoint.rest.address=127.0.0.1
            - -Dsql-gateway.endpoint.rest.bind-address=127.0.0.1
            - -Dsql-gateway.endpoint.rest.port=8083
            - -Dsql-gateway.session.idle-timeout=3min
            - -Dsql-gateway.session.check-interval=30s
            name: sql-gateway
            readinessProbe:
              exec:
                command:
                - bash
                - -c
                - exec 3<>/dev/tcp/127.0.0.1/8083
              periodSeconds: 1
              timeoutSeconds: 5
            resources:
              limits:
                cpu: "2"
                memory: 1Gi
              requests:
                cpu: 100m
                memory: 1Gi
            securityContext:
              allowPrivilegeEscalation: false
              capabilities:
                drop:
                - ALL
              runAsGroup: 9999
              runAsNonRoot: true
              runAsUser: 9999
              seccompProfile:
                type: RuntimeDefault
          enableServiceLinks: false
          restartPolicy: Never
          terminationGracePeriodSeconds: 5
    "#]]
    .assert_eq(&text);
}

#[test]
fn another_image_replaces_the_clusters() {
    let pod = rendered(native(), Some("example.com/flink-sql:1.20"));
    assert_eq!(pod["spec"]["containers"][0]["image"], "example.com/flink-sql:1.20");
}

#[test]
fn nothing_that_flink_or_a_service_selects_by_is_on_the_pod() {
    let pod = rendered(native(), None);
    let labels = pod["metadata"]["labels"].as_object().unwrap();
    for label in ["app", "component", "type"] {
        assert!(!labels.contains_key(label), "{label}");
    }
    for pair in gateway_selector("lab").split(',') {
        let (key, value) = pair.split_once('=').unwrap();
        assert_eq!(labels[key], value);
    }
}

#[test]
fn what_the_template_says_of_security_counts() {
    let mut stated = native();
    stated["securityContext"] = json!({ "runAsUser": 1000, "fsGroup": 1000 });
    stated["containers"][1]["securityContext"] = json!({ "readOnlyRootFilesystem": true });
    let pod = rendered(stated.clone(), None);
    assert_eq!(pod["spec"]["securityContext"], stated["securityContext"]);
    assert_eq!(
        pod["spec"]["containers"][0]["securityContext"],
        json!({
            "readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsGroup": 9999,
            "seccompProfile": { "type": "RuntimeDefault" }, "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
        })
    );
    stated["securityContext"] = json!({ "runAsUser": 0 });
    let pod = rendered(stated, None);
    let context = &pod["spec"]["containers"][0]["securityContext"];
    assert_eq!(context, &json!({ "readOnlyRootFilesystem": true }), "root is to stay root");
}

#[test]
fn a_template_that_is_no_pod_is_refused() {
    let job_manager = job_manager_of(json!({ "containers": {} }));
    let input = GatewayInput {
        cluster: "lab",
        uid: "u",
        job_manager: &job_manager,
        image: None,
        rest_port: 8081,
        port: 8083,
    };
    assert!(matches!(gateway_pod(&input), Err(RenderError::PodTemplate { .. })));
}
