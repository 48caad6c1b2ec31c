//! A chart of one vertex: its parallelism as steps over time, and below it the rates that each decision is based on. A
//! table below all charts has the same data as text.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::page::{Place, number};
use crate::scaling::{Decision, Rate};

const WIDTH: i64 = 320;
/// Height of each of the two parts.
const HEIGHT: i64 = 44;
const GAP: i64 = 14;
/// Margin that keeps marks at the edges whole.
const MARGIN: i64 = 6;

/// The mark of a rate. Rates differ by more than their colours.
#[derive(Clone, Copy, Debug)]
enum Mark {
    Diamond,
    Circle,
}

/// Renders the decisions about one vertex, oldest first.
pub(super) fn of(place: Place<'_>, index: usize, decisions: &[&Decision]) -> Markup {
    let (Some(first), Some(last)) = (decisions.first(), decisions.last()) else { return html! {} };
    let end = place.now.max(last.at);
    // Also show some time before the first decision.
    let span = (end - first.at).max(60) * 10 / 9;
    let x = |at: i64| MARGIN + scaled(at - (end - span), span, WIDTH - 2 * MARGIN);
    let most = decisions.iter().map(|it| it.from.max(it.to)).max().unwrap_or_default();
    let steps = steps(decisions, x, i64::from(most));
    let rates = || decisions.iter().flat_map(|it| [&it.true_rate, &it.target_rate]).flatten();
    let highest = rates().filter(|it| it.amount.is_some()).max_by_key(|it| it.amount);
    let points = |rate: fn(&Decision) -> Option<&Rate>| -> Vec<(i64, i64)> {
        let top = highest.and_then(|it| it.amount).unwrap_or_default().max(1);
        let bottom = MARGIN + 2 * HEIGHT + GAP;
        let point =
            |it: &&Decision| Some((x(it.at), bottom - scaled(rate(it)?.amount?, top, HEIGHT)));
        decisions.iter().filter_map(point).collect()
    };
    let (title, text) = (format!("scaled-{index}-title"), format!("scaled-{index}-text"));
    html! {
        figure.scaled {
            figcaption {
                b { (last.vertex) }
                span.dim { "parallelism " (last.to) ", up to " (most) }
                @if let Some(highest) = highest {
                    span.dim { span.capacity { "◆ true rate" } " " span.load { "● target rate" } " up to " (highest.words) "/s" }
                }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (2 * (MARGIN + HEIGHT) + GAP) } role="img" aria-labelledby={ (title) " " (text) } {
                title id=(title) { "Decisions for " (last.vertex) }
                desc id=(text) { (number(decisions.len())) " decisions, the last one from " (last.from) " to " (last.to) ". The table lists every decision." }
                path.axis d={ "M0 " (MARGIN + HEIGHT) "h" (WIDTH) "M0 " (MARGIN + 2 * HEIGHT + GAP) "h" (WIDTH) } {}
                path.steps d=(steps) {}
                (line("capacity", Mark::Diamond, &points(|it| it.true_rate.as_ref())))
                (line("load", Mark::Circle, &points(|it| it.target_rate.as_ref())))
            }
        }
    }
}

/// Returns the share of `size` that `amount` is of `whole`.
fn scaled(amount: i64, whole: i64, size: i64) -> i64 {
    let part = i128::from(amount) * i128::from(size) / i128::from(whole.max(1));
    i64::try_from(part).unwrap_or(size).clamp(0, size)
}

/// Draws the parallelism, which stays the same until the next decision.
fn steps(decisions: &[&Decision], x: impl Fn(i64) -> i64, most: i64) -> String {
    let height = |of: u32| MARGIN + HEIGHT - scaled(i64::from(of), most, HEIGHT);
    let mut path = String::new();
    for (index, it) in decisions.iter().enumerate() {
        // Writing to a string cannot fail. A manual change in between is a separate step.
        let _written = match index {
            0 => write!(path, "M{MARGIN} {}H{}V{}", height(it.from), x(it.at), height(it.to)),
            _ => write!(path, "H{}V{}V{}", x(it.at), height(it.from), height(it.to)),
        };
    }
    let _written = write!(path, "H{}", WIDTH - MARGIN);
    path
}

fn line(class: &str, mark: Mark, points: &[(i64, i64)]) -> Markup {
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x} {y}")).collect();
    html! {
        @if !points.is_empty() {
            g class=(class) {
                path.line d={ "M" (path.join("L")) } {}
                @for (x, y) in points {
                    @match mark {
                        Mark::Diamond => path.mark d={ "M" (x) " " (y - 4) "l4 4l-4 4l-4 -4z" } {},
                        Mark::Circle => circle.mark cx=(x) cy=(y) r="3" {},
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(now: i64) -> Place<'static> {
        Place { now, ..crate::page::tests::place() }
    }

    fn decision(at: i64, from: u32, to: u32) -> Decision {
        let rate = |of: u32| {
            let amount = i64::from(of) * 100;
            Some(Rate { amount: Some(amount), words: format!("{amount}.00") })
        };
        let (true_rate, target_rate) = (rate(from), rate(to));
        let vertex = "Map <x>".to_owned();
        Decision { at, vertex, from, to, true_rate, target_rate, ..Decision::default() }
    }

    #[test]
    fn parallelism_is_steps_and_rates_are_points() {
        let (one, two) = (decision(0, 1, 4), decision(900, 4, 2));
        let chart = of(place(1_800), 0, &[&one, &two]).into_string();
        for told in [
            "<b>Map &lt;x&gt;</b><span class=\"dim\">parallelism 2, up to 4</span>",
            "up to 400.00/s",
            "2 decisions, the last one from 4 to 2. The table lists every decision.",
            "<path class=\"steps\" d=\"M6 39H36V6H175V6V28H314\">",
            "<circle class=\"mark\" cx=\"36\" cy=\"64\" r=\"3\">",
        ] {
            assert!(chart.contains(told), "{told}: {chart}");
        }
        assert_eq!(chart.matches("class=\"mark\"").count(), 4);
    }

    #[test]
    fn there_is_room_for_any_time_and_any_rate() {
        let odd = Decision {
            at: i64::from(u32::MAX),
            to: u32::MAX,
            true_rate: Some(Rate { amount: Some(i64::MAX), words: String::new() }),
            ..Decision::default()
        };
        let chart = of(place(0), 0, &[&odd]).into_string();
        assert!(
            !chart.contains("\"-") && !chart.contains("M-") && !chart.contains("V-"),
            "{chart}"
        );
        assert!(of(place(0), 0, &[]).into_string().is_empty());
    }
}
