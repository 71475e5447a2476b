//! The promises of datasets of samples, one file each.

mod changes_write_little;
mod samples_come_back;
mod support;
