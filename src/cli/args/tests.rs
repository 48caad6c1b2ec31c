use super::*;
use clap::CommandFactory;

#[test]
fn command_tree_is_sound() {
    Cli::command().debug_assert();
}

/// An argument with the id of a global one would replace it: clap gives both the same value.
#[test]
fn no_argument_of_a_command_takes_the_place_of_a_global_one() {
    fn check(command: &clap::Command, global: &[String]) {
        for inner in command.get_subcommands() {
            for argument in inner.get_arguments() {
                let id = argument.get_id().to_string();
                assert!(!global.contains(&id), "{}: rename the field `{id}`", inner.get_name());
            }
            check(inner, global);
        }
    }
    let root = Cli::command();
    let global = root.get_arguments().filter(|it| it.is_global_set());
    let global: Vec<String> = global.map(|it| it.get_id().to_string()).collect();
    assert!(global.iter().any(|id| id == "cluster"), "{global:?}");
    check(&root, &global);
}

/// Commands that change something in a cluster, or the sandboxes of the machine.
const CHANGES: [&str; 35] = [
    "init",
    "deploy",
    "run",
    "sql",
    "suspend",
    "resume",
    "pause",
    "unpause",
    "restart",
    "scale",
    "set image",
    "set config",
    "set args",
    "promote",
    "abort",
    "rollback",
    "restore",
    "savepoint",
    "snapshots trigger",
    "snapshots restore",
    "snapshots dispose",
    "snapshots gc",
    "rest",
    "autoscaler reset",
    "delete",
    "gc",
    "operator install",
    "operator upgrade",
    "operator uninstall",
    "operator continue",
    "crds",
    "sandbox up",
    "sandbox down",
    "sandbox load-image",
    "sandbox flink-image",
];

/// Commands that look, print, write local files, or do until they are stopped what somebody else asks for.
const OTHERS: [&str; 38] = [
    "list",
    "status",
    "top",
    "events",
    "config",
    "why",
    "plan",
    "history",
    "savepoint inspect",
    "snapshots",
    "snapshots list",
    "checkpoints",
    "dashboard",
    "ui",
    "logs",
    "exec",
    "autoscaler status",
    "autoscaler explain",
    "autoscaler history",
    "autoscaler backtest",
    "autoscaler simulate",
    "autoscaler run",
    "report",
    "check",
    "operate",
    "operator config",
    "operator image",
    "lint",
    "explain",
    "render",
    "sandbox status",
    "completion",
    "completion install",
    "version",
    "__man",
    "__layout images",
    "__layout chart",
    "__complete",
];

#[test]
fn every_command_that_changes_something_has_a_flag_not_to_ask() {
    fn walk(command: &clap::Command, above: &str, all: &mut Vec<(String, bool)>) {
        for inner in command.get_subcommands() {
            let path = format!("{above} {}", inner.get_name()).trim().to_owned();
            walk(inner, &path, all);
            let has_yes = inner.get_arguments().any(|it| it.get_long() == Some("yes"));
            if !inner.is_subcommand_required_set() {
                all.push((path, has_yes));
            }
        }
    }
    let mut all = Vec::new();
    walk(&Cli::command(), "", &mut all);
    all.sort_unstable();
    let with = |has_yes: bool| -> Vec<&str> {
        let of_kind = all.iter().filter(|(_, has)| *has == has_yes);
        of_kind.map(|(path, _)| path.as_str()).collect()
    };
    let sorted = |mut names: Vec<&'static str>| {
        names.sort_unstable();
        names
    };
    assert_eq!(
        with(true),
        sorted(CHANGES.to_vec()),
        "a command that changes something takes `--yes`"
    );
    assert_eq!(with(false), sorted(OTHERS.to_vec()), "a new command is in one of the two lists");
}

#[test]
fn connection_flags_stand_before_or_after_the_command() {
    for line in [
        "kubectl-flink -n team --context lab version",
        "kubectl-flink version --context=lab -n team",
    ] {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(cli.global.namespace.as_deref(), Some("team"));
        assert_eq!(cli.global.context.as_deref(), Some("lab"));
    }
}

#[test]
fn durations_are_read_as_kubectl_reads_them() {
    let seconds = |text| duration(text).unwrap().as_secs();
    assert_eq!(
        [seconds("30"), seconds("30s"), seconds("5m"), seconds("1h30m")],
        [30, 30, 300, 5400]
    );
    for wrong in ["", "-5s", "soon", "5 parsecs"] {
        assert!(duration(wrong).is_err(), "{wrong}");
    }
}
