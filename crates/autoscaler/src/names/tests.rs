use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const NAMES: &[&str] = &[
    "busyTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "idleTimeMsPerSecond",
    "numRecordsInPerSecond",
    "Source__Orders.numRecordsInPerSecond",
    "Source__Orders.numRecordsIn",
    "Source__Orders.numRecordsOut",
    "Source__Orders.KafkaSourceReader.KafkaConsumer.records-lag-max",
    "Source__Orders.pendingRecords",
    "Source__Payments.pendingRecords",
];

#[test]
fn section_3_2_a_source() {
    let wanted = wanted(&names(NAMES), true).unwrap();
    let expected = [
        ("Source__Orders.numRecordsIn", Figure::SourceIn),
        ("Source__Orders.numRecordsInPerSecond", Figure::SourceInPerSecond),
        ("Source__Orders.numRecordsOut", Figure::SourceOut),
        ("Source__Orders.pendingRecords", Figure::Pending),
        ("Source__Payments.pendingRecords", Figure::Pending),
        ("backPressuredTimeMsPerSecond", Figure::Backpressure),
        ("busyTimeMsPerSecond", Figure::Busy),
    ];
    assert_eq!(wanted, expected.map(|(name, figure)| (name.to_owned(), figure)).into());
}

#[test]
fn section_3_2_what_reads_from_others() {
    let wanted = wanted(&names(NAMES), false).unwrap();
    let expected =
        [("busyTimeMsPerSecond", Figure::Busy), ("numRecordsInPerSecond", Figure::InPerSecond)];
    assert_eq!(wanted, expected.map(|(name, figure)| (name.to_owned(), figure)).into());
}

#[test]
fn a_needed_metric_that_is_not_there_is_named() {
    for (name, figure) in [
        ("busyTimeMsPerSecond", Figure::Busy),
        ("backPressuredTimeMsPerSecond", Figure::Backpressure),
        ("Source__Orders.numRecordsInPerSecond", Figure::SourceInPerSecond),
        ("Source__Orders.numRecordsIn", Figure::SourceIn),
    ] {
        let others: Vec<_> = NAMES.iter().copied().filter(|other| *other != name).collect();
        assert_eq!(wanted(&names(&others), true), Err(Missing(figure)));
    }
    let others = names(&NAMES[..6]);
    assert!(!wanted(&others, true).unwrap().values().any(|figure| *figure == Figure::Pending));
    assert_eq!(wanted(&[], false), Err(Missing(Figure::Busy)));
}

#[test]
fn no_more_are_wanted_than_fit() {
    let mut many = names(NAMES);
    many.extend((0..1000).map(|number| format!("Source__{number}.pendingRecords")));
    assert_eq!(wanted(&many, true).unwrap().len(), WANTED_MAX);
}

#[test]
fn what_waits_at_several_sources_is_added_up() {
    let wanted = wanted(&names(NAMES), true).unwrap();
    let of = |value: f64| Aggregate { max: Some(value), sum: Some(value), ..Aggregate::default() };
    let metrics = [
        ("Source__Orders.pendingRecords", 3.0),
        ("Source__Payments.pendingRecords", 4.0),
        ("busyTimeMsPerSecond", 500.0),
        ("unasked", 1.0),
    ];
    let reading = reading(&wanted, metrics.map(|(name, value)| (name.to_owned(), of(value))));
    let pending = Aggregate { max: Some(4.0), sum: Some(7.0), ..Aggregate::default() };
    assert_eq!(reading.pending, Some(pending));
    assert_eq!(reading.busy, Some(of(500.0)));
    assert_eq!(reading.in_per_second, None);
}

#[test]
fn section_3_2_partitions_of_kafka() {
    let of = |list: &[&str]| partitions(&names(list));
    let one = "1.Source__Kafka.KafkaSourceReader.topic.orders.partition.0.currentOffset";
    assert_eq!(of(&[one, one]), Some(1));
    let other_topic = one.replace("orders", "payments.of.today");
    let other_number = one.replace(".0.", ".12.");
    assert_eq!(of(&[one, &other_topic, &other_number]), Some(3));
    let cluster = one.replace(".KafkaSource", ".kafkaCluster.a.KafkaSource");
    let other = cluster.replace(".a.", ".b.c.");
    assert_eq!(of(&[one, &cluster, &other]), Some(3));
    for wrong in ["committedOffset", "currentOffsets"] {
        assert_eq!(of(&[&one.replace("currentOffset", wrong)]), None);
    }
    assert_eq!(of(&[&one.replace(".0.", ".x.")]), None);
    assert_eq!(of(&[&one.replace("orders", "")]), None);
    assert_eq!(of(NAMES), None);
}

#[test]
fn section_3_2_partitions_of_pulsar() {
    let of = |list: &[&str]| partitions(&names(list));
    let one = "0.Source__p.PulsarConsumer.persistent_//public/default/t-partition-3.d0f3f.numMsgsReceived";
    assert_eq!(of(&[one, &one.replace("d0f3f", "0c4e2"), &one.replace("-3.", "-4.")]), Some(2));
    assert_eq!(of(&[&one.replace(".d0f3f", "")]), None);
    assert_eq!(of(&[&one.replace("-partition-3", "")]), None);
}
