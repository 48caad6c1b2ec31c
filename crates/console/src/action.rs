//! Actions that a person can run on a resource from its page.
//!
//! Each action is a command of `kubectl flink`: a form becomes the arguments of that command, so that both do the same,
//! ask the same questions and are refused for the same reasons.

use std::collections::BTreeMap;

use strum::{Display, EnumIter, EnumString, IntoEnumIterator};

use crate::row::{Key, Kind, Row};

/// Maximum length of a value, in characters.
const VALUE_CHARACTERS_MAX: usize = 8_192;
/// Maximum number of fields read. No form has as many.
const VALUES_MAX: usize = 16;

/// Actions in the order in which they are offered.
#[derive(Clone, Copy, Debug, Display, EnumIter, EnumString, Eq, Ord, PartialEq, PartialOrd)]
#[strum(serialize_all = "kebab-case")]
pub enum Action {
    Savepoint,
    Suspend,
    Resume,
    Restart,
    Scale,
    Image,
    Options,
    Rollback,
    Restore,
    Pause,
    Unpause,
    Promote,
    Abort,
}

/// A field of a form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field {
    /// Name in the address.
    pub name: &'static str,
    pub label: &'static str,
    pub hint: &'static str,
    pub input: Input,
    pub is_required: bool,
}

/// How a field is filled in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Input {
    Text,
    /// A whole number above zero.
    Number,
    /// One value per line.
    Lines,
}

const fn field(name: &'static str, label: &'static str, input: Input, hint: &'static str) -> Field {
    Field { name, label, hint, input, is_required: true }
}

const SAVEPOINT: [Field; 1] = [Field {
    is_required: false,
    ..field("path", "Directory", Input::Text, "Leave empty to use the job's savepoint directory")
}];
const SCALE: [Field; 1] = [field(
    "parallelism",
    "Parallelism",
    Input::Number,
    "For every vertex without an override of its own",
)];
const IMAGE: [Field; 1] = [field(
    "image",
    "Image",
    Input::Text,
    "With a tag or digest; used by the JobManager and the TaskManagers",
)];
const OPTIONS: [Field; 1] =
    [field("settings", "Options", Input::Lines, "One KEY=VALUE per line; KEY- removes an option")];
const ROLLBACK: [Field; 1] = [field(
    "revision",
    "Revision",
    Input::Number,
    "The number shown on the timeline and by `kubectl flink history`",
)];
const RESTORE: [Field; 1] = [field(
    "from",
    "Restore point",
    Input::Text,
    "The path of a savepoint or checkpoint, the name of a FlinkStateSnapshot, or a revision number",
)];

