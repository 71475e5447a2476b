//! What columns and samples promise, on samples made on the spot.

mod a_selection_equals_select_after_decode;
mod every_sample_comes_back;
mod foreign_bytes_are_errors;
mod headers_bring_columns_back;
mod media_are_kept_as_they_came;
mod rows_are_encoded_as_each_would_be;
mod support;
mod what_does_not_fit_is_refused;
