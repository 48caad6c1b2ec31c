//! Takes part in the election of a leader, and holds the lease while this process leads.
//!
//! [`election::lease`] decides what to do. This module does it, and keeps the [`Fence`] open for exactly as long as the
//! lease allows. When the lease is lost, the fence is closed for good: a deposed process ends, and a new one starts
//! clean, as with `client-go`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::context::lock;
use super::observe::show;
use clients::cluster;
use clients::cluster::lease::{Holder, Leases, is_beaten, members, operates, seen};
use clients::fence::{self, Fence};
use election::lease::{Action, Candidate, Lost, Rules};
use election::shard::{Roster, Tenure};

/// Maximum time to give the lease back. After that, whoever waits for it takes it when it expires.
const RELEASE_MAX: Duration = Duration::from_secs(3);
/// Number of attempts to leave a lease that others hold as well.
const RELEASE_TRIES: usize = 5;
/// Number of requests that fit into the renewal deadline of a lease.
const TRIES: u32 = 3;

/// Which lease to contend for, and who contends.
#[derive(Clone, Debug)]
pub struct Settings {
    pub namespace: String,
    pub name: String,
    /// Unique to this process.
    pub identity: String,
    /// The pod of this process, which the Lease names; `None` outside of a pod, and if several processes hold the
    /// Lease.
    pub pod: Option<String>,
    pub rules: Rules,
    /// What this process operates, in words; all replicas of an installation say the same.
    pub operates: String,
    /// The processes that hold the lease together, under one name; `None` if there is a single holder.
    pub roster: Option<Arc<Mutex<Roster>>>,
}

/// A participant.
pub(super) struct Election {
    settings: Settings,
    leases: Leases,
    watch: BoxStream<'static, cluster::Result<Option<Lease>>>,
    /// The watch reports nothing, so the lease is polled.
    is_blind: bool,
    candidate: Candidate,
    last: Option<Lease>,
    fence: Fence,
    /// The holder that was reported last.
    told: Option<String>,
    /// Interrupts a wait.
    nudge: Arc<Notify>,
    /// Does not report that another process holds the lease.
    is_quiet: bool,
}

/// A lease that is held, and renewed in the background.
pub struct Leadership {
    task: JoinHandle<Result<Election, Lost>>,
    stop: CancellationToken,
    fence: Fence,
}

/// Waits until this process leads. From then on, `fence` is open for as long as it leads.
pub async fn win(client: Client, settings: Settings, fence: Fence) -> Leadership {
    let mut election = Election::new(client, settings, fence.clone());
    election.win().await;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = tokio::spawn(async move {
        tokio::select! {
            biased;
            lost = election.hold() => Err(lost),
            () = stopped.cancelled() => Ok(election),
        }
    });
    Leadership { task, stop, fence }
}

impl Leadership {
    /// Completes when this process no longer leads; nothing is written from then on.
    pub async fn lost(&mut self) -> Lost {
        if let Ok(Err(lost)) = (&mut self.task).await {
            return lost;
        }
        // The task ends by itself only when the lease is lost, and a panic ends the process.
        self.fence.close();
        std::future::pending().await
    }

    /// Gives the lease back after the last write: nothing is written from here on.
    pub async fn give_back(self) {
        self.fence.close();
        self.stop.cancel();
        let Ok(Ok(mut election)) = self.task.await else { return };
        election.give_back().await;
    }
}

impl Election {
    pub(super) fn new(client: Client, settings: Settings, fence: Fence) -> Self {
        let leases = Leases::new(client, &settings.namespace, &settings.name);
        Self {
            watch: leases.watch().boxed(),
            is_blind: false,
            candidate: Candidate::new(settings.identity.clone(), settings.rules),
            last: None,
            told: None,
            nudge: Arc::new(Notify::new()),
            is_quiet: false,
            settings,
            leases,
            fence,
        }
    }