impl Action {
    /// Returns a verb phrase for buttons and headings.
    pub fn title(self) -> &'static str {
        match self {
            Self::Savepoint => "Take a savepoint",
            Self::Suspend => "Suspend",
            Self::Resume => "Resume",
            Self::Restart => "Restart",
            Self::Scale => "Scale",
            Self::Image => "Change the image",
            Self::Options => "Change options",
            Self::Rollback => "Roll back",
            Self::Restore => "Restore",
            Self::Pause => "Pause",
            Self::Unpause => "Unpause",
            Self::Promote => "Promote",
            Self::Abort => "Abort",
        }
    }

    /// Returns the title next to a moment of the timeline.
    pub fn title_of_moment(self) -> &'static str {
        match self {
            Self::Rollback => "Roll back to this",
            Self::Restore => "Restore from this",
            Self::Savepoint
            | Self::Suspend
            | Self::Resume
            | Self::Restart
            | Self::Scale
            | Self::Image
            | Self::Options
            | Self::Pause
            | Self::Unpause
            | Self::Promote
            | Self::Abort => self.title(),
        }
    }

    /// Returns what the action does to the job and its state.
    pub fn text(self) -> &'static str {
        match self {
            Self::Savepoint => "The job keeps running while its state is written to a savepoint.",
            Self::Suspend => {
                "The job stops and keeps its state, as configured by `spec.job.upgradeMode`, until you resume it."
            }
            Self::Resume => "The job starts from the state it had when it was suspended.",
            Self::Restart => {
                "The job stops and starts again from its state, as in an upgrade. A session cluster restarts together with its jobs."
            }
            Self::Scale => {
                "Changes the parallelism of the job. With the adaptive scheduler the job is rescaled while it runs; otherwise it \
                 is stopped and started again from its state."
            }
            Self::Image => "Upgrades the job to another image, from its current state.",
            Self::Options => {
                "Changes options of Flink or of the operator. The job is upgraded if the change requires it."
            }
            Self::Rollback => {
                "Returns to an earlier spec. The job continues from its current state."
            }
            Self::Restore => {
                "The job restarts from a state you choose, and its progress since then is discarded. Take a savepoint first if \
                 you may want to go back."
            }
            Self::Pause => {
                "The operator only observes the resource until you unpause it: it starts, stops and deletes nothing. A job that \
                 runs keeps running."
            }
            Self::Unpause => {
                "The operator carries out what has changed meanwhile, as `kubectl flink plan` shows it."
            }
            Self::Promote => {
                "The other colour takes over as soon as it is ready, without having to stay ready for a while."
            }
            Self::Abort => "The active colour keeps running, and the other one is deleted.",
        }
    }

    /// Returns the fields that the action needs.
    pub fn fields(self) -> &'static [Field] {
        match self {
            Self::Savepoint => &SAVEPOINT,
            Self::Scale => &SCALE,
            Self::Image => &IMAGE,
            Self::Options => &OPTIONS,
            Self::Rollback => &ROLLBACK,
            Self::Restore => &RESTORE,
            Self::Suspend
            | Self::Resume
            | Self::Restart
            | Self::Pause
            | Self::Unpause
            | Self::Promote
            | Self::Abort => &[],
        }
    }

    /// Returns the command that does it, as it is named in the table of permissions.
    pub fn command(self) -> &'static str {
        match self {
            Self::Savepoint => "savepoint",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Scale => "scale",
            Self::Image | Self::Options => "set",
            Self::Rollback => "rollback",
            Self::Restore => "restore",
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Promote => "promote",
            Self::Abort => "abort",
        }
    }

    /// Returns whether the action writes a spec, so that `plan` can tell what the operator would do.
    pub fn has_plan(self) -> bool {
        !matches!(self, Self::Savepoint | Self::Pause | Self::Unpause | Self::Promote | Self::Abort)
    }

    /// Returns the address of the action's form.
    pub fn address(self, key: &Key) -> String {
        format!("{}/do/{self}", key.address())
    }

    /// Returns the address of the form with its first field filled in.
    pub fn address_with(self, key: &Key, value: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(field) = self.fields().first() {
            query.append_pair(field.name, value);
        }
        format!("{}?{}", self.address(key), query.finish())
    }

    /// Returns whether the action is offered at the top of the page. The others are offered where there is something to
    /// choose.
    pub fn is_offered_above(self) -> bool {
        self != Self::Rollback
    }

    /// Returns the actions that make sense for what is known of the resource. The command itself makes the final
    /// decision.
    pub fn of(key: &Key, row: Option<&Row>) -> impl Iterator<Item = Self> {
        let is_session = row.is_some_and(|row| row.is_session);
        let is_suspended = row.is_some_and(|row| row.lifecycle.as_deref() == Some("SUSPENDED"));
        let is_paused = row.is_some_and(|row| row.is_paused);
        let is_blue_green = key.kind == Kind::BlueGreen;
        let has_image = key.kind != Kind::SessionJob;
        Self::iter().filter(move |action| match action {
            Self::Savepoint | Self::Suspend => !is_session && !is_suspended,
            Self::Resume => !is_session && is_suspended,
            Self::Restart => !is_suspended,
            Self::Scale | Self::Restore => !is_session,
            Self::Image => has_image,
            Self::Options | Self::Rollback => true,
            Self::Pause => !is_paused,
            Self::Unpause => is_paused,
            Self::Promote | Self::Abort => is_blue_green,
        })
    }

    /// Returns the arguments of the command, without those that all commands have; `None` while a field has no valid
    /// value.
    fn arguments(self, key: &Key, values: &Values) -> Option<Vec<String>> {
        let name = key.argument();
        let value = |field: &Field| values.get(field);
        let first = self.fields().first();
        let mut arguments = vec![self.command().to_owned()];
        match (self, first) {
            (Self::Image, Some(field)) => {
                arguments.extend(["image".to_owned(), name, value(field)?.to_owned()]);
            }
            (Self::Options, Some(field)) => {
                arguments.extend(["config".to_owned(), name]);
                let lines = value(field)?.lines().map(str::trim).filter(|line| !line.is_empty());
                arguments.extend(lines.map(str::to_owned));
            }
            (Self::Savepoint, Some(field)) => {
                arguments.push(name);
                arguments.extend(value(field).map(|path| format!("--path={path}")));
            }
            (Self::Scale, Some(field)) => {
                arguments.extend([name, format!("--parallelism={}", value(field)?)]);
            }
            (Self::Rollback, Some(field)) => {
                arguments.extend([name, format!("--to-revision={}", value(field)?)]);
            }
            (Self::Restore, Some(field)) => {
                arguments.extend([name, format!("--from={}", value(field)?)]);
            }
            _ => arguments.push(name),
        }
        Some(arguments)
    }

    /// Returns the arguments that show what the command would write, without writing it; `None` while a field is
    /// missing.
    pub fn dry_run(self, key: &Key, values: &Values) -> Option<Vec<String>> {
        let mut arguments = self.arguments(key, values)?;
        arguments.extend(["--dry-run=client", "--output=json"].map(str::to_owned));
        Some(arguments)
    }

    /// Returns the arguments that run the command and wait until it is done; `None` while a field is missing.
    pub fn run(self, key: &Key, values: &Values) -> Option<Vec<String>> {
        let mut arguments = self.arguments(key, values)?;
        if self == Self::Rollback {
            // The page has shown the difference, and the button was the answer.
            arguments.push("--yes".to_owned());
        }
        if self.has_plan() {
            arguments.push("--wait".to_owned());
            arguments.push("--timeout=10m".to_owned());
        }
        Some(arguments)
    }
}

