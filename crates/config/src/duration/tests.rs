use proptest::prelude::*;

use super::*;

#[test]
fn accepts_every_unit_of_flink() {
    for (text, seconds) in [
        ("2d", 172_800),
        ("1 day", 86_400),
        ("3 hours", 10_800),
        ("5 MINUTE", 300),
        ("5m", 300),
        ("10 min", 600),
        (" 7 s ", 7),
        ("7sec", 7),
        ("8 seconds", 8),
        ("60000", 60),
        ("1000 millis", 1),
    ] {
        assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
    }
    for text in ["3 us", "3µs", "3 µS", "3 micros", "3000 ns", "3000 nanoseconds"] {
        assert_eq!(parse(text), Some(Duration::from_micros(3)), "{text}");
    }
}

#[test]
fn refuses_what_flink_refuses() {
    for text in
        ["", "s", "-1 min", "1.5 h", "PT30S", "5 fortnights", "1 h 30 min", "9223372036854775808"]
    {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn writes_the_largest_dividing_unit() {
    assert_eq!(render(Duration::from_mins(5)), "5 min");
    assert_eq!(render(Duration::from_millis(1500)), "1500 ms");
    assert_eq!(render(Duration::ZERO), "0 ms");
}

proptest! {
    #[test]
    fn written_durations_read_back(seconds in 0..=292_000_000_u64, nanos in 0..1_000_000_000_u32) {
        let duration = Duration::new(seconds, nanos);
        prop_assert_eq!(parse(&render(duration)), Some(duration));
    }
}
