//! What the layouts promise, on tensors made on the spot.

mod a_selection_equals_select_after_decode;
mod damaged_bytes_are_errors;
mod every_layout_gives_back_what_it_got;
mod stored_bytes_stay_readable;
mod support;
mod the_choice_fits_the_tensor;
mod tiny_bytes_allocate_little;
