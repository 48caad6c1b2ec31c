//! Two operators that may lead, each behind a proxy of its own: one leads at a time, and the one that
//! was deposed writes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use tokio::time::sleep;

use super::ground::{Ground, file};
use super::operator::Operator;
use super::proxy::{Asked, Fault, Moment, Proxy, Recorded};
use super::scenarios::{JOB, deployment};
use super::stage::{OPERATOR_CONFIG, arguments, is_stable, lay_out, line};

const NAMESPACE: &str = "leaders";
pub(super) const LEASE: &str = "operators";
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(6);
/// So soon a lease that was given back has a new holder.
const HAND_OVER_MAX: Duration = Duration::from_secs(2);
/// Processes of a busy machine react late.
const SLACK: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_mins(1);
pub(super) const ELECTION: &str = "\
kubernetes.operator.leader-election.enabled: true
kubernetes.operator.leader-election.lease-name: operators
kubernetes.operator.leader-election.lease-duration: 6 s
kubernetes.operator.leader-election.renew-deadline: 4 s
kubernetes.operator.leader-election.retry-period: 1 s
kubernetes.operator.health.probe.enabled: false
";

pub(super) struct Replica {
    pub(super) operator: Arc<Operator>,
    pub(super) proxy: Proxy,
}

impl Replica {
    async fn start(ground: &Ground, name: &str) -> Self {
        let config = format!("{OPERATOR_CONFIG}{ELECTION}");
        Self::start_with(ground, name, NAMESPACE, &config, |_| {}).await
    }

    /// One whose Lease is in this namespace, with this configuration and other arguments.
    pub(super) async fn start_with(
        ground: &Ground,
        name: &str,
        namespace: &str,
        config: &str,
        change: impl FnOnce(&mut Vec<String>),
    ) -> Self {
        let operator = Arc::new(Operator::new(&file(ground, &format!("{name}.log"))));
        let flink = ground.world.flink_address().to_owned();
        let proxy = Proxy::start(ground.client.clone(), flink, Arc::clone(&operator)).await;
        let mut arguments = arguments(ground, name, namespace, &proxy, config);
        arguments.extend(["--lease-namespace".to_owned(), namespace.to_owned()]);
        change(&mut arguments);
        operator.start(arguments);
        Self { operator, proxy }
    }

    /// What it wrote for its jobs, to the API server and to Flink.
    pub(super) fn writes(&self) -> Vec<Recorded> {
        let recorded = self.proxy.recorded();
        let is_write = |one: &Recorded| one.asked.write.is_some() && !is_about_election(&one.asked);
        recorded.into_iter().filter(is_write).collect()
    }
}

fn is_about_election(asked: &Asked) -> bool {
    asked.path.contains("/leases") || asked.path.contains("/selfsubjectaccessreviews")
}

struct Scene {
    ground: Ground,
    one: Replica,
    two: Replica,
    parallelism: std::sync::atomic::AtomicI64,
}

impl Scene {
    fn told(&self, what: &str) -> String {
        let lines =
            |replica: &Replica| replica.writes().iter().map(line).collect::<Vec<_>>().join("\n");
        let (one, two) = (&self.one, &self.two);
        format!(
            "{what}\n--- one\n{}\n{}\n--- two\n{}\n{}",
            lines(one),
            one.operator.said(),
            lines(two),
            two.operator.said()
        )
    }

