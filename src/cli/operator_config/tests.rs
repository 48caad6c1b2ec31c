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
    let (printer, transcript) = Printer::in_memory();
    let both =
        directory(&[("flink-conf.yaml", "a: old\nnonsense\n"), ("config.yaml", "a: new\nb: 1")]);
    let config = read(both.path(), &printer).unwrap();
    assert_eq!(config.iter().collect::<Vec<_>>(), [("a", "old")]);
    assert!(transcript.error().contains("flink-conf.yaml:2: skipped"), "{}", transcript.error());

    let standard = directory(&[("config.yaml", "a:\n  b: 1")]);
    let config = read(standard.path(), &printer).unwrap();
    assert_eq!(config.iter().collect::<Vec<_>>(), [("a.b", "1")]);
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_that_names_it() {
    let (printer, _) = Printer::in_memory();
    let empty = directory(&[]);
    assert!(read(empty.path(), &printer).unwrap_err().to_string().contains("holds neither"));
    let missing = read(&empty.path().join("x.yaml"), &printer).unwrap_err();
    assert!(missing.to_string().contains("x.yaml"));
    let broken = directory(&[("operator.yaml", "a: [")]);
    let error = read(&broken.path().join("operator.yaml"), &printer).unwrap_err();
    assert!(error.to_string().contains("operator.yaml"), "{error}");
}

#[test]
fn unknown_flink_versions_are_pointed_out() {
    let (printer, transcript) = Printer::in_memory();
    let files = directory(&[(
        "config.yaml",
        "kubernetes.operator.default-configuration.flink-version.v3_0.a: b",
    )]);
    load(Some(files.path()), &printer).unwrap();
    assert!(transcript.error().contains("no such Flink version"));
}
