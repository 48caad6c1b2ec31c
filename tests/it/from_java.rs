//! Features of the Java operator, entry by entry, and their equivalents here: the lists in `tests/from_java/`. They are
//! checked against the program if it can be asked, and the tables of `docs/from-java.md` are generated from them.
//!
//! Not checked: the classes of reporters, which the tests of reporters cover, and names that users choose.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use api::blue_green::BlueGreenState;
use api::state_snapshot::SnapshotState;
use api::status::{JobManagerDeploymentStatus, JobStatusState, LifecycleState};
use config::FlinkConfig;
use config::catalogue::{self, Effect};
use expect_test::expect_file;
use jiff::Timestamp;
use kubectl_flink::cli::reference;
use metrics::family::Scope;
use metrics::process::{self, Reading};
use metrics::scaling::{Ended, Figure};
use metrics::{Facts, Identity, Metrics, Now, Settings, Sighting};
use operator::install::merge::{defaults, merge, typed};
use operator::install::without_effect::without_effect;
use regex::Regex;
use serde_json::{Map, Value, json};
use testing::sources::{path, tests_below, texts_below};

const PAGE: &str = "docs/from-java.md";
/// The lists in the order of the page, with what an entry is called.
const LISTS: [(&str, &str); 7] = [
    ("helm", "value"),
    ("options", "option"),
    ("environment", "variable"),
    ("metrics", "metric"),
    ("events", "reason"),
    ("examples", "file"),
    ("scripts", "script"),
];
const STATES: [&str; 5] = ["works", "renamed", "refused", "not needed", "not there"];

struct Row {
    name: String,
    state: String,
    /// What to use instead, the reason, or the difference.
    note: String,
}

fn list(name: &str) -> Vec<Row> {
    let file = format!("tests/from_java/{name}.tsv");
    let text = fs::read_to_string(path(&file)).unwrap();
    let read = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, state, note] = fields[..] else { panic!("{file}: not three fields: {line}") };
        assert!(STATES.contains(&state), "{file}: no state: {line}");
        assert!(state == "works" || !note.is_empty(), "{file}: no reason: {line}");
        assert!(!line.contains('|'), "{file}: it would end a cell: {line}");
        Row { name: name.to_owned(), state: state.to_owned(), note: note.to_owned() }
    };
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("name\tstate\tnote"), "{file}");
    let rows: Vec<Row> = lines.map(read).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names.len(), rows.len(), "{file}: a name is there twice");
    rows
}

/// Returns the parts in backquotes.
fn code(note: &str) -> impl Iterator<Item = &str> {
    note.split('`').skip(1).step_by(2)
}

/// Whether a text appears in quotes in one of the sources.
fn is_quoted_in(sources: &[String], text: &str) -> bool {
    let quoted = format!("\"{text}\"");
    sources.iter().any(|source| source.contains(&quoted))
}

/// Returns the sources of the program, without those of tests.
fn sources() -> Vec<String> {
    let texts = ["src", "crates"].into_iter().flat_map(texts_below);
    let is_program = |file: &str| !file.contains("/tests") && !file.starts_with("crates/testing");
    texts.filter(|(file, _)| is_program(file.to_str().unwrap())).map(|(_, text)| text).collect()
}

#[test]
fn the_page_has_the_lists() {
    let mut page = fs::read_to_string(path(PAGE)).unwrap();
    for (name, what) in LISTS {
        let (begin, end) = (format!("<!-- begin of {name}"), format!("<!-- end of {name} -->"));
        let begin = page.find(&begin).unwrap_or_else(|| panic!("{PAGE} has no `{begin}`"));
        let begin = begin + page[begin..].find("-->\n").expect("the mark has an end") + 4;
        let end = begin + page[begin..].find(&end).expect("the end is marked");
        page.replace_range(begin..end, &table(what, &list(name)));
    }
    expect_file![path(PAGE)].assert_eq(&page);
}

/// Formats the rows with something to say, and the names of all others.
fn table(what: &str, rows: &[Row]) -> String {
    let is_plain = |row: &&Row| row.state == "works" && row.note.is_empty();
    let told = rows.iter().filter(|row| !is_plain(row));
    let told: Vec<String> = told
        .map(|Row { name, state, note }| format!("| `{name}` | {state} | {note} |\n"))
        .collect();
    let plain: Vec<String> =
        rows.iter().filter(is_plain).map(|row| format!("`{}`", row.name)).collect();
    let plain = if plain.is_empty() {
        String::new()
    } else {
        format!("\nThese work as they are: {}.\n", plain.join(", "))
    };
    format!("| {what} | | |\n|---|---|---|\n{}{plain}", told.concat())
}

