//! What should the caller do? The few things that the errors of all crates have in common.
//!
//! Each crate has an enum with the facts of what went wrong. Outside of it counts what the caller can do about it: [`ErrorKind`]. For a
//! name that is not there, [`close_to`] finds what was meant, and [`did_you_mean`] says it in one way everywhere.
//!
//! ```
//! use lacus_error::{ErrorKind, close_to, did_you_mean};
//! assert_eq!(ErrorKind::NotFound.exit_code(), 3);
//! let close = close_to("lable", ["label", "image"]);
//! assert_eq!(format!("no column \"lable\"{}", did_you_mean(&close)), "no column \"lable\"; did you mean label?");
//! ```

mod kind;
mod names;

pub use kind::ErrorKind;
pub use names::{close_to, did_you_mean, edit_distance};