/// Returns one value of a query or of the body of a form, of any length.
pub fn value(text: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(text.as_bytes());
    pairs.find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
}

/// The values that a person has filled in.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Values(BTreeMap<String, String>);

impl Values {
    /// Parses a query or the body of a form.
    pub fn parse(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes());
        let pairs = pairs.filter(|(_, value)| value.chars().count() <= VALUE_CHARACTERS_MAX);
        let pairs = pairs.map(|(name, value)| (name.into_owned(), value.trim().to_owned()));
        Self(pairs.filter(|(_, value)| !value.is_empty()).take(VALUES_MAX).collect())
    }

    /// Returns the value as typed, whether it is valid or not.
    pub fn typed(&self, field: &Field) -> Option<&str> {
        self.0.get(field.name).map(String::as_str)
    }

    /// Returns the value if it is valid.
    fn get(&self, field: &Field) -> Option<&str> {
        self.typed(field).filter(|value| match field.input {
            Input::Text => is_word(value),
            Input::Number => value.parse::<u32>().is_ok_and(|number| number > 0),
            Input::Lines => {
                value.lines().all(|line| line.trim().is_empty() || is_word(line.trim()))
            }
        })
    }

    /// Returns whether the field has a value that is not valid.
    pub fn is_wrong(&self, field: &Field) -> bool {
        self.typed(field).is_some() && self.get(field).is_none()
    }
}