/// Returns the path of a chart value. A dot can also be part of a file name or an annotation.
fn place(name: &str) -> Vec<String> {
    let mut place: Vec<String> = Vec::new();
    for part in name.split('.') {
        match place.last_mut() {
            Some(last) if ["yaml", "properties", "xml", "sh/resource-policy"].contains(&part) => {
                last.push('.');
                last.push_str(part);
            }
            _ => place.push(part.to_owned()),
        }
    }
    place
}

/// Returns values with only this one set, of a type that the chart accepts there; `None` if it accepts none.
fn given(place: &[String]) -> Option<Map<String, Value>> {
    let values = [
        json!("x"),
        json!(true),
        json!(1),
        json!(["x"]),
        json!([{ "name": "x" }]),
        json!({ "name": "x" }),
    ];
    let alone = |value: Value| {
        let below = |inner: Value, name: &String| match name.strip_suffix("[]") {
            Some(name) => json!({ name: [inner] }),
            None => json!({ name: inner }),
        };
        place.iter().rev().fold(value, below).as_object().cloned()
    };
    values.into_iter().filter_map(alone).find(|given| {
        let mut all = defaults();
        merge(&mut all, given.clone());
        typed(all).is_ok()
    })
}

#[test]
fn the_chart_takes_each_value_and_names_those_without_effect() {
    assert_eq!(given(&place("operatorPod.nothing")), None);
    let rows = list("helm").into_iter().map(|row| {
        let place = place(&row.name);
        let given = given(&place).unwrap_or_else(|| panic!("the chart does not take {}", row.name));
        (row, place, given)
    });
    let (works, others): (Vec<_>, Vec<_>) = rows.partition(|(row, ..)| row.state == "works");
    for (Row { name, .. }, _, given) in works {
        assert_eq!(without_effect(&given), [], "{name}");
    }
    let mut all = Map::new();
    for (.., given) in &others {
        merge(&mut all, given.clone());
    }
    let told = without_effect(&all);
    for (Row { name, .. }, place, _) in others {
        // Defaults in Java's own file are not reported, unlike neighbouring values that people set.
        let is_of = |path: &[String]| {
            let group = &path[..path.len() - 1];
            place.starts_with(path) || (!group.is_empty() && place.starts_with(group))
        };
        assert!(told.iter().any(|it| is_of(&it.path)), "{name} has no effect, and is not told");
    }
}

#[test]
fn options_count_as_the_list_says() {
    let is_one = |name: &str| {
        ["kubernetes.operator.", "job.autoscaler."].iter().any(|prefix| name.starts_with(prefix))
            && !name.starts_with("kubernetes.operator.metrics.reporter")
            && !name.contains(['<', ' '])
    };
    let mut sources = sources();
    sources.retain(|text| text.contains("autoscaler.standalone."));
    for Row { name, state, .. } in list("options") {
        if name.starts_with("autoscaler.standalone.") {
            assert!(is_quoted_in(&sources, &name), "`autoscaler run` does not know {name}");
        }
        if !is_one(&name) {
            continue;
        }
        let counts = catalogue::find(&name).is_some_and(|known| known.effect != Effect::Nowhere);
        // Values that are refused are read for that.
        assert_eq!(counts, ["works", "refused"].contains(&state.as_str()), "{name}: {state}");
    }
}

#[test]
fn reasons_of_events_and_variables_are_the_programs() {
    let sources = sources();
    assert!(!is_quoted_in(&sources, "NoSuchReason"));
    for name in ["events", "environment"] {
        for Row { name, .. } in list(name).iter().filter(|row| row.state == "works") {
            assert!(is_quoted_in(&sources, name), "{name} is in no source");
        }
    }
}

