//! The contract of every store, tested on each: memory and SQLite always, servers if they are available.

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn data(values: &[(&str, &str)]) -> Data {
    values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn stored(revision: i64, values: &[(&str, &str)]) -> Record {
    Record { revision, data: data(values), ..Record::default() }
}

/// A key of a job that no other test has, even in a database that existed before.
fn job(name: &str) -> String {
    let one = std::process::id();
    let number = Timestamp::now().as_nanosecond();
    format!("http://flink:8081#{one}-{number}-{name}")
}

async fn contract(store: &dyn Store) {
    what_is_written_is_read(store).await;
    of_two_writers_one_fails(store).await;
    what_is_too_large_is_refused(store).await;
    what_is_old_is_trimmed(store).await;
}

async fn what_is_written_is_read(store: &dyn Store) {
    let (one, other) = (job("one"), job("ONE"));
    assert_eq!(store.read(&one).await.unwrap(), Record::default());
    let large = "abcdefgh".repeat(125_000);
    let values = [("scalingHistory", large.as_str()), ("configOverrides", "---\nä: \"☃\"\n\u{1}'")];
    assert_eq!(store.write(&one, &stored(0, &values), at(0)).await.unwrap(), 1);
    assert_eq!(store.write(&other, &stored(0, &[("empty", "")]), at(0)).await.unwrap(), 1);
    assert_eq!(store.read(&one).await.unwrap(), stored(1, &values));
    // A key that is left out is removed.
    let fewer = [("parallelismOverrides", "a:1,b:2")];
    assert_eq!(store.write(&one, &stored(1, &fewer), at(1)).await.unwrap(), 2);
    assert_eq!(store.read(&one).await.unwrap(), stored(2, &fewer));
    assert_eq!(store.read(&other).await.unwrap(), stored(1, &[("empty", "")]));
    for job in [&one, &other, &one] {
        store.remove(job).await.unwrap();
        assert_eq!(store.read(job).await.unwrap(), Record::default());
    }
}

async fn of_two_writers_one_fails(store: &dyn Store) {
    let job = job("two");
    store.write(&job, &stored(0, &[("a", "1")]), at(0)).await.unwrap();
    let error = store.write(&job, &stored(0, &[("a", "2")]), at(0)).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert_eq!(store.write(&job, &stored(1, &[("a", "3")]), at(0)).await.unwrap(), 2);
    let error = store.write(&job, &stored(1, &[("a", "4")]), at(0)).await.unwrap_err();
    assert!(error.to_string().contains(&job), "{error}");
    assert_eq!(store.read(&job).await.unwrap(), stored(2, &[("a", "3")]), "nothing was changed");
    // A job that was removed meanwhile is not created again by a writer that knew it.
    store.remove(&job).await.unwrap();
    let error = store.write(&job, &stored(2, &[("a", "5")]), at(0)).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert_eq!(store.read(&job).await.unwrap(), Record::default());
}

async fn what_is_too_large_is_refused(store: &dyn Store) {
    let job = job("large");
    let many: Vec<String> = (0..=VALUES_MAX).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|key| (key.as_str(), "")).collect();
    let (long, key) = ("x".repeat(VALUE_BYTES_MAX + 1), "k".repeat(KEY_BYTES_MAX + 1));
    for values in [&[("a", long.as_str())] as &[_], &[(key.as_str(), "a")], &many] {
        let error = store.write(&job, &stored(0, values), at(0)).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }
    assert_eq!(store.read(&job).await.unwrap(), Record::default());
    let fits = "x".repeat(VALUE_BYTES_MAX);
    store.write(&job, &stored(0, &[("a", &fits)]), at(0)).await.unwrap();
    assert_eq!(store.read(&job).await.unwrap().data["a"].len(), VALUE_BYTES_MAX);
    store.remove(&job).await.unwrap();
}

