//! Promises of the crate, one file each.

mod support;

mod a_killed_loop_goes_on;
mod any_memory_and_workers_give_the_same_bits;
mod formulas_finish_products_in_place;
mod programs_run_as_they_are_meant;
mod runs_are_explained;
mod runs_fail_cleanly;
mod sparse_tensors_stay_sparse;
mod stored_tensors_go_in_and_out_by_tiles;