/// Reasons of events that the sources state where an event, or a problem that is reported by one, is made.
fn stated_reasons() -> BTreeSet<String> {
    let crates = ["api", "lifecycle", "operator", "blue-green", "autoscaler"];
    let crates = crates.map(|it| format!("crates/{it}/src/"));
    let is_program =
        |file: &str| crates.iter().any(|it| file.starts_with(it)) && !file.contains("/tests");
    let texts: Vec<String> = texts_below("crates")
        .into_iter()
        .filter(|(file, _)| is_program(file.to_str().unwrap()))
        .map(|(_, text)| text)
        .collect();
    let all = texts.concat();
    let named = Regex::new("const ([A-Z_]+): &str = \"(\\w+)\"").unwrap();
    let named: BTreeMap<&str, &str> = named
        .captures_iter(&all)
        .map(|it| it.extract().1)
        .map(|[name, text]| (name, text))
        .collect();
    let made = Regex::new(
        "(?:Event::(?:normal|warning)\\(|Problem::upgrade\\(|Problem::new\\(\\s*[^,\"]+,\
         |self\\.(?:emit|warn|complain|refuse)\\(|\\breason:)\\s*(?:\"([A-Z]\\w+)\"|(?:\\w+::)*([A-Z_]{2,}))[,\\s]\
         |Self::new\\(\\s*\"([A-Z]\\w+)\", message",
    )
    .unwrap();
    let text = |it: regex::Captures<'_>| {
        let stated = it.iter().skip(1).flatten().next().unwrap().as_str().to_owned();
        named.get(&*stated).map_or(stated, |text| (*text).to_owned())
    };
    made.captures_iter(&all).map(text).collect()
}

#[test]
fn reasons_of_events_that_java_does_not_have_are_reported() {
    let page = fs::read_to_string(path(PAGE)).unwrap();
    let events = page.split_once("<!-- end of events -->").unwrap().1;
    let only_here = events.split_once("\n###").unwrap().0;
    let only_here: BTreeSet<&str> = code(only_here).collect();
    let rows = list("events");
    let of_java: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let stated = stated_reasons();
    for reason in &only_here {
        // Which of the two it is depends on the turn.
        let is_event = ["UpgradesPaused", "WaitsForTurn"].contains(reason);
        assert!(is_event || stated.contains(*reason), "there is no event {reason}");
        assert!(!of_java.contains(reason), "{reason} is one of Java's");
    }
    // Each way of stating one is found: an event, a constant, the autoscaler's, a problem, and one of
    // blue/green deployments.
    for reason in ["HotUpgradeSkipped", "StillWaiting", "PreflightFailed", "RolledBack", "Cleanup"]
    {
        assert!(stated.contains(reason), "{reason}: {stated:?}");
    }
    for reason in &stated {
        let is_reported = of_java.contains(&**reason) || only_here.contains(&**reason);
        assert!(is_reported, "{PAGE} does not name the event {reason}");
    }
}

/// Returns the names of all metrics once everything has happened: the scope, and the name below it.
fn described() -> BTreeSet<String> {
    let groups = "kubernetes.operator.kubernetes.client.metrics.http.response.code.groups.enabled";
    let config = FlinkConfig::from_iter([(groups, "true")]);
    let [host, namespace, name] = ["h", "ops", "op"].map(str::to_owned);
    let settings = Settings::of(&config).unwrap();
    let metrics = Metrics::new(settings, Identity { host, namespace, name });
    let at = |second: u32| Now {
        clock: Duration::from_secs(second.into()),
        time: Timestamp::from_second(1_767_225_600 + i64::from(second)).unwrap(),
    };
    let see = |uid: &str, version: u32, facts: Facts| {
        let created = Some(at(0).time);
        let version_of_it = version.into();
        metrics.see(
            || Sighting {
                uid,
                namespace: "shop",
                name: uid,
                version: version_of_it,
                created,
                facts,
            },
            at(version),
        );
    };
    let states = {
        use LifecycleState::{Created, Deployed, Stable, Upgrading};
        [Created, Upgrading, Deployed, Stable, Upgrading]
    };
    for (version, lifecycle) in (1..).zip(states) {
        let facts = Facts::Deployment {
            lifecycle,
            job_manager: JobManagerDeploymentStatus::Ready,
            version: "1.20.1".into(),
            cpu: 1.0,
            memory: 1.0,
            state_size: 1.0,
        };
        see("orders", version, facts);
    }
    for (version, state) in
        (1..).zip([BlueGreenState::InitializingBlue, BlueGreenState::ActiveBlue])
    {
        see("pair", version, Facts::BlueGreen { state, job: JobStatusState::Running });
    }
    for (uid, is_savepoint) in [("savepoint", true), ("checkpoint", false)] {
        see(uid, 1, Facts::Snapshot { is_savepoint, state: SnapshotState::Completed });
    }
    for (is_cleanup, has_failed) in [(false, true), (false, false), (true, false)] {
        metrics.pass_begins("orders", is_cleanup, at(9));
        metrics.metadata_written("orders", is_cleanup);
        metrics.pass_ends("orders", has_failed, at(10));
    }
    let figure = Figure { vertex: "ab".into(), metric: "LOAD", current: 1.0, average: Some(1.0) };
    metrics.cycle_ended("orders", Ended::Scaled, || Some(vec![figure]));
    metrics.cycle_ended("orders", Ended::Balanced, || None);
    metrics.cycle_ended("orders", Ended::Failed, || None);
    metrics.kubernetes().asked("GET", at(1).clock);
    metrics.kubernetes().answered(Some(200), Duration::from_millis(5), at(1).clock);

    let mut told = BTreeSet::new();
    for family in metrics.families(at(20)) {
        let scope = match family.scope {
            Scope::System => "system",
            Scope::Namespace => "namespace",
            Scope::Resource => "resource",
            Scope::Process => continue,
        };
        // A label is part of the name if there are no labels.
        told.extend(family.points.iter().map(|point| match &point.label {
            Some((key, value)) => {
                let name = family.name.replacen(&format!("{key}."), &format!("{key}.{value}."), 1);
                format!("{scope}.{name}")
            }
            None => format!("{scope}.{}", family.name),
        }));
    }
    told
}

