//! Metrics for receivers without labels, `StatsD` and Graphite: each number under a name that says everything, in
//! packets of lines.

use super::family::{Family, Of, Point, Scope, Value};
use super::histogram::Statistics;
use super::{Identity, number};
use config::reporter::Scopes;

/// Maximum number of bytes in a packet: one that is fragmented on its way may be lost.
const PACKET_BYTES: usize = 1400;

/// How Flink's reporter for a receiver writes.
pub struct Dialect {
    /// Suffixes of the names of counters and of rates.
    counter: &'static str,
    rate: &'static str,
    /// Maps a character within a part of a name to what is written for it.
    letter: fn(char) -> Option<char>,
}

pub const STATSD: Dialect = Dialect {
    counter: "",
    rate: ".rate",
    letter: |letter| {
        let ends_a_name = letter == ':' || letter == '|' || letter.is_whitespace();
        Some(if ends_a_name { '-' } else { letter })
    },
};

pub const GRAPHITE: Dialect = Dialect {
    counter: ".count",
    rate: ".m1_rate",
    letter: |letter| match letter {
        '"' => None,
        '.' => Some('-'),
        letter if letter.is_whitespace() => Some('-'),
        letter => Some(letter),
    },
};

impl Dialect {
    /// Returns packets of lines, one line per number; anything that is not a number is left out.
    pub fn packets<'f>(
        &'f self,
        families: &'f [Family],
        identity: &'f Identity,
        scopes: &'f Scopes,
        line: impl Fn(&str, f64) -> String + 'f,
    ) -> impl Iterator<Item = String> + 'f {
        let points = families
            .iter()
            .flat_map(|family| family.points.iter().map(move |point| (family, point)));
        let lines = points.flat_map(move |(family, point)| {
            let name = name(family, point, identity, scopes, self.letter);
            let numbers = self.numbers(family, &point.value).into_iter();
            let known = numbers.filter(|(_, number)| number.is_finite());
            known.map(|(end, number)| line(&format!("{name}{end}"), number)).collect::<Vec<_>>()
        });
        packed(lines, PACKET_BYTES)
    }

    /// Returns the numbers of a value, and the suffixes of their names.
    fn numbers(&self, family: &Family, value: &Value) -> Vec<(&'static str, f64)> {
        match value {
            Value::Gauge(value) => vec![(if family.is_rate() { self.rate } else { "" }, *value)],
            Value::Count(value) => vec![(self.counter, *value)],
            Value::Summary(summary) => {
                let Statistics { size: _, min, max, mean, deviation } = summary.statistics();
                let [p50, p75, p95, p98, p99, p999] = summary.quantiles();
                vec![
                    (".count", number(summary.count)),
                    (".max", max),
                    (".min", min),
                    (".mean", mean),
                    (".stddev", deviation),
                    (".p50", p50),
                    (".p75", p75),
                    (".p95", p95),
                    (".p98", p98),
                    (".p99", p99),
                    (".p999", p999),
                ]
            }
        }
    }
}

/// Packs as many lines together as there is room for; a longer line is alone.
pub(super) fn packed(
    lines: impl Iterator<Item = String>,
    bytes: usize,
) -> impl Iterator<Item = String> {
    let mut lines = lines.peekable();
    std::iter::from_fn(move || {
        let mut packet = lines.next()? + "\n";
        while let Some(line) = lines.next_if(|line| packet.len() + line.len() < bytes) {
            packet.push_str(&line);
            packet.push('\n');
        }
        Some(packet)
    })
}

/// Returns the name of a value. `letter` maps the characters of what a label would say.
pub(super) fn name(
    family: &Family,
    point: &Point,
    identity: &Identity,
    scopes: &Scopes,
    letter: impl Fn(char) -> Option<char>,
) -> String {
    let filter = |text: &str| text.chars().filter_map(&letter).collect::<String>();
    let (namespace, kind, resource) = match &point.of {
        Of::Operator => ("", "", ""),
        Of::Namespace(kind, namespace) => (&**namespace, kind.into_str(), ""),
        Of::Resource(id) => (&*id.namespace, id.kind.into_str(), &*id.name),
    };
    let format = match family.scope {
        Scope::System | Scope::Process => &scopes.system,
        Scope::Namespace => &scopes.namespace,
        Scope::Resource => &scopes.resource,
    };
    let mut name = filled(
        format,
        &[
            ("host", filter(&identity.host)),
            ("namespace", filter(&identity.namespace)),
            ("name", filter(&identity.name)),
            ("resourcens", filter(namespace)),
            ("resourcename", filter(resource)),
            ("resourcetype", filter(kind)),
        ],
    );
    for part in family.name.split('.') {
        name.push('.');
        name.push_str(part);
        // A group that is a label elsewhere is followed by its value.
        if let Some((_, value)) = point.label.as_ref().filter(|(key, _)| *key == part) {
            name.push('.');
            name.push_str(&filter(value));
        }
    }
    name
}

