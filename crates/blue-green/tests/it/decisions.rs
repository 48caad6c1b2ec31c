//! Rows: what follows from one situation.
