//! Tests of the crate from outside.

mod samples_come_back;