async fn what_is_old_is_trimmed(store: &dyn Store) {
    // Before everything that the other tests write.
    let (old, young) = (job("old"), job("young"));
    store.write(&old, &stored(0, &[("a", "1")]), at(-2000)).await.unwrap();
    store.write(&young, &stored(0, &[("a", "1")]), at(-1000)).await.unwrap();
    let trimmed = store.trim(at(-1000)).await.unwrap();
    assert_eq!(trimmed, std::slice::from_ref(&old));
    assert_eq!(store.read(&old).await.unwrap(), Record::default());
    assert_eq!(store.read(&young).await.unwrap(), stored(1, &[("a", "1")]));
    assert_eq!(store.trim(at(-1000)).await.unwrap(), [""; 0]);
    store.remove(&young).await.unwrap();
}

/// Rows that only a database can have: written by another program, or truncated.
async fn database_contract(place: &Place) {
    let Place::Sql(url) = place else { panic!("{place}") };
    let sql = Sql::open(url).await.unwrap();
    contract(&sql).await;
    what_is_not_as_it_was_written_is_reported(&sql).await;
    what_is_stored_outlives_the_process(&sql, url).await;
    tables_of_a_newer_version_are_left_alone(&sql, url).await;
    what_the_java_program_keeps_is_read(&sql, url).await;
}

async fn what_is_not_as_it_was_written_is_reported(sql: &Sql) {
    let job = job("damaged");
    let values = [("parallelismOverrides", "a:1,b:12"), ("scalingHistory", "x"), ("whole", "y")];
    sql.write(&job, &stored(0, &values), at(0)).await.unwrap();
    let change = |statement| sql.change(statement, &job);
    change(
        "UPDATE kubectl_flink_autoscaler_value SET bytes = 9 \
         WHERE value_key = 'parallelismOverrides' AND job_key = $1",
    )
    .await;
    change(
        "UPDATE kubectl_flink_autoscaler_value SET form = 2 \
         WHERE value_key = 'scalingHistory' AND job_key = $1",
    )
    .await;
    let found = sql.read(&job).await.unwrap();
    assert_eq!(found.data["parallelismOverrides"], "a:1,b:12");
    assert_eq!(found.damaged["parallelismOverrides"], "it has 8 of its 9 bytes");
    assert!(found.damaged["scalingHistory"].contains("newer"), "{found:?}");
    assert_eq!(found.damaged.len(), 2);
    // Repaired by hand.
    change(
        "UPDATE kubectl_flink_autoscaler_value SET bytes = 7, value = 'a:1,b:3' \
         WHERE value_key = 'parallelismOverrides' AND job_key = $1",
    )
    .await;
    let found = sql.read(&job).await.unwrap();
    assert_eq!(found.data["parallelismOverrides"], "a:1,b:3");
    assert_eq!(found.damaged.len(), 1);
    sql.remove(&job).await.unwrap();
}

async fn what_is_stored_outlives_the_process(sql: &Sql, url: &url::Url) {
    let job = job("later");
    sql.write(&job, &stored(0, &[("a", "1")]), at(0)).await.unwrap();
    let later = Sql::open(url).await.unwrap();
    assert_eq!(later.read(&job).await.unwrap(), stored(1, &[("a", "1")]));
    later.remove(&job).await.unwrap();
}

async fn tables_of_a_newer_version_are_left_alone(sql: &Sql, url: &url::Url) {
    let raise = "UPDATE kubectl_flink_autoscaler_version SET version = 7 WHERE '' <> $1";
    sql.change(raise, "x").await;
    let error = Sql::open(url).await.unwrap_err();
    let lower = "UPDATE kubectl_flink_autoscaler_version SET version = 1 WHERE '' <> $1";
    sql.change(lower, "x").await;
    assert!(matches!(error, Error::Newer { found: 7, known: 1, .. }), "{error}");
}

