//! What people are promised of queries.

mod datasets;

mod answers_are_views_or_tables;
mod arrays_are_tables;
mod late_reading_changes_no_answer;
mod only_what_is_needed_is_read;
mod searches_are_sorts;
mod steps_go_beyond_sql;
