//! Draws samples. Pure: the same samples give the same lines.

use std::collections::{BTreeMap, VecDeque};

use dialoguer::console::truncate_str;
use jiff::Timestamp;

use super::sample::{Figures, Job, Sample};
use crate::cli::printer::{BOLD, DIM, GREEN, RED, YELLOW, styled};
use crate::cli::table::{self, NONE};

/// Number of samples of a job kept for its trend.
const HISTORY_MAX: usize = 16;
/// Bars by height.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Share of time a subtask waits above which it is highlighted.
const PRESSED: f64 = 0.5;
/// Columns that are left out on a narrow terminal, in this order.
const DISPENSABLE: [&str; 8] =
    ["TREND", "CHECKPOINTS", "OUT/S", "BUSY", "NAMESPACE", "STATE", "BACKPRESSURE", "LAG"];

/// Order of the lines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Order {
    #[default]
    Name,
    /// Highest first, like all below.
    In,
    Lag,
    Backpressure,
}

impl Order {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Name => Self::In,
            Self::In => Self::Lag,
            Self::Lag => Self::Backpressure,
            Self::Backpressure => Self::Name,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::In => "IN/S",
            Self::Lag => "LAG",
            Self::Backpressure => "BACKPRESSURE",
        }
    }

    fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::Name => None,
            Self::In => figures.records_in_per_second,
            Self::Lag => figures.lag,
            Self::Backpressure => figures.backpressure,
        }
    }
}

/// Records per second in the last samples, by job.
#[derive(Clone, Debug, Default)]
pub(super) struct Histories(BTreeMap<(String, String), VecDeque<Option<f64>>>);

impl Histories {
    /// Adds a sample; jobs that are gone are removed.
    pub(super) fn add(&mut self, sample: &Sample) {
        let mut before = std::mem::take(&mut self.0);
        for job in &sample.jobs {
            let key = (job.namespace.clone(), job.name.clone());
            let mut history = before.remove(&key).unwrap_or_default();
            history.push_back(job.figures.records_in_per_second);
            if history.len() > HISTORY_MAX {
                history.pop_front();
            }
            self.0.insert(key, history);
        }
    }

    fn of(&self, job: &Job) -> Vec<Option<f64>> {
        let key = (job.namespace.clone(), job.name.clone());
        self.0.get(&key).map(|history| history.iter().copied().collect()).unwrap_or_default()
    }
}

/// Content of the screen.
pub(super) struct View<'a> {
    pub(super) sample: &'a Sample,
    pub(super) histories: &'a Histories,
    pub(super) has_namespaces: bool,
    pub(super) order: Order,
}

impl View<'_> {
    /// Returns a table of all jobs; columns that do not fit are left out, the least important first.
    pub(super) fn table(&self, width: Option<usize>) -> String {
        let has_trend = self.histories.0.values().any(|history| history.len() > 1);
        let mut headers = Vec::new();
        if self.has_namespaces {
            headers.push("NAMESPACE");
        }
        headers.extend(["NAME", "STATE", "IN/S"]);
        if has_trend {
            headers.push("TREND");
        }
        headers.extend(["OUT/S", "LAG", "BUSY", "BACKPRESSURE", "CHECKPOINTS"]);
        let rows = self.ordered().into_iter().map(|job| self.row(job, has_trend)).collect();
        match width {
            Some(width) => table::render_within(&headers, rows, &DISPENSABLE, width),
            None => table::render(&headers, rows),
        }
    }

    fn ordered(&self) -> Vec<&Job> {
        let mut jobs = self.sample.jobs.iter().collect::<Vec<_>>();
        if self.order != Order::Name {
            let of = |job: &Job| self.order.of(&job.figures).unwrap_or(f64::NEG_INFINITY);
            jobs.sort_by(|one, other| of(other).total_cmp(&of(one)));
        }
        jobs
    }

    fn row(&self, job: &Job, has_trend: bool) -> Vec<String> {
        let number = |number: Option<f64>| number.map_or_else(|| NONE.to_owned(), short);
        let figures = &job.figures;
        let mut cells = Vec::new();
        if self.has_namespaces {
            cells.push(job.namespace.clone());
        }
        cells.extend([job.name.clone(), state(job), number(figures.records_in_per_second)]);
        if has_trend {
            cells.push(sparkline(&self.histories.of(job)));
        }
        cells.extend([
            number(figures.records_out_per_second),
            number(figures.lag),
            part(figures.busy),
            match figures.backpressure {
                Some(pressure) if pressure >= PRESSED => styled(YELLOW, part(Some(pressure))),
                other => part(other),
            },
            checkpoints(figures),
        ]);
        cells
    }

    /// Returns the lines of a screen, at most as many as there are rows; `first` is limited to the number of jobs.
    pub(super) fn screen(
        &self,
        columns: usize,
        rows: usize,
        first: &mut usize,
        notice: Option<&str>,
        now: Timestamp,
    ) -> Vec<String> {
        let time = table::clock(now);
        let jobs = &self.sample.jobs;
        let running = jobs.iter().filter(|job| job.state.as_deref() == Some("RUNNING")).count();
        let mut head = vec![format!("{running} of {} jobs running", jobs.len())];
        let unmeasured = self.sample.unmeasured;
        head.extend((unmeasured > 0).then(|| format!("{unmeasured} not measured")));
        let silent = jobs.iter().filter(|job| job.error.is_some()).count();
        head.extend((silent > 0).then(|| format!("{silent} do not answer")));
        let mut lines = vec![styled(BOLD, head.join(", "))];
        let text =
            if jobs.is_empty() { "no jobs yet".to_owned() } else { self.table(Some(columns)) };
        let mut table = text.lines();
        lines.extend(table.next().map(str::to_owned));
        let body = table.collect::<Vec<_>>();
        // Header, column titles and footer are always shown.
        let room = rows.saturating_sub(3).max(1);
        *first = (*first).min(body.len().saturating_sub(room));
        lines.extend(body.iter().skip(*first).take(room).map(|line| (*line).to_owned()));
        let by = self.order.as_str();
        let foot = match notice {
            Some(notice) => styled(YELLOW, notice),
            None => styled(DIM, format_args!("{time} · q quit · s sort: {by} · ↑↓")),
        };
        lines.push(foot);
        lines.truncate(rows);
        lines.iter().map(|line| truncate_str(line, columns, "…").into_owned()).collect()
    }
}

