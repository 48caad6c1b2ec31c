use super::*;

fn name_of(uri: &str) -> String {
    file_name(&Url::parse(uri).unwrap())
}

#[test]
fn the_file_is_named_by_the_last_segment() {
    assert_eq!(name_of("http://h/download/file.jar?some=params"), "file.jar");
    assert_eq!(name_of("s3://bucket/a/b/my%20job.JAR"), "my job.jar");
    assert_eq!(name_of("https://h/download"), "download.jar");
    assert_eq!(name_of("https://h/"), "job.jar");
    assert_eq!(name_of("https://h/a%2F..%2Fb.jar"), "a_.._b.jar");
    assert_eq!(name_of("https://h/.jar"), "job.jar");
    let long = name_of(&format!("https://h/{}.jar", "ä".repeat(300)));
    assert!(long.len() < 255, "{long}");
}

#[test]
fn secrets_in_a_uri_are_not_shown() {
    assert_eq!(shown("https://user:pass@h:1/a.jar?sig=secret#x"), "https://h:1/a.jar");
    assert_eq!(shown("s3://key@bucket/a.jar"), "s3://bucket/a.jar");
    assert_eq!(
        shown("abfss://c@a.dfs.core.windows.net/j.jar"),
        "abfss://c@a.dfs.core.windows.net/j.jar"
    );
    assert_eq!(
        shown("abfss://c:key@a.dfs.core.windows.net/j.jar"),
        "abfss://a.dfs.core.windows.net/j.jar"
    );
    assert_eq!(shown("file:/a/b.jar"), "file:/a/b.jar");
}

#[test]
fn a_scheme_that_cannot_be_fetched_says_why() {
    assert!(Scheme::named("local").unwrap_err().contains("inside the Flink image"));
    assert!(Scheme::named("ftp").unwrap_err().contains("`ftp`"));
    assert_eq!(Scheme::named("s3a"), Ok(Scheme::S3));
}
