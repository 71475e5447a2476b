//! The promises of a table, one file each.

mod a_damaged_log_is_no_data;
mod a_table_does_what_a_model_does;
mod a_tensor_comes_back;
mod arrays_come_piece_by_piece;
mod arrays_are_read_in_three_steps;
mod faults_lose_nothing;
mod opening_does_not_grow_with_history;
mod other_engines_find_every_row_group;
mod requests_are_few;
mod rows_do_what_a_model_does;
mod support;
mod what_differs_is_found_and_taken;
mod what_is_staged_is_added_whole;
mod writers_lose_nothing;