/// Formats the state of the job, and that of the resource if it differs.
fn state(job: &Job) -> String {
    let of_job = job.state.as_deref().unwrap_or("not started");
    let style = match of_job {
        "RUNNING" | "FINISHED" => GREEN,
        "FAILED" | "FAILING" => RED,
        _ => YELLOW,
    };
    let of_resource = job.lifecycle_state.as_deref().filter(|it| *it != "STABLE");
    let of_resource = of_resource.map(|lifecycle| format!(" {}", styled(YELLOW, lifecycle)));
    format!("{}{}", styled(style, of_job), of_resource.unwrap_or_default())
}

/// Formats checkpoint durations, such as `▂▃▅ 12 ms`, and the number of failures.
fn checkpoints(figures: &Figures) -> String {
    let durations = &figures.checkpoint_milliseconds;
    let mut text = match durations.last() {
        None => NONE.to_owned(),
        Some(last) => {
            let line = sparkline(&durations.iter().map(|it| Some(real(*it))).collect::<Vec<_>>());
            format!("{line} {}", milliseconds(*last))
        }
    };
    if let Some(failed) = figures.failed_checkpoints.filter(|failed| *failed > 0) {
        text.push_str(&styled(YELLOW, format_args!(", {failed} failed")));
    }
    text
}

/// Converts milliseconds for a chart, limited to a day.
fn real(milliseconds: i64) -> f64 {
    f64::from(i32::try_from(milliseconds.clamp(0, 86_400_000)).unwrap_or_default())
}

pub(in crate::cli) fn milliseconds(count: i64) -> String {
    match count {
        ..1_000 => format!("{count} ms"),
        1_000..60_000 => format!("{:.1} s", real(count) / 1000.0),
        _ => format!("{:.1} min", real(count) / 60_000.0),
    }
}

/// Draws one character per number, from 0 to the maximum, and a gap for a missing one.
pub(super) fn sparkline(numbers: &[Option<f64>]) -> String {
    let most = numbers.iter().flatten().copied().fold(0.0_f64, f64::max);
    let level = |number: f64| {
        if most <= 0.0 || number <= 0.0 {
            return LEVELS[0];
        }
        // The lowest level is for 0, so that small values can be distinguished from it.
        let place = LEVELS.iter().enumerate().skip(1).find(|(index, _)| {
            let top = f64::from(u8::try_from(*index).unwrap_or(u8::MAX)) / 7.0;
            number / most <= top
        });
        place.map_or('█', |(_, level)| *level)
    };
    numbers.iter().map(|number| number.map_or(' ', level)).collect()
}

/// Formats a share, such as `42%`.
pub(in crate::cli) fn part(part: Option<f64>) -> String {
    part.map_or_else(|| NONE.to_owned(), |part| format!("{:.0}%", part * 100.0))
}

