//! The log page: the pods, a form to select lines, and the lines.

use maud::{Markup, html};
use strum::IntoEnumIterator;

use super::{Fragment, Tab, View, inked, notes};
use crate::logs::{BATCH_MAX, Choice, LEVELS, LINES_MAX, Line, Nothing, Pods, Role};
use crate::page::number;
use crate::resource::Part;
use crate::row::Key;

/// Renders the parts that are updated as fragments: notes and pods.
pub fn parts(view: View<'_>, choice: &Choice, pods: Option<&Part<Pods>>) -> Vec<Fragment> {
    let pods = html! {
        section #pods {
            @match pods {
                Some(Ok(pods)) => (list(view.key, choice, pods)),
                Some(Err(why)) => { h2 { "Pods" } p.unread { "Not available: " (why) } },
                None => {}
            }
        }
    };
    vec![("notes", notes(view.key, view.standing).into_string()), ("pods", pods.into_string())]
}

/// Renders the form and the first lines. Further lines are appended to these.
pub fn log(key: &Key, choice: &Choice, pods: &Pods, lines: &[Line]) -> Fragment {
    let log = html! {
        section #log {
            div.bar {
                (form(key, choice))
                // The script shows them.
                button #pause type="button" aria-pressed="false" hidden { "Pause" }
                button #end type="button" hidden { "Jump to the end" }
            }
            div #lines role="log" aria-live="off" aria-label="Lines" tabindex="0" data-most=(LINES_MAX) {
                @for line in lines { (one(pods, line)) }
            }
            p.unread {
                "At most the newest " (number(LINES_MAX)) " lines are kept here. To see all of them: "
                code { (command(key, choice)) }
            }
        }
    };
    ("log", log.into_string())
}

/// Renders lines to append, after this many that were skipped.
pub fn lines(pods: &Pods, left_out: usize, lines: &[Line]) -> String {
    let lines = html! {
        @if left_out > 0 {
            p.gap {
                (number(left_out)) " lines skipped here: they arrived faster than " (number(4 * BATCH_MAX)) " per second"
            }
        }
        @for line in lines { (one(pods, line)) }
    };
    lines.into_string()
}

fn one(Pods { cluster, read, .. }: &Pods, Line { pod, at, tone, text }: &Line) -> Markup {
    // Of fixed width, so that comparing the texts compares the times.
    let at = at.map(|at| format!("{at:020}"));
    let note = at.is_none().then_some("gap ");
    html! {
        p class={ (note.unwrap_or_default()) (tone) } data-pod=(pod) data-at=[at] {
            @if read.len() != 1 || note.is_some() { b title=(pod) { (short(cluster, pod)) } " " }
            (text)
        }
    }
}

/// Returns the name without that of the cluster, which all of them share.
fn short<'a>(cluster: &str, pod: &'a str) -> &'a str {
    let rest = pod.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('-'));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(pod)
}

fn address(key: &Key, choice: &Choice) -> String {
    format!("{}{}{}", key.address(), Tab::Logs.path(), choice.query())
}

fn list(key: &Key, choice: &Choice, pods: &Pods) -> Markup {
    let Pods { all, more, read, unread, nothing, .. } = pods;
    let is_current = |pod: Option<&str>| (choice.pod.as_deref() == pod).then_some("true");
    let is_gone = choice.pod.as_deref().filter(|pod| !all.iter().any(|it| it.name == *pod));
    html! {
        h2 { "Pods" }
        @if !all.is_empty() {
            nav aria-label="Pods" {
                a href=(address(key, &choice.of(None))) aria-current=[is_current(None)] { "All" }
                @for pod in all {
                    a href=(address(key, &choice.of(Some(&pod.name)))) aria-current=[is_current(Some(&pod.name))] {
                        @for span in &pod.label { (inked(span)) }
                    }
                }
            }
        }
        @if *more > 0 { p.unread { (number(*more)) " more are not listed here" } }
        @if let Some(Nothing { phase, why, evidence }) = nothing {
            p { "No pod has a log yet: `" (pods.cluster) "` is " (phase) }
            @if !why.is_empty() { p.what { (why) } }
            @if !evidence.is_empty() { p.evidence { (evidence) } }
            p.unread { a href=(key.address()) { "The overview" } " says what to do. Logs appear here as soon as a pod starts." }
        } @else if let Some(pod) = is_gone {
            p.unread { "Pod `" (pod) "` no longer exists. Its lines below are those this page received before." }
        } @else if read.is_empty() {
            p.unread { "No selected pod has a log yet" }
        }
        @if *unread > 0 {
            p.unread { "Showing the logs of " (read.len()) " pods. " (number(*unread)) " more are left out: select a pod or a component" }
        }
    }
}

fn form(key: &Key, choice: &Choice) -> Markup {
    html! {
        form action={ (key.address()) (Tab::Logs.path()) } {
            @if let Some(pod) = &choice.pod { input type="hidden" name="pod" value=(pod); }
            select name="role" aria-label="Component" {
                option value="" { "All components" }
                @for role in Role::iter() {
                    option value=(role) selected[choice.role == Some(role)] { (role.words()) }
                }
            }
            select name="level" aria-label="Level" {
                option value="" { "Any level" }
                @for level in LEVELS {
                    option value=(level) selected[choice.level == Some(level)] { (level.to_uppercase()) " and above" }
                }
            }
            input type="search" name="q" value=(choice.text) placeholder="Text" aria-label="Text in a line" autocomplete="off"
                spellcheck="false";
            label { input type="checkbox" name="previous" value="1" checked[choice.is_previous]; " Previous run" }
            button { "Show" }
        }
    }
}

/// Returns the command that shows the whole log in a terminal.
fn command(key: &Key, choice: &Choice) -> String {
    let (name, namespace) = (key.argument(), &key.namespace);
    let role = choice.role.map(|role| format!(" --role {role}")).unwrap_or_default();
    let level = choice.level.map(|level| format!(" --level {level}")).unwrap_or_default();
    let previous = if choice.is_previous { " --previous" } else { "" };
    format!("kubectl flink logs {name} -n {namespace}{role}{level}{previous} --tail -1")
}

#[cfg(test)]
mod tests;
