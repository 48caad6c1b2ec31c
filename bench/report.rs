//! Compares the figures with the Java operator's and with the goals.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::chart;

/// A figure: its title, its path in the JSON, and its maximum by number of deployments.
struct Row {
    title: &'static str,
    at: &'static str,
    goals: &'static [(u64, f64)],
}

const fn row(title: &'static str, at: &'static str, goals: &'static [(u64, f64)]) -> Row {
    Row { title, at, goals }
}

const ROWS: &[Row] = &[
    row("first status after start, s", "/start_to_first_status_s", &[(200, 0.5)]),
    row("idle, MB resident", "/idle/rss_mb", &[(200, 30.0)]),
    row("all STABLE after, s", "/all_stable_s", &[(200, 6.0), (1_000, 20.0), (10_000, 150.0)]),
    row("CPU until then, s", "/cpu_s_to_stable", &[]),
    row("API writes per deployment, total", "/api_writes_to_stable", &[]),
    row(
        "  by the operator",
        "/operator_writes_to_stable",
        &[(200, 10.0), (1_000, 8.0), (10_000, 8.0)],
    ),
    row("MB resident then", "/at_stable/rss_mb", &[(1_000, 100.0), (10_000, 350.0)]),
    row("  peak until then", "/at_stable/peak_mb", &[(10_000, 350.0)]),
    row("idle: API writes a minute, total", "/steady_60s/api_writes", &[]),
    row(
        "  by the operator",
        "/steady_60s/operator_writes",
        &[(200, 0.0), (1_000, 0.0), (10_000, 0.0)],
    ),
    row("  Flink calls a minute per deployment", "/steady_60s/flink_rest", &[]),
    row("  CPU a minute, s", "/steady_60s/cpu_s", &[(1_000, 0.5), (10_000, 4.0)]),
    row("spec change to new JobManager, s", "/upgrade_redeploy_s/p50", &[]),
    row("restart: all observed after, s", "/restart/all_observed_s", &[(10_000, 20.0)]),
    row("  writes", "/restart/operator_writes", &[(200, 0.0), (1_000, 0.0), (10_000, 0.0)]),
    row("  MB resident then", "/restart/rss_mb", &[]),
    row("a tenth hangs: reaction time, s", "/hanging/with_s/p50", &[]),
    row("  relative to none hanging", "/hanging/ratio", &[(200, 1.2), (1_000, 1.2), (10_000, 1.2)]),
    row("  CPU a minute, s", "/hanging/cpu_s_a_minute", &[]),
    row("leader exits: change applied after, s", "/failover/graceful_s", &[(200, 2.0)]),
    row("  leader killed: the same", "/failover/killed_s", &[(200, 17.0)]),
    row("  JobManagers created for two changes", "/failover/job_managers_made", &[(200, 2.0)]),
    row("all changed: all redeployed after, s", "/change_all/all_redeployed_s", &[]),
    row("  all STABLE after, s", "/change_all/all_stable_s", &[]),
    row("  operator writes per deployment", "/change_all/operator_writes", &[]),
    row("  CPU, s", "/change_all/cpu_s", &[]),
    row("waves of 20: UPGRADING at most", "/waves/upgrading_at_most", &[(300, 20.0)]),
    row("  all STABLE after, s", "/waves/all_stable_s", &[]),
    row("  JobManagers with a broken image", "/waves/broken_touched", &[(300, 40.0)]),
    row("soak: MB resident, growth an hour", "/an_hour/rss_mb", &[(0, 1.0)]),
    row("  descriptors, growth an hour", "/an_hour/descriptors", &[(0, 10.0)]),
    row("  tasks, growth an hour", "/an_hour/tasks", &[(0, 10.0)]),
    row("  user actions", "/actions", &[]),
];

/// How many times better than the Java operator: title, path, and the minimum with 1,000 deployments.
const TIMES: &[(&str, &str, f64)] = &[
    ("times faster to STABLE than Java", "/all_stable_s", 8.0),
    ("times less CPU than Java", "/cpu_s_to_stable", 15.0),
    ("times less memory than Java", "/at_stable/rss_mb", 15.0),
];

