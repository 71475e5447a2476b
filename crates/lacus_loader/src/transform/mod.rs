//! Native transforms: pictures and sound on their way into a batch. Pure: what comes out follows from the sample, the steps and the
//! [`SampleKey`](crate::SampleKey) alone.
//!
//! ```text
//! steps ─checked→ Pipeline      file ─header→ Plan ─decode no more than needed→ pixels ─across, down→ rows ─table→ the batch
//! ```
//!
//! Crops, resizes and flips that follow each other are one pass; everything that is done to single numbers is a table that rows go
//! through as they are written. See `design/0016-transforms.md`.

mod error;

mod step;

mod dice;

mod picture;

mod weights;

mod vectors;

mod resize;

mod color;

mod plan;

mod finish;

mod image;

mod audio;

mod pipeline;

#[cfg(test)]
mod tests;

pub use error::TransformError;
pub use pipeline::Pipeline;
pub use step::{Interpolation, OutputType, PaddingMode, Step};
