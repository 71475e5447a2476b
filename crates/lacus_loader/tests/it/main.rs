//! What a loader promises, on datasets made on the spot.

mod made;

mod a_lost_store_is_gone_on_with;
mod a_state_goes_on_with_the_next_sample;
mod batches_hold_what_the_view_holds;
mod every_sample_comes_once;
mod orders_depend_on_nothing_else;
