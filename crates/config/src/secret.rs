//! Which texts are secret: their values must not appear in any message, log or request.
//!
//! Names are told apart by a table ([`is_secret`]), texts of any form are searched for names and for what only secrets
//! look like ([`hide_in`]), and values by both ([`hide_in_value`]). Where something leaves the process it passes one of
//! them, whatever it contains.

mod names;
mod text;
mod value;

pub use names::is_secret;
pub use text::hide_in;
pub use value::{hide_in_document, hide_in_value};

/// The text shown instead of a secret.
pub const HIDDEN: &str = "******";

/// Returns the text to show of a value. A value that is or contains a secret is hidden.
pub fn shown(key: &str, value: &str) -> String {
    let hides = is_hidden(key, value)
        // Any key, in options for programs.
        || value.to_ascii_lowercase().contains("key=")
        || hide_in(value) != value;
    if hides { HIDDEN.to_owned() } else { value.to_owned() }
}

/// Returns whether the value is secret because of its name. A switch is not.
fn is_hidden(name: &str, value: &str) -> bool {
    !matches!(value, "true" | "false") && is_secret(name)
}

#[cfg(test)]
mod tests;
