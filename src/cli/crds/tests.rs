use expect_test::expect;

use super::*;
use crate::cli::failure;

/// Returns what `crds` prints with `output`, without any cluster.
async fn printed(
    apply: bool,
    dry_run: DryRunMode,
    output: Option<ObjectFormat>,
) -> anyhow::Result<String> {
    let (printer, transcript) = Printer::in_memory();
    let args = CrdsArgs {
        apply,
        dry_run: DryRun { dry_run },
        yes: Yes::default(),
        timeout: Duration::from_secs(1),
        output: Output { output },
    };
    run(args, &Global::default(), &printer).await?;
    Ok(transcript.output())
}

#[tokio::test]
async fn yaml_and_json_hold_the_same_definitions() {
    let yaml = printed(false, DryRunMode::None, None).await.unwrap();
    let documents: Vec<serde_json::Value> = serde_yaml::from_multiple(&yaml).unwrap();
    let format = ObjectFormat::Value(ValueFormat::Json);
    let json = printed(false, DryRunMode::None, Some(format)).await.unwrap();
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["items"], serde_json::Value::Array(documents));
}

#[tokio::test]
async fn a_client_dry_run_needs_no_cluster() {
    expect![[r#"
        customresourcedefinition.apiextensions.k8s.io/flinkdeployments.flink.apache.org applied (dry run)
        customresourcedefinition.apiextensions.k8s.io/flinksessionjobs.flink.apache.org applied (dry run)
        customresourcedefinition.apiextensions.k8s.io/flinkstatesnapshots.flink.apache.org applied (dry run)
        customresourcedefinition.apiextensions.k8s.io/flinkbluegreendeployments.flink.apache.org applied (dry run)
    "#]]
    .assert_eq(&printed(true, DryRunMode::Client, None).await.unwrap());
}

#[tokio::test]
async fn what_makes_no_sense_is_a_usage_error() {
    let error = printed(false, DryRunMode::Server, None).await.unwrap_err();
    assert_eq!(failure::kind_of(&error), failure::Kind::Usage);
}
