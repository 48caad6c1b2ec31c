//! `status --watch`: a view that is redrawn on a terminal, else one line per change.
//!
//! A lost connection does not end it: see [`Contact`].

use std::collections::BTreeMap;
use std::time::Duration;

use dialoguer::console::{Term, truncate_str};
use futures::StreamExt;
use futures::stream::SelectAll;
use jiff::Timestamp;

use super::{Columns, Layout, Listing, list_table, view};
use crate::cli::connection::Connection;
use crate::cli::contact::Contact;
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use crate::cli::lookup;
use crate::cli::printer::{DIM, Drawn, Printer, YELLOW, styled};
use crate::cli::{table, wait};
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use clients::cluster;
use clients::cluster::read::{self, Seen};
use clients::flink::access::Access;

/// Pause between two redraws; Flink does not notify about changes.
const REDRAW: Duration = Duration::from_secs(2);

/// Follows one deployment until it is gone.
pub(super) async fn one(
    connection: &Connection,
    name: &str,
    access: Access,
    is_wide: bool,
    printer: &Printer,
) -> anyhow::Result<()> {
    if !printer.terminals().output {
        return one_by_lines(connection, name, printer).await;
    }
    let mut drawn = Drawn::default();
    let mut shown = String::new();
    let mut contact = Contact::default();
    loop {
        let now = Timestamp::now();
        let layout = Layout { is_wide, width: Some(terminal_width()), now };
        match view(connection, name, access, layout).await {
            Ok(text) => {
                contact.regain();
                shown = text;
            }
            // Keep the last view: it is better than nothing, and the footer reports the error.
            Err(error) => match passing(&error) {
                Some(error) => {
                    contact.lose(error);
                }
                None => return Err(error),
            },
        }
        printer.redraw(&mut drawn, &fit(&format!("{shown}{}\n", footer(&contact, now))))?;
        tokio::time::sleep(contact.pause(REDRAW)).await;
    }
}

/// Returns the error if it is transient.
fn passing(error: &anyhow::Error) -> Option<&cluster::Error> {
    error.downcast_ref().filter(|error: &&cluster::Error| error.is_transient())
}

/// Returns the last line of a view.
fn footer(contact: &Contact, now: Timestamp) -> String {
    match contact.notice() {
        Some(notice) => styled(YELLOW, notice),
        None => styled(DIM, format_args!("{} · Ctrl-C to leave", table::clock(now))),
    }
}

/// Prints a line whenever its content has changed.
async fn one_by_lines(
    connection: &Connection,
    name: &str,
    printer: &Printer,
) -> anyhow::Result<()> {
    let id = lookup::fetch_itself(connection, name).await?.id();
    let mut watch = Box::pin(read::watch_value(&connection.client, &id));
    let mut last = String::new();
    let mut contact = Contact::default();
    loop {
        let seen = tokio::select! {
            seen = watch.next() => seen,
            () = contact.regained(&connection.client) => {
                contact.regain_aloud(printer);
                continue;
            }
        };
        let Some(seen) = seen else {
            let text = format!("the watch of `{name}` ended: start the command again");
            return Err(Failure::new(text).into());
        };
        if seen.is_ok() {
            contact.regain_aloud(printer);
        }
        match seen {
            Ok(Some(value)) => print_change(&Deployment(value), false, &mut last, printer)?,
            Ok(None) if last.is_empty() => {
                return Err(lookup::not_found(connection, name).await.into());
            }
            Ok(None) => {
                printer.line(format_args!("{name}: gone"))?;
                return Ok(());
            }
            Err(error) if error.is_transient() => contact.lose_aloud(&error, printer),
            Err(error) => return Err(error.into()),
        }
    }
}

fn print_change(
    deployment: &Deployment,
    has_namespace: bool,
    last: &mut String,
    printer: &Printer,
) -> anyhow::Result<()> {
    let error = deployment.error().map_or_else(String::new, |error| format!(" · error: {error}"));
    let namespace =
        if has_namespace { format!("{}/", deployment.namespace()) } else { String::new() };
    let line =
        format!("{namespace}{}: {}{error}", deployment.shown_name(), wait::phase(deployment));
    if *last != line {
        printer.line(&line)?;
        *last = line;
    }
    Ok(())
}

