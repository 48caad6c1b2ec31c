use super::*;

fn seen(version: u64, generation: i64) -> ObjectMeta {
    ObjectMeta {
        resource_version: Some(version.to_string()),
        generation: Some(generation),
        ..ObjectMeta::default()
    }
}

#[test]
fn an_earlier_form_is_known_by_its_version_or_its_generation() {
    assert!(is_before(&seen(9, 3), 10, 3));
    assert!(is_before(&seen(11, 2), 10, 3), "the store was set back and has overtaken itself");
    assert!(!is_before(&seen(10, 3), 10, 3));
    assert!(!is_before(&seen(11, 3), 10, 3));
}
