use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    webhook: WebhookArgs,
}

fn settings(flags: &str) -> Result<Option<(u16, Vec<String>, Source)>, String> {
    let words = std::iter::once("operate").chain(flags.split_whitespace());
    let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
    command.webhook.settings("flink-operator").map_err(|error| error.to_string())
}

#[test]
fn without_a_port_there_is_no_webhook() {
    assert!(settings("").unwrap().is_none());
    assert!(settings("--webhook-service webhook").is_err(), "a flag that would do nothing");
}

#[test]
fn a_service_is_called_by_its_name_in_the_cluster() {
    let flags = "--webhook-port 9443 --webhook-service hook --webhook-host 10.0.0.1 --webhook-secret kept --webhook-configuration all";
    let (port, names, source) = settings(flags).unwrap().unwrap();
    assert_eq!((port, names), (9443, vec!["hook.flink-operator.svc".into(), "10.0.0.1".into()]));
    let Source::Own { secret, configuration } = source else { panic!("it makes its own") };
    assert_eq!(secret.to_string(), "flink-operator/kept");
    assert_eq!(configuration.as_deref(), Some("all"));
}

#[test]
fn what_is_missing_is_named() {
    let without_name = settings("--webhook-port 9443 --webhook-secret kept").unwrap_err();
    assert!(without_name.contains("--webhook-service"), "{without_name}");
    let without_certificate = settings("--webhook-port 9443 --webhook-service hook").unwrap_err();
    assert!(without_certificate.contains("--webhook-secret"), "{without_certificate}");
    let both =
        "--webhook-port 9443 --webhook-service a --webhook-secret b --webhook-certificate /c";
    assert!(settings(both).is_err());
}
