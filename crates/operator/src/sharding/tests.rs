use futures::executor::block_on;
use kube::core::ObjectMeta;

use super::*;

fn namespace(name: &str) -> PartialObjectMeta<Namespace> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    PartialObjectMeta { metadata, ..PartialObjectMeta::default() }
}

#[test]
fn namespaces_are_reported_when_they_change_and_a_list_only_when_it_is_whole() {
    use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
    let events = vec![
        Init,
        InitApply(namespace("a")),
        InitApply(namespace("b")),
        InitDone,
        Apply(namespace("a")),
        Apply(namespace("c")),
        Delete(namespace("b")),
        Delete(namespace("b")),
        // The second list begins, and breaks off.
        Init,
        InitApply(namespace("z")),
        Init,
        InitApply(namespace("c")),
        InitDone,
    ];
    let told: Vec<String> = block_on(
        names(futures::stream::iter(events))
            .map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
            .collect(),
    );
    assert_eq!(told, ["a b", "a b c", "a c", "c"]);
}
