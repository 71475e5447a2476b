//! The command, as a person or a script would run it.

mod harness;

mod a_closed_pipe_is_quiet;
mod a_dataset_is_worked_on_as_code_is;
mod a_put_is_all_or_nothing;
mod a_stop_leaves_nothing;
mod a_tensor_comes_back_as_it_went;
mod errors_name_the_thing_and_have_codes;
mod help_has_examples;
mod history_refuses_what_cannot_be;
mod object_stores_work_too;
mod old_versions_stay_readable;
mod programs_are_explained;
mod programs_are_run;
mod queries_are_answered;
mod results_are_json_when_asked;
mod samples_come_in_and_go_out;
mod slices_are_numpys;
mod space_is_reclaimed_without_fear;
mod what_people_see;
mod views_are_saved_by_name;
