//! All validators, called at the same time, each for a bounded time.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::Semaphore;

use super::{Kind, Subject, Validator};
use lifecycle::verdict::Opinion;

/// Maximum number of resources that one validator is asked about at the same time.
const CALLS_MAX: usize = 32;
/// Maximum length of a reason for a missing answer that users see, in characters.
const REASON_CHARS: usize = 500;

/// The validators of an installation; clones share the limit on calls.
#[derive(Clone)]
pub struct Panel(Vec<Asked>);

#[derive(Clone)]
struct Asked {
    validator: Arc<dyn Validator>,
    calls: Arc<Semaphore>,
}

impl Panel {
    pub fn new(validators: Vec<Arc<dyn Validator>>) -> Self {
        let asked = |validator| Asked { validator, calls: Arc::new(Semaphore::new(CALLS_MAX)) };
        Self(validators.into_iter().map(asked).collect())
    }

    /// Returns `true` if any validator handles resources of `kind`.
    pub fn is_about(&self, kind: Kind) -> bool {
        self.0.iter().any(|asked| asked.validator.is_about(kind))
    }

    /// Returns the opinions of all validators of the kind, in the order of their names. None takes longer than
    /// `within`.
    pub async fn opinions(&self, subject: &Subject, within: Duration) -> Vec<Opinion> {
        let about = self.0.iter().filter(|asked| asked.validator.is_about(subject.kind));
        let mut opinions = join_all(about.map(|asked| opinion(asked, subject, within))).await;
        opinions.sort_by(|one, other| one.validator.cmp(&other.validator));
        opinions
    }
}

async fn opinion(asked: &Asked, subject: &Subject, within: Duration) -> Opinion {
    let Asked { validator, calls } = asked;
    let permit = calls.acquire().await;
    let limit = validator.timeout().min(within);
    let answer = tokio::time::timeout(limit, validator.validate(subject)).await;
    drop(permit);
    let answer = answer.unwrap_or_else(|_| Err(format!("it took longer than {limit:?}")));
    let answer = answer.map_err(|why| why.chars().take(REASON_CHARS).collect::<String>());
    if let Err(why) = &answer {
        tracing::warn!(
            validator = validator.name(),
            why,
            policy = ?validator.on_failure(),
            "the validator gives no answer"
        );
    }
    Opinion { validator: validator.name().to_owned(), on_failure: validator.on_failure(), answer }
}
