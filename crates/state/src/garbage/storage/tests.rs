use proptest::prelude::*;

use super::*;

const GONE: &str = "00000000000000000000000000000001";
const STORED: &str = "00000000000000000000000000000002";
const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
const DAY: Duration = Duration::from_hours(24);

fn cluster(name: &str) -> ClusterName {
    ClusterName { namespace: "shop".to_owned(), name: name.to_owned() }
}

fn now() -> Timestamp {
    "2026-01-10T00:00:00Z".parse().unwrap()
}

/// Returns a folder that is ten days old, recognized, and has no references.
fn folder(path: &str) -> Folder {
    Folder {
        path: path.to_owned(),
        changed: Some(now() - SignedDuration::from_hours(240)),
        size_bytes: 10,
        count: 1,
        is_recognized: true,
        has_state: true,
        ..Folder::default()
    }
}

fn of(cluster: &str, folder: Folder) -> Folder {
    Folder { cluster: Some(cluster.to_owned()), ..folder }
}

fn naming(names: &[&str], folder: Folder) -> Folder {
    Folder { names: names.iter().map(|&name| name.to_owned()).collect(), ..folder }
}

fn place(kind: Kind, uri: &str, folders: Vec<Folder>) -> Place {
    let users = [cluster("orders")].into();
    Place { kind, uri: uri.to_owned(), users, view: View::Complete(folders) }
}

fn rules() -> Rules {
    let sole_user_of = vec!["s3://lake".to_owned(), "zookeeper://zk:2181/flink".to_owned()];
    Rules { now: now(), age_min: 7 * DAY, includes_state: true, sole_user_of }
}

/// References of an `orders` that runs job [`STORED`].
fn references() -> References {
    References {
        names: names_in(&format!("s3://lake/cp/{STORED}/chk-7 s3://lake/sp/savepoint-000002-b/")),
        clusters: ["orders".to_owned()].into(),
        settled: ["orders".to_owned()].into(),
        ..References::default()
    }
}

fn places() -> Vec<Place> {
    vec![
        place(
            Kind::Savepoint,
            "s3://lake/sp",
            vec![
                folder("savepoint-000001-a"),
                folder("savepoint-000002-b"),
                folder("my-savepoint"),
            ],
        ),
        place(Kind::Checkpoints, "s3://lake/cp", vec![folder(GONE), folder(STORED)]),
        place(
            Kind::HaStorage,
            "s3://lake/ha",
            vec![of("orders", folder("orders")), of("gone", folder("gone"))],
        ),
        place(
            Kind::JobResultStore,
            "s3://lake/ha/job-result-store",
            vec![
                of("orders", Folder { has_state: false, ..folder(&format!("orders/{UUID}")) }),
                of("gone", Folder { has_state: false, ..folder(&format!("gone/{UUID}")) }),
            ],
        ),
        place(
            Kind::ZooKeeperNodes,
            "zookeeper://zk:2181/flink",
            vec![
                of("orders", naming(&["orders"], folder("orders"))),
                of("gone", naming(&["gone"], folder("gone"))),
            ],
        ),
    ]
}

fn lines(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| match &finding.kept_because {
        None => format!("remove {}: {}", finding.path, finding.why),
        Some(kept_because) => format!("keep {}: {kept_because}", finding.path),
    };
    findings.iter().map(line).collect()
}

fn removed(places: &[Place], references: &References, rules: &Rules) -> Vec<String> {
    let findings = garbage(places, references, rules);
    findings.into_iter().filter(Finding::is_removable).map(|finding| finding.path).collect()
}

/// Asserts that all of it is kept, for this reason.
#[track_caller]
fn all_retained(places: &[Place], references: &References, rules: &Rules, reason: &str) {
    let findings = garbage(places, references, rules);
    assert!(!findings.is_empty());
    for finding in findings {
        let kept_because = finding.kept_because.clone().unwrap_or_default();
        assert!(kept_because.contains(reason), "{}: {kept_because}", finding.path);
    }
}

#[test]
fn what_nothing_names_may_go_and_the_way_to_it_goes_first() {
    let findings = garbage(&places(), &references(), &rules());
    assert_eq!(
        lines(&findings),
        [
            "remove zookeeper://zk:2181/flink/gone: cluster `gone` no longer exists".to_owned(),
            "remove s3://lake/ha/gone: cluster `gone` no longer exists".to_owned(),
            format!(
                "remove s3://lake/ha/job-result-store/gone/{UUID}: cluster `gone` no longer exists"
            ),
            format!(
                "remove s3://lake/ha/job-result-store/orders/{UUID}: `orders` runs with another one"
            ),
            format!("remove s3://lake/cp/{GONE}: nothing names job {GONE}"),
            "remove s3://lake/sp/savepoint-000001-a: nothing names it".to_owned(),
        ]
    );
}

