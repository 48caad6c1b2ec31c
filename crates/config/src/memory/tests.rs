use proptest::prelude::*;

use super::*;

#[test]
fn units_are_binary_and_case_does_not_count() {
    for text in [
        "2g",
        "2G",
        "2 gb",
        "2GB",
        "2048m",
        "2048 mb",
        "2097152k",
        "2147483648",
        "2147483648 b",
        "2 gibibytes",
    ] {
        assert_eq!(MemorySize::parse(text), Some(MemorySize(2 * GIB)), "{text}");
    }
    for text in ["", "g", "-1g", "1.5g", "2Gi", "2 g b", "99999999999 tb"] {
        assert_eq!(MemorySize::parse(text), None, "{text}");
    }
}

#[test]
fn quantities_are_read_when_flinks_syntax_does_not_fit() {
    for (text, bytes) in [
        ("2Gi", 2 * GIB),
        ("2gi", 2 * GIB),
        ("2 gib", 2 * GIB),
        ("2Mi", 2 * MIB),
        ("512ki", 512 * KIB),
        ("1e9", 1_000_000_000),
        ("1000000000.0", 1_000_000_000),
    ] {
        assert_eq!(
            StatedMemory::parse(text),
            Some(StatedMemory::Kubernetes(MemorySize(bytes))),
            "{text}"
        );
    }
    for text in ["1.5Gi", "1.5G", "0.5g", "-1Gi", "two", "", "1e-3", ".5Gi", "1e400"] {
        assert_eq!(StatedMemory::parse(text), None, "{text}");
    }
}

#[test]
fn text_of_the_config_keeps_the_form() {
    let text = |stated| StatedMemory::parse(stated).map(StatedMemory::config_text);
    assert_eq!(text("2048m").as_deref(), Some("2 gb"));
    assert_eq!(text("1600m").as_deref(), Some("1600 mb"));
    assert_eq!(text("4Gi").as_deref(), Some("4294967296"));
    assert_eq!(text("1000").as_deref(), Some("1000 bytes"));
    assert_eq!(text("0").as_deref(), Some("0 bytes"));
}

proptest! {
    #[test]
    fn written_sizes_read_back(bytes in 0..=i64::MAX as u64) {
        prop_assert_eq!(MemorySize::parse(&MemorySize(bytes).to_string()), Some(MemorySize(bytes)));
    }

    #[test]
    fn whole_units_read_back(count in 0..4096_u64, unit in prop::sample::select(vec![KIB, MIB, GIB])) {
        let size = MemorySize(count * unit);
        prop_assert_eq!(MemorySize::parse(&size.to_string()), Some(size));
    }
}
