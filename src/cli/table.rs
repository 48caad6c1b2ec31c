//! Tables as kubectl prints them: no borders, three spaces between columns.

use comfy_table::{Table, presets};
use dialoguer::console::{measure_text_width, truncate_str};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Spaces between columns.
const GAP: u16 = 3;
/// Minimum width of a cell that [`cut`] shortens.
const CUT_MIN: usize = 20;

/// Placeholder for one column of a coloured cell during layout. It is from a private use area, so no name contains it.
const HELD: char = '\u{e000}';

/// Formats a table with the headers; a table without rows is empty.
pub fn render(headers: &[&str], mut rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let coloured = hold_coloured(&mut rows);
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headers.to_vec()).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    put_back(&table.trim_fmt(), coloured)
}

/// Replaces coloured cells by placeholders and returns them in reading order, because the layout would include their
/// codes in the width.
fn hold_coloured(rows: &mut [Vec<String>]) -> Vec<String> {
    let mut coloured = Vec::new();
    for cell in rows.iter_mut().flatten() {
        cell.retain(|letter| letter != HELD);
        if cell.contains('\x1b') {
            let width = measure_text_width(cell).max(1);
            coloured.push(std::mem::replace(cell, HELD.to_string().repeat(width)));
        }
    }
    coloured
}

/// Puts the coloured cells back in place.
fn put_back(table: &str, coloured: Vec<String>) -> String {
    let mut text = String::with_capacity(table.len());
    let mut rest = table;
    for cell in coloured {
        let Some((before, from)) = rest.find(HELD).map(|at| rest.split_at(at)) else { break };
        text.push_str(before);
        text.push_str(&cell);
        rest = from.trim_start_matches(HELD);
    }
    text.push_str(rest);
    text
}

/// Formats the table to fit into `width`: leaves out columns of `dispensable` one by one, then truncates lines.
pub fn render_within(
    headers: &[&str],
    mut rows: Vec<Vec<String>>,
    dispensable: &[&str],
    width: usize,
) -> String {
    let mut headers = headers.to_vec();
    for column in dispensable {
        if needed(&headers, &rows) <= width {
            break;
        }
        if let Some(index) = headers.iter().position(|header| header == column) {
            headers.remove(index);
            for row in &mut rows {
                row.remove(index);
            }
        }
    }
    let table = render(&headers, rows);
    let lines = table.lines().map(|line| truncate_str(line, width, "…"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Shortens the cells of one column so that the table fits into `width`, but not below `CUT_MIN`.
pub fn cut(headers: &[&str], rows: &mut [Vec<String>], column: usize, width: usize) {
    let too_wide = needed(headers, rows).saturating_sub(width);
    let widest = rows.iter().filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell));
    let left = widest.max().unwrap_or_default().saturating_sub(too_wide).max(CUT_MIN);
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        *cell = truncate_str(cell, left, "…").into_owned();
    }
}

/// Returns the width that the table needs, in terminal columns.
fn needed(headers: &[&str], rows: &[Vec<String>]) -> usize {
    let of_column = |index: usize| {
        let cells =
            rows.iter().filter_map(|row| row.get(index)).map(|cell| measure_text_width(cell));
        let header = headers.get(index).map_or(0, |header| header.len());
        cells.max().unwrap_or_default().max(header)
    };
    let columns = (0..headers.len()).map(of_column).sum::<usize>();
    columns + usize::from(GAP) * headers.len().saturating_sub(1)
}

/// Shown in a cell without a value, as in kubectl. `cut` and `awk` cannot easily handle `—`.
pub const NONE: &str = "<none>";

/// Formats the local time of day: `14:03:59`.
pub fn clock(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// Formats an age as kubectl does: two units while both matter.
pub fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |unit: i64, name: char, part: i64, part_name: char| match (seconds % unit) / part {
        0 => format!("{}{name}", seconds / unit),
        rest => format!("{}{name}{rest}{part_name}", seconds / unit),
    };
    match seconds.max(0) {
        0..120 => format!("{}s", seconds.max(0)),
        120..600 => two(MINUTE, 'm', 1, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        _ => two(YEAR, 'y', DAY, 'd'),
    }
}

/// Formats bytes with a binary unit.
pub fn bytes(count: i64) -> String {
    let mut value = i32::try_from(count / 1024).map_or(f64::MAX, f64::from);
    if count < 1024 {
        return format!("{count} B");
    }
    for unit in ["KiB", "MiB"] {
        if value < 1024.0 {
            return format!("{value:.1} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn columns_are_aligned_and_lines_end_at_their_text() {
        let rows = vec![
            vec!["a".to_owned(), "RUNNING".to_owned()],
            vec!["longer".to_owned(), String::new()],
        ];
        expect![[r#"
            NAME     JOB
            a        RUNNING
            longer"#]]
        .assert_eq(&render(&["NAME", "JOB"], rows));
    }

    #[test]
    fn a_narrow_table_goes_without_what_is_needed_least() {
        let rows = vec![vec!["orders".to_owned(), "v1_20".to_owned(), "RUNNING".to_owned()]];
        let within = |width| {
            render_within(&["NAME", "VERSION", "JOB STATUS"], rows.clone(), &["VERSION"], width)
        };
        let full = "NAME     VERSION   JOB STATUS\norders   v1_20     RUNNING";
        assert_eq!(within(29), full);
        assert_eq!(within(28), "NAME     JOB STATUS\norders   RUNNING");
        assert_eq!(within(12), "NAME     JO…\norders   RU…");
    }

    #[test]
    fn one_column_is_cut_for_the_others() {
        let headers = ["OPTION", "VALUE", "FROM"];
        let whole = vec!["a.b".to_owned(), "0123456789".repeat(5), "job".to_owned()];
        let mut rows = vec![whole.clone()];
        cut(&headers, &mut rows, 1, 80);
        assert_eq!(rows, [whole]);
        cut(&headers, &mut rows, 1, 46);
        assert_eq!(needed(&headers, &rows), 46);
        assert!(rows[0][1].ends_with('…'), "{rows:?}");
        cut(&headers, &mut rows, 1, 10);
        assert_eq!(measure_text_width(&rows[0][1]), CUT_MIN);
    }

    #[test]
    fn ages_are_kubectls() {
        let cases =
            [(0, "0s"), (119, "119s"), (120, "2m"), (135, "2m15s"), (700, "11m"), (10_860, "3h1m")];
        let more = [
            (30_000, "8h"),
            (200_000, "2d7h"),
            (900_000, "10d"),
            (70_000_000, "2y80d"),
            (-5, "0s"),
        ];
        for (seconds, expected) in cases.into_iter().chain(more) {
            assert_eq!(age(seconds), expected);
        }
    }

    #[test]
    fn sizes_have_units() {
        let cases = [(5, "5 B"), (2048, "2.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB")];
        for (count, expected) in cases {
            assert_eq!(bytes(count), expected);
        }
    }

    #[test]
    fn colours_take_no_columns() {
        use crate::cli::printer::{GREEN, RED, styled};
        let row = |state: String, name: &str| vec![state, styled(RED, "x"), name.to_owned()];
        let rows = vec![row(styled(GREEN, "RUNNING"), "a"), row("FAILED".to_owned(), "b")];
        let table = render(&["STATE", "MARK", "NAME"], rows);
        assert!(table.contains(&styled(GREEN, "RUNNING")), "{table}");
        let plain = anstream::adapter::strip_str(&table).to_string();
        assert_eq!(
            plain.lines().map(str::trim_end).collect::<Vec<_>>(),
            ["STATE     MARK   NAME", "RUNNING   x      a", "FAILED    x      b"]
        );
    }
}
