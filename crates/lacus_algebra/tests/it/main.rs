//! Promises of the crate, one file each.

mod bad_input_is_an_error_with_its_place;
mod equal_programs_have_equal_meaning;
mod long_rows_of_operators_are_programs;
mod no_program_panics;
mod plans_move_no_more_than_known_ones;
