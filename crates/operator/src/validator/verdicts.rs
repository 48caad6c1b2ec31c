//! Which validators were asked about what, and their verdicts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::panel::Panel;
use super::{Kind, Subject, Validator};
use crate::context::lock;
use lifecycle::verdict::{Remembered, Validators, Verdict, Version};

/// How long a pass waits for a verdict before it continues without one.
const PATIENCE: Duration = Duration::from_millis(250);
/// Maximum number of verdicts that wait for their resources to be woken.
const JUDGED_MAX: usize = 1024;

/// A resource whose verdict came after its pass had continued.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The subject to ask validators about.
pub(crate) struct Judging<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) version: Version,
    pub(crate) subject: Subject,
}

/// The validators of an operator, with their answers since its start.
pub(crate) struct Verdicts {
    panel: Panel,
    entries: Arc<Mutex<HashMap<String, Entry>>>,
    judged: mpsc::Sender<Judged>,
    /// Taken by the task that wakes the resources.
    to_wake: Mutex<Option<mpsc::Receiver<Judged>>>,
}

/// The last verdict on one resource.
struct Entry {
    remembered: Remembered,
    /// The task that asks the validators.
    task: Option<AbortHandle>,
}

impl Entry {
    fn end(self) -> Remembered {
        if let Some(task) = self.task {
            task.abort();
        }
        self.remembered
    }
}

impl Default for Verdicts {
    fn default() -> Self {
        Self::new(vec![])
    }
}

impl Verdicts {
    pub(crate) fn new(validators: Vec<Arc<dyn Validator>>) -> Self {
        let (judged, to_wake) = mpsc::channel(JUDGED_MAX);
        Self {
            panel: Panel::new(validators),
            entries: Arc::default(),
            judged,
            to_wake: Mutex::new(Some(to_wake)),
        }
    }

    /// Forgets all verdicts, so that everything is validated again.
    pub(crate) fn forget_all(&self) {
        for (_, entry) in lock(&self.entries).drain() {
            drop(entry.end());
        }
    }

    /// Returns the opinions that are known without asking anyone.
    pub(crate) fn known(&self, kind: Kind, uid: &str) -> Validators {
        let has_any = self.panel.is_about(kind);
        let remembered = if has_any {
            lock(&self.entries).get(uid).map(|entry| entry.remembered.clone())
        } else {
            None
        };
        Validators { has_any, remembered }
    }

    /// Asks all validators at the same time, and waits for them a moment.
    pub(crate) async fn ask(&self, judging: Judging<'_>) -> Verdict {
        let Judging { namespace, name, uid, version, subject } = judging;
        let judged =
            Judged { kind: subject.kind, namespace: namespace.to_owned(), name: name.to_owned() };
        let (sender, mut receiver) = oneshot::channel();
        let pending = self.open(uid, version, |attempts| {
            let panel = self.panel.clone();
            let (entries, wake, uid) =
                (Arc::clone(&self.entries), self.judged.clone(), uid.to_owned());
            tokio::spawn(async move {
                let verdict = Verdict::Given(panel.opinions(&subject, Duration::MAX).await);
                close(&entries, &uid, (version, attempts), &verdict);
                if sender.send(verdict).is_err() {
                    // The pass has continued. The receiver is only gone if the operator is ending.
                    drop(wake.send(judged).await);
                }
            })
            .abort_handle()
        });
        if let Ok(Ok(verdict)) = tokio::time::timeout(PATIENCE, &mut receiver).await {
            return verdict;
        }
        // From here on the task wakes the resource instead.
        receiver.close();
        receiver.try_recv().unwrap_or(pending)
    }

    /// Notes that the version is being validated; earlier validations of the resource end.
    fn open(&self, uid: &str, version: Version, spawn: impl FnOnce(u32) -> AbortHandle) -> Verdict {
        let mut entries = lock(&self.entries);
        let former = entries.remove(uid).map(Entry::end);
        let former = former.filter(|former| former.version == version);
        let attempts = former.as_ref().map_or(0, |former| former.attempts).saturating_add(1);
        let before = former.map(|former| former.verdict.opinions().to_vec()).unwrap_or_default();
        let verdict = Verdict::Pending { before };
        let at = Timestamp::now();
        let remembered = Remembered { version, verdict: verdict.clone(), at, attempts };
        // The task cannot note its verdict before the lock is free.
        let task = Some(spawn(attempts));
        entries.insert(uid.to_owned(), Entry { remembered, task });
        verdict
    }

    /// Forgets a resource that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        if let Some(entry) = lock(&self.entries).remove(uid) {
            entry.end();
        }
    }

    /// Returns the receiver of late verdicts, once.
    pub(crate) fn late(&self) -> Option<mpsc::Receiver<Judged>> {
        lock(&self.to_wake).take()
    }
}

fn close(
    entries: &Mutex<HashMap<String, Entry>>,
    uid: &str,
    (version, attempts): (Version, u32),
    verdict: &Verdict,
) {
    let mut entries = lock(entries);
    let Some(entry) = entries.get_mut(uid) else { return };
    let Remembered { version: asked, attempts: asked_times, .. } = entry.remembered;
    if (asked, asked_times) == (version, attempts) {
        let (verdict, at) = (verdict.clone(), Timestamp::now());
        entry.remembered = Remembered { version, verdict, at, attempts };
        entry.task = None;
    }
}
