//! Charts of lag, rates and parallelism over time, for a terminal and as SVG.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::trial::{number, time};
use autoscaler::trace::{Moment, Trace};

/// Columns of a chart in a terminal, each for an equal span of time.
const COLUMNS: usize = 72;
/// Lines of one panel in a terminal.
const ROWS: usize = 5;
/// Bars by height, in eighths of a line.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const WIDTH: f64 = 900.0;
const PANEL_HEIGHT: f64 = 150.0;
const MARGIN_LEFT: f64 = 70.0;
const MARGIN_RIGHT: f64 = 20.0;
const MARGIN_TOP: f64 = 40.0;
const GAP: f64 = 40.0;
const COLOURS: [&str; 2] = ["#2a78d6", "#d6602a"];

/// A figure over time, with `None` for moments at which it was not measured.
struct Series {
    name: &'static str,
    values: Vec<Option<f64>>,
}

/// Figures that share a unit.
struct Panel {
    title: &'static str,
    series: Vec<Series>,
    /// Whether values hold until they change, as parallelism does.
    is_stepped: bool,
}

fn panels(trace: &Trace) -> Vec<Panel> {
    let of = |name, figure: fn(&Moment) -> Option<f64>| Series {
        name,
        values: trace.moments.iter().map(figure).collect(),
    };
    vec![
        Panel {
            title: "lag, records",
            series: vec![of("lag", |moment| moment.lag)],
            is_stepped: false,
        },
        Panel {
            title: "rates, records per second",
            series: vec![
                of("incoming", |moment| moment.coming_in),
                of("processed", |moment| moment.processed),
            ],
            is_stepped: false,
        },
        Panel {
            title: "parallelism, all vertices",
            series: vec![of("running", ran), of("decided", decided)],
            is_stepped: true,
        },
    ]
}

fn ran(moment: &Moment) -> Option<f64> {
    let sum: f64 = moment.parallelism.values().copied().map(f64::from).sum();
    (sum > 0.0).then_some(sum)
}

fn decided(moment: &Moment) -> Option<f64> {
    let of = |(id, ran)| f64::from(*moment.decided.get(id).unwrap_or(ran));
    let sum: f64 = moment.parallelism.iter().map(of).sum();
    (sum > 0.0).then_some(sum)
}

impl Panel {
    fn max(&self) -> f64 {
        let all = self.series.iter().flat_map(|series| &series.values).flatten();
        all.copied().filter(|value| value.is_finite()).fold(0.0, f64::max)
    }

    fn legend(&self) -> String {
        let named = |(mark, series): (&str, &Series)| format!("{mark} {}", series.name);
        ["█", "•"].into_iter().zip(&self.series).map(named).collect::<Vec<_>>().join("  ")
    }
}

/// Returns the chart for a terminal: the first figure of a panel as bars, the second as dots over them.
pub(super) fn terminal(trace: &Trace) -> String {
    let (Some(first), Some(last)) = (trace.moments.first(), trace.moments.last()) else {
        return String::new();
    };
    let mut out = String::new();
    for panel in panels(trace) {
        let max = panel.max();
        line(&mut out, format_args!("{}, up to {}   {}", panel.title, number(max), panel.legend()));
        let mut grid = vec![vec![' '; COLUMNS]; ROWS];
        for (index, series) in panel.series.iter().enumerate() {
            for (column, value) in columns(trace, &series.values).into_iter().enumerate() {
                let Some(value) = value.filter(|_| max > 0.0) else { continue };
                let eighths = eighths(value / max);
                if index == 0 {
                    bar(&mut grid, column, eighths);
                } else {
                    dot(&mut grid, column, eighths);
                }
            }
        }
        for row in grid {
            let row: String = row.into_iter().collect();
            line(&mut out, format_args!("|{}", row.trim_end()));
        }
    }
    let (from, until) = (time(first.at), time(last.at));
    let width = COLUMNS.saturating_sub(from.len());
    line(&mut out, format_args!("+{}", "-".repeat(COLUMNS)));
    let _written = write!(out, " {from}{until:>width$}");
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _written = writeln!(out, "{text}");
}

/// Returns the height of a bar in eighths of a line, at least one for any value above zero.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of forty"
)]
fn eighths(share: f64) -> usize {
    let eighths = (share.clamp(0.0, 1.0) * (ROWS * 8) as f64).round() as usize;
    if share > 0.0 { eighths.max(1) } else { 0 }
}

fn bar(grid: &mut [Vec<char>], column: usize, eighths: usize) {
    for (row, line) in grid.iter_mut().rev().enumerate() {
        let filled = eighths.saturating_sub(row * 8).min(8);
        if let (Some(cell), Some(bar)) = (line.get_mut(column), BARS.get(filled)) {
            *cell = *bar;
        }
    }
}

fn dot(grid: &mut [Vec<char>], column: usize, eighths: usize) {
    let row = eighths.saturating_sub(1) / 8;
    if let Some(cell) = grid.iter_mut().rev().nth(row).and_then(|line| line.get_mut(column)) {
        *cell = '•';
    }
}

