use super::*;

fn operator(entries: &[(&str, &str)]) -> OperatorConfig {
    OperatorConfig::new(entries.iter().copied().collect())
}

#[test]
fn version_defaults_beat_namespace_defaults_and_the_exact_version_beats_all() {
    let operator = operator(&[
        ("k", "base"),
        ("kubernetes.operator.default-configuration.namespace.shop.k", "namespace"),
        ("kubernetes.operator.default-configuration.flink-version.v1_18+.k", "from 1.18"),
        ("kubernetes.operator.default-configuration.flink-version.v1_20+.k", "from 1.20"),
        ("kubernetes.operator.default-configuration.flink-version.v2_0.k", "2.0"),
    ]);
    let k = |namespace, version| {
        operator.defaults(namespace, version).get_text("k").map(str::to_owned).unwrap()
    };
    assert_eq!(k("default", None), "base");
    assert_eq!(k("default", Some(FlinkVersion::V1_17)), "base");
    assert_eq!(k("shop", Some(FlinkVersion::V1_17)), "namespace");
    assert_eq!(k("shop", None), "namespace");
    assert_eq!(k("shop", Some(FlinkVersion::V1_19)), "from 1.18");
    assert_eq!(k("shop", Some(FlinkVersion::V1_20)), "from 1.20");
    assert_eq!(k("shop", Some(FlinkVersion::V2_0)), "2.0");
    assert_eq!(k("shop", Some(FlinkVersion::V2_1)), "from 1.20");
}

#[test]
fn a_namespace_cannot_define_version_defaults() {
    let operator = operator(&[(
        "kubernetes.operator.default-configuration.namespace.shop.kubernetes.operator.default-configuration.flink-version.v1_20.k",
        "x",
    )]);
    assert!(!operator.defaults("shop", Some(FlinkVersion::V1_20)).contains("k"));
}

#[test]
fn unknown_versions_are_named() {
    let key = "kubernetes.operator.default-configuration.flink-version.v9_9+.k";
    assert_eq!(operator(&[(key, "x")]).unknown_version_keys(), [key]);
}

#[test]
fn java_17_is_opened_for_flink_unless_configured() {
    let keys = |version| {
        let config = operator(&[]).defaults("default", version);
        config.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>()
    };
    assert!(keys(None).is_empty() && keys(Some(FlinkVersion::V1_17)).is_empty());
    assert_eq!(keys(Some(FlinkVersion::V1_18)), ["env.java.opts.all"]);
    assert_eq!(keys(Some(FlinkVersion::V2_0)), ["env.java.default-opts.all"]);
    let own = operator(&[("env.java.default-opts.all", "mine")]);
    let config = own.defaults("default", Some(FlinkVersion::V1_20));
    assert_eq!(config.get_text("env.java.default-opts.all"), Some("mine"));
}

#[test]
fn the_layers_are_what_the_defaults_are_made_of() {
    let operator = operator(&[
        ("k", "base"),
        ("kubernetes.operator.default-configuration.namespace.shop.k", "namespace"),
        ("kubernetes.operator.default-configuration.namespace.shop.n", "namespace"),
        ("kubernetes.operator.default-configuration.flink-version.v1_18+.k", "from 1.18"),
        ("kubernetes.operator.default-configuration.flink-version.v1_20.k", "1.20"),
    ]);
    let versions = FlinkVersion::ALL.iter().copied().map(Some).chain([None]);
    for version in versions {
        for namespace in ["shop", "default"] {
            let base = Layer { name: "file".to_owned(), config: operator.base.clone() };
            let mut all = FlinkConfig::new();
            for layer in operator.layers(vec![base], Some(namespace), version) {
                all.overlay(&layer.config);
            }
            assert_eq!(all, operator.defaults(namespace, version), "{namespace} {version:?}");
        }
    }
    let names: Vec<String> = operator
        .layers(vec![], Some("shop"), Some(FlinkVersion::V1_18))
        .into_iter()
        .filter(|layer| !layer.config.is_empty())
        .map(|layer| layer.name)
        .collect();
    assert_eq!(
        names,
        ["built in", "defaults of namespace shop", "defaults of flink-version v1_18+"]
    );
}