    /// Returns it as one of many elections, which does not log that it waits for a lease.
    pub(super) fn quietly(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    /// Returns a handle that makes it look again at what it may do.
    pub(super) fn nudge(&self) -> Arc<Notify> {
        Arc::clone(&self.nudge)
    }

    /// Returns the state of the lease, which was found free at `since`.
    pub(super) fn tenure(&self, since: Option<Duration>) -> Tenure {
        self.candidate.tenure(fence::now(), since)
    }

    /// Returns `true` if this process acts on the lease.
    pub(super) fn leads(&self) -> bool {
        self.candidate.leads_until(fence::now()).is_some()
    }

    /// Starts again, behind another fence.
    pub(super) fn start_over(&mut self, fence: Fence) {
        let Settings { identity, rules, .. } = &self.settings;
        self.candidate = Candidate::new(identity.clone(), *rules);
        self.fence = fence;
    }

    pub(super) fn shown(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    async fn win(&mut self) {
        while self.candidate.leads_until(fence::now()).is_none() {
            if let Err(lost) = self.turn(true).await {
                // It had not begun to lead, so it starts over.
                tracing::info!(lease = self.shown(), %lost, "lease lost before it was used");
                self.start_over(self.fence.clone());
            }
        }
        self.open_fence();
        tracing::info!(lease = self.shown(), identity = self.candidate.identity(), "leading");
    }

    async fn hold(&mut self) -> Lost {
        loop {
            if let Err(lost) = self.turn(true).await {
                self.fence.close();
                return lost;
            }
            self.open_fence();
        }
    }

    /// Opens the fence for as long as the last renewal allows.
    pub(super) fn open_fence(&self) {
        if let Some(until) = self.candidate.leads_until(fence::now()) {
            self.fence.open_until(until);
        }
    }

    /// Takes the next action. A lease that is not held is only read unless it may be taken.
    pub(super) async fn turn(&mut self, may_take: bool) -> Result<(), Lost> {
        let now = fence::now();
        let lease = match self.candidate.next(now) {
            Action::StepDown(lost) => return Err(lost),
            Action::Wait { until } => {
                self.wait(until.saturating_sub(now)).await;
                return Ok(());
            }
            Action::Read => {
                self.read().await;
                return Ok(());
            }
            Action::Create | Action::Replace { .. }
                if !may_take && self.tenure(None) != Tenure::Mine =>
            {
                self.wait(self.settings.rules.retry_period).await;
                return Ok(());
            }
            Action::Create => None,
            Action::Replace { version } => {
                let mut lease = self.last.clone().unwrap_or_default();
                lease.metadata.resource_version = Some(version.to_string());
                Some(lease)
            }
        };
        let holder = Holder {
            identity: self.settings.identity.clone(),
            pod: self.settings.pod.clone(),
            duration: self.settings.rules.duration,
            operates: self.settings.operates.clone(),
            members: self.settings.roster.as_ref().map(|roster| lock(roster).next(now)),
        };
        let leases = self.leases.clone();
        let write = async move {
            match lease {
                None => leases.create(&holder, Timestamp::now()).await,
                Some(lease) => leases.replace(lease, &holder, Timestamp::now()).await,
            }
        };
        match tokio::time::timeout(self.patience(now), write).await {
            Ok(Ok(lease)) => {
                let settled = fence::now();
                self.candidate.written(seen(&lease), now, settled);
                self.note_members(&lease);
                self.last = Some(lease);
                if let Some(from) = self.candidate.settles_until(settled) {
                    let after = from.saturating_sub(settled);
                    tracing::info!(lease = self.shown(), ?after, "lease created: leading soon");
                }
            }
            Ok(Err(error)) if is_beaten(&error) => self.candidate.was_beaten(),
            Ok(Err(error)) => self.failed(&show(&error)),
            Err(_) => self.failed("no answer in time"),
        }
        Ok(())
    }

    /// Returns how long one request may take.
    fn patience(&self, now: Duration) -> Duration {
        let patience = self.settings.rules.renew_deadline / TRIES;
        let left = self.candidate.leads_until(now).map(|until| until.saturating_sub(now));
        left.map_or(patience, |left| patience.min(left))
    }

    fn failed(&mut self, error: &str) {
        tracing::warn!(lease = self.shown(), error, "lease not reached");
        self.candidate.failed(fence::now());
    }

    async fn read(&mut self) {
        let leases = self.leases.clone();
        match tokio::time::timeout(self.patience(fence::now()), leases.read()).await {
            Ok(Ok(lease)) => self.see(lease),
            Ok(Err(error)) => self.failed(&show(&error)),
            Err(_) => self.failed("no answer in time"),
        }
    }

    /// Waits until an action is due or the lease changes.
    async fn wait(&mut self, time: Duration) {
        let leads = self.candidate.leads_until(fence::now()).is_some();
        let is_looking = self.is_blind && !leads;
        let time = if is_looking { time.min(self.settings.rules.retry_period) } else { time };
        let told = tokio::select! {
            told = tokio::time::timeout(time, self.watch.next()) => told,
            () = self.nudge.notified() => return,
        };
        match told {
            Ok(Some(Ok(lease))) => {
                self.is_blind = false;
                self.see(lease);
            }
            Ok(Some(Err(error))) => {
                if !self.is_blind {
                    let error = show(&error);
                    tracing::warn!(lease = self.shown(), error, "lease not watched: polling it");
                }
                self.is_blind = true;
            }
            Ok(None) => self.watch = self.leases.watch().boxed(),
            Err(_) if is_looking => self.read().await,
            Err(_) => {}
        }
    }

    fn see(&mut self, lease: Option<Lease>) {
        self.candidate.see(lease.as_ref().map(seen), fence::now());
        let is_newer = match (&lease, &self.last) {
            (Some(new), Some(old)) => seen(new).version >= seen(old).version,
            (None, _) | (_, None) => true,
        };
        if is_newer {
            if let Some(lease) = &lease {
                self.note_members(lease);
            }
            self.last = lease;
        }
        self.report_holder();
    }

    fn note_members(&self, lease: &Lease) {
        if let Some(roster) = &self.settings.roster {
            lock(roster).see(&members(lease), fence::now());
        }
    }

    /// Logs each holder that is waited for once.
    fn report_holder(&mut self) {
        let holder = self.candidate.other_holder().map(str::to_owned);
        if holder == self.told {
            return;
        }
        self.told.clone_from(&holder);
        let Some(holder) = holder else { return };
        let lease = self.shown();
        match self.last.as_ref().and_then(operates) {
            Some(theirs) if theirs == self.settings.operates && self.is_quiet => {}
            Some(theirs) if theirs == self.settings.operates => {
                tracing::info!(lease, holder, "waiting for the lease");
            }
            theirs => tracing::warn!(
                lease,
                holder,
                operates = theirs.unwrap_or("unknown"),
                "another installation holds the lease, and this one waits for it: give each its \
                 own kubernetes.operator.leader-election.lease-name"
            ),
        }
    }

    /// Gives the lease back, within a limited time. If others hold it as well, it stays theirs.
    pub(super) async fn give_back(&mut self) {
        match tokio::time::timeout(RELEASE_MAX, self.release()).await {
            Ok(Ok(())) => tracing::info!(lease = self.shown(), "lease given back"),
            Ok(Err(error)) => {
                let error = show(&error);
                tracing::warn!(lease = self.shown(), error, "lease not given back: it expires");
            }
            Err(_) => tracing::warn!(lease = self.shown(), "lease not given back: it expires"),
        }
    }

    async fn release(&mut self) -> cluster::Result<()> {
        let is_ours = |lease: &Lease| seen(lease).holder.as_ref() == Some(&self.settings.identity);
        for _ in 0..RELEASE_TRIES {
            let Some(lease) = self.leases.read().await?.filter(is_ours) else { return Ok(()) };
            let Some(roster) = &self.settings.roster else {
                return self.leases.release(lease, Timestamp::now()).await;
            };
            let others = {
                let mut roster = lock(roster);
                roster.see(&members(&lease), fence::now());
                roster.others(fence::now())
            };
            let holder = Holder {
                identity: self.settings.identity.clone(),
                pod: self.settings.pod.clone(),
                duration: self.settings.rules.duration,
                operates: self.settings.operates.clone(),
                members: Some(others),
            };
            match self.leases.replace(lease, &holder, Timestamp::now()).await {
                // Another joint holder renewed it meanwhile.
                Err(error) if is_beaten(&error) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the name of the pod that this process is in, from `POD_NAME` alone. A pod that shares the network of its
/// node has the same host name as all others there, and programs that do not distinguish processes must not see two
/// holders with one name.
pub fn own_pod() -> Option<String> {
    std::env::var("POD_NAME").ok().filter(|name| !name.trim().is_empty())
}

/// Returns a unique name for this process: that of its pod, with a random suffix.
pub fn new_identity(pod: Option<&str>) -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.trim().is_empty());
    let name = pod.or(host.as_deref()).unwrap_or("kubectl-flink");
    let end = clients::flink::new_trigger_id();
    format!("{name}_{}", end.get(..12).unwrap_or(&end))
}