/// Numbers of deployments for which the Java operator was measured.
const BASELINES: &[(u64, &str)] = &[
    (200, "baseline-java-1.14-200.json"),
    (1_000, "baseline-java-1.14-1000-xmx1g.json"),
    (10_000, "baseline-java-1.14-10000-xmx5g.json"),
];

const DOCUMENT: &str = "docs/performance.md";
const CHART: &str = "docs/performance.svg";
const SOAK_CHART: &str = "docs/soak.svg";
const START: &str = "<!-- figures: written by `bench report` -->\n";
const END: &str = "<!-- end of figures -->";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns figures of `bench/`; null if there are none.
fn stored(file: &str) -> Result<Value> {
    match fs::read_to_string(root().join("bench").join(file)) {
        Ok(text) => Ok(serde_json::from_str(&text)?),
        Err(_) => Ok(Value::Null),
    }
}

fn baseline(count: u64) -> Result<Value> {
    let found = BASELINES.iter().find(|(with, _)| *with == count);
    found.map_or(Ok(Value::Null), |(_, file)| stored(file))
}

fn is_soak(figures: &Value) -> bool {
    figures.get("minutes").is_some()
}

/// Returns whether a figure is a total that is shown per deployment.
fn is_for_each(at: &str) -> bool {
    at.ends_with("_writes_to_stable")
        || at == "/steady_60s/flink_rest"
        || at == "/change_all/operator_writes"
}

fn cell(row: &Row, figures: &Value) -> String {
    match figures.pointer(row.at).and_then(Value::as_f64) {
        Some(figure) if is_for_each(row.at) => {
            format!("{:.1}", figure / figures["n"].as_f64().unwrap_or(1.0))
        }
        Some(figure) if figure >= 100.0 || figure.fract() == 0.0 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.2}"),
        None => "-".to_owned(),
    }
}

/// Returns whether a phase was run but has not produced the figure.
fn is_missed(row: &Row, figures: &Value) -> bool {
    let phase = row.at.trim_start_matches('/').split_once('/').map(|(phase, _)| phase);
    phase.is_some_and(|phase| figures[phase].is_object())
        && figures.pointer(row.at).is_none_or(Value::is_null)
}

/// Returns the goal, and whether it was met.
fn goal(row: &Row, figures: &Value) -> String {
    // Soaks are measured with any number.
    let count = if is_soak(figures) { Some(0) } else { figures["n"].as_u64() };
    let Some((_, most)) = row.goals.iter().find(|(with, _)| Some(*with) == count) else {
        return String::new();
    };
    let Some(mut figure) = figures.pointer(row.at).and_then(Value::as_f64) else {
        return String::new();
    };
    if is_for_each(row.at) {
        // The first deployment, which is not among those counted, still writes.
        figure = (figure / figures["n"].as_f64().unwrap_or(1.0) * 10.0).round() / 10.0;
    }
    format!("<= {most} {}", if figure <= *most { "met" } else { "NOT MET" })
}

fn times(figures: &Value, java: &Value) -> Vec<(&'static str, f64, String)> {
    let has_goal = figures["n"] == 1_000;
    TIMES
        .iter()
        .filter_map(|(title, at, least)| {
            let this = figures.pointer(at)?.as_f64()?;
            let times = java.pointer(at)?.as_f64()? / this;
            let verdict = if times >= *least { "met" } else { "NOT MET" };
            let goal = if has_goal { format!(">= {least} {verdict}") } else { String::new() };
            Some((*title, times, goal))
        })
        .collect()
}