#[test]
fn state_is_only_shown_unless_it_is_asked_for() {
    let rules = Rules { includes_state: false, ..rules() };
    let stores = removed(&places(), &references(), &rules);
    assert!(!stores.is_empty() && stores.iter().all(|path| path.contains("job-result-store")));
}

#[test]
fn what_another_kubernetes_could_have_made_is_only_shown() {
    let rules = Rules { sole_user_of: vec!["s3://lake/s".to_owned()], ..rules() };
    let store = format!("s3://lake/ha/job-result-store/orders/{UUID}");
    assert_eq!(removed(&places(), &references(), &rules), [store]);
}

#[test]
fn young_folders_and_those_with_foreign_files_stay() {
    let young = Rules { age_min: 30 * DAY, ..rules() };
    assert_eq!(garbage(&places(), &references(), &young), []);
    for spoil in [
        |folder: &mut Folder| folder.is_recognized = false,
        |folder: &mut Folder| folder.is_in_use = true,
        |folder: &mut Folder| folder.changed = None,
        |folder: &mut Folder| folder.path.push_str(".old"),
    ] {
        let mut folder = folder("savepoint-000001-a");
        spoil(&mut folder);
        let places = [place(Kind::Savepoint, "s3://lake/sp", vec![folder])];
        assert_eq!(garbage(&places, &references(), &rules()), []);
    }
}

#[test]
fn a_cluster_that_moves_keeps_the_results_of_all_of_its_runs() {
    let moving = References { settled: BTreeSet::new(), ..references() };
    let paths = removed(&places(), &moving, &rules());
    assert!(!paths.iter().any(|path| path.contains("/orders")), "{paths:?}");
}

#[test]
fn a_partial_view_removes_nothing() {
    let unread = References { unread: vec!["a status".to_owned()], ..references() };
    all_retained(&places(), &unread, &rules(), "not everything could be read: a status");
    let failed = Place {
        view: View::Failed("500".to_owned()),
        ..place(Kind::Checkpoints, "s3://elsewhere/cp", Vec::new())
    };
    let with_failed = [places(), vec![failed.clone()]].concat();
    all_retained(
        &with_failed,
        &references(),
        &rules(),
        "`s3://elsewhere/cp` could not be read: 500",
    );
    let hidden = Place { view: View::Hidden("a volume".to_owned()), ..failed };
    let with_hidden = |hidden: &Place| [places(), vec![hidden.clone()]].concat();
    // Everything that metadata can name stays; only clusters name ZooKeeper's nodes.
    let paths = removed(&with_hidden(&hidden), &references(), &rules());
    assert!(!paths.iter().any(|path| path.contains("/sp/") || path.contains("/cp/")), "{paths:?}");
    assert!(paths.contains(&"zookeeper://zk:2181/flink/gone".to_owned()), "{paths:?}");
    let zookeeper = Place { kind: Kind::ZooKeeperNodes, ..hidden.clone() };
    let paths = removed(&with_hidden(&zookeeper), &references(), &rules());
    assert!(!paths.contains(&"s3://lake/ha/gone".to_owned()), "{paths:?}");
    // The metadata of a cluster that does not use these places does not matter.
    let foreign = Place { users: [cluster("demo")].into(), ..hidden };
    assert_eq!(
        removed(&with_hidden(&foreign), &references(), &rules()),
        removed(&places(), &references(), &rules())
    );
}

#[test]
fn jobs_that_claim_files_keep_savepoints_and_checkpoints() {
    // One uses the place; of the other, nothing is in view.
    for name in ["orders", "elsewhere"] {
        let claiming = References { claimers: [cluster(name)].into(), ..references() };
        let paths = removed(&places(), &claiming, &rules());
        let is_state = |path: &String| path.contains("/sp/") || path.contains("/cp/");
        assert!(!paths.is_empty() && !paths.iter().any(is_state), "{paths:?}");
    }
}

#[test]
fn a_session_cluster_keeps_the_checkpoints_of_jobs_that_only_it_knows() {
    let session = References { session_clusters: [cluster("orders")].into(), ..references() };
    let paths = removed(&places(), &session, &rules());
    assert!(!paths.iter().any(|path| path.contains("/cp/")), "{paths:?}");
    assert!(paths.iter().any(|path| path.contains("/sp/")), "{paths:?}");
}

#[test]
fn what_metadata_that_stays_refers_to_stays_and_so_on() {
    let mut places = places();
    // The running job uses files of its predecessor, from whose savepoint it started.
    places[1].view = View::Complete(vec![
        naming(&["savepoint-000001-a"], folder(GONE)),
        naming(&[STORED, GONE], folder(STORED)),
    ]);
    let paths = removed(&places, &references(), &rules());
    assert!(!paths.iter().any(|path| path.contains("/sp/") || path.contains("/cp/")), "{paths:?}");
    // Without it both are garbage, though one names the other.
    let mut alone = places.clone();
    alone[1].view = View::Complete(vec![naming(&["savepoint-000001-a"], folder(GONE))]);
    assert_eq!(removed(&alone, &references(), &rules()).len(), 6);
    // The nodes of a cluster lead to its storage.
    let without_zookeeper = Rules { sole_user_of: vec!["s3://lake".to_owned()], ..rules() };
    let paths = removed(&places, &references(), &without_zookeeper);
    assert!(!paths.contains(&"s3://lake/ha/gone".to_owned()), "{paths:?}");
}