/// Returns whether the text is a single line that cannot be mistaken for a flag.
fn is_word(text: &str) -> bool {
    !text.starts_with('-') && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: Kind) -> Key {
        Key { namespace: "shop".into(), name: "orders".into(), kind }
    }

    fn run(action: Action, kind: Kind, values: &str) -> Option<String> {
        action.run(&key(kind), &Values::parse(values)).map(|it| it.join(" "))
    }

    #[test]
    fn each_is_a_command() {
        let described = |action, kind, values| run(action, kind, values).unwrap();
        let (job, session_job) = (Kind::Deployment, Kind::SessionJob);
        assert_eq!(described(Action::Suspend, job, ""), "suspend orders --wait --timeout=10m");
        assert_eq!(described(Action::Savepoint, session_job, ""), "savepoint sessionjob/orders");
        assert_eq!(
            described(Action::Savepoint, job, "path=s3%3A%2F%2Fa"),
            "savepoint orders --path=s3://a"
        );
        assert_eq!(
            described(Action::Scale, Kind::BlueGreen, "parallelism=8"),
            "scale bluegreen/orders --parallelism=8 --wait --timeout=10m"
        );
        assert_eq!(
            described(Action::Options, job, "settings=a%3D1%0D%0A%0D%0Ab-"),
            "set config orders a=1 b- --wait --timeout=10m"
        );
        assert_eq!(
            described(Action::Rollback, job, "revision=3"),
            "rollback orders --to-revision=3 --yes --wait --timeout=10m"
        );
        assert_eq!(described(Action::Pause, session_job, ""), "pause sessionjob/orders");
        assert_eq!(described(Action::Promote, Kind::BlueGreen, ""), "promote bluegreen/orders");
        for action in Action::iter() {
            assert_eq!(action.to_string().parse(), Ok(action));
        }
    }

    #[test]
    fn a_dry_run_writes_nothing() {
        let values = Values::parse("image=a:2");
        let described = Action::Image.dry_run(&key(Kind::Deployment), &values).unwrap().join(" ");
        assert_eq!(described, "set image orders a:2 --dry-run=client --output=json");
    }

    #[test]
    fn what_is_missing_or_taken_for_a_flag_is_not_run() {
        for (action, values) in [
            (Action::Scale, ""),
            (Action::Scale, "parallelism=0"),
            (Action::Scale, "parallelism=8+--lose-state"),
            (Action::Image, "image=--lose-state"),
            (Action::Image, "image=%20"),
            (Action::Options, "settings=a%3D1%0A--lose-state"),
            (Action::Restore, "from=--unverified"),
            (Action::Rollback, "revision=-1"),
        ] {
            assert_eq!(run(action, Kind::Deployment, values), None, "{values}");
        }
    }

    #[test]
    fn offered_is_what_makes_sense() {
        let of = |kind, row: &Row| {
            Action::of(&key(kind), Some(row)).map(|it| it.to_string()).collect::<Vec<_>>()
        };
        let suspended = Row { lifecycle: Some("SUSPENDED".into()), ..Row::default() };
        let session = Row { is_session: true, ..Row::default() };
        let paused = Row { is_paused: true, ..session.clone() };
        assert_eq!(
            of(Kind::Deployment, &session),
            ["restart", "image", "options", "rollback", "pause"]
        );
        assert_eq!(
            of(Kind::Deployment, &paused),
            ["restart", "image", "options", "rollback", "unpause"]
        );
        assert_eq!(
            of(Kind::SessionJob, &suspended),
            ["resume", "scale", "options", "rollback", "restore", "pause"]
        );
        let all = of(Kind::BlueGreen, &Row::default());
        assert!(
            all.contains(&"promote".to_owned()) && !all.contains(&"resume".to_owned()),
            "{all:?}"
        );
    }
}
