//! Shares the namespaces with other operators: holds the Leases of shards, and has the rest of the operator work on
//! what is in them.
//!
//! [`::election::shard`] decides which Lease to request and which to give back. Each is held like that of a single
//! leader ([`super::election`]), behind its own gate of the [`Fence`]. All processes with the same number of shards
//! also hold one Lease together, so that those with another number, or without shards, stand by. A process that loses a
//! Lease ends, with all of its shards.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::context::lock;
use super::election::{self, Election, Leadership};
use super::run::{Operator, Part};
use super::watching;
use ::election::lease::Lost;
use ::election::shard::{Move, Roster, Tenure, View, lease_name, moves, number_holder, shard_of};
use clients::fence::{self, Fence};

/// How long writes in flight may take when a shard is given up: longer than most requests, and the passes that make
/// them have ended before.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Maximum time to give all Leases back.
const GIVE_BACK_MAX: Duration = Duration::from_secs(5);
/// How often to check whether an action is due if there is no notification.
const POLL: Duration = Duration::from_millis(500);

/// How the work is shared.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Lease of the number of shards, and the identity of this process.
    pub election: election::Settings,
    pub shards: u16,
}

impl Settings {
    /// Returns a fence with a gate for each shard.
    pub fn fence(&self) -> Fence {
        Fence::shut_in_parts(self.shards, shard_of)
    }
}

/// The intended action on the Lease of a shard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Wanted {
    /// Leaves it to others; keeps one that is held.
    #[default]
    Leave,
    Take,
    /// Gives it back, unless a write may still be in flight: then it expires by itself.
    GiveBack {
        is_orderly: bool,
    },
}

/// The messages between the task of one shard and the one that decides.
#[derive(Debug, Default)]
struct Verdicts {
    wish: Wanted,
    tenure: Tenure,
    /// Whether this process may act on the shard.
    leads: bool,
}

#[derive(Default)]
struct Desks {
    all: Vec<Mutex<Verdicts>>,
    /// Rings when a message was written.
    bell: Notify,
    /// The Lease that was lost.
    lost: Mutex<Option<Lost>>,
    has_lost: Notify,
}

impl Desks {
    fn with<R>(&self, shard: u16, change: impl FnOnce(&mut Verdicts) -> R) -> Option<R> {
        self.all.get(usize::from(shard)).map(|desk| change(&mut lock(desk)))
    }

    async fn lost(&self) -> Lost {
        loop {
            if let Some(lost) = lock(&self.lost).clone() {
                return lost;
            }
            self.has_lost.notified().await;
        }
    }
}

/// The part of this process in the shared work.
pub struct Sharding {
    number: Leadership,
    desks: Arc<Desks>,
    tenders: Vec<Tender>,
    share: Share,
}

struct Tender {
    task: JoinHandle<()>,
    nudge: Arc<Notify>,
}

/// Decides which shards this process holds.
struct Share {
    settings: Settings,
    client: Client,
    fence: Fence,
    roster: Arc<Mutex<Roster>>,
    helped: Option<Duration>,
    part: Part,
}

/// Waits until this process's number of shards is in force, and starts to watch the Leases of the shards.
pub async fn join(client: Client, settings: Settings, fence: Fence) -> Sharding {
    let Settings { election, shards } = &settings;
    let me = election.identity.clone();
    let roster = Roster::new(me.clone(), election.rules.duration, fence::now());
    let roster = Arc::new(Mutex::new(roster));
    let of_number = election::Settings {
        identity: number_holder(*shards, &election.operates),
        // Several pods hold it.
        pod: None,
        roster: Some(Arc::clone(&roster)),
        ..election.clone()
    };
    let number = election::win(client.clone(), of_number, fence.clone()).await;
    let all = (0..*shards).map(|_| Mutex::default()).collect();
    let desks = Arc::new(Desks { all, ..Desks::default() });
    let tender = |shard| {
        let name = lease_name(&election.name, shard, *shards);
        let settings = election::Settings { name, ..election.clone() };
        let election = Election::new(client.clone(), settings, fence.part(shard)).quietly();
        let nudge = election.nudge();
        let task = tokio::spawn(tend(election, shard, fence.clone(), Arc::clone(&desks)));
        Tender { task, nudge }
    };
    let tenders = (0..*shards).map(tender).collect();
    let part = Part { shards: *shards, ..Part::default() };
    let share = Share { settings, client, fence, roster, helped: None, part };
    Sharding { number, desks, tenders, share }
}

