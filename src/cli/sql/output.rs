//! Writes rows as they arrive, as a table, JSON or CSV. Only the widths of columns are kept.

use std::fmt::Write;

use dialoguer::console::measure_text_width;
use serde_json::{Map, Value, json};

use crate::cli::printer::Printer;
use clients::flink::sql_gateway::{Column, Page, Row, RowFormat};

/// Spaces between columns of a table, as in the other tables.
const GAP: usize = 3;
/// Maximum width of a column; a wider value shifts those after it in its line.
const WIDTH_MAX: usize = 48;
/// Initial width of columns with times, so that later rows align with the first ones.
const TIME_WIDTH: usize = 23;
/// Initial width of columns with numbers.
const NUMBER_WIDTH: usize = 8;
/// Header of the column that shows how a row changes the result.
const CHANGE: &str = "op";
/// Text for null, as in Flink's own client.
const NULL: &str = "<NULL>";

/// The forms of a result.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum ResultFormat {
    /// Columns below their names
    #[default]
    Table,
    /// One object per line: a stable contract for programs
    Json,
    /// A header line, and one line per row
    Csv,
}

impl ResultFormat {
    /// Returns the format in which to request values.
    pub(super) fn of_rows(self) -> RowFormat {
        match self {
            Self::Table | Self::Csv => RowFormat::PlainText,
            Self::Json => RowFormat::Json,
        }
    }
}

/// Writes the result of one statement.
#[derive(Debug)]
pub(super) struct Writer {
    format: ResultFormat,
    /// Number of the statement, from 1.
    statement: usize,
    /// Widths of the columns of a table; `None` before the first page.
    widths: Option<Vec<usize>>,
    /// Whether each row shows how it changes the result.
    has_changes: bool,
    count: u64,
}

impl Writer {
    pub(super) fn new(format: ResultFormat, statement: usize) -> Self {
        Self { format, statement, widths: None, has_changes: false, count: 0 }
    }

    /// Returns the number of rows written.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Writes the rows of a page, after the column names if it is the first one. `is_stream` means that rows of a query
    /// can change earlier ones.
    pub(super) fn page(
        &mut self,
        page: &Page,
        is_stream: bool,
        printer: &Printer,
    ) -> anyhow::Result<()> {
        let mut text = String::new();
        if self.widths.is_none() {
            // The first pages of a query are empty, so the widths of its columns are not known yet.
            if page.rows.is_empty() && page.next.is_some() {
                return Ok(());
            }
            self.has_changes = page.is_query && is_stream;
            self.widths = Some(widths(page, self.has_changes));
            self.head(page, &mut text);
        }
        for row in &page.rows {
            self.row(page, row, &mut text);
        }
        self.count += page.rows.len() as u64;
        match self.format {
            // Data is written unchanged, even if it contains control characters.
            ResultFormat::Csv | ResultFormat::Json => printer.pass_on(text.as_bytes())?,
            ResultFormat::Table => printer.text(text)?,
        }
        Ok(())
    }

    fn head(&self, page: &Page, text: &mut String) {
        let change = self.has_changes.then(|| CHANGE.to_owned());
        let names = page.columns.iter().map(|column| column.name.clone());
        let cells = change.into_iter().chain(names).collect::<Vec<_>>();
        match self.format {
            ResultFormat::Table => self.table_line(&page.columns, &cells, text),
            ResultFormat::Csv => csv_line(&cells, text),
            ResultFormat::Json => {}
        }
    }

    fn row(&self, page: &Page, row: &Row, text: &mut String) {
        if self.format == ResultFormat::Json {
            text.push_str(&self.object(page, row).to_string());
            text.push('\n');
            return;
        }
        let null = if self.format == ResultFormat::Table { NULL } else { "" };
        let change = self.has_changes.then(|| row.change.as_str().to_owned());
        let fields = row.fields.iter().map(|field| plain(field, null));
        let cells = change.into_iter().chain(fields).collect::<Vec<_>>();
        match self.format {
            ResultFormat::Csv => csv_line(&cells, text),
            ResultFormat::Table | ResultFormat::Json => {
                self.table_line(&page.columns, &cells, text);
            }
        }
    }

    /// Returns `{"statement":1,"op":"+I","row":{…}}`, or the job that a statement started.
    fn object(&self, page: &Page, row: &Row) -> Value {
        match &page.job_id {
            Some(job_id) if !page.is_query => {
                json!({"statement": self.statement, "jobId": job_id})
            }
            _ => {
                let names = page.columns.iter().map(|column| column.name.clone());
                let fields = names.zip(row.fields.iter().cloned()).collect::<Map<_, _>>();
                json!({"statement": self.statement, "op": row.change.as_str(), "row": fields})
            }
        }
    }

    fn table_line(&self, columns: &[Column], cells: &[String], text: &mut String) {
        let widths = self.widths.as_deref().unwrap_or_default();
        let first_column = usize::from(self.has_changes);
        let mut line = String::new();
        for (index, cell) in cells.iter().enumerate() {
            let cell = on_one_line(cell);
            let width = widths.get(index).copied().unwrap_or_default();
            let blanks = width.saturating_sub(measure_text_width(&cell));
            let column = index.checked_sub(first_column).and_then(|index| columns.get(index));
            if index > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let padding = " ".repeat(blanks);
            if column.is_some_and(is_number) {
                line.extend([padding.as_str(), &cell]);
            } else {
                line.extend([cell.as_str(), &padding]);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// Returns the widths of columns, from the rows of the first page and the columns' types.
fn widths(page: &Page, has_changes: bool) -> Vec<usize> {
    let of_column = |(index, column): (usize, &Column)| {
        let cells = page.rows.iter().filter_map(|row| row.fields.get(index));
        let cells = cells.map(|field| measure_text_width(&on_one_line(&plain(field, NULL))));
        let usual = if is_number(column) {
            NUMBER_WIDTH
        } else if column.kind.starts_with("TIMESTAMP") {
            TIME_WIDTH
        } else {
            0
        };
        // A complete result needs no room for later rows.
        let usual = if page.next.is_some() && page.is_query { usual } else { 0 };
        let name = measure_text_width(&on_one_line(&column.name));
        cells.max().unwrap_or_default().min(WIDTH_MAX).max(usual).max(name)
    };
    let change = has_changes.then_some(CHANGE.len());
    change.into_iter().chain(page.columns.iter().enumerate().map(of_column)).collect()
}

fn is_number(column: &Column) -> bool {
    matches!(
        column.kind.as_str(),
        "TINYINT" | "SMALLINT" | "INTEGER" | "BIGINT" | "FLOAT" | "DOUBLE" | "DECIMAL"
    )
}

/// Returns the text of a value, with `null` for a missing one.
fn plain(field: &Value, null: &str) -> String {
    match field {
        Value::Null => null.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Removes what would break the line or control the terminal.
fn on_one_line(cell: &str) -> String {
    if !cell.chars().any(char::is_control) {
        return cell.to_owned();
    }
    cell.chars().fold(String::with_capacity(cell.len()), |mut shown, letter| {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
        shown
    })
}

/// Appends a line as in RFC 4180, but ended by `\n` only.
fn csv_line(cells: &[String], text: &mut String) {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) {
            // Writing to a string cannot fail.
            let _written = write!(text, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            text.push_str(cell);
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests;