    async fn until<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> (T, Duration) {
        let start = Instant::now();
        loop {
            if let Some(found) = look().await {
                return (found, start.elapsed());
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.told(what));
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn holder(&self) -> String {
        let leases: Api<Lease> = Api::namespaced(self.ground.client.clone(), NAMESPACE);
        let lease = leases.get_opt(LEASE).await.unwrap();
        lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
    }

    /// The new holder, and how long it took.
    async fn until_held_by_another(&self, former: &str) -> (String, Duration) {
        let is_new = |holder: &String| !holder.is_empty() && holder != former;
        self.until("nobody takes the lease", async || Some(self.holder().await).filter(is_new))
            .await
    }

    fn deployments(&self) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("flink.apache.org", "v1beta1", "FlinkDeployment");
        let resource = ApiResource::from_gvk(&gvk);
        Api::namespaced_with(self.ground.client.clone(), NAMESPACE, &resource)
    }

    async fn until_stable(&self) {
        let what = "the job is not stable";
        let look = async || {
            let found = self.deployments().get(JOB).await.unwrap();
            is_stable(&serde_json::to_value(found).unwrap()).then_some(())
        };
        let ((), took) = self.until(what, look).await;
        println!("stable after {took:?}");
    }

    /// Something to do for whoever leads.
    async fn edit(&self) {
        let next = 1 + self.parallelism.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 7;
        let patch = Patch::Merge(json!({"spec": {"job": {"parallelism": 1 + next}}}));
        self.deployments().patch(JOB, &PatchParams::default(), &patch).await.unwrap();
    }
}

pub(super) async fn one_leads() {
    let ground = Ground::new("leaders").await;
    lay_out(&ground, NAMESPACE).await;
    let one = Replica::start(&ground, "one").await;
    let two = Replica::start(&ground, "two").await;
    let scene = Scene { ground, one, two, parallelism: std::sync::atomic::AtomicI64::new(0) };
    let (first, _) = scene.until_held_by_another("").await;
    let object: DynamicObject = {
        let mut object = deployment("stateless");
        object["metadata"]["namespace"] = json!(NAMESPACE);
        serde_json::from_value(object).unwrap()
    };
    scene.deployments().create(&PostParams::default(), &object).await.unwrap();
    scene.until_stable().await;
    // Which of the two was first is nobody's choice.
    let starter = if scene.one.writes().is_empty() { &scene.two } else { &scene.one };
    let other = if scene.one.writes().is_empty() { &scene.one } else { &scene.two };
    assert!(other.writes().is_empty(), "{}", scene.told("both write"));
    let second = it_is_handed_over(&scene, starter, &first).await;
    let third = a_crash_is_taken_over(&scene, other, &second).await;
    who_is_cut_off_writes_nothing(&scene, (starter, other), &third).await;
}

/// SIGTERM: the other one takes over at once.
async fn it_is_handed_over(scene: &Scene, leader: &Replica, holder: &str) -> String {
    leader.operator.ask_to_leave();
    let (next, took) = scene.until_held_by_another(holder).await;
    println!("handed over after {took:?}");
    assert!(took < HAND_OVER_MAX, "{}", scene.told(&format!("handed over after {took:?}")));
    let (code, _) = scene.until("it does not leave", async || leader.operator.exit_code()).await;
    assert_eq!(code, 0, "{}", scene.told("left with an error"));
    scene.edit().await;
    scene.until_stable().await;
    leader.operator.start_again();
    next
}

/// SIGKILL: the other one waits for the end of the lease.
async fn a_crash_is_taken_over(scene: &Scene, leader: &Replica, holder: &str) -> String {
    leader.operator.kill();
    let (next, took) = scene.until_held_by_another(holder).await;
    println!("taken over after {took:?}");
    assert!(took < LEASE_DURATION + SLACK, "{}", scene.told(&format!("taken over after {took:?}")));
    scene.edit().await;
    scene.until_stable().await;
    leader.operator.start_again();
    next
}

/// The leader does not reach its lease, and everything else: another one leads before long, and from
/// then on the former one writes nothing, although it could.
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
    // There is always something to do.
    while next == holder || next.is_empty() {
        assert!(started.elapsed() < PATIENCE, "{}", scene.told("nobody takes over"));
        scene.edit().await;
        sleep(Duration::from_millis(150)).await;
        next = scene.holder().await;
    }
    println!("taken over after {:?}", started.elapsed());
    let left = async || leader.operator.exit_code();
    let (code, _) = scene.until("the deposed one does not leave", left).await;
    assert_eq!(code, 1, "{}", scene.told("left as if nothing were"));
    scene.edit().await;
    scene.until_stable().await;
    let last = leader.writes().last().map(|one| one.at);
    let first = other.writes().first().map(|one| one.at);
    assert!(last.is_some_and(|last| last > started), "{}", scene.told("it had nothing to write"));
    assert!(last < first, "{}", scene.told("the deposed one wrote"));
    let said = leader.operator.said();
    assert!(said.contains("is lost: it could not be renewed"), "{said}");
}