/// Carries out the wish for the Lease of one shard, and reports the Lease's state.
async fn tend(mut election: Election, shard: u16, fence: Fence, desks: Arc<Desks>) {
    let mut free_since = None;
    loop {
        let wish = desks.with(shard, |desk| desk.wish).unwrap_or_default();
        if let Wanted::GiveBack { is_orderly } = wish {
            fence.part(shard).close();
            if is_orderly {
                election.give_back().await;
            }
            fence.renew_part(shard);
            election.start_over(fence.part(shard));
            desks.with(shard, |desk| *desk = Verdicts::default());
            desks.bell.notify_one();
        }
        if let Err(lost) = election.turn(wish == Wanted::Take).await {
            if desks.with(shard, |desk| desk.leads) == Some(true) {
                fence.part(shard).close();
                tracing::error!(lease = election.shown(), %lost, "the lease of a shard is lost");
                *lock(&desks.lost) = Some(lost);
                desks.has_lost.notify_one();
                return;
            }
            // This process had not begun to act on it.
            tracing::info!(lease = election.shown(), %lost, "lease lost before it was used");
            fence.renew_part(shard);
            election.start_over(fence.part(shard));
        }
        election.open_fence();
        let (tenure, leads) = (election.tenure(free_since), election.leads());
        free_since = match &tenure {
            Tenure::Free { since } => Some(*since),
            Tenure::Unknown => free_since,
            Tenure::Theirs(_) | Tenure::Mine => None,
        };
        let is_news = desks.with(shard, |desk| {
            let is_news = desk.tenure != tenure || desk.leads != leads;
            (desk.tenure, desk.leads) = (tenure, leads);
            is_news
        });
        if is_news == Some(true) {
            desks.bell.notify_one();
        }
    }
}

impl Sharding {
    /// Completes when this process must no longer act on something that it held.
    pub async fn lost(&mut self) -> Lost {
        tokio::select! {
            biased;
            lost = self.number.lost() => lost,
            lost = self.desks.lost() => lost,
        }
    }

    /// Has the operator work on the shards of this process; completes when one of them is lost.
    pub async fn drive(&mut self, operator: &Operator) -> Lost {
        let Self { number, desks, tenders, share } = self;
        tokio::select! {
            biased;
            lost = number.lost() => lost,
            lost = desks.lost() => lost,
            never = share.manage(operator, desks, tenders) => match never {},
        }
    }

    /// Gives everything back after the last write: nothing is written from here on.
    pub async fn give_back(self) {
        let Self { number, desks, tenders, .. } = self;
        // First, so that the others no longer include this process when they see free shards.
        number.give_back().await;
        for (desk, tender) in desks.all.iter().zip(&tenders) {
            let mut desk = lock(desk);
            // A shard that is not held has nothing to give back.
            desk.wish = Wanted::GiveBack { is_orderly: desk.tenure == Tenure::Mine };
            tender.nudge.notify_one();
        }
        let is_left = || desks.all.iter().all(|desk| lock(desk).wish == Wanted::Leave);
        let left = async {
            while !is_left() {
                desks.bell.notified().await;
            }
        };
        if tokio::time::timeout(GIVE_BACK_MAX, left).await.is_err() {
            tracing::warn!("not all leases were given back in time: they expire");
        }
        for tender in tenders {
            tender.task.abort();
        }
    }
}

impl Share {
    async fn manage(
        &mut self,
        operator: &Operator,
        desks: &Desks,
        tenders: &[Tender],
    ) -> Infallible {
        self.report(operator);
        let mut namespaces = namespaces(self.client.clone(), operator);
        loop {
            self.step(operator, desks, tenders).await;
            let all = async {
                if operator.watches_all().await {
                    namespaces.next().await
                } else {
                    std::future::pending().await
                }
            };
            tokio::select! {
                () = desks.bell.notified() => {}
                () = tokio::time::sleep(POLL) => {}
                Some(all) = all => {
                    let part = Part { namespaces: all, ..self.part.clone() };
                    self.become_part(part, operator).await;
                }
            }
        }
    }