#[test]
fn metrics_have_the_names_of_the_list() {
    let told = described();
    let kept = Regex::new("<[^>]*>").unwrap();
    for Row { name, state, .. } in list("metrics") {
        let literal: Vec<String> = kept.split(&name).map(regex::escape).collect();
        let pattern = Regex::new(&format!("^{}$", literal.join(".+"))).unwrap();
        let is_reported = told.iter().any(|told| pattern.is_match(told));
        assert_eq!(is_reported, state == "works", "{name}: {state}");
    }
    let reading = Reading {
        stat: &format!("1 (x) S {}", "1 ".repeat(49)),
        open_files: Some(1),
        open_files_max: Some(1),
        booted: Some(1.0),
        ..Reading::default()
    };
    let of_process = process::families(&reading);
    let named = Regex::new("process_[a-z_]+").unwrap();
    for Row { name, note, .. } in list("metrics") {
        for of_note in named.find_iter(&note) {
            let plain = of_note.as_str().trim_end_matches("_total");
            assert!(of_process.iter().any(|family| family.name == plain), "{name}: {note}");
        }
    }
}

/// Files, tests, flags and options that notes refer to.
#[test]
fn what_the_notes_name_is_there() {
    let tests: BTreeSet<String> = ["src", "crates", "tests"]
        .into_iter()
        .flat_map(tests_below)
        .map(|test| test.name)
        .collect();
    let commands = reference::markdown();
    let is_test = Regex::new("^[a-z0-9]+(_[a-z0-9]+)+$").unwrap();
    for (list_name, _) in LISTS {
        for Row { name, state, note } in list(list_name) {
            let is_script = list_name == "scripts";
            let named =
                code(&note).filter(|code| is_script && is_test.is_match(code)).collect::<Vec<_>>();
            assert!(!is_script || state != "works" || !named.is_empty(), "{name} names no test");
            for test in named {
                assert!(tests.contains(test), "{name}: there is no test `{test}`");
            }
            for word in code(&note).flat_map(str::split_whitespace) {
                if ["examples/", "tests/", "docs/"].iter().any(|folder| word.starts_with(folder)) {
                    assert!(path(word).exists(), "{name}: there is no {word}");
                }
                if word.starts_with("--") && !word.starts_with("--set") {
                    assert!(commands.contains(word), "{name}: there is no flag {word}");
                }
                let is_option = word.starts_with("kubernetes.operator.")
                    && !word.starts_with("kubernetes.operator.plugins.")
                    && !word.contains(['<', '*', '…'])
                    && !word.ends_with('.');
                if is_option {
                    assert!(catalogue::find(word).is_some(), "{name}: there is no option {word}");
                }
            }
        }
    }
}
