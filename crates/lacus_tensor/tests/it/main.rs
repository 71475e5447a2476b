//! What `lacus_tensor` promises, seen from outside.

mod bad_input_is_refused_with_its_name;
mod boxes_reassemble_the_selection;
mod selections_follow_numpy;
mod selections_match_a_naive_reference;
mod sparse_agrees_with_dense;
mod strided_views_copy_what_they_show;

mod arbitrary;
