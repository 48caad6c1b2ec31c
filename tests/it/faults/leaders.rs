//! Two operators that compete for leadership, each behind its own proxy: one leads at a time, and a deposed one writes
//! nothing.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::ground::Ground;
use super::proxy::{Asked, Fault, Moment};
use super::replicas::{LEASE, Replica, Replicas};
use super::stage::lay_out;
use crate::support::patience::PATIENCE;

const NAMESPACE: &str = "leaders";

struct Scene {
    replicas: Replicas,
    edits: AtomicI64,
}

impl Scene {
    fn described(&self, what: &str) -> String {
        self.replicas.described(what)
    }

    async fn holder(&self) -> String {
        self.replicas.holder(LEASE).await
    }

    /// Waits for another holder; returns it and how long that took.
    async fn until_held_by_another(&self, former: &str) -> (String, Duration) {
        let is_new = |holder: &String| !holder.is_empty() && holder != former;
        let inspect = async || Some(self.holder().await).filter(is_new);
        self.replicas.until("nobody takes the lease", inspect).await
    }

    async fn until_left(&self, replica: &Replica) -> i32 {
        self.replicas.until("it does not leave", async || replica.operator.exit_code()).await.0
    }

    /// Gives the leader something to do.
    async fn edit(&self) {
        let next = 1 + self.edits.fetch_add(1, Ordering::Relaxed) % 7;
        self.replicas.edit(1 + next).await;
    }

    async fn edit_until_stable(&self) {
        self.edit().await;
        self.replicas.until_stable().await;
    }
}

pub(super) async fn one_leads() {
    let ground = Ground::new("leaders").await;
    lay_out(&ground, NAMESPACE).await;
    let mut replicas = Replicas::new(ground, NAMESPACE, vec![NAMESPACE.to_owned()]);
    for name in ["one", "two"] {
        replicas.start(name, "", |_| {}).await;
    }
    let scene = Scene { replicas, edits: AtomicI64::new(0) };
    let (first, _) = scene.until_held_by_another("").await;
    scene.replicas.create("stateless").await;
    scene.replicas.until_stable().await;
    // Either of the two may have been first.
    let [one, two] = &scene.replicas.all[..] else { panic!("two were started") };
    let (starter, other) = if one.writes().is_empty() { (two, one) } else { (one, two) };
    assert!(other.writes().is_empty(), "{}", scene.described("both write"));
    let second = it_is_handed_over(&scene, starter, &first).await;
    let third = a_crash_is_taken_over(&scene, other, &second).await;
    who_is_cut_off_writes_nothing(&scene, (starter, other), &third).await;
}

/// SIGTERM: the other one takes over at once.
async fn it_is_handed_over(scene: &Scene, leader: &Replica, holder: &str) -> String {
    let asked = Instant::now();
    leader.operator.ask_to_leave();
    let (next, took) = scene.until_held_by_another(holder).await;
    println!("handed over after {took:?}");
    assert_eq!(scene.until_left(leader).await, 0, "{}", scene.described("left with an error"));
    assert!(
        leader.gave_back("/leases/", asked),
        "{}",
        scene.described("it left, and kept its lease")
    );
    scene.edit_until_stable().await;
    leader.operator.start_again();
    next
}

/// SIGKILL: the other one waits until the lease expires.
async fn a_crash_is_taken_over(scene: &Scene, leader: &Replica, holder: &str) -> String {
    leader.operator.kill();
    let (next, took) = scene.until_held_by_another(holder).await;
    println!("taken over after {took:?}");
    scene.edit_until_stable().await;
    leader.operator.start_again();
    next
}

/// The leader can reach everything except its lease: another one soon leads, and from then on the former leader writes
/// nothing, although it could.
async fn who_is_cut_off_writes_nothing(
    scene: &Scene,
    (leader, other): (&Replica, &Replica),
    holder: &str,
) {
    leader.proxy.begin(|asked: &Asked| {
        asked.path.contains("/leases").then_some(Fault::Silence(Moment::Before))
    });
    other.proxy.begin(|_| None);
    let started = Instant::now();
    let mut next = holder.to_owned();
    // Keep giving it something to do.
    while next == holder || next.is_empty() {
        assert!(started.elapsed() < PATIENCE, "{}", scene.described("nobody takes over"));
        scene.edit().await;
        sleep(Duration::from_millis(150)).await;
        next = scene.holder().await;
    }
    println!("taken over after {:?}", started.elapsed());
    assert_eq!(scene.until_left(leader).await, 1, "{}", scene.described("left as if nothing were"));
    scene.edit_until_stable().await;
    let last = leader.writes().last().map(|one| one.at);
    let first = other.writes().first().map(|one| one.at);
    assert!(
        last.is_some_and(|last| last > started),
        "{}",
        scene.described("it had nothing to write")
    );
    assert!(last < first, "{}", scene.described("the deposed one wrote"));
    let said = leader.operator.said();
    assert!(said.contains(": it could not be renewed"), "{said}");
}