/// Returns the highest value in each span of time.
fn columns(trace: &Trace, values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut columns: Vec<Option<f64>> = vec![None; COLUMNS];
    for (moment, value) in trace.moments.iter().zip(values) {
        let Some(value) = value.filter(|value| value.is_finite()) else { continue };
        if let Some(cell) = columns.get_mut(column(trace, moment.at)) {
            *cell = Some(cell.map_or(value, |before| before.max(value)));
        }
    }
    fill(&mut columns);
    columns
}

/// Fills gaps between measurements with the value before them.
fn fill(columns: &mut [Option<f64>]) {
    let last = columns.iter().rposition(Option::is_some).unwrap_or(0);
    let mut before = None;
    for column in columns.iter_mut().take(last) {
        if column.is_none() {
            *column = before;
        }
        before = *column;
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of the columns"
)]
fn column(trace: &Trace, at: Timestamp) -> usize {
    (share(trace, at) * (COLUMNS - 1) as f64).round() as usize
}

/// Returns the position of a time between the first and the last moment, from 0 to 1.
fn share(trace: &Trace, at: Timestamp) -> f64 {
    let (Some(first), Some(last)) = (trace.moments.first(), trace.moments.last()) else {
        return 0.0;
    };
    let whole = last.at.duration_since(first.at).as_secs_f64();
    if whole <= 0.0 {
        return 0.0;
    }
    (at.duration_since(first.at).as_secs_f64() / whole).clamp(0.0, 1.0)
}

/// Returns the chart as SVG, simple enough to be reviewed in a diff.
pub(super) fn svg(trace: &Trace, title: &str) -> String {
    let panels = panels(trace);
    let mut height = MARGIN_TOP;
    for _ in &panels {
        height += PANEL_HEIGHT + GAP;
    }
    let title = escaped(title);
    let mut out = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">
<title>{title}</title>
<style>text{{font:12px sans-serif;fill:#222}}.h{{font-weight:bold}}.n{{fill:#555}}.e{{text-anchor:end}}polyline{{fill:none;stroke-width:1.5}}</style>
<rect width="100%" height="100%" fill="#fff"/>
<text x="{MARGIN_LEFT}" y="20" class="h">{title}</text>
"##
    );
    let mut top = MARGIN_TOP;
    for panel in &panels {
        svg_panel(&mut out, trace, panel, top);
        top += PANEL_HEIGHT + GAP;
    }
    if let (Some(first), Some(last)) = (trace.moments.first(), trace.moments.last()) {
        let (y, right) = (height - GAP / 2.0, WIDTH - MARGIN_RIGHT);
        let (from, until) = (time(first.at), time(last.at));
        line(&mut out, format_args!(r#"<text x="{MARGIN_LEFT}" y="{y}" class="n">{from}</text>"#));
        line(&mut out, format_args!(r#"<text x="{right}" y="{y}" class="n e">{until}</text>"#));
    }
    out.push_str("</svg>\n");
    out
}

fn svg_panel(out: &mut String, trace: &Trace, panel: &Panel, top: f64) {
    let (right, bottom) = (WIDTH - MARGIN_RIGHT, top + PANEL_HEIGHT);
    let (max, left) = (panel.max(), MARGIN_LEFT - 6.0);
    let (width, head) = (right - MARGIN_LEFT, top - 6.0);
    let title = panel.title;
    line(out, format_args!(r#"<text x="{MARGIN_LEFT}" y="{head}" class="h">{title}</text>"#));
    line(
        out,
        format_args!(
            r##"<rect x="{MARGIN_LEFT}" y="{top}" width="{width}" height="{PANEL_HEIGHT}" fill="none" stroke="#ddd"/>"##
        ),
    );
    let highest = number(max);
    let below = top + 10.0;
    line(out, format_args!(r#"<text x="{left}" y="{below}" class="n e">{highest}</text>"#));
    line(out, format_args!(r#"<text x="{left}" y="{bottom}" class="n e">0</text>"#));
    let mut legend = right;
    for (series, colour) in panel.series.iter().zip(COLOURS) {
        let name = series.name;
        line(
            out,
            format_args!(
                r#"<text x="{legend}" y="{head}" class="e" style="fill:{colour}">{name}</text>"#
            ),
        );
        legend -= 90.0;
        for points in lines_of(trace, panel, series, max, top) {
            line(out, format_args!(r#"<polyline stroke="{colour}" points="{points}"/>"#));
        }
    }
}

/// Returns one line for each stretch of time without a gap.
fn lines_of(trace: &Trace, panel: &Panel, series: &Series, max: f64, top: f64) -> Vec<String> {
    let width = WIDTH - MARGIN_RIGHT - MARGIN_LEFT;
    let (mut lines, mut points) = (Vec::new(), String::new());
    let mut before: Option<f64> = None;
    for (moment, value) in trace.moments.iter().zip(&series.values) {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            lines.push(std::mem::take(&mut points));
            before = None;
            continue;
        };
        let x = MARGIN_LEFT + share(trace, moment.at) * width;
        let y = top + PANEL_HEIGHT * (1.0 - if max > 0.0 { value / max } else { 0.0 });
        if let Some(before) = before.filter(|before| panel.is_stepped && (*before - y).abs() > 0.05)
        {
            let _written = write!(points, "{x:.1},{before:.1} ");
        }
        let _written = write!(points, "{x:.1},{y:.1} ");
        before = Some(y);
    }
    lines.push(points);
    lines.retain(|points| !points.is_empty());
    lines.iter().map(|points| points.trim_end().to_owned()).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
