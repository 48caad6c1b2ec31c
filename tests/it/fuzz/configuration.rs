//! Flink's configuration: files, sizes, durations, quantities, lists and maps, and whole sets of options in a
//! deployment.

use api::deployment::{FlinkConfiguration, FlinkDeployment};
use clients::zookeeper::Ensemble;
use config::file::{nest, parse_config_yaml, parse_flink_conf, skipped_lines, survives_flink_conf};
use config::memory::{MemorySize, StatedMemory};
use config::structure::{join_list, join_map, split_list, split_map};
use config::{FlinkConfig, duration, quantity};

use super::manifest::validated;
use super::{Target, fuzz_text, kind_of};

const UNITS: &[&str] = &[
    "b",
    "kb",
    "m",
    "mb",
    " gb",
    "tb",
    "tebibytes",
    "Ki",
    "Gi",
    "E",
    "Ei",
    "e9",
    ".",
    ".0",
    "+",
    "i",
    "s",
    "ms",
    "min",
    "h",
    "d",
    "days",
    "µs",
    "μs",
    "ns",
];

#[test]
fn a_memory_size_comes_back_as_it_was_written() {
    let target = Target { name: "memory", words: UNITS, bytes_max: 4 << 10, outcomes_min: 7 };
    fuzz_text(&target, |text| {
        let size = MemorySize::parse(text);
        if let Some(size) = size {
            assert_eq!(MemorySize::parse(&size.to_string()), Some(size));
        }
        let stated = StatedMemory::parse(text);
        if let Some(stated) = stated {
            assert_eq!(MemorySize::parse(&stated.config_text()), Some(stated.size()));
        }
        let (number, whole) = (quantity::parse(text), quantity::parse_whole(text));
        assert!(number.is_none_or(f64::is_finite));
        if let Some(whole) = whole {
            #[allow(clippy::cast_precision_loss, reason = "compared within that loss")]
            let about = whole as f64;
            assert!(
                number.is_some_and(|number| (number - about).abs() <= about * 1e-9),
                "{number:?}"
            );
        }
        format!(
            "{} {:?} {} {}",
            size.is_some(),
            stated.map(|stated| matches!(stated, StatedMemory::Flink(_))),
            number.is_some(),
            whole.is_some()
        )
    });
}

#[test]
fn a_duration_comes_back_as_it_was_written() {
    let target = Target { name: "duration", words: UNITS, bytes_max: 4 << 10, outcomes_min: 6 };
    fuzz_text(&target, |text| {
        let parsed = duration::parse(text);
        if let Some(parsed) = parsed {
            assert_eq!(duration::parse(&duration::render(parsed)), Some(parsed));
        }
        let unit = parsed.map(duration::render);
        format!(
            "{:?}",
            unit.map(|text| text.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned())
        )
    });
}

#[test]
fn lists_and_maps_come_back_as_they_were_written() {
    let words =
        &[";", ",", ":", "''", "\"\"", "'a;b'", "[a, b]", "{a: b}", "k1:v1,k2:v2", "a;b", " "];
    let target = Target { name: "lists-and-maps", words, bytes_max: 16 << 10, outcomes_min: 14 };
    fuzz_text(&target, |text| {
        let (list, map) = (split_list(text), split_map(text));
        if let Some(list) = &list {
            assert_eq!(split_list(&join_list(list)).as_ref(), Some(list));
        }
        if let Some(map) = &map {
            assert_eq!(split_map(&join_map(map)).as_ref(), Some(map));
        }
        // Any text can be written, not only text that was read.
        let pieces: Vec<&str> = text.split('|').collect();
        assert_eq!(split_list(&join_list(&pieces)).unwrap(), pieces);
        let entries = pieces.iter().enumerate().map(|(at, piece)| (format!("{piece}{at}"), *piece));
        let entries: std::collections::BTreeMap<String, &str> = entries.collect();
        let read = split_map(&join_map(&entries)).unwrap();
        assert!(
            read.iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .eq(entries.iter().map(|(k, v)| (k.as_str(), *v)))
        );
        format!("{:?} {:?}", list.map(|list| list.len().min(9)), map.map(|map| map.len().min(9)))
    });
}

