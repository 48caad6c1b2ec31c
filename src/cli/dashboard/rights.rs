//! Which actions a person may run, according to the API server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use strum::IntoEnumIterator;
use tokio::time::{Instant, timeout};

use crate::cli::permissions;
use api::GROUP;
use clients::cluster::access::{self, Operation};
use console::action::Action;
use console::row::Kind;

/// Time for which an answer is used. Rights seldom change.
const FRESH: Duration = Duration::from_mins(1);
/// Maximum number of answers remembered, by namespace and kind.
const KNOWN_MAX: usize = 512;
/// Maximum time for the answers. Until they arrive, no action is offered.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(4);

/// Answers of the API server, by namespace and kind.
#[derive(Default)]
pub(super) struct Rights(Mutex<HashMap<(String, &'static str), Known>>);

struct Known {
    at: Instant,
    actions: Vec<Action>,
}

impl Rights {
    /// Returns the actions that the person has the rights for. Actions without an answer are not offered.
    pub(super) async fn of(&self, client: &Client, namespace: &str, kind: Kind) -> Vec<Action> {
        let key = (namespace.to_owned(), kind.plural());
        if let Some(known) = self.lock().get(&key)
            && known.at.elapsed() < FRESH
        {
            return known.actions.clone();
        }
        let asked = ask(client, namespace, kind);
        let Ok(Some(actions)) = timeout(ANSWER_TIME_MAX, asked).await else { return Vec::new() };
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(key, Known { at: Instant::now(), actions: actions.clone() });
        actions
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, &'static str), Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks about each operation once; `None` if there is no answer to one of them.
async fn ask(client: &Client, namespace: &str, kind: Kind) -> Option<Vec<Action>> {
    let needed = |action: Action| permissions::to_run(action.command(), kind.plural());
    let mut operations: Vec<Operation> = Vec::new();
    for operation in Action::iter().flat_map(needed) {
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }
    let answers = operations.iter().map(|operation| access::may(client, namespace, *operation));
    let answers = join_all(answers).await.into_iter().collect::<Result<Vec<_>, _>>().ok()?;
    let may = |operation: &Operation| {
        let answered = operations.iter().zip(&answers).find(|(it, _)| *it == operation);
        answered.is_some_and(|(_, may)| *may)
    };
    Some(Action::iter().filter(|action| needed(*action).iter().all(may)).collect())
}

/// Returns whether the person may create deployments in the namespace.
pub(super) async fn may_deploy(client: &Client, namespace: &str) -> bool {
    let resource = Kind::Deployment.plural();
    let create = Operation { verb: "create", group: GROUP, resource, subresource: None };
    let asked = timeout(ANSWER_TIME_MAX, access::may(client, namespace, create)).await;
    matches!(asked, Ok(Ok(true)))
}
