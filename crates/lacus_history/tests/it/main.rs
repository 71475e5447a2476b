//! The promises of history, one file each.

mod a_commit_never_changes;
mod a_dataset_has_a_history;
mod a_revision_names_one_state;
mod branches_and_commits_cost_little;
mod check_finds_damage;
mod clean_up_takes_only_what_nobody_needs;
mod datasets;
mod support;
mod tags_stay;
mod walks_follow_the_graph;
