//! An API server whose store was set back, seen only by what its watches show.

use kubectl_flink::api::job::{JobState, UpgradeMode};

use crate::decisions::{SAVEPOINT, Scene};
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, error_of, with_status};

/// The job stands still, with a newer state than the one it had in the middle of an upgrade before.
fn known() -> Scene {
    let mut scene = Scene::running("savepoint")
        .suspended(UpgradeMode::Savepoint)
        .path("s3://lake/sp/newer")
        .edit_job(|job| job.state = JobState::Suspended)
        .edit(|_| {});
    scene.status.observed_generation = scene.resource.metadata.generation;
    scene
}

/// Others write to a store that was set back, until its revision is higher than it ever was: then an
/// edit of what is in it comes by the watch as if it were of the present.
#[tokio::test]
async fn an_edit_of_what_was_set_back_is_not_of_the_present() {
    let cluster = FakeCluster::new();
    let known = known();
    cluster.insert(with_status(&known.resource, &known.status));
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating.until_listed().await;

    let mut before = Scene::running("savepoint").path(SAVEPOINT).upgrading(UpgradeMode::Savepoint);
    before = before.edit(|spec| spec.restart_nonce = Some(1));
    assert!(before.resource.metadata.generation < known.resource.metadata.generation);
    operating.cluster.insert(with_status(&before.resource, &before.status));
    let error = operating
        .until("the start is refused", |cluster| {
            error_of(cluster, "flinkdeployments", "orders").filter(|error| !error.is_empty())
        })
        .await;
    assert!(error.contains("was set back"), "{error}");
    assert_eq!(operating.cluster.object("deployments", "shop", "orders"), None);
    operating.stop().await;
}
