//! Charts as SVG, small enough to read in a diff.

use std::fmt::Write as _;

use serde_json::Value;

const COUNTS: [&str; 3] = ["200", "1,000", "10,000"];
const PANELS: [(&str, &str); 4] = [
    ("all STABLE after, s", "/all_stable_s"),
    ("CPU until then, s", "/cpu_s_to_stable"),
    ("MB resident then", "/at_stable/rss_mb"),
    ("CPU a minute at rest, s", "/steady_60s/cpu_s"),
];
const THIS: &str = "#2a78d6";
const JAVA: &str = "#b8b8b8";
const PANEL_WIDTH: f64 = 380.0;
const PANEL_HEIGHT: f64 = 190.0;
/// Length of the longest bar.
const BAR: f64 = 230.0;

/// Writes a line of the chart. Writing to a string cannot fail.
macro_rules! write_to {
    ($($line:tt)*) => {
        let _ = writeln!($($line)*);
    };
}

fn text(out: &mut String, at: (f64, f64), class: &str, text: &str) {
    let (x, y) = at;
    write_to!(out, r#"<text x="{x:.0}" y="{y:.0}" class="{class}">{text}</text>"#);
}

fn head(width: f64, height: f64, title: &str) -> String {
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img">
<title>{title}</title>
<style>text{{font:12px sans-serif;fill:#222}}.h{{font-weight:bold}}.n{{fill:#555}}.e{{text-anchor:end}}.m{{text-anchor:middle}}</style>
<rect width="100%" height="100%" fill="#fff"/>
"##
    )
}

/// Returns four panels of bars, this operator's above the Java operator's, on a logarithmic scale.
pub(crate) fn bars(measured: &[(Value, Value)]) -> String {
    let (width, height) = (2.0 * PANEL_WIDTH + 20.0, 2.0 * PANEL_HEIGHT + 50.0);
    let mut out =
        head(width, height, "kubectl-flink and the Java operator, by number of deployments");
    for (x, colour, label) in [(20.0, THIS, "kubectl-flink"), (140.0, JAVA, "Java operator 1.14")] {
        write_to!(out, r#"<rect x="{x}" y="12" width="12" height="12" fill="{colour}"/>"#);
        text(&mut out, (x + 18.0, 22.0), "n", label);
    }
    text(&mut out, (width - 20.0, 22.0), "n e", "logarithmic: each step of a bar is ten times");
    for (index, (title, at)) in PANELS.iter().enumerate() {
        let (column, row) = ((index % 2) as f64, (index / 2) as f64);
        let (left, top) = (20.0 + column * PANEL_WIDTH, 55.0 + row * PANEL_HEIGHT);
        text(&mut out, (left, top), "h", title);
        let of = |figures: &Value| figures.pointer(at).and_then(Value::as_f64);
        let all = || measured.iter().flat_map(|(this, java)| [of(this), of(java)]).flatten();
        let most = all().fold(f64::MIN_POSITIVE, f64::max);
        // The scale begins below the smallest figure, so that it has a bar too.
        let least = all().fold(most, f64::min) / 2.0;
        for (number, (count, (this, java))) in COUNTS.iter().zip(measured).enumerate() {
            let y = top + 14.0 + 48.0 * number as f64;
            text(&mut out, (left + 48.0, y + 22.0), "n e", count);
            for (offset, figures, colour) in [(0.0, this, THIS), (18.0, java, JAVA)] {
                let Some(figure) = of(figures).filter(|figure| *figure > 0.0) else { continue };
                let length = ((figure / least).ln() / (most / least).ln() * BAR).max(1.0);
                write_to!(
                    out,
                    r#"<rect x="{:.0}" y="{:.0}" width="{length:.0}" height="16" fill="{colour}"/>"#,
                    left + 54.0,
                    y + offset
                );
                let label =
                    if figure < 10.0 { format!("{figure:.1}") } else { format!("{figure:.0}") };
                text(&mut out, (left + 58.0 + length, y + offset + 12.0), "n", &label);
            }
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Returns resident memory, descriptors and tasks over the time of a soak, each on a scale from zero.
pub(crate) fn lines(soak: &Value) -> String {
    const WIDTH: f64 = 700.0;
    const HEIGHT: f64 = 120.0;
    let empty = Vec::new();
    let samples = soak["samples"].as_array().unwrap_or(&empty);
    let shown = [("MB resident", "rss_mb"), ("descriptors", "descriptors"), ("tasks", "tasks")];
    let title = "The operator's size in a soak";
    let mut out = head(WIDTH + 100.0, 3.0 * (HEIGHT + 40.0) + 20.0, title);
    let end = samples.last().and_then(|sample| sample["s"].as_f64()).unwrap_or(1.0);
    for (index, (title, of)) in shown.iter().enumerate() {
        let top = 40.0 + index as f64 * (HEIGHT + 40.0);
        let points: Vec<(f64, f64)> = samples
            .iter()
            .filter_map(|sample| sample["s"].as_f64().zip(sample[*of].as_f64()))
            .collect();
        let most = points.iter().map(|point| point.1).fold(1.0, f64::max);
        text(&mut out, (50.0, top - 8.0), "h", title);
        text(&mut out, (44.0, top + 10.0), "n e", &format!("{most:.0}"));
        text(&mut out, (44.0, top + HEIGHT), "n e", "0");
        text(
            &mut out,
            (50.0 + WIDTH, top + HEIGHT + 16.0),
            "n e",
            &format!("{:.0} min", end / 60.0),
        );
        write_to!(
            out,
            r##"<path d="M50 {top:.0}V{0:.0}H{1:.0}" fill="none" stroke="#999"/>"##,
            top + HEIGHT,
            50.0 + WIDTH
        );
        let path: Vec<String> = points
            .iter()
            .map(|(at, value)| {
                let (x, y) = (50.0 + at / end * WIDTH, top + HEIGHT - value / most * HEIGHT);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        write_to!(
            out,
            r#"<polyline points="{}" fill="none" stroke="{THIS}" stroke-width="1.5"/>"#,
            path.join(" ")
        );
    }
    out.push_str("</svg>\n");
    out
}
