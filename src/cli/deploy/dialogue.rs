//! Prompts for what a deployment needs, and shows the manifest before it is sent.

use anyhow::Context;
use dialoguer::theme::ColorfulTheme;
use dialoguer::{Confirm, FuzzySelect, Input};
use serde_json::Value;

use super::flags::{Flags, Mode, version_of_image};
use crate::cli::connection::Connection;
use crate::cli::lookup;
use crate::cli::printer::Printer;
use api::version::FlinkVersion;
use clients::cluster::read;

/// Exit code of a program ended by Ctrl-C: 128 plus the number of SIGINT.
const INTERRUPTED: i32 = 130;
/// An example that every Flink image includes.
const EXAMPLE_JAR: &str = "local:///opt/flink/examples/streaming/TopSpeedWindowing.jar";

/// Prompts until the manifest is complete; `None` if the user declines it in the end.
pub(super) async fn ask(
    connection: &Connection,
    printer: &Printer,
) -> anyhow::Result<Option<Value>> {
    printer.note(format_args!("A new Flink job in namespace `{}`:", connection.namespace));
    show_cursor_on_interrupt();
    // Prompts block, so requests to the cluster are made between them.
    let name = tokio::task::spawn_blocking(ask_name).await.context("while asking")?;
    let name = answered(name).await?;
    if read::get_value(&connection.client, &lookup::id(connection, &name)).await?.is_some() {
        printer.warning(format_args!("`{name}` exists: your answers replace its fields"));
    }
    let namespace = connection.namespace.clone();
    let flags =
        tokio::task::spawn_blocking(move || ask_rest(name)).await.context("while asking")?;
    let flags = answered(flags).await?;
    let manifest = flags.manifest(&namespace)?;
    printer.note(serde_yaml::to_string(&manifest)?);
    let is_wanted = tokio::task::spawn_blocking(|| {
        Confirm::with_theme(&ColorfulTheme::default())
            .with_prompt("Deploy this?")
            .default(true)
            .interact()
    })
    .await
    .context("while asking")?;
    let is_wanted = answered(is_wanted).await?;
    Ok(is_wanted.then_some(manifest))
}

/// Ends the program on Ctrl-C as by default, but first shows the cursor that a list hides.
fn show_cursor_on_interrupt() {
    tokio::spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            // If the terminal is gone, there is no cursor to show.
            let _shown = dialoguer::console::Term::stderr().show_cursor();
            #[allow(
                clippy::exit,
                reason = "what a shell expects of a program that was interrupted"
            )]
            std::process::exit(INTERRUPTED);
        }
    });
}

/// Returns the answer, unless the prompt was interrupted and the program is about to end.
async fn answered<T>(asked: dialoguer::Result<T>) -> anyhow::Result<T> {
    match asked {
        Err(dialoguer::Error::IO(error)) if error.kind() == std::io::ErrorKind::Interrupted => {
            std::future::pending().await
        }
        other => Ok(other?),
    }
}

fn ask_name() -> dialoguer::Result<String> {
    Input::with_theme(&ColorfulTheme::default())
        .with_prompt("Name")
        .validate_with(|name: &String| {
            if name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            {
                Ok(())
            } else {
                Err("lowercase letters, digits and `-`, starting with a letter")
            }
        })
        .interact_text()
}

/// Prompts for a URL that all nodes can reach; only the user knows one.
fn directory(prompt: &str, default: Option<String>) -> dialoguer::Result<String> {
    let theme = ColorfulTheme::default();
    let mut input = Input::with_theme(&theme)
        // Keep it short: a prompt of more than one line is not cleared completely.
        .with_prompt(format!("{prompt}, reachable from all nodes (s3://bucket/path)"))
        .validate_with(|text: &String| match url::Url::parse(text.trim()) {
            Ok(url) if !url.path().trim_matches('/').is_empty() || url.host().is_some() => Ok(()),
            Ok(_) | Err(_) => Err("expected `scheme://…`, such as `s3://bucket/path`"),
        });
    if let Some(default) = default {
        input = input.default(default);
    }
    Ok(input.interact_text()?.trim().to_owned())
}

fn ask_rest(name: String) -> dialoguer::Result<Flags> {
    let theme = ColorfulTheme::default();
    let text = |prompt: &str, default: &str| -> dialoguer::Result<String> {
        Input::with_theme(&theme)
            .with_prompt(prompt)
            .default(default.to_owned())
            .allow_empty(true)
            .interact_text()
    };
    let image = text("Image", "flink:1.20")?;
    let guessed = version_of_image(&image);
    let supported = FlinkVersion::ALL
        .iter()
        .copied()
        .filter(|version| version.is_supported())
        .collect::<Vec<_>>();
    let version = match guessed {
        Some(version) => Some(version),
        None => FuzzySelect::with_theme(&theme)
            .with_prompt("Flink version in the image")
            .items(supported.iter().map(FlinkVersion::into_str).collect::<Vec<_>>())
            .default(supported.len().saturating_sub(1))
            .interact_opt()?
            .and_then(|index| supported.get(index).copied()),
    };
    let jar = text("Jar in the image", EXAMPLE_JAR)?;
    let class = text("Main class (empty: the jar's own)", "")?;
    let arguments = text("Arguments, separated by spaces", "")?;
    let parallelism: i32 =
        Input::with_theme(&theme).with_prompt("Parallelism").default(1).interact_text()?;
    let modes = [Mode::Savepoint, Mode::LastState, Mode::Stateless];
    let mode = FuzzySelect::with_theme(&theme)
        .with_prompt("When the job is upgraded, its state")
        .items([
            "is saved in a savepoint, and the job starts from it",
            "is taken from the last checkpoint (needs high availability)",
            "is dropped",
        ])
        .default(0)
        .interact_opt()?
        .and_then(|index| modes.get(index).copied());
    let mut config = Vec::new();
    if mode != Some(Mode::Stateless) {
        let checkpoints = directory("Directory for checkpoints", None)?;
        let beside = checkpoints.replace("checkpoints", "savepoints");
        let savepoints = directory("Directory for savepoints", Some(beside))?;
        config.push(("state.checkpoints.dir".to_owned(), checkpoints));
        config.push(("state.savepoints.dir".to_owned(), savepoints));
        config.push(("execution.checkpointing.interval".to_owned(), "1 min".to_owned()));
    }
    if mode == Some(Mode::LastState) {
        let storage = directory("Directory for high availability data", None)?;
        config.push(("high-availability.type".to_owned(), "kubernetes".to_owned()));
        config.push(("high-availability.storageDir".to_owned(), storage));
    }
    let given = |text: String| (!text.trim().is_empty()).then_some(text);
    Ok(Flags {
        name: Some(name),
        image: Some(image),
        jar: given(jar),
        class: given(class),
        args: arguments.split_whitespace().map(str::to_owned).collect(),
        parallelism: Some(parallelism),
        flink_version: version,
        upgrade_mode: mode,
        config,
        ..Flags::default()
    })
}
