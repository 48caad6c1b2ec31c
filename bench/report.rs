//! The figures beside the Java operator's and beside what was aimed at.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// What is shown: a title, where it stands in the JSON, the most it may be.
const ROWS: &[(&str, &str, Option<f64>)] = &[
    ("first status after start, s", "/start_to_first_status_s", Some(0.5)),
    ("idle, MB resident", "/idle/rss_mb", Some(30.0)),
    ("all STABLE after, s", "/all_stable_s", Some(6.0)),
    ("CPU until then, s", "/cpu_s_to_stable", None),
    ("API writes per deployment, by all", "/api_writes_to_stable", None),
    ("  by the operator", "/operator_writes_to_stable", Some(10.0)),
    ("MB resident then", "/at_stable/rss_mb", None),
    ("at rest: API writes a minute, by all", "/steady_60s/api_writes", None),
    ("  by the operator", "/steady_60s/operator_writes", Some(0.0)),
    ("at rest: Flink calls a minute", "/steady_60s/flink_rest", None),
    ("at rest: CPU a minute, s", "/steady_60s/cpu_s", None),
    ("changed spec to new JobManager, s", "/upgrade_redeploy_s/p50", None),
];

/// The Java operator's figures were taken with so many deployments.
const BASELINES: &[(u64, &str)] = &[
    (200, "baseline-java-1.14-200.json"),
    (1_000, "baseline-java-1.14-1000-xmx1g.json"),
    (10_000, "baseline-java-1.14-10000-xmx5g.json"),
];

/// One line per figure. Aims are those for 200 deployments, and shown there only.
pub(crate) fn table(figures: &Value) -> Result<String> {
    let count = figures["n"].as_u64().context("no `n` in the figures")?;
    let baseline = match BASELINES.iter().find(|(with, _)| *with == count) {
        Some((_, file)) => {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench").join(file);
            serde_json::from_str(&fs::read_to_string(file)?)?
        }
        None => Value::Null,
    };
    let mut lines = vec![
        format!("{count} deployments, on this machine"),
        format!("{:<38}{:>12}{:>12}{:>10}", "", "this", "Java 1.14", "aim"),
    ];
    for (title, pointer, aim) in ROWS {
        let cell = |figures: &Value| match figures.pointer(pointer).and_then(Value::as_f64) {
            Some(all) if pointer.ends_with("_writes_to_stable") => {
                format!("{:.1}", all / (count as f64))
            }
            Some(figure) => format!("{figure:.2}"),
            None => "-".to_owned(),
        };
        let aim = aim.filter(|_| count == 200).map(|aim| format!("<= {aim}")).unwrap_or_default();
        lines.push(format!("{title:<38}{:>12}{:>12}{aim:>10}", cell(figures), cell(&baseline)));
    }
    Ok(lines.join("\n"))
}
