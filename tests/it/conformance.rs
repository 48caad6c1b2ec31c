//! Scripts that run against a fake and against what it stands for, which must give the same answers.
//!
//! A fake that is kinder than the real thing hides defects: no test can find what its world cannot do. A script is a list of
//! requests in YAML. Its answers, as the real thing gave them, are in a file beside it, and the fake must give the same
//! ones. The test that asks the real thing needs a cluster; with `UPDATE_EXPECT=1` it writes the file.

mod api_server;
pub(crate) mod flink;
mod script;
