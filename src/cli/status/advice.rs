//! Last events of a deployment, and what its autoscaler would do if scaling were enabled.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::draw::Node;
use super::shorten;
use super::tree::since;
use crate::cli::deployment::Deployment;
use crate::cli::printer::{DIM, YELLOW, styled};
use crate::cli::table::age;
use autoscaler::events::{ADVISED, advised};
use clients::cluster;
use clients::cluster::events::last_seen;
use clients::flink::jobs::Vertex;
use config::options::autoscaler::{ENABLED, SCALING_ENABLED};
use config::secret;

/// Maximum number of events shown, the latest first; `events` shows all.
const EVENTS_SHOWN: usize = 4;
/// Maximum number of characters of a message; exceptions can be pages long.
const MESSAGE_LENGTH_MAX: usize = 200;

type Listed = cluster::Result<Vec<Event>>;

/// Shows the last events, or the reason why they cannot be read.
pub(super) fn events_node(events: &Listed, is_advised: bool, now: Timestamp) -> Option<Node> {
    let events = match events {
        Ok(events) => events,
        Err(error) => {
            return Some(Node::leaf(styled(DIM, format_args!("Events unavailable: {error}"))));
        }
    };
    let shown = events.iter().rev().filter(|event| !is_advised || !is_report(event));
    let nodes = shown.take(EVENTS_SHOWN).map(|event| event_node(event, now)).collect::<Vec<_>>();
    (!nodes.is_empty()).then(|| Node::with("Events", nodes))
}

fn is_report(event: &Event) -> bool {
    event.reason.as_deref() == Some(ADVISED)
}

fn event_node(event: &Event, now: Timestamp) -> Node {
    let reason = event.reason.as_deref().unwrap_or("without a reason");
    let reason = if event.type_.as_deref() == Some("Warning") {
        styled(YELLOW, format_args!("Warning {reason}"))
    } else {
        reason.to_owned()
    };
    let message = secret::hide_in(event.message.as_deref().unwrap_or_default());
    let first = message.lines().next().unwrap_or_default().trim();
    let message = shorten(first, MESSAGE_LENGTH_MAX);
    let count = event.series.as_ref().and_then(|it| it.count).or(event.count).unwrap_or(1);
    let mut when = Vec::new();
    when.extend(last_seen(event).map(|at| format!("{} ago", since(at.as_second(), now))));
    when.extend((count > 1).then(|| format!("{count} times")));
    Node::leaf(format!("{reason} {message} {}", styled(DIM, when.join(", "))))
}

/// Shows the last advice of an autoscaler that only advises, and why it does. `None` for a job that is scaled or has no
/// autoscaler.
pub(super) fn node(
    deployment: &Deployment,
    events: &Listed,
    advised_until: Option<Timestamp>,
    vertices: &[Vertex],
    now: Timestamp,
) -> Option<Node> {
    let config = deployment.flink_config();
    if deployment.is_session() || !config.get(&ENABLED).unwrap_or_default() {
        return None;
    }
    let why = if config.get(&SCALING_ENABLED).is_ok_and(|is_enabled| !is_enabled) {
        format!("{} is false", SCALING_ENABLED.key())
    } else {
        let until = advised_until.filter(|until| *until > now)?;
        let left = age(until.as_second() - now.as_second());
        format!("the job is new to it for {left} more")
    };
    let report = events.as_deref().unwrap_or_default().iter().rev().find_map(|event| {
        let changes = advised(event.message.as_deref()?)?;
        is_report(event).then_some((event, changes))
    });
    let Some((event, changes)) = report else {
        return Some(Node::leaf(format!(
            "Autoscaler only advises, and has given no advice yet {}",
            styled(DIM, format_args!("({why})"))
        )));
    };
    let name = |id: &str| {
        let vertex = vertices.iter().find(|vertex| vertex.id == id);
        vertex.map_or_else(|| id.to_owned(), |vertex| vertex.name.clone())
    };
    let lines = changes.into_iter().map(|(id, from, to)| {
        Node::leaf(format!("{} {}", name(&id), styled(YELLOW, format_args!("{from} -> {to}"))))
    });
    let at = last_seen(event)
        .map_or_else(String::new, |at| format!(" {} ago", since(at.as_second(), now)));
    Some(Node::with(
        format!("Autoscaler advised{at} {}", styled(DIM, format_args!("({why})"))),
        lines.collect(),
    ))
}