#[test]
fn a_place_is_named_with_more_than_its_scheme() {
    for text in ["s3://", "s3:///", "/", "", "lake", "://lake"] {
        assert!(!is_place(text), "{text}");
        assert!(!is_below("s3://lake/sp/savepoint-1", text), "{text}");
    }
    assert!(is_below("s3://lake/sp/savepoint-1", "s3://lake/sp/"));
    assert!(!is_below("s3://lake/sp-eu/savepoint-1", "s3://lake/sp"));
}

#[test]
fn names_are_found_between_anything() {
    let text = format!(
        "\u{0}\u{20}s3://lake/cp/{STORED}/shared/{UUID}\u{fffd}savepoint-0000Aa-b/_metadata"
    );
    let names: Vec<String> = names_in(&text).into_iter().collect();
    assert_eq!(names, [STORED, UUID, "savepoint-0000aa-b"]);
}

const NAMES: [&str; 6] = [
    GONE,
    STORED,
    "00000000000000000000000000000003",
    "savepoint-000001-a",
    "savepoint-000002-b",
    "savepoint-000003-c",
];

prop_compose! {
    fn any_folder()(
        name in 0..6_usize,
        hours in 0..400_i64,
        recognized in 0..5_u8,
        names in proptest::collection::btree_set(0..6_usize, 0..3),
    ) -> Folder {
        Folder {
            changed: Some(now() - SignedDuration::from_hours(hours)),
            is_recognized: recognized > 0,
            names: names.into_iter().map(|at| NAMES[at].to_owned()).collect(),
            ..folder(NAMES[name])
        }
    }
}

prop_compose! {
    fn any_places()(
        folders in proptest::collection::vec((0..2_usize, any_folder()), 0..10),
    ) -> Vec<Place> {
        let kinds = [(Kind::Checkpoints, "s3://lake/cp"), (Kind::Savepoint, "s3://lake/sp")];
        let in_place = |at: usize| {
            let its = folders.iter().filter(|(place, _)| *place == at);
            // A folder has one name.
            let by_name: std::collections::BTreeMap<&str, &Folder> =
                its.map(|(_, folder)| (folder.path.as_str(), folder)).collect();
            by_name.into_values().cloned().collect()
        };
        (0..2).map(|at| place(kinds[at].0, kinds[at].1, in_place(at))).collect()
    }
}

prop_compose! {
    fn any_references()(names in proptest::collection::btree_set(0..6_usize, 0..4)) -> References {
        References {
            names: names.into_iter().map(|at| NAMES[at].to_owned()).collect(),
            ..references()
        }
    }
}

proptest! {
    #[test]
    fn what_a_restore_could_need_is_never_removed(
        places in any_places(),
        references in any_references(),
    ) {
        let gone = removed(&places, &references, &rules());
        let all = places.iter().flat_map(|place| match &place.view {
            View::Complete(folders) => folders.iter().map(|f| (format!("{}/{}", place.uri, f.path), f)).collect::<Vec<_>>(),
            View::Hidden(_) | View::Failed(_) => Vec::new(),
        });
        let (going, staying): (Vec<_>, Vec<_>) = all.partition(|(path, _)| gone.contains(path));
        for (path, folder) in &going {
            prop_assert!(!references.names.contains(folder.name()), "{path}");
            let is_used = staying.iter().any(|(_, other)| other.names.contains(folder.name()));
            prop_assert!(!is_used, "{path}");
            prop_assert!(folder.changed <= Some(now() - SignedDuration::from_hours(168)));
            prop_assert!(folder.is_recognized);
        }
    }

    #[test]
    fn the_order_of_what_was_seen_does_not_matter(
        places in any_places(),
        references in any_references(),
    ) {
        let mut turned = places.clone();
        turned.reverse();
        for place in &mut turned {
            if let View::Complete(folders) = &mut place.view {
                folders.reverse();
            }
        }
        prop_assert_eq!(
            garbage(&places, &references, &rules()),
            garbage(&turned, &references, &rules())
        );
    }

    #[test]
    fn with_a_gap_nothing_is_removed(
        places in any_places(),
        references in any_references(),
        kind in 0..3_u8,
    ) {
        let (mut places, mut references) = (places, references);
        match kind {
            0 => references.unread.push("a status".to_owned()),
            1 => places[0].view = View::Failed("500".to_owned()),
            _ => places[0].view = View::Hidden("a volume".to_owned()),
        }
        prop_assert_eq!(removed(&places, &references, &rules()), Vec::<String>::new());
    }
}