/// Returns one line per measured figure, and none for phases that were not requested.
pub(crate) fn table(figures: &Value) -> Result<String> {
    let count = figures["n"].as_u64().context("no `n` in the figures")?;
    let java = if is_soak(figures) { Value::Null } else { baseline(count)? };
    let mut lines = vec![
        format!("{count} deployments, on this machine"),
        format!("{:<38}{:>10}{:>12}  {}", "", "this", "Java 1.14", "goal"),
    ];
    let is_there = |row: &&Row| figures.pointer(row.at).is_some_and(|figure| !figure.is_null());
    for row in ROWS.iter().filter(|row| is_there(row) || is_missed(row, figures)) {
        let (this, java) = (cell(row, figures), cell(row, &java));
        let goal =
            if is_missed(row, figures) { "NOT REACHED".to_owned() } else { goal(row, figures) };
        lines.push(format!("{:<38}{this:>10}{java:>12}  {goal}", row.title).trim_end().to_owned());
    }
    for (title, times, goal) in times(figures, &java) {
        lines.push(format!("{title:<38}{times:>10.1}{:>12}  {goal}", "").trim_end().to_owned());
    }
    if let Some(others) = figures["others_cpu_s_to_stable"].as_object() {
        let all: Vec<_> = others.iter().map(|(name, cpu)| format!("{name} {cpu} s")).collect();
        lines.push(format!("CPU of other processes until all were STABLE: {}", all.join(", ")));
    }
    if let Some(server) = figures["server_to_stable"].as_object() {
        lines.push("the API server's work until all were STABLE:".to_owned());
        let mut all: Vec<_> = server.iter().collect();
        all.sort_by(|(_, a), (_, b)| b["s"].as_f64().total_cmp_to(a["s"].as_f64()));
        for (request, work) in all {
            let (seconds, count) = (&work["s"], &work["count"]);
            lines.push(format!("  {request:<40}{seconds:>10} s {count:>10}"));
        }
    }
    Ok(lines.join("\n"))
}

trait TotalOrder {
    fn total_cmp_to(self, other: Self) -> std::cmp::Ordering;
}

impl TotalOrder for Option<f64> {
    fn total_cmp_to(self, other: Self) -> std::cmp::Ordering {
        self.unwrap_or_default().total_cmp(&other.unwrap_or_default())
    }
}

/// Writes table and charts of the figures in `bench/` into `docs/`.
pub(crate) fn write_document() -> Result<()> {
    let measured = [200, 1_000, 10_000]
        .into_iter()
        .map(|count| Ok((stored(&format!("figures-{count}.json"))?, baseline(count)?)))
        .collect::<Result<Vec<_>>>()?;
    let soak = stored("figures-soak.json")?;
    let mut text = String::new();
    let head = "| | 200 | Java | 1,000 | Java | 10,000 | Java |";
    writeln!(text, "{head}\n|---|--:|--:|--:|--:|--:|--:|")?;
    for row in ROWS.iter().filter(|row| !row.at.starts_with("/an_hour") && row.at != "/actions") {
        let shown = row.title.trim_start();
        let indent = if shown.len() < row.title.len() { "&emsp;" } else { "" };
        write!(text, "| {indent}{shown} |")?;
        for (this, java) in &measured {
            let is_off = goal(row, this).ends_with("NOT MET") || is_missed(row, this);
            let mark = if is_off { " ✗" } else { "" };
            write!(text, " {}{mark} | {} |", cell(row, this), cell(row, java))?;
        }
        text.push('\n');
    }
    for (title, at, _) in TIMES {
        write!(text, "| {title} |")?;
        for (this, java) in &measured {
            let of = |figures: &Value| figures.pointer(at).and_then(Value::as_f64);
            let times = of(java).zip(of(this)).map(|(java, this)| java / this);
            write!(text, " {} | |", times.map_or("-".to_owned(), |times| format!("{times:.0}")))?;
        }
        text.push('\n');
    }
    let document = root().join(DOCUMENT);
    let old = fs::read_to_string(&document).with_context(|| DOCUMENT.to_owned())?;
    let (before, rest) = old.split_once(START).context("no start of the figures")?;
    let (_, after) = rest.split_once(END).context("no end of the figures")?;
    fs::write(&document, format!("{before}{START}{text}{END}{after}"))?;
    fs::write(root().join(CHART), chart::bars(&measured))?;
    if !soak.is_null() {
        fs::write(root().join(SOAK_CHART), chart::lines(&soak))?;
        println!("{}", table(&soak)?);
    }
    println!("{DOCUMENT}, {CHART} and {SOAK_CHART} are written");
    Ok(())
}
