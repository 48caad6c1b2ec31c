//! Fakes of external systems, and helpers that tests share.

pub(crate) mod api_client;
pub(crate) mod browser;
pub(crate) mod fake_cluster;
pub(crate) mod fake_flink;
pub(crate) mod fake_sql_gateway;
pub(crate) mod operating;
pub(crate) mod patience;
pub(crate) mod program;
pub(crate) mod rights;
pub(crate) mod serving;
