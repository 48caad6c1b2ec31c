//! A bar chart, oldest first. A table next to it has the same data as text.

use maud::{Markup, html};

use crate::resource::Measure;

const WIDTH: usize = 320;
const HEIGHT: i64 = 56;
/// Maximum width of a bar, with the gap after it.
const STEP_MAX: usize = 16;
const GAP: usize = 3;
/// Maximum number of bars; the newest are shown.
const BARS_MAX: usize = 80;
/// Zero and unknown values are visible, too.
const BAR_MIN: i64 = 2;

/// Renders amounts, each with whether it belongs to something that failed.
pub(super) fn of(id: &str, title: &str, bars: &[(bool, Option<&Measure>)]) -> Markup {
    let bars = &bars[bars.len().saturating_sub(BARS_MAX)..];
    let known = || bars.iter().filter_map(|(_, it)| *it);
    let most = known().max_by_key(|it| it.amount);
    let least = known().min_by_key(|it| it.amount);
    let step = (WIDTH / bars.len().max(1)).min(STEP_MAX);
    let height = |it: Option<&Measure>| match (it, most) {
        (Some(it), Some(most)) if most.amount > 0 => {
            (it.amount.saturating_mul(HEIGHT) / most.amount).clamp(BAR_MIN, HEIGHT)
        }
        _ => BAR_MIN,
    };
    html! {
        figure {
            figcaption { (title) @if let Some(most) = most { span.dim { " up to " (most.words) } } }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-labelledby={ (id) "-title " (id) "-text" } {
                title id={ (id) "-title" } { (title) " of the newest " (bars.len()) }
                desc id={ (id) "-text" } {
                    @if let (Some(least), Some(most)) = (least, most) {
                        "From " (least.words) " to " (most.words) ". The table lists every value."
                    } @else {
                        "No values."
                    }
                }
                @for (index, (has_failed, it)) in bars.iter().enumerate() {
                    @let height = height(*it);
                    rect class=[has_failed.then_some("bad")] x=(index * step) y=(HEIGHT - height) width=(step - GAP) height=(height) rx="1" {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn measure(amount: i64) -> Measure {
        Measure { amount, words: format!("{amount} ms") }
    }

    #[test]
    fn bars_are_as_high_as_their_amounts() {
        let (one, two) = (measure(10), measure(40));
        let chart =
            of("durations", "Duration", &[(false, Some(&one)), (false, Some(&two)), (true, None)]);
        expect![[r#"

            <figure>
            <figcaption>Duration
            <span class="dim"> up to 40 ms
            </span>
            </figcaption>
            <svg viewBox="0 0 320 56" role="img" aria-labelledby="durations-title durations-text">
            <title id="durations-title">Duration of the newest 3
            </title>
            <desc id="durations-text">From 10 ms to 40 ms. The table lists every value.
            </desc>
            <rect x="0" y="42" width="13" height="14" rx="1">
            </rect>
            <rect x="16" y="0" width="13" height="56" rx="1">
            </rect>
            <rect class="bad" x="32" y="54" width="13" height="2" rx="1">
            </rect>
            </svg>
            </figure>"#]]
        .assert_eq(&chart.into_string().replace('<', "\n<"));
    }

    #[test]
    fn there_is_room_for_any_number_and_any_amount() {
        let most = measure(i64::MAX);
        let chart = of("sizes", "Size", &vec![(false, Some(&most)); 1_000]).into_string();
        assert_eq!(chart.matches("<rect").count(), BARS_MAX);
        let none = of("sizes", "Size", &[(false, None)]).into_string();
        assert!(none.contains("No values."), "{none}");
        let zero = measure(0);
        assert!(
            of("sizes", "Size", &[(false, Some(&zero))]).into_string().contains("height=\"2\"")
        );
    }
}
