//! Pages that run actions: first what an action would do, then that it is running.

use maud::{Markup, html};

use super::{Place, document, resource};
use crate::action::{Action, Field, Input, Values};
use crate::resource::Span;
use crate::row::{Key, Row};

/// Name of the field that proves that a form is the console's own.
pub const FORM: &str = "form";
/// Name of the field with the version of the resource that a page shows.
pub const VERSION: &str = "version";
/// Path for deploying a manifest.
pub const DEPLOY: &str = "/deploy";
/// Path to which a previewed manifest is sent.
pub const DEPLOY_RUN: &str = "/deploy/run";

/// Returns the address at which the manifest of a resource is edited.
pub fn edit(key: &Key) -> String {
    of_manifest(DEPLOY, Some(key))
}

/// Returns the address with the resource that owns the manifest.
fn of_manifest(address: &str, of: Option<&Key>) -> String {
    let of = of.map(|Key { namespace, name, kind }| {
        format!("?namespace={namespace}&kind={}&name={name}", kind.word())
    });
    format!("{address}{}", of.unwrap_or_default())
}

/// What a command would do, before it is run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Preview {
    /// The command as a person would type it.
    pub command: String,
    pub plan: Plan,
}

/// The result that a command would have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Plan {
    /// None, because the command writes no spec.
    None,
    /// As `plan` reports it.
    Known(Vec<Span>),
    /// Why it is unknown.
    Unknown(String),
    /// Why the command would change nothing.
    Refused(String),
}

/// An action on a resource.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub key: &'a Key,
    pub row: Option<&'a Row>,
    pub action: Action,
    pub values: &'a Values,
    /// `None` while a field is missing.
    pub preview: Option<&'a Preview>,
    /// See [`FORM`].
    pub form: &'a str,
    /// See [`VERSION`].
    pub version: &'a str,
}

/// Renders the page that asks for the fields of an action, shows what it would do, and runs it.
pub fn page(place: Place<'_>, asked: Asked<'_>) -> String {
    let Asked { key, row, action, values, preview, form, version } = asked;
    let address = action.address(key);
    let body = html! {
        section #head {
            (resource::path(place, key))
            h1 { (action.title()) ": " (key.name) }
            p.told { (coded(action.text())) }
        }
        @if !action.fields().is_empty() {
            section #fields {
                form action=(address) {
                    @for field in action.fields() { (input(field, row, values)) }
                    button { @if preview.is_some() { "Update preview" } @else { "Preview" } }
                }
            }
        }
        @if let Some(preview) = preview {
            (confirm(preview, &Confirm { form, to: &address, title: action.title(), back: &key.address() }, html! {
                (shown_version(version))
                @for field in action.fields() {
                    @if let Some(value) = values.typed(field) { input type="hidden" name=(field.name) value=(value); }
                }
            }))
        }
    };
    document(&format!("{} {}", action.title(), key.name), place, "resource act", None, body)
        .into_string()
}

/// A manifest to deploy.
#[derive(Clone, Copy, Debug)]
pub struct Deploy<'a> {
    /// As typed or as stored.
    pub manifest: &'a str,
    /// What deploying it would do; `None` before that was requested.
    pub preview: Option<&'a Preview>,
    pub form: &'a str,
    /// The resource that the manifest was read from.
    pub of: Option<&'a Key>,
    /// See [`VERSION`].
    pub version: &'a str,
}

