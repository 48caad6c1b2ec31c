//! How fast and how big an operator is, measured on a real API server with `flinkworld` instead of Flink.
//! `bench/run.sh` and `bench/soak.sh` prepare the ground and start this.
//!
//! The steps and the names of the figures are those of `baseline-java-*.json`, so that the two can be compared; figures
//! that were not measured for the Java operator are listed as well.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "a program that measures: it reads clocks and processes, and prints"
)]

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};

mod autoscaler;
mod chart;
mod dashboard;
mod failover;
mod ground;
mod phases;
mod process;
mod report;
mod soak;
mod viewing;
mod webhook;

use ground::Ground;
use phases::{Bench, Phase};

const USAGE: &str =
    "usage: bench run COUNT PHASES KUBECONFIG FLINKWORLD OUTPUT -- OPERATOR COMMAND…
       bench soak MINUTES COUNT KUBECONFIG FLINKWORLD OUTPUT -- OPERATOR COMMAND…
       bench looking PROGRAM [KUBECONFIG]
       bench dashboard PROGRAM
       bench autoscaler JOBS VERTICES MINUTES
       bench webhook RATE SECONDS
       bench report";

#[tokio::main]
async fn main() -> Result<()> {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut args = env::args().skip(1);
    let mut next = || args.next().context(USAGE);
    let what = next()?;
    if what == "report" {
        return report::write_document();
    }
    if what == "looking" {
        let program = PathBuf::from(next()?);
        return viewing::run(&program, next().ok().as_deref().map(Path::new)).await;
    }
    if what == "dashboard" {
        return dashboard::run(Path::new(&next()?)).await;
    }
    let (first, second) = (next()?, next()?);
    if what == "webhook" {
        println!("{:#}", webhook::run(first.parse()?, second.parse()?).await?);
        return Ok(());
    }
    if what == "autoscaler" {
        let figures = autoscaler::run(first.parse()?, second.parse()?, next()?.parse()?)?;
        println!("{figures:#}");
        return Ok(());
    }
    let (kubeconfig, world, output) = (next()?, next()?, PathBuf::from(next()?));
    if next()? != "--" {
        bail!(USAGE);
    }
    let command: Vec<String> = args.collect();
    let ground = Ground::new(Path::new(&kubeconfig), world).await?;
    let log = output.with_extension("log");
    let bench = |count| Bench { ground, count, command, log };
    let measured = async {
        Ok(match what.as_str() {
            "run" => {
                let phases = second.split_whitespace().map(Phase::named);
                let phases = phases.collect::<Result<Vec<_>>>()?;
                phases::run(&bench(first.parse()?), &phases, &output).await?
            }
            "soak" => soak::run(&bench(second.parse()?), first.parse()?, &output).await?,
            _ => bail!(USAGE),
        })
    };
    // Dropping the other future also stops the operator that it started.
    let figures = tokio::select! {
        figures = measured => figures?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    };
    save(&output, &figures)?;
    println!("{}", report::table(&figures)?);
    Ok(())
}

/// Also after each phase, so that a long run keeps its results if it is cut short.
fn save(output: &Path, figures: &serde_json::Value) -> Result<()> {
    Ok(fs::write(output, format!("{figures:#}\n"))?)
}
