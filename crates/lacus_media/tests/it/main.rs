//! The crate from outside: one file per promise.

#![expect(clippy::single_range_in_vec_init, reason = "a region of one axis is a list of one range")]

mod a_bomb_is_refused_before_it_takes_memory;
mod a_jpeg_is_decoded_in_parts;
mod a_lossless_file_comes_back_bit_for_bit;
mod a_region_is_a_part_of_the_whole;
mod broken_files_are_errors;
mod memory;
mod real_videos_are_decoded;
mod samples;
