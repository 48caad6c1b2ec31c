//! Runs the transcripts in `tests/cli`, which show each command line with all it prints.
//!
//! `TRYCMD=overwrite cargo test transcripts` writes what is printed now.

#[test]
fn transcripts_are_current() {
    let cases = trycmd::TestCases::new();
    cases
        .default_bin_name("kubectl-flink")
        .register_bin("kubectl-flink", std::path::Path::new(env!("CARGO_BIN_EXE_kubectl-flink")))
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .case("tests/cli/*.trycmd");
}