/// Fills the format with values for what is in angle brackets; an unknown name stays as it is. Values are not expanded
/// again.
fn filled(format: &str, values: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(format.len());
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let known = after.split_once('>').and_then(|(variable, after)| {
            let (_, value) = values.iter().find(|(name, _)| *name == variable)?;
            Some((value, after))
        });
        rest = if let Some((value, after)) = known {
            text.push_str(value);
            after
        } else {
            text.push('<');
            after
        };
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;

    use super::super::Kind;
    use super::super::family::Id;
    use super::super::histogram::Summary;
    use super::*;
    use config::FlinkConfig;

    fn described(dialect: &Dialect) -> String {
        let [host, namespace, name] = ["pod.1", "ops", "op"].map(str::to_owned);
        let identity = Identity { host, namespace, name };
        let (kind, namespace) = (Kind::FlinkDeployment, Arc::<str>::from("shop"));
        let id = Id { kind, namespace: Arc::clone(&namespace), name: "a:b".into() };
        let version = Some(("FlinkVersion", Arc::from("1.20.1 \"x\"")));
        let of = Of::Namespace(kind, namespace);
        let of_version = Point { of, label: version, value: Value::Gauge(2.0) };
        let of = Of::Resource(Arc::new(id));
        let passes = Point { of, label: None, value: Value::Count(3.0) };
        let times = Value::Summary(Summary::new(9, vec![1.0, 3.0]));
        let families = [
            Family::of_operator("HttpRequest.Count", Value::Count(7.0)),
            Family::of_operator("HttpRequest.NumPerSecond", Value::Gauge(0.25)),
            Family::of_operator("Nothing", Value::Gauge(f64::NAN)),
            Family::of_operator("TimeNanos", times),
            Family::of_operator("None", Value::Summary(Summary::new(0, vec![]))),
            Family::new(Scope::Namespace, "FlinkVersion.Count", vec![of_version]),
            Family::new(Scope::Resource, "JOSDK.Reconciliation.Count", vec![passes]),
        ];
        let scopes = Scopes::of(&FlinkConfig::new()).unwrap();
        let line = |name: &str, value: f64| format!("{name} {value}");
        dialect.packets(&families, &identity, &scopes, line).collect()
    }

    #[test]
    fn names_are_those_of_flinks_statsd_reporter() {
        expect![[r#"
            pod.1.k8soperator.ops.op.system.HttpRequest.Count 7
            pod.1.k8soperator.ops.op.system.HttpRequest.NumPerSecond.rate 0.25
            pod.1.k8soperator.ops.op.system.TimeNanos.count 9
            pod.1.k8soperator.ops.op.system.TimeNanos.max 3
            pod.1.k8soperator.ops.op.system.TimeNanos.min 1
            pod.1.k8soperator.ops.op.system.TimeNanos.mean 2
            pod.1.k8soperator.ops.op.system.TimeNanos.stddev 1.4142135623730951
            pod.1.k8soperator.ops.op.system.TimeNanos.p50 2
            pod.1.k8soperator.ops.op.system.TimeNanos.p75 3
            pod.1.k8soperator.ops.op.system.TimeNanos.p95 3
            pod.1.k8soperator.ops.op.system.TimeNanos.p98 3
            pod.1.k8soperator.ops.op.system.TimeNanos.p99 3
            pod.1.k8soperator.ops.op.system.TimeNanos.p999 3
            pod.1.k8soperator.ops.op.system.None.count 0
            pod.1.k8soperator.ops.op.namespace.shop.FlinkDeployment.FlinkVersion.1.20.1-"x".Count 2
            pod.1.k8soperator.ops.op.resource.shop.a-b.FlinkDeployment.JOSDK.Reconciliation.Count 3
        "#]]
        .assert_eq(&described(&STATSD));
    }

    #[test]
    fn names_are_those_of_flinks_graphite_reporter() {
        expect![[r#"
            pod-1.k8soperator.ops.op.system.HttpRequest.Count.count 7
            pod-1.k8soperator.ops.op.system.HttpRequest.NumPerSecond.m1_rate 0.25
            pod-1.k8soperator.ops.op.system.TimeNanos.count 9
            pod-1.k8soperator.ops.op.system.TimeNanos.max 3
            pod-1.k8soperator.ops.op.system.TimeNanos.min 1
            pod-1.k8soperator.ops.op.system.TimeNanos.mean 2
            pod-1.k8soperator.ops.op.system.TimeNanos.stddev 1.4142135623730951
            pod-1.k8soperator.ops.op.system.TimeNanos.p50 2
            pod-1.k8soperator.ops.op.system.TimeNanos.p75 3
            pod-1.k8soperator.ops.op.system.TimeNanos.p95 3
            pod-1.k8soperator.ops.op.system.TimeNanos.p98 3
            pod-1.k8soperator.ops.op.system.TimeNanos.p99 3
            pod-1.k8soperator.ops.op.system.TimeNanos.p999 3
            pod-1.k8soperator.ops.op.system.None.count 0
            pod-1.k8soperator.ops.op.namespace.shop.FlinkDeployment.FlinkVersion.1-20-1-x.Count 2
            pod-1.k8soperator.ops.op.resource.shop.a:b.FlinkDeployment.JOSDK.Reconciliation.Count.count 3
        "#]].assert_eq(&described(&GRAPHITE));
    }

    #[test]
    fn packets_have_a_bounded_length() {
        let lines = ["aaa", "bb", "c", "dddddddddddd", "e"].map(str::to_owned);
        let packets: Vec<String> = packed(lines.into_iter(), 8).collect();
        assert_eq!(packets, ["aaa\nbb\n", "c\n", "dddddddddddd\n", "e\n"]);
        assert_eq!(packed(std::iter::empty(), 8).count(), 0);
    }
}