/// The Java program's table as its own schema creates it, with a value larger than a row of MySQL.
async fn what_the_java_program_keeps_is_read(sql: &Sql, url: &url::Url) {
    assert_eq!(sql.read_java("a").await.unwrap(), Data::new(), "there is no table");
    let (id, text) = match url.scheme() {
        "mysql" => ("BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY", "LONGTEXT"),
        "sqlite" => ("INTEGER PRIMARY KEY", "TEXT"),
        _ => ("BIGSERIAL NOT NULL PRIMARY KEY", "TEXT"),
    };
    let time = if url.scheme() == "mysql" { "DATETIME" } else { "TIMESTAMP" };
    let row = |job: &str, key: &str, value: &str| {
        format!(
            "INSERT INTO t_flink_autoscaler_state_store (update_time, job_key, state_type, \
             state_value) VALUES ('2024-01-01 00:00:00', '{job}', '{key}', '{value}')"
        )
    };
    let (job, history) = ("20ba6b65f97481d5570070de90e4e791", "é".repeat(50_000));
    sql.execute(&[
        format!(
            "CREATE TABLE t_flink_autoscaler_state_store (id {id}, update_time {time} NOT NULL, \
             job_key VARCHAR(191) NOT NULL, state_type VARCHAR(100) NOT NULL, state_value {text} \
             NOT NULL)"
        ),
        row(job, "parallelismOverrides", "a:1,b:2"),
        row(job, "scalingHistory", &history),
        row("12345678901234567890123456789012", "parallelismOverrides", "a:3"),
    ])
    .await;
    let later = Sql::open(url).await.unwrap();
    let read = later.read_java(job).await.unwrap();
    let wanted = data(&[("parallelismOverrides", "a:1,b:2"), ("scalingHistory", &history)]);
    assert_eq!(read, wanted);
    assert_eq!(later.read_java("another").await.unwrap(), Data::new());
    assert_eq!(later.read(job).await.unwrap(), Record::default(), "nothing of it is ours");
    sql.execute(&["DROP TABLE t_flink_autoscaler_state_store".to_owned()]).await;
}

#[tokio::test]
async fn memory_keeps_to_the_contract() {
    contract(&Memory::default()).await;
}

#[tokio::test]
async fn sqlite_keeps_to_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("what is known?.db");
    let place = Place::parse(&format!("sqlite:{}", file.display())).unwrap();
    database_contract(&place).await;
    assert!(file.is_file(), "under just this name");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.db");
    std::fs::write(&file, "this is a text, and has been one for long enough").unwrap();
    let place = Place::parse(&format!("sqlite:{}", file.display())).unwrap();
    let error = open(&place).await.err().unwrap().to_string();
    assert!(error.starts_with("sqlite:/") && error.contains("not a database"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported_without_the_password() {
    let place = Place::parse("postgres://flink@127.0.0.1:1/autoscaler").unwrap();
    let error = open(&place.with_password("s3cret").unwrap()).await.err().unwrap().to_string();
    assert!(error.starts_with("postgres://127.0.0.1:1/autoscaler: "), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}

/// The server that `tests/stores.sh` started.
async fn server(variable: &str) {
    let text = std::env::var(variable).expect("tests/stores.sh sets it");
    let place = Place::parse(&text).unwrap();
    let wrong = open(&place.clone().with_password("wr0ng").unwrap()).await.err().unwrap();
    assert!(!wrong.to_string().contains("wr0ng"), "{wrong}");
    let password = std::env::var("KUBECTL_FLINK_TEST_STORE_PASSWORD").unwrap();
    database_contract(&place.with_password(&password).unwrap()).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: tests/stores.sh"]
async fn postgres_keeps_to_the_contract() {
    server("KUBECTL_FLINK_TEST_POSTGRES").await;
}

#[tokio::test]
#[ignore = "needs MariaDB: tests/stores.sh"]
async fn mysql_keeps_to_the_contract() {
    server("KUBECTL_FLINK_TEST_MYSQL").await;
}
