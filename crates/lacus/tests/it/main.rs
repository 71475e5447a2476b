//! What a Rust program sees of Lacus.

mod a_view_is_a_value;
mod saved_views_stay;
mod states_are_found_in_one_place;
mod world;
