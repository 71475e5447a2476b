//! The promises of history, one file each.

mod a_commit_never_changes;
mod a_revision_names_one_state;
mod refs_on_a_file_system;
mod support;
mod tags_stay;
mod walks_follow_the_graph;
