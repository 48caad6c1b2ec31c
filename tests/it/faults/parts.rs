//! Parts of the control plane that stop and come back while jobs are upgraded.

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::sleep;

use super::end_state;
use super::ground::Ground;
use super::scenarios::{JOB, deployment, highly_available};
use super::stage::{DEPLOYMENT, Stage, is_stable};
use crate::support::patience::PATIENCE;
use crate::support::program::{SANDBOXES, other};

/// How long a part is down.
const AWAY: Duration = Duration::from_secs(2);

/// A part of the control plane that the test started; it ends when dropped.
pub(super) struct Part {
    child: Child,
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Part {
    pub(super) fn start(line: &[String]) -> Self {
        let mut command = other(&line[0]);
        command.args(&line[1..]).stdin(Stdio::null());
        Self { child: command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap() }
    }
}

/// Returns the process of a control plane's part, and its command line.
pub(super) fn process(ground: &Ground, name: &str) -> (Pid, Vec<String>) {
    let identity = Path::new(SANDBOXES).join(ground.name()).join("parts").join(name);
    let identity = std::fs::read_to_string(identity).unwrap();
    let pid: i32 = identity.split(' ').next().unwrap().parse().unwrap();
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let line = String::from_utf8(line).unwrap();
    let line = line.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
    (Pid::from_raw(pid).unwrap(), line)
}

/// Whether a process runs; one that has ended may still be listed until it is waited for.
pub(super) fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // Its state follows its name, which is in brackets.
    let state = stat.as_ref().ok().and_then(|stat| stat.rsplit_once(") "));
    state.is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// Kills a part of the control plane and returns its command line.
pub(super) fn end(ground: &Ground, name: &str) -> Vec<String> {
    let (pid, line) = process(ground, name);
    kill_process(pid, Signal::KILL).unwrap();
    line
}

/// Kills a part of the control plane and starts it again.
async fn restart(ground: &Ground, name: &str) -> Part {
    let line = end(ground, name);
    sleep(AWAY).await;
    Part::start(&line)
}

/// Upgrades in progress survive a restart of `part`, at several moments of the upgrade.
pub(super) async fn may_restart(part: &str) {
    let ground = Arc::new(Ground::new(part).await);
    let calm = play(&ground, "calm").await;
    calm.stage.operator.stop();
    let moments = [0, 300, 700, 1200, 2000, 3000];
    let mut stages = Vec::new();
    for moment in moments {
        stages.push(prepare(&ground, &format!("moment-{moment}")).await);
    }
    let edits = stages.iter().zip(moments).map(|(stage, moment)| async move {
        // The first edit is made long before the part ends, the last one right before.
        sleep(Duration::from_millis(3000 - moment)).await;
        edit(stage).await;
    });
    join_all(edits).await;
    let _part = restart(&ground, part).await;
    for stage in &stages {
        let (start, mut end) = (Instant::now(), finish(stage).await);
        // The retry pauses of failed watches grow up to half a minute.
        while end != calm.end && start.elapsed() < PATIENCE {
            sleep(Duration::from_secs(1)).await;
            end = finish(stage).await;
        }
        let difference = similar::TextDiff::from_lines(&calm.end, &end).unified_diff().to_string();
        assert!(end == calm.end, "{}", stage.described(&difference));
        stage.operator.stop();
    }
}

struct Played {
    stage: Stage,
    end: String,
}

async fn play(ground: &Arc<Ground>, namespace: &str) -> Played {
    let stage = prepare(ground, namespace).await;
    edit(&stage).await;
    let end = finish(&stage).await;
    Played { stage, end }
}

/// Creates two jobs, one for each way to preserve state.
async fn prepare(ground: &Arc<Ground>, namespace: &str) -> Stage {
    let stage = Stage::new(ground, &format!("part-{namespace}"), Box::new(|_| None)).await;
    stage.create(deployment("savepoint")).await;
    let mut other = highly_available("last-state");
    other["metadata"]["name"] = json!("other");
    stage.create(other).await;
    stage.until_stable(JOB).await;
    stage.until_stable("other").await;
    stage.begin();
    stage
}

async fn edit(stage: &Stage) {
    for name in [JOB, "other"] {
        stage.edit(DEPLOYMENT, name, json!({"job": {"parallelism": 2}})).await;
    }
}

async fn finish(stage: &Stage) -> String {
    for name in [JOB, "other"] {
        stage.until(DEPLOYMENT, name, "STABLE", is_stable).await;
    }
    stage.until_at_rest().await;
    stage.check_laws();
    end_state::of(stage, &[JOB, "other"]).await
}
