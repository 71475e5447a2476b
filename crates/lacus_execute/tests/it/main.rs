//! Promises of the crate, one file each.

mod any_memory_and_workers_give_the_same_bits;
mod programs_run_as_they_are_meant;
mod sparse_tensors_stay_sparse;
