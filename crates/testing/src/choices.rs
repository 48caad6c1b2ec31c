//! Repeatable choices, and how many of them a test tries.

/// A small generator of repeatable choices (`SplitMix64`).
pub struct Choices(u64);

impl Choices {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns before which of `steps` steps an operator crashes, in one of `of_passes` passes.
    pub fn crash(&mut self, of_passes: u64, steps: u64) -> Option<usize> {
        (self.below(of_passes) == 0).then(|| usize::try_from(self.below(steps)).unwrap())
    }
}

/// Returns the seeds to try: `default` of them, and the one in `KUBECTL_FLINK_ANOTHER_SEED`.
pub fn seeds(default: u64) -> impl Iterator<Item = u64> {
    (0..cases(default)).chain(another_seed())
}

/// Returns an additional seed. A failing test prints it, and setting it repeats the same case.
pub fn another_seed() -> Option<u64> {
    let text = std::env::var("KUBECTL_FLINK_ANOTHER_SEED").ok()?;
    let seed = text.parse().expect("KUBECTL_FLINK_ANOTHER_SEED is a number");
    println!("KUBECTL_FLINK_ANOTHER_SEED={seed}");
    Some(seed)
}

/// Returns how many seeds to try; `KUBECTL_FLINK_SIMULATION_CASES` overrides the default.
pub fn cases(default: u64) -> u64 {
    std::env::var("KUBECTL_FLINK_SIMULATION_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
