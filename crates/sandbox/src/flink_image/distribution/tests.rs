use expect_test::expect;

use super::*;
use crate::error::LogTail;

#[test]
fn version_is_read_from_the_name_of_the_source_package() {
    assert_eq!(version_of("apache_flink_libraries-1.20.5.tar.gz").as_deref(), Some("1.20.5"));
    assert_eq!(version_of("apache-flink-libraries-1.13.6.tar.gz").as_deref(), Some("1.13.6"));
    assert_eq!(version_of("apache-flink-1.20.5.tar.gz"), None);
}

#[test]
fn parts_of_earlier_patches_will_do() {
    assert_eq!(patches("1.20.2"), ["1.20.2", "1.20.1", "1.20.0"]);
    assert_eq!(patches("2.1.0"), ["2.1.0"]);
}

#[test]
fn artifact_that_does_not_exist_is_distinguished_from_a_repository_that_does_not_answer() {
    let said = |text: &str| Error::Command {
        command: "mvn".into(),
        status: "exit status: 1".into(),
        log: Some(LogTail::of_text(text)),
    };
    let absent = "[ERROR] Unable to resolve artifact. Could not find artifact org.apache.flink:x";
    assert!(is_absence(&said(absent)));
    let again = "[ERROR] org.apache.flink:x was not found in https://repository during a previous";
    assert!(is_absence(&said(again)));
    assert!(!is_absence(&said("[ERROR] Could not transfer artifact: Connection refused")));
    assert!(!is_absence(&Error::Refused("no".into())));
}

#[test]
fn configuration_listens_to_others_in_both_forms() {
    let nested = "\
jobmanager:
  # To enable this, set bind-host: localhost
  bind-host: localhost
  rpc:
    address: localhost
taskmanager:
  bind-host: localhost
  host: localhost
  numberOfTaskSlots: 1
rest:
  address: localhost
  bind-address: localhost
";
    expect![[r#"
        jobmanager:
          # To enable this, set bind-host: localhost
          bind-host: 0.0.0.0
          rpc:
            address: localhost
        taskmanager:
          bind-host: 0.0.0.0
          numberOfTaskSlots: 1
        rest:
          address: 0.0.0.0
          bind-address: 0.0.0.0
    "#]]
    .assert_eq(&open_to_others(nested));
    let flat = "\
jobmanager.rpc.address: localhost
jobmanager.bind-host: localhost
taskmanager.host: localhost
# rest.port: 8081
rest.bind-address: localhost
";
    expect![[r#"
        jobmanager.rpc.address: localhost
        jobmanager.bind-host: 0.0.0.0
        # rest.port: 8081
        rest.bind-address: 0.0.0.0
    "#]]
    .assert_eq(&open_to_others(flat));
}

#[tokio::test]
async fn flink_layer_lies_where_the_image_expects_it() {
    let folder = tempfile::tempdir().unwrap();
    let (distribution, work) = (folder.path().join("distribution"), folder.path().join("work"));
    fs::create_dir_all(distribution.join("lib")).unwrap();
    fs::create_dir_all(&work).unwrap();
    fs::create_dir_all(distribution.join("conf")).unwrap();
    fs::write(distribution.join("lib/flink-dist.jar"), "jar").unwrap();
    fs::write(distribution.join("conf/config.yaml"), "rest:\n  address: localhost\n").unwrap();
    let layer = flink_layer(&distribution, &work).await.unwrap();
    let listed = run(program("tar").arg("-tvf").arg(&layer.file), SHORT).await.unwrap();
    let entry = |name: &str| {
        listed
            .lines()
            .find(|line| line.split_whitespace().last() == Some(name))
            .unwrap_or_else(|| panic!("`{name}` is not in\n{listed}"))
    };
    assert!(entry("opt/flink/lib/flink-dist.jar").contains("9999/9999"));
    assert!(entry("opt/flink/conf/config.yaml").contains("9999/9999"));
    let mut show = program("tar");
    show.arg("-xOf").arg(&layer.file).arg("opt/flink/conf/config.yaml");
    assert_eq!(run(&mut show, SHORT).await.unwrap(), "rest:\n  address: 0.0.0.0\n");
    assert!(entry("docker-entrypoint.sh").starts_with("-rwxr-xr-x 0/0"));
}
