//! The program `kubectl-flink`.

fn main() {}
