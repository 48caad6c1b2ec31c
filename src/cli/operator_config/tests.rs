use super::*;

fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

#[test]
fn the_old_file_alone_counts_where_both_are() {
    let both =
        directory(&[("flink-conf.yaml", "a: old\nnonsense\n"), ("config.yaml", "a: new\nb: 1")]);
    let files = read(Some(both.path())).unwrap();
    assert_eq!(files.merged().iter().collect::<Vec<_>>(), [("a", "old")]);
    let [remark] = files.remarks.as_slice() else { panic!("{:?}", files.remarks) };
    assert!(remark.contains("flink-conf.yaml:2: skipped"), "{remark}");

    let standard = directory(&[("config.yaml", "a:\n  b: 1")]);
    let files = read(Some(standard.path())).unwrap();
    assert_eq!(files.merged().iter().collect::<Vec<_>>(), [("a.b", "1")]);
}

#[test]
fn quotes_that_the_old_format_keeps_are_pointed_out() {
    let old = directory(&[("flink-conf.yaml", "a: \"true\"\nb: 'x'\nc: say \"x\"\n")]);
    let remarks = read(Some(old.path())).unwrap().remarks;
    let told: Vec<&str> = remarks.iter().filter_map(|it| it.split('`').nth(1)).collect();
    assert_eq!(told, ["a", "b"], "{remarks:?}");
    let standard = directory(&[("config.yaml", "a: \"true\"\n")]);
    assert_eq!(read(Some(standard.path())).unwrap().remarks, [""; 0]);
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_that_names_it() {
    let empty = directory(&[]);
    assert!(read(Some(empty.path())).unwrap_err().to_string().contains("contains neither"));
    let missing = read(Some(&empty.path().join("x.yaml"))).unwrap_err();
    assert!(missing.to_string().contains("x.yaml"));
    let broken = directory(&[("operator.yaml", "a: [")]);
    let error = read(Some(&broken.path().join("operator.yaml"))).unwrap_err();
    assert!(error.to_string().contains("operator.yaml"), "{error}");
}

#[test]
fn what_has_no_effect_and_what_is_wrong_is_pointed_out() {
    let (printer, transcript) = Printer::in_memory();
    let files = directory(&[(
        "flink-conf.yaml",
        "kubernetes.operator.default-configuration.flink-version.v3_0.a: b\n\
         kubernetes.operator.reconcile.intervall: 1 s\n\
         kubernetes.operator.reconcile.interval: soon\n\
         kubernetes.operator.retry.max.attempts: 3\n\
         kubernetes.operator.plugins.listeners.audit.class: com.example.Audit\n\
         kubernetes.operator.metrics.reporter.x.factory.class: com.example.Reporter\n",
    )]);
    load(Some(files.path()), &printer).unwrap();
    for told in [
        "no such Flink version",
        "`kubernetes.operator.retry.max.attempts` has no effect here: How often the Java operator",
        "did you mean `kubernetes.operator.reconcile.interval`?",
        "`soon`",
        "reporter `com.example.Reporter` is not supported",
        "Java classes cannot be loaded here; set `kubernetes.operator.plugins.listeners.audit.url`",
    ] {
        assert!(transcript.error().contains(told), "{told}: {}", transcript.error());
    }
}

#[test]
fn a_later_file_is_laid_over_an_earlier_one() {
    let mut files = Files::default();
    files.add_text(true, "one".to_owned(), "a: 1\nb: 1\n").unwrap();
    files.add_text(false, "two".to_owned(), "b: 2").unwrap();
    assert_eq!(files.merged().iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
}

#[test]
fn log_configurations_of_all_jobs_are_read_alongside_the_configuration() {
    let key = "kubernetes.operator.log-configuration.log4j-console.properties";
    let both = directory(&[("config.yaml", "a: 1"), ("log4j-console.properties", "b = 2\n")]);
    let files = read(Some(both.path())).unwrap();
    assert_eq!(files.merged().iter().collect::<Vec<_>>(), [("a", "1"), (key, "b = 2\n")]);
    assert!(files.remarks.is_empty(), "{:?}", files.remarks);
    let alone = directory(&[("log4j-console.properties", "b = 2\n")]);
    assert_eq!(read(Some(alone.path())).unwrap().merged().get_text(key), Some("b = 2\n"));
    let huge = directory(&[("config.yaml", &"#".repeat(1 << 21))]);
    let told = format!("{:#}", read(Some(huge.path())).unwrap_err());
    assert!(told.contains("has 2097152 bytes"), "{told}");
}

#[test]
fn a_pod_template_that_cannot_be_read_is_reported_and_not_taken_for_none() {
    let key = "kubernetes.pod-template-file.jobmanager";
    let named = directory(&[("flink-conf.yaml", &format!("{key}: /nowhere/jm.yaml\n"))]);
    let files = read(Some(named.path())).unwrap();
    let told = files.remarks.join("\n");
    assert!(told.contains("`/nowhere/jm.yaml`") && told.contains("No such file"), "{told}");
    let probe = "kubernetes.operator.jm-deployment.startup.probe.enabled";
    assert!(told.contains(&format!("has no effect unless `{probe}` is false")), "{told}");
    let mut config = files.merged();
    let entry = template_file::entry("/nowhere/jm.yaml");
    assert_eq!(config.get_text(&entry), Some(""));
    template_file::nothing_is_elsewhere(&mut config);
    assert_eq!(config.get_text(&entry), None);

    let text = format!("{key}: /etc/hostname\n");
    let elsewhere = Files::of_text(OLD_NAME, "configmap/x".to_owned(), &text).unwrap();
    let told = elsewhere.remarks.join("\n");
    assert!(told.contains("is a file in the operator's pod"), "{told}");
}
