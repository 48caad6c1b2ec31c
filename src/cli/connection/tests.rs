use std::io::Write;

use super::*;

const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: lab
contexts:
- name: lab
  context: {cluster: lab, user: me, namespace: team}
clusters:
- name: lab
  cluster: {server: "http://127.0.0.1:1"}
users:
- name: me
  user: {token: secret}
"#;

fn kubeconfig_file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

async fn config(global: Global) -> Result<Config, String> {
    let file = kubeconfig_file(KUBECONFIG);
    Global { kubeconfig: Some(file.path().to_owned()), ..global }
        .config()
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn flags_override_the_context() {
    let plain = config(Global::default()).await.unwrap();
    assert_eq!(plain.cluster_url, "http://127.0.0.1:1");
    assert_eq!(plain.default_namespace, "team");
    let flags = config(Global {
        server: Some("https://127.0.0.1:2".to_owned()),
        impersonate: Some("her".to_owned()),
        impersonate_groups: vec!["a".to_owned(), "b".to_owned()],
        insecure_skip_tls_verify: true,
        request_timeout: Some(Duration::from_secs(3)),
        ..Global::default()
    })
    .await
    .unwrap();
    assert_eq!(flags.cluster_url, "https://127.0.0.1:2");
    assert!(flags.accept_invalid_certs);
    assert_eq!(flags.auth_info.impersonate.as_deref(), Some("her"));
    assert_eq!(flags.auth_info.impersonate_groups, Some(vec!["a".to_owned(), "b".to_owned()]));
    assert!(flags.auth_info.token.is_some(), "the kubeconfig's token stays");
    assert_eq!(flags.read_timeout, Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn unknown_context_names_the_known_ones() {
    let global = Global { context: Some("prod".to_owned()), ..Global::default() };
    let error = config(global).await.unwrap_err();
    assert_eq!(error, "context `prod` is not in the kubeconfig");
}

#[tokio::test]
async fn server_and_token_need_no_kubeconfig() {
    let mut kubeconfig = Kubeconfig::default();
    add_empty_context(&mut kubeconfig);
    let global = Global {
        server: Some("https://127.0.0.1:6443".to_owned()),
        token: Some("t".to_owned()),
        ..Global::default()
    };
    let config = global.resolve(Kubeconfig::default()).await.unwrap();
    assert_eq!(config.cluster_url, "https://127.0.0.1:6443");
    assert!(config.auth_info.token.is_some());
}

#[tokio::test]
async fn missing_file_is_named() {
    let global = Global { kubeconfig: Some("/nonexistent/kubeconfig".into()), ..Global::default() };
    let error = global.config().await.unwrap_err().to_string();
    assert!(error.starts_with("kubeconfig `/nonexistent/kubeconfig` cannot be read: "), "{error}");
}
