//! Signing in to the console of a pod, and out of it.

use maud::{Markup, html};

use super::{Visitor, bare, icon};
use crate::gate::{Refusal, SIGN_IN, SIGN_OUT};

/// Why a person has to sign in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// They have not signed in yet.
    New,
    /// The API server does not accept the token, or no longer.
    Wrong,
    /// What was typed cannot be a token.
    Malformed,
    /// They are no longer known: they signed out, the session has expired or made room, or the pod was replaced.
    Ended,
}

impl Reason {
    fn text(self) -> Option<&'static str> {
        Some(match self {
            Self::New => return None,
            Self::Wrong => {
                "The API server does not accept this token. It may have expired: create a new one."
            }
            Self::Malformed => "This is not a token: it is empty or contains spaces.",
            Self::Ended => "Your session has ended. Sign in again.",
        })
    }
}

/// Renders the page that asks for a token and then leads to `to`.
pub fn page(cluster: &str, to: &str, reason: Reason) -> String {
    let body = html! {
        main.message.sign-in {
            h1 { (icon()) "Sign in to " (cluster) }
            @if let Some(text) = reason.text() { p.wrong role="alert" { (text) } }
            form action=(SIGN_IN) method="post" {
                input type="hidden" name="to" value=(to);
                label for="token" { "Cluster token" }
                input #token type="password" name="token" required autocomplete="off" autofocus;
                button { "Sign in" }
            }
            p {
                "Create a token for a ServiceAccount with " code { "kubectl create token NAME -n NAMESPACE" }
                ". You will see what it may see. Nothing can be changed here."
            }
        }
    };
    bare("Sign in", html! {}, body).into_string()
}

/// Renders the page for a request that is refused.
pub fn refusal(refusal: Refusal) -> String {
    let (title, text) = match refusal {
        Refusal::Host => (
            "Invalid host",
            "Open the console at the address of its Service or ingress, or through a forwarded port.",
        ),
        Refusal::Site => (
            "Request from another site",
            "The console only answers its own pages. To open this one, copy its address into the address bar. A proxy must \
             preserve the host that the browser sent.",
        ),
        Refusal::Method => (
            "This console is read-only",
            "To make changes, run kubectl flink dashboard, which acts with your own permissions.",
        ),
    };
    super::message(title, text)
}

/// Renders who has signed in, for the header of all pages.
pub(super) fn visitor(Visitor { name, may_sign_out, .. }: Visitor<'_>) -> Markup {
    html! {
        div.visitor {
            span title=(name) { (short(name)) }
            @if may_sign_out { form action=(SIGN_OUT) method="post" { button { "Sign out" } } }
        }
    }
}

/// Shortens a ServiceAccount to its namespace and name.
fn short(name: &str) -> String {
    let account = name.strip_prefix("system:serviceaccount:");
    account.map_or_else(|| name.to_owned(), |account| account.replacen(':', "/", 1))
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator;

    use super::*;

    #[test]
    fn where_it_leads_to_and_the_cluster_are_escaped() {
        let page = page("<lab>", "/?q=\"><script>", Reason::Wrong);
        assert!(!page.contains("<lab>") && !page.contains("<script>"), "{page}");
        assert!(page.contains("value=\"/?q=&quot;&gt;&lt;script&gt;\""), "{page}");
        assert!(page.contains("role=\"alert\""), "{page}");
        assert!(!super::page("lab", "/", Reason::New).contains("alert"));
    }

    #[test]
    fn who_a_proxy_signs_in_cannot_sign_out() {
        let shown = |may_sign_out| {
            let name = "system:serviceaccount:shop:jane";
            visitor(Visitor { name, may_sign_out, is_everywhere: true }).into_string()
        };
        assert!(shown(true).contains(">shop/jane<"), "{}", shown(true));
        assert!(shown(true).contains("Sign out") && !shown(false).contains("button"));
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        for refusal in Refusal::iter() {
            assert!(super::refusal(refusal).contains("<main class=\"message\">"));
        }
    }
}
