//! flink.
