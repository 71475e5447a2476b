//! The Delta log: what one version of a table consists of, and how it is found.
//!
//! ```text
//! _delta_log/*.json ─actions→ ─replay→ LogState ─snapshot→ Snapshot (files, and a catalogue made from their tags)
//!                    ▲ seal: every entry, tag and checkpoint carries a checksum
//! ```
//!
//! Nothing here opens a data file.

pub(crate) mod seal;
pub(crate) mod deletion;
pub(crate) mod actions;
pub(crate) mod beginning;
pub(crate) mod zone;
pub(crate) mod snapshot;
pub(crate) mod content_key;
pub(crate) mod log_checkpoint;
pub(crate) mod foreign_checkpoint;
pub(crate) mod replay;
pub(crate) mod identity;
pub(crate) mod held;
pub(crate) mod foreign_rows;
pub(crate) mod history;
