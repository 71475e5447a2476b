//! What people are promised of searches.

mod an_index_changes_no_score;