/// Formats a number, such as `1.2k` or `3.4M`.
pub(in crate::cli) fn short(number: f64) -> String {
    match number.abs() {
        size if size < 10.0 => format!("{number:.1}"),
        size if size < 1_000.0 => format!("{number:.0}"),
        size if size < 1_000_000.0 => format!("{:.1}k", number / 1_000.0),
        size if size < 1_000_000_000.0 => format!("{:.1}M", number / 1_000_000.0),
        _ => format!("{:.1}G", number / 1_000_000_000.0),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn job(name: &str, records: f64, pressure: f64) -> Job {
        Job {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            lifecycle_state: Some("STABLE".to_owned()),
            state: Some("RUNNING".to_owned()),
            figures: Figures {
                records_in_per_second: Some(records),
                records_out_per_second: Some(records / 2.0),
                lag: Some(1234.0),
                busy: Some(0.42),
                backpressure: Some(pressure),
                checkpoint_milliseconds: vec![10, 20, 40],
                saved_at: None,
                failed_checkpoints: Some(0),
            },
            error: None,
        }
    }

    fn sample() -> Sample {
        let failed = Job {
            namespace: "shop".to_owned(),
            name: "sessionjob/clicks".to_owned(),
            lifecycle_state: Some("FAILED".to_owned()),
            state: Some("FAILED".to_owned()),
            ..Job::default()
        };
        Sample {
            jobs: vec![job("bills", 5.0, 0.9), job("orders", 12_500.0, 0.0), failed],
            unmeasured: 0,
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn jobs_are_a_table() {
        let (sample, histories) = (sample(), Histories::default());
        let view = View {
            sample: &sample,
            histories: &histories,
            has_namespaces: true,
            order: Order::Name,
        };
        expect![[r#"
            NAMESPACE   NAME                STATE           IN/S     OUT/S    LAG      BUSY     BACKPRESSURE   CHECKPOINTS
            shop        bills               RUNNING         5.0      2.5      1.2k     42%      90%            ▃▅█ 40 ms
            shop        orders              RUNNING         12.5k    6.2k     1.2k     42%      0%             ▃▅█ 40 ms
            shop        sessionjob/clicks   FAILED FAILED   <none>   <none>   <none>   <none>   <none>         <none>"#]]
        .assert_eq(&plain(&view.table(None)));
        expect![[r#"
            NAME                IN/S     LAG
            bills               5.0      1.2k
            orders              12.5k    1.2k
            sessionjob/clicks   <none>   <none>"#]]
        .assert_eq(&plain(&view.table(Some(40))));
    }

    #[test]
    fn the_most_pressed_comes_first_when_asked() {
        let (sample, histories) = (sample(), Histories::default());
        let of = |order| {
            let view =
                View { sample: &sample, histories: &histories, has_namespaces: false, order };
            view.ordered().iter().map(|job| job.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(Order::Backpressure), ["bills", "orders", "sessionjob/clicks"]);
        assert_eq!(of(Order::In), ["orders", "bills", "sessionjob/clicks"]);
        let orders = [Order::In, Order::Lag, Order::Backpressure, Order::Name];
        let mut order = Order::Name;
        for next in orders {
            order = order.next();
            assert_eq!(order, next);
        }
    }

    #[test]
    fn a_screen_never_has_more_lines_or_columns_than_the_terminal() {
        let jobs = (0..50).map(|index| job(&format!("a-job-of-a-long-name-{index}"), 1.0, 0.0));
        let sample = Sample { jobs: jobs.collect(), unmeasured: 3 };
        let histories = Histories::default();
        let view = View {
            sample: &sample,
            histories: &histories,
            has_namespaces: true,
            order: Order::Name,
        };
        for (columns, rows) in [(40, 10), (20, 4), (200, 24), (1, 1)] {
            let mut first = 1_000;
            let lines = view.screen(columns, rows, &mut first, None, Timestamp::UNIX_EPOCH);
            assert!(lines.len() <= rows, "{rows}: {lines:?}");
            assert!(first <= 50, "{first}");
            for line in &lines {
                let width = dialoguer::console::measure_text_width(line);
                assert!(width <= columns, "{columns}: {line}");
            }
        }
        let mut first = 0;
        let lost = view.screen(80, 24, &mut first, Some("connection lost"), Timestamp::UNIX_EPOCH);
        assert!(lost.last().is_some_and(|line| line.contains("connection lost")));
    }

    #[test]
    fn lines_rise_and_fall_with_their_numbers() {
        let some = |numbers: &[f64]| numbers.iter().map(|it| Some(*it)).collect::<Vec<_>>();
        assert_eq!(sparkline(&some(&[0.0, 1.0, 50.0, 100.0])), "▁▂▅█");
        assert_eq!(sparkline(&some(&[0.0, 0.0])), "▁▁");
        assert_eq!(sparkline(&[Some(1.0), None, Some(1.0)]), "█ █");
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn histories_are_bounded_and_forget_who_is_gone() {
        let mut histories = Histories::default();
        for _ in 0..HISTORY_MAX * 2 {
            histories.add(&sample());
        }
        assert_eq!(histories.of(&job("orders", 0.0, 0.0)).len(), HISTORY_MAX);
        histories.add(&Sample::default());
        assert!(histories.0.is_empty());
    }
}
