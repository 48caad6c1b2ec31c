//! Which of Flink's metrics of a vertex are read, by their names.

use std::collections::{BTreeMap, BTreeSet};

use super::sample::{Aggregate, VertexReading};

/// The meaning of a metric of a vertex.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Figure {
    Busy,
    Backpressure,
    SourceInPerSecond,
    SourceIn,
    SourceOut,
    Pending,
    InPerSecond,
}

impl Figure {
    fn is_named(self, name: &str) -> bool {
        let of_source = |end: &str| name.starts_with("Source__") && name.ends_with(end);
        match self {
            Self::Busy => name == "busyTimeMsPerSecond",
            Self::Backpressure => name == "backPressuredTimeMsPerSecond",
            Self::SourceInPerSecond => of_source(".numRecordsInPerSecond"),
            Self::SourceIn => of_source(".numRecordsIn"),
            Self::SourceOut => of_source(".numRecordsOut"),
            Self::Pending => name.ends_with(".pendingRecords"),
            Self::InPerSecond => name == "numRecordsInPerSecond",
        }
    }
}

/// A figure that is required to scale a vertex; just after a start it may be missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no metric for {0:?}")]
pub struct Missing(pub Figure);

/// The figures required of a source.
const OF_SOURCE: &[Figure] =
    &[Figure::Busy, Figure::Backpressure, Figure::SourceInPerSecond, Figure::SourceIn];
/// The figures required of a vertex that reads from others.
const OF_OTHERS: &[Figure] = &[Figure::Busy];

/// Metrics to read of a vertex, and the meaning of each.
pub type Wanted = BTreeMap<String, Figure>;

/// Maximum number of metrics read of a vertex; they must fit into one request.
pub const WANTED_MAX: usize = 100;
/// Maximum length of their names together.
const WANTED_LENGTH_MAX: usize = 32 << 10;
/// Maximum length of one name; Flink shortens the parts of longer ones.
const NAME_LENGTH_MAX: usize = 1 << 10;

/// Chooses from the names of a vertex's metrics. One of each figure is enough, except for pending records: a vertex may
/// read from several sources.
///
/// # Errors
/// If a required figure has no metric.
pub fn wanted(names: &[String], is_source: bool) -> Result<Wanted, Missing> {
    let mut wanted = Wanted::new();
    let of = |figure: Figure| {
        let is_it = move |name: &&String| name.len() <= NAME_LENGTH_MAX && figure.is_named(name);
        names.iter().filter(is_it)
    };
    let first = |figure: Figure| of(figure).min();
    let (needed, others) = if is_source {
        (OF_SOURCE, [Figure::SourceOut])
    } else {
        (OF_OTHERS, [Figure::InPerSecond])
    };
    for figure in needed {
        let name = first(*figure).ok_or(Missing(*figure))?;
        wanted.insert(name.clone(), *figure);
    }
    for figure in others {
        wanted.extend(first(figure).map(|name| (name.clone(), figure)));
    }
    if is_source {
        let mut length: usize = wanted.keys().map(String::len).sum();
        let fits = |name: &&String| {
            length += name.len();
            length <= WANTED_LENGTH_MAX
        };
        let room = WANTED_MAX.saturating_sub(wanted.len());
        let pending = of(Figure::Pending).take(room).take_while(fits);
        wanted.extend(pending.map(|name| (name.clone(), Figure::Pending)));
    }
    Ok(wanted)
}

/// Groups the values by the figures that they stand for.
pub fn reading(
    wanted: &Wanted,
    metrics: impl IntoIterator<Item = (String, Aggregate)>,
) -> VertexReading {
    let mut reading = VertexReading::default();
    for (name, aggregate) in metrics {
        let Some(figure) = wanted.get(&name) else { continue };
        let place = match figure {
            Figure::Busy => &mut reading.busy,
            Figure::Backpressure => &mut reading.backpressure,
            Figure::SourceInPerSecond => &mut reading.source_in_per_second,
            Figure::SourceIn => &mut reading.source_in,
            Figure::SourceOut => &mut reading.source_out,
            Figure::Pending => &mut reading.pending,
            Figure::InPerSecond => &mut reading.in_per_second,
        };
        *place = Some(place.map_or(aggregate, |before| before.merged(aggregate)));
    }
    reading
}

/// Returns how many partitions of Kafka or Pulsar a source reads, as far as its metrics are named after them.
pub fn partitions(names: &[String]) -> Option<u32> {
    let partitions: BTreeSet<_> =
        names.iter().filter_map(|name| kafka(name).or_else(|| pulsar(name))).collect();
    u32::try_from(partitions.len()).ok().filter(|count| *count > 0)
}

/// Cluster, topic and number of a partition.
type Partition<'a> = (Option<&'a str>, &'a str, &'a str);

/// Parses `….KafkaSourceReader.topic.TOPIC.partition.NUMBER.currentOffset`, with the cluster before it.
fn kafka(name: &str) -> Option<Partition<'_>> {
    const READER: &str = ".KafkaSourceReader.topic.";
    const CLUSTER: &str = ".kafkaCluster.";
    let (rest, number) = name.strip_suffix(".currentOffset")?.rsplit_once('.')?;
    let rest = rest.strip_suffix(".partition")?;
    let (cluster, topic) = match rest.split_once(CLUSTER) {
        Some((before, rest)) if !before.contains(READER) => {
            let (cluster, topic) = rest.rsplit_once(READER)?;
            (Some(cluster), topic)
        }
        Some(_) | None => (None, rest.split_once(READER)?.1),
    };
    (is_number(number) && !topic.is_empty()).then_some((cluster, topic, number))
}

/// Parses `….PulsarConsumer.TOPIC-partition-NUMBER.….numMsgsReceived`.
fn pulsar(name: &str) -> Option<Partition<'_>> {
    let rest = name.strip_suffix(".numMsgsReceived")?;
    let (_, rest) = rest.rsplit_once(".PulsarConsumer.")?;
    let (topic, rest) = rest.rsplit_once("-partition-")?;
    let (number, _) = rest.split_once('.')?;
    (is_number(number) && !topic.is_empty()).then_some((None, topic, number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
