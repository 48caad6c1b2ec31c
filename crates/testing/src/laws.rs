//! The laws that the simulations assert, by the names that a broken one is reported with and that the patches of
//! `tests/mutations` use.

use std::fmt::{Display, Formatter, Result};

macro_rules! laws {
    ($($law:ident $name:literal $says:literal)*) => {
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub enum Law {
            $(#[doc = $says] $law,)*
        }

        impl Law {
            pub const ALL: &[Self] = &[$(Self::$law),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$law => $name,)*
                }
            }
        }
    };
}

laws! {
    DeploymentState "deployment-state"
        "A job starts from no fewer records than were durable, unless its user names another state."
    DeploymentOneJobManager "deployment-one-job-manager"
        "No JobManager is started next to the pods of another one."
    DeploymentTaskManagers "deployment-task-managers"
        "A JobManager starts with TaskManagers of its own spec that stay."
    DeploymentKeptStates "deployment-kept-states"
        "No state is disposed of that anything refers to, is in use, or is the newest."
    DeploymentAsks "deployment-asks"
        "A person is asked for the state only if the operator cannot know it."
    DeploymentRests "deployment-rests"
        "Left alone, the operator does what was requested, and then writes nothing."
    DeploymentTold "deployment-told"
        "Nothing waits without a word: a status says what is wrong, and a plan what it waits for."
    DeploymentDeletion "deployment-deletion"
        "A deletion ends and leaves nothing behind."
    DeploymentCrash "deployment-crash"
        "A crash before any step changes nothing in the end."
    DeploymentTrial "deployment-trial"
        "A spec that does not pass its trial stops nothing, and no pods of a trial are left."
    Paused "paused"
        "Nothing of a paused resource is started, stopped or deleted."
    FleetWaves "fleet-waves"
        "Never more resources of a fleet are down than allowed, and a failing start stops the wave."
    SessionClusterJobs "session-cluster-jobs"
        "Jobs are found by the next JobManager, or were saved before."
    SessionClusterStops "session-cluster-stops"
        "A JobManager does not end with what only it knows of a stop."
    SessionClusterTaskManagers "session-cluster-task-managers"
        "No jobs that are kept end because TaskManagers go first."
    SessionClusterOneJobManager "session-cluster-one-job-manager"
        "No JobManager is started next to the pods or the TaskManagers of another one."
    SessionClusterRests "session-cluster-rests"
        "Left alone, the operator does what was requested, and then writes nothing."
    SessionClusterDeletion "session-cluster-deletion"
        "A deletion ends and leaves nothing behind."
    SessionJobState "session-job-state"
        "A job starts from no fewer records than were durable, unless its user names another state."
    SessionJobOneJob "session-job-one-job"
        "No job is started next to another one of the resource."
    SessionJobKeptStates "session-job-kept-states"
        "No state is disposed of that anything refers to, is in use, or is the newest."
    SessionJobAsks "session-job-asks"
        "A person is asked for the state only if the operator cannot know it."
    SessionJobRecord "session-job-record"
        "What is recorded as deployed is what runs."
    SessionJobRests "session-job-rests"
        "Left alone, the operator does what was requested, and then writes nothing."
    SessionJobTold "session-job-told"
        "Nothing waits without a word."
    SessionJobDeletion "session-job-deletion"
        "A deletion ends and leaves no job behind."
    SessionJobCrash "session-job-crash"
        "A crash before any step changes nothing in the end."
    SessionJobWentBack "session-job-went-back"
        "After a store went back unseen, nothing starts while only the cluster knows what ran last."
    SessionJobScaling "session-job-scaling"
        "A decision of the autoscaler is made, stored and carried out once."
    BlueGreenState "blue-green-state"
        "A colour starts from no fewer records than were counted before the change, or from what its user named."
    BlueGreenLastGood "blue-green-last-good"
        "Neither the last good job nor the serving one is deleted or taken down."
    BlueGreenWebUi "blue-green-web-ui"
        "The web UI never leads away from the job that runs."
    BlueGreenRests "blue-green-rests"
        "Left alone, the operator does what was requested, and then writes nothing."
    BlueGreenTold "blue-green-told"
        "Nothing waits without a word, and the status names the colour that serves."
    ColoursState "colours-state"
        "A colour starts from no fewer records than were durable when its transition began."
    ColoursLastGood "colours-last-good"
        "Neither the last good job nor the serving one is deleted or taken down."
    ColoursRests "colours-rests"
        "Left alone, the operators do what was requested, and then write nothing."
}

impl Display for Law {
    /// As in a message.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "law {}", self.name())
    }
}
