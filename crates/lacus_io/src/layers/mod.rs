//! Stores that wrap another store.

pub(crate) mod counting;
