//! Samples come in and go out.

mod a_scan_comes_back_whole;
mod support;

mod a_failed_import_leaves_nothing;
mod annotations_come_in_and_go_out;
mod every_kind_comes_back;
mod odd_tables_are_read;
mod what_is_left_out_is_told;
mod wide_tables_are_plain;
