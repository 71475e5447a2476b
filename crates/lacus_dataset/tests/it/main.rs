//! The promises of datasets of samples, one file each.

mod changes_write_little;
mod handles_share_what_the_process_has;
mod random_reads_equal_a_gather;
mod reads_have_three_steps;
mod filters_read_little;
mod samples_come_back;
mod scans_give_what_reads_give;
mod support;