/// Follows all deployments of a listing; never returns unless it fails.
pub(super) async fn many(
    connection: &Connection,
    listing: Listing<'_>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let (client, scope, selector) = (&connection.client, listing.scope, listing.selector);
    let mut watch = Box::pin(read::watch_values::<FlinkDeployment>(client, scope, selector));
    // A kind that is not installed has no events, and must not be listed again and again.
    let mut others = SelectAll::new();
    if read::list_values::<FlinkSessionJob>(client, scope, selector).await.is_ok() {
        others.push(read::watch_values::<FlinkSessionJob>(client, scope, selector).boxed());
    }
    if read::list_values::<FlinkBlueGreenDeployment>(client, scope, selector).await.is_ok() {
        others
            .push(read::watch_values::<FlinkBlueGreenDeployment>(client, scope, selector).boxed());
    }
    let is_terminal = printer.terminals().output;
    let mut deployments: BTreeMap<(String, String), (Deployment, String)> = BTreeMap::new();
    let mut drawn = Drawn::default();
    let mut is_complete = false;
    let mut contact = Contact::default();
    loop {
        let seen = tokio::select! {
            () = contact.regained(client) => {
                if !is_terminal {
                    contact.regain_aloud(printer);
                }
                contact.regain();
                continue;
            }
            seen = watch.next() => seen,
            seen = others.next(), if !others.is_empty() => match seen {
                // The deployments' own watch determines when everything is known.
                Some(Ok(Seen::Complete | Seen::Restart)) => continue,
                seen => seen,
            },
            // Ages grow even without changes.
            () = tokio::time::sleep(REDRAW), if is_terminal && is_complete => {
                draw(&deployments, listing, &contact, &mut drawn, printer)?;
                continue;
            }
        };
        if matches!(seen, Some(Ok(_))) {
            if !(is_terminal && is_complete) {
                contact.regain_aloud(printer);
            }
            contact.regain();
        }
        match seen {
            Some(Ok(Seen::Restart)) => {
                deployments.retain(|_, (it, _)| it.is_session_job() || it.is_blue_green());
            }
            Some(Ok(Seen::Complete)) => is_complete = true,
            Some(Ok(Seen::Present(value))) => {
                let deployment = Deployment(value);
                let key = (deployment.namespace().to_owned(), deployment.shown_name());
                let mut last = deployments.remove(&key).map(|(_, last)| last).unwrap_or_default();
                if !is_terminal {
                    print_change(&deployment, true, &mut last, printer)?;
                }
                deployments.insert(key, (deployment, last));
            }
            Some(Ok(Seen::Gone(value))) => {
                let deployment = Deployment(value);
                if !is_terminal {
                    printer.line(format_args!(
                        "{}/{}: gone",
                        deployment.namespace(),
                        deployment.shown_name()
                    ))?;
                }
                deployments.remove(&(deployment.namespace().to_owned(), deployment.shown_name()));
            }
            // On a terminal the view has a line for it.
            Some(Err(error)) if error.is_transient() && is_terminal && is_complete => {
                contact.lose(&error);
            }
            Some(Err(error)) if error.is_transient() => contact.lose_aloud(&error, printer),
            Some(Err(error)) => return Err(error.into()),
            None => {
                let text = "the watch of the resources ended: start the command again";
                return Err(Failure::new(text).into());
            }
        }
        if is_terminal && is_complete {
            draw(&deployments, listing, &contact, &mut drawn, printer)?;
        }
    }
}

fn draw(
    deployments: &BTreeMap<(String, String), (Deployment, String)>,
    listing: Listing<'_>,
    contact: &Contact,
    drawn: &mut Drawn,
    printer: &Printer,
) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let all = deployments.values().map(|(deployment, _)| deployment.clone()).collect::<Vec<_>>();
    let table = if all.is_empty() {
        "no FlinkDeployments yet".to_owned()
    } else {
        list_table(
            &all.iter().collect::<Vec<_>>(),
            listing.scope,
            Columns { is_wide: listing.is_wide, ..Columns::default() },
            Some(terminal_width()),
            now,
        )
    };
    let footer = footer(contact, now);
    printer.redraw(drawn, &fit(&format!("{table}\n{footer}\n")))?;
    Ok(())
}

fn terminal_width() -> usize {
    usize::from(Term::stdout().size().1)
}

/// Truncates the text to the terminal: a wrapped line, or one above the top, could not be redrawn.
fn fit(text: &str) -> String {
    let (height, width) = Term::stdout().size();
    let (height, width) = (usize::from(height), usize::from(width));
    let lines = text.lines().collect::<Vec<_>>();
    let room = height.saturating_sub(1).max(1);
    let mut shown = lines
        .iter()
        .take(room)
        .map(|line| truncate_str(line, width, "…").into_owned())
        .collect::<Vec<_>>();
    if lines.len() > room {
        let hidden = lines.len() - room + 1;
        shown.truncate(room - 1);
        shown.push(format!("… {hidden} more lines"));
    }
    shown.join("\n") + "\n"
}
