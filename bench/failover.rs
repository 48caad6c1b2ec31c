//! Two replicas, one of which leads: how long a change waits when the leader stops.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::phases::{Bench, name, seconds};
use crate::process::Operator;

const LEASE: &str = "bench-operator";
/// Time after which a started replica is on standby.
const STAND_BY: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_mins(2);

impl Bench {
    /// Measures a change that is made at the moment the leader stops, and one at the moment it is killed. No other
    /// operator runs. Returns the figures and the operator that leads at the end.
    pub(crate) async fn fail_over(&self) -> Result<(Operator, Value)> {
        let before = self.ground.calls().await?;
        let first = self.replica("first")?;
        self.until_all_asked().await?;
        let second = self.replica("second")?;
        sleep(STAND_BY).await;

        first.interrupt()?;
        let graceful = self.react(&name(0), 6).await?;
        first.wait()?;

        let third = self.replica("third")?;
        sleep(STAND_BY).await;
        self.ground.forget_asked().await?;
        let start = Instant::now();
        second.kill()?;
        let killed = self.react(&name(1), 6).await?;
        self.until_all_asked().await?;
        let all_observed = start.elapsed();

        // The successor must not repeat what the former leader had begun.
        sleep(STAND_BY).await;
        let made = self.ground.calls().await?.clusters - before.clusters;
        let figures = json!({
            "graceful_s": seconds(graceful),
            "killed_s": seconds(killed),
            "killed_all_observed_s": seconds(all_observed),
            "changes": 2,
            "job_managers_made": made,
        });
        Ok((third, figures))
    }

    fn replica(&self, which: &str) -> Result<Operator> {
        let lease = ["--lease-name", LEASE, "--lease-namespace", "default"].map(str::to_owned);
        let command = [self.command.as_slice(), &lease].concat();
        Operator::start(&command, &self.log.with_extension(format!("{which}.log")))
    }

    async fn until_all_asked(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            let asked = self.ground.asked().await?;
            if asked > self.count {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!("{asked} of {} JobManagers were asked in {PATIENCE:?}", self.count + 1);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}