    /// Requests Leases and gives some back, as due, and has the operator work on those that it holds.
    async fn step(&mut self, operator: &Operator, desks: &Desks, tenders: &[Tender]) {
        let now = fence::now();
        let (mut tenures, mut held) = (Vec::new(), BTreeSet::new());
        for (shard, desk) in (0..self.part.shards).zip(&desks.all) {
            let desk = lock(desk);
            let is_leaving = matches!(desk.wish, Wanted::GiveBack { .. });
            tenures.push(if is_leaving { Tenure::Unknown } else { desk.tenure.clone() });
            if desk.leads && !is_leaving {
                held.insert(shard);
            }
        }
        let (members, same_since) = {
            let roster = lock(&self.roster);
            (roster.members(now), roster.same_since(now))
        };
        let all = moves(&View {
            me: &self.settings.election.identity,
            members: &members,
            same_since,
            shards: &tenures,
            helped: self.helped,
            now,
            patience: self.settings.election.rules.duration,
        });
        let (mut wanted, mut given_up) = (BTreeSet::new(), BTreeSet::new());
        for one in all {
            match one {
                Move::Take(shard) => drop(wanted.insert(shard)),
                Move::Help(shard) => {
                    self.helped = Some(now);
                    wanted.insert(shard);
                }
                Move::GiveUp(shard) => drop(given_up.insert(shard)),
            }
        }
        for (shard, tender) in (0..self.part.shards).zip(tenders) {
            let wish = if wanted.contains(&shard) { Wanted::Take } else { Wanted::Leave };
            let is_changed = desks.with(shard, |desk| {
                let is_changed = desk.wish != wish && !matches!(desk.wish, Wanted::GiveBack { .. });
                if is_changed {
                    desk.wish = wish;
                }
                is_changed
            });
            if is_changed == Some(true) {
                tender.nudge.notify_one();
            }
        }
        let stays = held.difference(&given_up).copied().collect();
        self.become_part(Part { held: stays, ..self.part.clone() }, operator).await;
        for shard in given_up {
            let is_orderly = self.fence.part(shard).drain(DRAIN_MAX).await;
            let shards = self.part.shards;
            tracing::info!(shard, shards, is_orderly, "shard given up: another pod has too few");
            desks.with(shard, |desk| desk.wish = Wanted::GiveBack { is_orderly });
            if let Some(tender) = tenders.get(usize::from(shard)) {
                tender.nudge.notify_one();
            }
        }
    }

    /// Changes to this part. When this returns, work outside of it has ended.
    async fn become_part(&mut self, part: Part, operator: &Operator) {
        if part == self.part {
            return;
        }
        let is_held_anew = part.held != self.part.held;
        let moved = operator.share(part.clone()).await;
        self.part = part;
        if is_held_anew {
            let Part { shards, held, .. } = &self.part;
            let (opened, closed) = (moved.opened.len(), moved.closed.len());
            tracing::info!(?held, shards, opened, closed, "operating these shards from now on");
            self.report(operator);
        }
    }

    fn report(&self, operator: &Operator) {
        let Part { shards, held, .. } = &self.part;
        operator.context.health.report_shards(*shards, held);
        operator.context.metrics.shards_held(*shards, held);
    }
}

/// Streams the names of all namespaces, each time they change.
fn namespaces(client: Client, operator: &Operator) -> BoxStream<'static, BTreeSet<String>> {
    let all: Api<PartialObjectMeta<Namespace>> = Api::all(client);
    let restores = operator.context.etcd_restores.follow();
    // The watch logs errors and restarts by itself.
    let events = watching::watch(all, watching::config(), restores);
    names(events.filter_map(|event| std::future::ready(event.ok()))).boxed()
}

fn names(
    events: impl Stream<Item = watcher::Event<PartialObjectMeta<Namespace>>>,
) -> impl Stream<Item = BTreeSet<String>> {
    let (mut known, mut listed) = (BTreeSet::new(), BTreeSet::new());
    events.filter_map(move |event| {
        let is_news = match event {
            watcher::Event::Init => {
                listed.clear();
                false
            }
            watcher::Event::InitApply(namespace) => {
                listed.insert(namespace.name_any());
                false
            }
            watcher::Event::InitDone => {
                known = std::mem::take(&mut listed);
                true
            }
            watcher::Event::Apply(namespace) => known.insert(namespace.name_any()),
            watcher::Event::Delete(namespace) => known.remove(&namespace.name_any()),
        };
        std::future::ready(is_news.then(|| known.clone()))
    })
}

#[cfg(test)]
mod tests;
