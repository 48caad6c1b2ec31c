//! Three operators that share the namespaces of a cluster, each behind its own proxy: whatever happens to one of them,
//! no two act in the same namespace at the same time, and all jobs settle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::ground::Ground;
use super::proxy::Recorded;
use super::replicas::{LEASE, LEASE_DURATION, Replicas};
use super::stage::lay_out;

const NAMESPACE: &str = "operators";
const SHARDS: usize = 4;
const TEAMS: usize = 6;
const NAMES: [&str; 3] = ["one", "two", "three"];

/// The start of a period.
struct Begin {
    at: Instant,
    /// Number of operators that had ended by themselves before.
    ends: usize,
}

impl Replicas {
    fn begin(&self) -> Begin {
        Begin { at: Instant::now(), ends: self.ends() }
    }

    /// Returns how many operators have ended by themselves since.
    fn ends_since(&self, begin: &Begin) -> usize {
        self.ends() - begin.ends
    }

    /// Returns the holder of each shard; unheld shards are left out.
    async fn holders(&self) -> BTreeMap<usize, String> {
        let mut all = BTreeMap::new();
        for shard in 0..SHARDS {
            let holder = self.holder(&format!("{LEASE}-{shard}-of-{SHARDS}")).await;
            if !holder.is_empty() {
                all.insert(shard, holder);
            }
        }
        all
    }

    /// Waits until every shard is held, by this many processes, none of which is `former`.
    async fn until_shared(&self, by: usize, former: &BTreeSet<String>) -> Duration {
        let what = format!("the shards are not held by {by}");
        let inspect = async || {
            let all = self.holders().await;
            let who: BTreeSet<&String> = all.values().collect();
            let is_so = all.len() == SHARDS && who.len() == by;
            (is_so && who.iter().all(|name| !former.contains(*name))).then_some(())
        };
        self.until(&what, inspect).await.1
    }

    /// Returns every write in a namespace since then, with the writer's index, in order.
    fn writes(&self, namespace: &str, since: Instant) -> Vec<(usize, Recorded)> {
        let part = format!("/namespaces/{namespace}/");
        let mut all = Vec::new();
        for (index, replica) in self.all.iter().enumerate() {
            let own = replica.writes().into_iter();
            let own = own.filter(|one| one.at >= since && one.asked.path.contains(&part));
            all.extend(own.map(|one| (index, one)));
        }
        all.sort_by_key(|(_, one)| one.at);
        all
    }

    /// Panics if the writes of two operators are interleaved: a namespace changes hands at most once, and once more for
    /// each process that ended by itself meanwhile. Returns the last writer of each namespace.
    fn check_writers(&self, begin: &Begin) -> Vec<usize> {
        let ends = self.ends_since(begin);
        let mut last = Vec::new();
        for team in &self.namespaces {
            let mut turns: Vec<usize> =
                self.writes(team, begin.at).into_iter().map(|(index, _)| index).collect();
            assert!(!turns.is_empty(), "{}", self.described(&format!("nobody wrote in {team}")));
            turns.dedup();
            let is_mixed = turns.len() > 2 + ends;
            assert!(!is_mixed, "{}", self.described(&format!("{team}: {turns:?} took turns")));
            last.extend(turns.last());
            let broken = self.ground.world.broken(team);
            assert!(broken.is_empty(), "{}", self.described(&broken.join("\n")));
        }
        last
    }
}

pub(super) async fn each_has_its_part() {
    let ground = Ground::new("shards").await;
    lay_out(&ground, NAMESPACE).await;
    let teams: Vec<String> = (0..TEAMS).map(|number| format!("team-{number}")).collect();
    for team in &teams {
        lay_out(&ground, team).await;
    }
    let config = format!("kubernetes.operator.sharding.shards: {SHARDS}\n");
    let mut scene = Replicas::new(ground, NAMESPACE, teams);
    scene.are_revived = true;
    for name in NAMES {
        let to_all_namespaces = |arguments: &mut Vec<String>| {
            let at = arguments.iter().position(|it| it == "-n").unwrap();
            arguments.drain(at..at + 2);
            arguments.push("--all-namespaces".to_owned());
        };
        scene.start(name, &config, to_all_namespaces).await;
    }
    println!("shared after {:?}", scene.until_shared(NAMES.len(), &BTreeSet::new()).await);
    // The first operator held more and has released it.
    sleep(LEASE_DURATION).await;
    let begin = scene.begin();
    scene.create("savepoint").await;
    scene.until_stable().await;
    let writers = scene.check_writers(&begin);
    let at_work: BTreeSet<usize> = writers.iter().copied().collect();
    assert!(at_work.len() > 1, "{}", scene.described("one did it all"));
    let victim = writers[0];
    a_crash_is_taken_over(&scene, victim).await;
    let came = who_comes_back_gets_its_part(&scene, victim).await;
    what_is_left_is_handed_over(&scene, victim, &came).await;
}

/// SIGKILL: the others wait until its leases expire, then take over its namespaces.
async fn a_crash_is_taken_over(scene: &Replicas, victim: usize) {
    let before = scene.holders().await;
    scene.all[victim].operator.kill();
    let killed = scene.begin();
    scene.edit(2).await;
    scene.until_stable().await;
    println!("settled {:?} after a crash", killed.at.elapsed());
    // Shards that did not have to wait for an expiry stayed where they were.
    let after = scene.holders().await;
    let stayed = before.iter().filter(|(shard, holder)| after.get(*shard) == Some(holder)).count();
    let has_stayed = stayed >= SHARDS / 2 || scene.ends_since(&killed) > 0;
    assert!(has_stayed, "{}", scene.described(&format!("{before:?} became {after:?}")));
    let writers = scene.check_writers(&killed);
    assert!(!writers.contains(&victim), "{}", scene.described("the dead one wrote"));
    scene.until_shared(NAMES.len() - 1, &BTreeSet::new()).await;
}

async fn who_comes_back_gets_its_part(scene: &Replicas, victim: usize) -> Begin {
    let came = scene.begin();
    scene.all[victim].operator.start_again();
    // Keep the operators busy while shards move.
    scene.edit(3).await;
    println!("shared again after {:?}", scene.until_shared(NAMES.len(), &BTreeSet::new()).await);
    scene.until_stable().await;
    scene.check_writers(&came);
    came
}

/// SIGTERM: the others take over its shards at once, all that it held since it started.
async fn what_is_left_is_handed_over(scene: &Replicas, leaving: usize, came: &Begin) {
    let begin = scene.begin();
    let before: BTreeSet<String> = scene.holders().await.into_values().collect();
    scene.all[leaving].operator.ask_to_leave();
    let left = async || scene.all[leaving].operator.exit_code();
    let (code, took) = scene.until("it does not leave", left).await;
    assert_eq!(code, 0, "{}", scene.described("left with an error"));
    let inspect = async || {
        let all = scene.holders().await;
        let who: BTreeSet<&String> = all.values().collect();
        (all.len() == SHARDS && who.len() < before.len()).then_some(())
    };
    let ((), free) = scene.until("its shards are nobody's", inspect).await;
    println!("left after {took:?}, handed over {free:?} later");
    // Not the lease that they share.
    let of_shards = format!("/leases/{LEASE}-");
    let has_given_back = scene.all[leaving].gave_back(&of_shards, came.at);
    let has_given_back = has_given_back || scene.ends_since(came) > 0;
    assert!(has_given_back, "{}", scene.described("it left, and kept its leases"));
    scene.edit(4).await;
    scene.until_stable().await;
    scene.check_writers(&begin);
}
