//! The crate from outside: files written, opened, broken, and real ones.

#![expect(clippy::print_stderr, reason = "a test that skips says so")]

mod a_tensor_comes_back_as_it_went;
mod bad_files_are_named_errors;
mod real_files_are_read;
