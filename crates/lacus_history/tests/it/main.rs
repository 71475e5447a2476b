//! The promises of history, one file each.

mod a_commit_never_changes;
mod a_dataset_has_a_history;
mod a_merge_can_be_reverted;
mod a_revision_names_one_state;
mod branches_and_commits_cost_little;
mod check_finds_damage;
mod clean_up_follows_every_deletion;
mod clean_up_takes_only_what_nobody_needs;
mod crosswise_merges_settle_nothing;
mod damage_is_never_data;
mod datasets;
mod faults_leave_before_or_after;
mod histories_do_what_a_model_does;
mod refs_on_a_file_system;
mod renames_are_followed;
mod support;
mod tables;
mod tags_stay;
mod walks_follow_the_graph;
