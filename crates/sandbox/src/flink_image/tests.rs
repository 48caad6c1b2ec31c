use super::*;

#[test]
fn versions_are_numbers() {
    for good in ["1.20", "1.20.5", "2.0.0"] {
        assert!(check_version(good).is_ok(), "{good}");
    }
    for bad in ["", "1", "1.20.5.1", "v1.20", "1.x", "1..2", "../1.2"] {
        assert!(check_version(bad).is_err(), "{bad}");
    }
    assert_eq!(minor("1.20.5"), "1.20");
    assert_eq!(minor("2.0"), "2.0");
}

#[test]
fn names_of_images_have_a_tag() {
    for good in ["flink:1.20", "localhost:5000/a/flink:x-1_2"] {
        assert!(check_tag(good).is_ok(), "{good}");
    }
    for bad in ["flink", "flink:", ":1", "localhost:5000/flink", "flink:1 2"] {
        assert!(check_tag(bad).is_err(), "{bad}");
    }
}

#[test]
fn digest_distinguishes_parts() {
    assert_ne!(short_digest(&["ab", "c"]), short_digest(&["a", "bc"]));
}
