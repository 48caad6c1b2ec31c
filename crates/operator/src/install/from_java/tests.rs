use expect_test::expect;

use super::*;

const OWN: &str = include_str!("../../../../../tests/golden/helm/java-chart.yaml");
const ALL: &str = include_str!("../../../../../tests/golden/helm/all-keys.yaml");

fn release(config: &str) -> Release {
    let values = serde_yaml::from_str(OWN).unwrap();
    let metadata = Metadata { name: CHART.to_owned(), version: "1.14.0".to_owned() };
    let config = serde_yaml::from_str(config).unwrap();
    let chart = Chart { metadata, values };
    Release { name: "flink".to_owned(), namespace: "flink".to_owned(), chart, config }
}

fn said(converted: &Converted) -> String {
    let mut text = serde_yaml::to_string(&converted.values).unwrap() + "---\n";
    let defaults = converted.defaults.iter();
    let defaults = defaults.map(|it| format!("{}: {}, here {}", it.path, it.java, it.here));
    let without_effect = converted.without_effect.iter().map(|it| it.path.join("."));
    for line in defaults.chain(without_effect).chain(converted.unknown.clone()) {
        text.extend([line.as_str(), "\n"]);
    }
    text
}

#[test]
fn what_the_java_operators_chart_does_by_itself_is_taken_over() {
    expect![[r#"
        webhook:
          create: true
          failurePolicy: Fail
        defaultConfiguration:
          flink-conf.yaml: |
            kubernetes.operator.metrics.reporter.slf4j.factory.class: org.apache.flink.metrics.slf4j.Slf4jReporterFactory
            kubernetes.operator.metrics.reporter.slf4j.interval: 5 MINUTE
            kubernetes.operator.reconcile.interval: 15 s
            kubernetes.operator.observer.progress-check.interval: 5 s
        jobNamespaces:
        - flink
        ---
        webhook.create: true, here false
        webhook.failurePolicy: "Fail", here "Ignore"
        defaultConfiguration.flink-conf.yaml: "kubernetes.operator.metrics.reporter.slf4j.factory.class: org.apache.flink.metrics.slf4j.Slf4jReporterFactory\nkubernetes.operator.metrics.reporter.slf4j.interval: 5 MINUTE\nkubernetes.operator.reconcile.interval: 15 s\nkubernetes.operator.observer.progress-check.interval: 5 s\n", here ""
        image
    "#]].assert_eq(&said(&convert(&release("{}"))));
}

#[test]
fn what_no_value_keeps_by_itself_is_reported() {
    let described = |config: &str| convert(&release(config)).not_converted.join("\n");
    expect![[r#"
        the Deployment, its container and the label `app.kubernetes.io/name` are `kubectl-flink-operator`, in the Java operator's chart `flink-kubernetes-operator`: `nameOverride: flink-kubernetes-operator` keeps it, except in the label `helm.sh/chart`
        leader election is on, even for one replica, and off in this release of the Java operator: the operator also needs a Lease, which is named after it
        `operatorHealth.livenessProbe` is {"periodSeconds":10}, in the Java operator's chart {"periodSeconds":10,"initialDelaySeconds":30}: nothing warms up here; set it to keep it
        `operatorHealth.readinessProbe` is {"periodSeconds":5}, in the Java operator's chart none: nothing warms up here; set it to keep it
        `operatorHealth.startupProbe` is {"periodSeconds":2,"failureThreshold":60}, in the Java operator's chart {"failureThreshold":30,"periodSeconds":10}: nothing warms up here; set it to keep it"#]].assert_eq(&described("{}"));
    let kept = described(
        "nameOverride: flink-kubernetes-operator\n\
         operatorHealth: {livenessProbe: {periodSeconds: 10, initialDelaySeconds: 30}}\n\
         defaultConfiguration:\n  flink-conf.yaml: |\n    \
         kubernetes.operator.leader-election.enabled: true\n    \
         kubernetes.operator.leader-election.lease-name: ours\n",
    );
    expect![[r#"
        the label `helm.sh/chart` is that of `kubectl-flink-operator`
        `operatorHealth.readinessProbe` is {"periodSeconds":5}, in the Java operator's chart none: nothing warms up here; set it to keep it
        `operatorHealth.startupProbe` is {"periodSeconds":2,"failureThreshold":60}, in the Java operator's chart {"failureThreshold":30,"periodSeconds":10}: nothing warms up here; set it to keep it"#]].assert_eq(&kept);
    assert!(described("nameOverride: streams\n").contains("the container is `streams`"));
}

#[test]
fn all_that_somebody_gave_is_taken_over_or_named() {
    let converted = convert(&release(ALL));
    expect![[r#"
        watchNamespaces:
        - finance
        - risk
        rbac:
          nodesRule:
            create: true
          operatorRole:
            name: streams-operator
          operatorRoleBinding:
            name: streams-operator-binding
          jobRole:
            name: streams-job
          jobRoleBinding:
            name: streams-job-binding
        operatorPod:
          priorityClassName: system-cluster-critical
          annotations:
            sidecar.istio.io/inject: "false"
          labels:
            team: streams
          env:
          - name: HTTPS_PROXY
            value: http://proxy.example.com:3128
          - name: NODE_IP
            valueFrom:
              fieldRef:
                fieldPath: status.hostIP
          dnsPolicy: ClusterFirstWithHostNet
          dnsConfig:
            nameservers:
            - "192.0.2.53"
            options:
            - name: ndots
              value: "2"
          envFrom:
          - secretRef:
              name: object-store-login
              optional: true
          nodeSelector:
            node.example.com/pool: control
          affinity:
            podAntiAffinity:
              preferredDuringSchedulingIgnoredDuringExecution:
              - weight: 100
                podAffinityTerm:
                  topologyKey: kubernetes.io/hostname
                  labelSelector:
                    matchLabels:
                      app.kubernetes.io/name: flink-kubernetes-operator
          tolerations:
          - key: dedicated
            operator: Equal
            value: control
            effect: NoSchedule
          topologySpreadConstraints:
          - maxSkew: 1
            topologyKey: topology.kubernetes.io/zone
            whenUnsatisfiable: ScheduleAnyway
            labelSelector:
              matchLabels:
                app.kubernetes.io/name: flink-kubernetes-operator
          initContainers:
          - name: fetch-plugins
            image: registry.example.com/tools/busybox:1.36
            command:
            - sh
            - -c
            - cp -r /from/* /opt/flink/plugins/
            volumeMounts:
            - name: plugins
              mountPath: /opt/flink/plugins
        operatorServiceAccount:
          annotations:
            eks.example.com/role-arn: arn:example:iam::000000000000:role/flink-operator
          name: streams-operator
        jobServiceAccount:
          annotations:
            iam.example.com/service-account: flink@example.com
          name: streams-job
        operatorVolumeMounts:
          create: true
          data:
          - name: plugins
            mountPath: /opt/flink/plugins
        operatorVolumes:
          create: true
          data:
          - name: plugins
            emptyDir: {}
        operatorSecurityContext:
          readOnlyRootFilesystem: false
        webhook:
          create: true
          serviceLabels:
            team: streams
          mutator:
            create: false
          failurePolicy: Fail
        defaultConfiguration:
          flink-conf.yaml: |
            kubernetes.operator.reconcile.interval: "15 s"
            kubernetes.operator.savepoint.cleanup.enabled: "true"
        logging:
          framework: logback
        fullnameOverride: flink
        operatorHealth:
          livenessProbe:
            initialDelaySeconds: 30
          startupProbe:
            failureThreshold: 30
            periodSeconds: 10
        ---
        webhook.failurePolicy: "Fail", here "Ignore"
        defaultConfiguration.config.yaml
        image
        postStart
        tls.create
        operatorPod.webhook.container.env
        webhookSecurityContext
        webhook.keystore.passwordSecretRef
        webhook.keystore.pkcs12Profile
    "#]]
    .assert_eq(&said(&converted));
    let mut all = defaults();
    merge(&mut all, converted.values);
    typed(all).unwrap();
}

#[test]
fn flink_39791_of_two_configurations_the_one_that_was_in_force_is_taken_over() {
    let both = "defaultConfiguration: {config.yaml: 'a: 1', flink-conf.yaml: 'b: 2'}";
    let of = |version: &str| {
        let mut release = release(both);
        version.clone_into(&mut release.chart.metadata.version);
        let converted = convert(&release);
        let described =
            converted.without_effect.iter().map(|it| it.path.join(".")).collect::<Vec<_>>();
        (converted.values["defaultConfiguration"].clone(), described)
    };
    let described = |file: &str| vec![format!("defaultConfiguration.{file}"), "image".to_owned()];
    assert_eq!(of("1.14.0"), (json!({"flink-conf.yaml": "b: 2"}), described("config.yaml")));
    let (values, mut all) = of("1.16.1");
    all.sort();
    assert_eq!((&values["config.yaml"], all), (&json!("a: 1"), described("flink-conf.yaml")));
}

#[test]
fn a_value_of_no_chart_is_named() {
    let converted = convert(&release("podDisruptionBudget: {create: true}\nreplicas: 2\n"));
    assert_eq!(converted.unknown, ["podDisruptionBudget"]);
    assert_eq!(converted.values["replicas"], 2);
}

#[test]
fn a_release_is_read_as_helm_keeps_it() {
    use std::io::Write as _;
    let text = json!({
        "name": "r", "namespace": "n", "version": 3, "info": {"status": "deployed"}, "config": null,
        "chart": {"metadata": {"name": CHART, "version": "1.14.0"}, "values": {"replicas": 1}},
    });
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text.to_string().as_bytes()).unwrap();
    let entry = STANDARD.encode(packed.finish().unwrap());
    let release = Release::read(entry.as_bytes()).unwrap();
    assert_eq!((release.name.as_str(), release.chart.values["replicas"].as_i64()), ("r", Some(1)));
    for bad in ["", "%", "aGVsbG8="] {
        Release::read(bad.as_bytes()).unwrap_err();
    }
}
