use super::*;

#[test]
fn reads_every_suffix() {
    for (text, value) in [
        ("500m", 0.5),
        ("2", 2.0),
        ("0.25", 0.25),
        ("1k", 1e3),
        ("2Gi", 2_147_483_648.0),
        ("1e3", 1e3),
        ("1E-3", 1e-3),
        ("-1", -1.0),
    ] {
        assert_eq!(parse(text), Some(value), "{text}");
    }
    for text in ["", "m", "1 Gi", "1gi", "nan", "inf", "1e", "1x", "1.2.3", "--1"] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn whole_quantities_are_exact() {
    assert_eq!(parse_whole("7Ei"), Some(7 << 60));
    assert_eq!(parse_whole("1e9"), Some(1_000_000_000));
    for text in ["8Ei", "1.5", "500m", "-1", "+1", "1e40"] {
        assert_eq!(parse_whole(text), None, "{text}");
    }
}
