use super::*;

#[test]
fn name_with_parentheses_and_spaces_does_not_move_the_fields() {
    let line = "4242 (a) 7 (b c) S 1 4242 4242 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987654 1 2";
    let stat = Stat::parse(line).unwrap();
    assert_eq!(stat, Stat { id: ProcessId { pid: 4242, started: 987_654 }, state: 'S' });
}

#[test]
fn cut_line_is_no_identity() {
    for line in ["", "1", "1 (init)", "1 (init) S 0 1", "x (y) S 1 2 3"] {
        assert_eq!(Stat::parse(line), None, "{line}");
    }
}

#[test]
fn this_process_is_alive_and_one_started_at_another_time_is_not() {
    let own = Stat::of(std::process::id().try_into().unwrap()).unwrap().id;
    assert!(own.is_alive());
    assert!(!ProcessId { started: own.started + 1, ..own }.is_alive());
}

#[tokio::test]
async fn daemon_records_itself_and_is_ended_by_its_identity() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place {
        identity: folder.path().join("identity"),
        log: folder.path().join("log"),
        group: None,
        namespaces_of: None,
    };
    let daemon = Daemon {
        name: "cat".into(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "env; exec tail -f /dev/null".into()],
    };
    let process = daemon.start(&place).await.unwrap();
    assert_eq!(ProcessId::recorded(&place.identity), Some(process));
    assert!(process.is_alive());
    // `env` runs before `tail`, so its output is complete once the process has become `tail`.
    let is_tail = wait_for(Duration::from_secs(10), async || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", process.pid)).ok()?;
        (name.trim() == "tail").then_some(())
    });
    assert_eq!(is_tail.await, Some(()));
    let environment = std::fs::read_to_string(&place.log).unwrap();
    assert!(environment.contains("PATH=") && !environment.contains("CARGO"), "{environment}");

    let stranger = ProcessId { started: process.started + 1, ..process };
    stranger.signal(Signal::KILL);
    assert!(process.is_alive(), "a signal went to a process with another start time");

    assert!(end(&[process], Duration::from_secs(10)).await.is_empty());
    assert!(!process.is_alive());
}
