//! How a kind is watched, so that neither a broken nor a frozen watch hides for long what exists.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::etcd_restore::Follower;
use super::observe::show;

/// How long one request of a watch lasts, in seconds. The next one continues where it ended, so this costs a request a
/// minute. A watch that shows nothing for a little longer, not even its end, counts as dead: its changes are seen that
/// much later at most.
const LASTS: u32 = 60;

/// Pauses before a failed watch is restarted. While the API server is away the pause stays short, so that watches
/// resume soon after it is back.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(500);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(3);
const REFUSALS: [u16; 3] = [401, 403, 404];
/// Longest pause after the API server rejects the watch: someone has to change its mind.
const PAUSE_MAX_REFUSED: Duration = Duration::from_secs(30);

/// Returns the configuration for objects with these labels.
pub(super) fn labelled(selector: &str) -> watcher::Config {
    config().labels(selector)
}

/// Returns the configuration for all objects.
pub(super) fn config() -> watcher::Config {
    watcher::Config::default().timeout(LASTS)
}

/// Follows a kind for ever. It is listed again whenever `rewound` changes: earlier resource versions mean nothing then.
pub(super) fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    rewound: Follower,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Send,
{
    let inner = watcher(api.clone(), config.clone()).boxed();
    let pauses = Pauses::default();
    futures::stream::unfold(Watching { inner, pauses, rewound }, move |mut watching| {
        let (api, config) = (api.clone(), config.clone());
        async move {
            loop {
                if let Some(pause) = watching.pauses.due.take() {
                    sleep(pause).await;
                }
                tokio::select! {
                    biased;
                    () = watching.rewound.changed() => {
                        watching.inner = watcher(api.clone(), config.clone()).boxed();
                    }
                    event = watching.inner.next() => {
                        let event = event?;
                        watching.pauses.note(&event);
                        if event.is_err() {
                            watching.rewound.suspect();
                        }
                        return Some((event, watching));
                    }
                }
            }
        }
    })
}

struct Watching<K> {
    inner: BoxStream<'static, watcher::Result<Event<K>>>,
    pauses: Pauses,
    rewound: Follower,
}

/// The pauses of one watch.
#[derive(Default)]
struct Pauses {
    /// Pause before the next request.
    due: Option<Duration>,
    /// The last pause, and when it began.
    last: Option<(Duration, Instant)>,
}

impl Pauses {
    fn note<K>(&mut self, event: &watcher::Result<Event<K>>) {
        match event {
            // A list is about to be requested, which may fail again.
            Ok(Event::Init) => {}
            Ok(_) => self.last = None,
            Err(error) => {
                let pause = self.next(is_refused(error), Instant::now());
                tracing::debug!(error = show(error), again_in = ?pause, "a watch ended");
                self.due = Some(pause);
            }
        }
    }

    /// Returns the next pause. A watch that lasted restarts after the shortest one, whether it showed anything or not.
    fn next(&mut self, is_refused: bool, now: Instant) -> Duration {
        let longest = if is_refused { PAUSE_MAX_REFUSED } else { PAUSE_MAX };
        let pause = match self.last {
            Some((last, at)) if now.duration_since(at) < last * 2 + PAUSE_MAX => {
                (last * 2).min(longest)
            }
            Some(_) | None => PAUSE_MIN,
        };
        self.last = Some((pause, now));
        pause
    }
}

/// Returns `true` if the request will not be served soon, because permissions or the kind are missing.
pub(super) fn is_refused(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            is_refusal(error)
        }
        watcher::Error::WatchError(status) => REFUSALS.contains(&status.code),
        _ => false,
    }
}

/// Like [`is_refused`], for any other request.
pub(super) fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if REFUSALS.contains(&status.code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(is_refused: bool, every: Duration) -> Vec<u128> {
        let (mut pauses, mut now) = (Pauses::default(), Instant::now());
        let mut all = Vec::new();
        for _ in 0..8 {
            let pause = pauses.next(is_refused, now);
            all.push(pause.as_millis());
            now += pause + every;
        }
        all
    }

    #[test]
    fn an_api_server_that_is_away_is_asked_again_within_seconds() {
        let all = pauses(false, Duration::ZERO);
        assert_eq!(all, [500, 1000, 2000, 3000, 3000, 3000, 3000, 3000]);
    }

    #[test]
    fn a_watch_that_is_not_allowed_is_asked_for_less_and_less() {
        let all = pauses(true, Duration::ZERO);
        assert_eq!(all, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
    }

    #[test]
    fn a_watch_that_lasted_is_made_again_at_once() {
        assert_eq!(pauses(false, Duration::from_mins(1)), [500; 8]);
    }
}
