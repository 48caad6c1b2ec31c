use expect_test::{Expect, expect};

use super::*;

const JSON: ObjectFormat = ObjectFormat::Value(ValueFormat::Json);
const YAML: ObjectFormat = ObjectFormat::Value(ValueFormat::Yaml);

const ONE: &str = "\
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: orders}
spec:
  flinkVersion: v1_20
  serviceAccount: flink
  jobManager: {resource: {memory: 1g}}
  taskManager: {resource: {memory: 1g}}
";

fn run_on(manifest: &str, format: ObjectFormat, namespace: Option<&str>) -> anyhow::Result<String> {
    let directory = tempfile::tempdir()?;
    let filename = directory.path().join("manifest.yaml");
    std::fs::write(&filename, manifest)?;
    let (printer, transcript) = Printer::in_memory();
    let args =
        RenderArgs { filename, operator_config: None, output: Output { output: Some(format) } };
    let global = Global { namespace: namespace.map(str::to_owned), ..Global::default() };
    futures::executor::block_on(run(args, &global, &printer))?;
    Ok(transcript.output())
}

#[track_caller]
fn check(manifest: &str, expected: Expect) {
    let text = match run_on(manifest, ObjectFormat::Name, None) {
        Ok(text) => text,
        Err(error) => format!("{error:#}\n"),
    };
    expected.assert_eq(&text);
}

#[test]
fn objects_come_in_the_order_of_creation() {
    check(
        ONE,
        expect![[r#"
            configmap/flink-config-orders
            deployment/orders
            service/orders
            service/orders-rest
        "#]],
    );
}

#[test]
fn objects_of_the_operators_files_are_shown_without_data() {
    let with_keytab = format!(
        "{ONE}  flinkConfiguration:\n    security.kerberos.login.keytab: /k/it.keytab\n    \
         security.kerberos.login.principal: it@EXAMPLE\n"
    );
    check(
        &with_keytab,
        expect![[r#"
            configmap/flink-config-orders
            secret/kerberos-keytab-orders
            deployment/orders
            service/orders
            service/orders-rest
        "#]],
    );
    let documents: Vec<Value> =
        serde_yaml::from_multiple(&run_on(&with_keytab, YAML, None).unwrap()).unwrap();
    let secret = documents.iter().find(|it| it["kind"] == "Secret").unwrap();
    assert_eq!((secret.get("data"), secret.get("stringData")), (None, None));
}

#[test]
fn every_deployment_of_the_file_is_rendered() {
    let two = format!(
        "{ONE}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n---\n{}",
        ONE.replace("orders", "carts")
    );
    let names = run_on(&two, ObjectFormat::Name, None).unwrap();
    assert!(names.contains("deployment/orders\n") && names.contains("deployment/carts\n"));
}

#[test]
fn the_same_manifest_prints_the_same_in_every_form() {
    let yaml = run_on(ONE, YAML, None).unwrap();
    assert_eq!(yaml, run_on(ONE, YAML, None).unwrap());
    let documents: Vec<Value> = serde_yaml::from_multiple(&yaml).unwrap();
    let list: Value = serde_json::from_str(&run_on(ONE, JSON, None).unwrap()).unwrap();
    assert_eq!(list["items"], Value::Array(documents));
}

#[test]
fn ids_have_their_form_and_depend_on_the_name() {
    let id = uuid(&digest("default/orders/run"));
    assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert_ne!(digest("a"), digest("b"));
}

#[test]
fn the_namespace_may_be_given_once() {
    let shop = run_on(ONE, YAML, Some("shop")).unwrap();
    assert!(shop.contains("namespace: shop"));
    let stated = ONE.replace("name: orders", "name: orders, namespace: shop");
    let error = run_on(&stated, YAML, Some("other")).unwrap_err();
    assert!(format!("{error:#}").contains("`shop`"), "{error:#}");
}

#[test]
fn what_cannot_be_rendered_says_which_and_why() {
    let broken = ONE.replace("memory: 1g", "memory: 1.5g");
    let error = format!("{:#}", run_on(&broken, YAML, None).unwrap_err());
    for part in ["`orders`", "spec.jobManager.resource.memory", "spec.taskManager.resource.memory"]
    {
        assert!(error.contains(part), "{error}");
    }
    let error =
        run_on("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", YAML, None).unwrap_err();
    assert!(error.to_string().starts_with("no FlinkDeployment to render in"));
}
