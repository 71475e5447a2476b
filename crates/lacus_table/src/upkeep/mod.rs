//! Work that changes how rows lie, not what they say, and looks for damage.

mod align;
mod compact;
mod doctor;
pub(crate) mod lives;
mod log;

pub use compact::CompactReport;
pub use doctor::{DoctorReport, Finding};
pub use log::{check_log, empty_tail, remove_empty_tail, repair_log};
