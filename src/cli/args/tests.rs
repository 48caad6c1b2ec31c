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