#[test]
fn the_old_configuration_file_reads_what_survives_in_it() {
    let words = &[": ", "#", "\n", "\r", "\r\n", "rest.port: 8081\n", "a.b", " : ", "::"];
    let target = Target { name: "flink-conf", words, bytes_max: 64 << 10, outcomes_min: 30 };
    fuzz_text(&target, |text| {
        let config = parse_flink_conf(text);
        let skipped = skipped_lines(text);
        assert!(skipped.iter().all(|line| (1..=text.len()).contains(line)));
        let lines: Vec<String> =
            config.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        let written = lines.concat();
        assert!(config.iter().all(|(_, value)| survives_flink_conf(value)));
        assert_eq!(parse_flink_conf(&written), config);
        format!("{} {}", config.len().min(9), skipped.len().min(9))
    });
}

#[test]
fn the_new_configuration_file_comes_back_as_it_was_written() {
    let words = &[
        ": ", "\n", "\n  ", "- ", "&a ", "*a", "<<: ", "!!str ", "---\n", "|\n  ", "{}", "[a, b]",
        "on", "~", "1_000", "0o7", ".inf",
    ];
    let target = Target { name: "config-yaml", words, bytes_max: 64 << 10, outcomes_min: 75 };
    fuzz_text(&target, |text| {
        let config = match parse_config_yaml(text) {
            Ok(config) => config,
            Err(error) => return kind_of(&error.to_string()),
        };
        let nested = match nest(&config) {
            Ok(nested) => nested,
            Err(conflict) => return kind_of(&conflict.to_string()),
        };
        let options = serde_yaml::ser_options! { prefer_block_scalars: false };
        let written = serde_yaml::to_string_with_options(&nested, options).unwrap();
        assert_eq!(parse_config_yaml(&written).unwrap(), config, "{written}");
        assert_eq!(FlinkConfig::flatten(&FlinkConfiguration(nested)), config);
        format!("read {}", config.len().min(9))
    });
}

/// Valid options are rendered, and invalid ones are rejected by name.
#[test]
fn any_options_are_rendered_or_refused_by_name() {
    let words = &[
        "taskmanager.numberOfTaskSlots: ",
        "taskmanager.memory.process.size: ",
        "jobmanager.memory.flink.size: ",
        "kubernetes.pod-template-file: ",
        "high-availability.type: ",
        "zookeeper",
        "kubernetes.operator.periodic.savepoint.interval: ",
        "kubernetes.jobmanager.annotations: ",
        "kubernetes.jobmanager.tolerations: ",
        "env.java.opts.all: ",
        "rest.port: ",
        "job.autoscaler.quota.cpu: ",
        "kubernetes.rest-service.exposed.type: ",
        "$internal.application.program-args: ",
        "kubernetes.container.image.pull-secrets: ",
        "jobmanager.memory.jvm-overhead.fraction: ",
        "scheduler-mode: reactive",
    ];
    let target = Target { name: "options", words, bytes_max: 8 << 10, outcomes_min: 17 };
    let deployment: FlinkDeployment =
        serde_yaml::from_str(include_str!("../../../examples/basic.yaml")).unwrap();
    fuzz_text(&target, |text| {
        let config = parse_flink_conf(text);
        let mut deployment = deployment.clone();
        for (key, value) in config.iter() {
            drop(deployment.spec.flink_configuration.0.insert(key.to_owned(), value.into()));
        }
        // It may contain a secret, so it is not shown; parsing must only not fail.
        let ensemble = Ensemble::from_config(&config, &config)
            .map_or_else(|error| kind_of(&error.to_string()), |_| "ensemble".to_owned());
        format!("{ensemble} {}", validated(&deployment))
    });
}
