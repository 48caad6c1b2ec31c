//! Choices that can be made again, and how many of them a test tries.

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

    /// Before which of so many steps an operator dies, in one of so many passes.
    pub fn crash(&mut self, of_passes: u64, steps: u64) -> Option<usize> {
        (self.below(of_passes) == 0).then(|| usize::try_from(self.below(steps)).unwrap())
    }
}

/// The seeds to try: so many, and the one in `KUBECTL_FLINK_ANOTHER_SEED` beside them.
pub fn seeds(default: u64) -> impl Iterator<Item = u64> {
    (0..cases(default)).chain(another_seed())
}

/// One seed more than a test has of its own. It is printed where a test fails, and tries the same again
/// when it is set.
pub fn another_seed() -> Option<u64> {
    let text = std::env::var("KUBECTL_FLINK_ANOTHER_SEED").ok()?;
    let seed = text.parse().expect("KUBECTL_FLINK_ANOTHER_SEED is a number");
    println!("KUBECTL_FLINK_ANOTHER_SEED={seed}");
    Some(seed)
}

/// How many seeds to try; `KUBECTL_FLINK_SIMULATION_CASES` asks for more or fewer.
pub fn cases(default: u64) -> u64 {
    std::env::var("KUBECTL_FLINK_SIMULATION_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