/// Renders the page that takes a manifest, shows what it would do, and deploys it.
pub fn deploy(place: Place<'_>, deploy: Deploy<'_>) -> String {
    let Deploy { manifest, preview, form, of, version } = deploy;
    let title = if of.is_some() { "Edit" } else { "Deploy" };
    let lines = manifest.lines().count().clamp(12, 36);
    let run = of_manifest(DEPLOY_RUN, of);
    let back = of.map_or_else(|| "/".to_owned(), Key::address);
    let body = html! {
        section #head {
            @match of {
                Some(key) => (resource::path(place, key)),
                None => nav aria-label="Breadcrumb" { a href="/" { "Fleet" } },
            }
            h1 { (title) @if let Some(key) = of { ": " (key.name) } }
            p.told { (coded("Nothing is changed before you have seen the plan. Fields that are not in the manifest keep their values.")) }
        }
        section #fields {
            form method="post" action=(of_manifest(DEPLOY, of)) {
                (secret(form))
                (shown_version(version))
                label for="manifest" { "Manifest" }
                textarea #manifest name="manifest" rows=(lines) required spellcheck="false" autocomplete="off"
                    placeholder="apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment" { "\n" (manifest) }
                button { @if preview.is_some() { "Update preview" } @else { "Preview" } }
            }
        }
        @if let Some(preview) = preview {
            (confirm(preview, &Confirm { form, to: &run, title: "Deploy", back: &back }, html! {
                (shown_version(version))
                input type="hidden" name="manifest" value=(manifest);
            }))
        }
    };
    document(title, place, "resource act", None, body).into_string()
}

/// The button below a preview.
struct Confirm<'a> {
    /// See [`FORM`].
    form: &'a str,
    /// Address to which the form is sent.
    to: &'a str,
    title: &'a str,
    /// Address to go to instead.
    back: &'a str,
}

/// Renders a preview, with a form that runs it with these fields unless it would be refused.
fn confirm(
    preview: &Preview,
    Confirm { form, to, title, back }: &Confirm<'_>,
    fields: Markup,
) -> Markup {
    html! {
        section #preview {
            (command(&preview.command))
            (planned(&preview.plan))
            @if !matches!(preview.plan, Plan::Refused(_)) {
                form method="post" action=(to) {
                    (secret(form))
                    (fields)
                    button.go { (title) }
                    a href=(back) { "Cancel" }
                }
            }
        }
    }
}

fn planned(plan: &Plan) -> Markup {
    html! {
        @match plan {
            Plan::None => {}
            Plan::Known(plan) => {
                h2 { "What the operator would do" }
                pre.plan tabindex="0" { @for span in plan { (resource::inked(span)) } }
            }
            Plan::Unknown(why) => {
                h2 { "No plan available" }
                pre.plan tabindex="0" { (why) }
            }
            Plan::Refused(why) => {
                h2 { "This would be refused" }
                pre.error tabindex="0" { (why) }
            }
        }
    }
}

/// Renders the equivalent command.
pub(super) fn command(command: &str) -> Markup {
    html! {
        p.command { span.dim { "On the command line" } code { (command) } }
    }
}

/// Renders the field that proves that the form is the console's own.
pub(super) fn secret(form: &str) -> Markup {
    html! { input type="hidden" name=(FORM) value=(form); }
}

/// Renders the field with what the page shows, so that a newer version is not overwritten.
fn shown_version(version: &str) -> Markup {
    html! { @if !version.is_empty() { input type="hidden" name=(VERSION) value=(version); } }
}

fn input(field: &Field, row: Option<&Row>, values: &Values) -> Markup {
    let Field { name, label, hint, input, is_required } = *field;
    let present = || match name {
        "parallelism" => row?.parallelism.map(|it| it.to_string()),
        "image" => row?.image.as_deref().map(str::to_owned),
        _ => None,
    };
    let value = values.typed(field).map(str::to_owned).or_else(present).unwrap_or_default();
    let hint_id = format!("{name}-hint");
    let is_wrong = values.is_wrong(field).then_some("true");
    html! {
        label for=(name) { (label) }
        @match input {
            Input::Lines => textarea id=(name) name=(name) rows="5" required[is_required] spellcheck="false" autocomplete="off"
                aria-describedby=(hint_id) aria-invalid=[is_wrong] { "\n" (value) },
            Input::Number => input id=(name) name=(name) type="number" min="1" value=(value) required[is_required]
                aria-describedby=(hint_id) aria-invalid=[is_wrong];,
            Input::Text => input id=(name) name=(name) value=(value) required[is_required] spellcheck="false" autocomplete="off"
                aria-describedby=(hint_id) aria-invalid=[is_wrong];,
        }
        p id=(hint_id) class=[is_wrong.map(|_| "bad")] { @if is_wrong.is_some() { "Invalid value. " } (coded(hint)) }
    }
}

/// Renders text between backticks as code.
pub(super) fn coded(text: &str) -> Markup {
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}
