//! Work that changes how rows lie, not what they say, and looks for damage.

mod compact;
mod doctor;

pub use compact::CompactReport;
pub use doctor::{DoctorReport, Finding};
