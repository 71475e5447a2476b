//! Promises of the crate, one file each.

mod equal_programs_have_equal_meaning;
mod no_program_panics;
