//! What comes next in training? The order of an epoch, and batches made ahead of time.
//!
//! ```text
//! View ─order→ places ─rank's part→ mine ─window of bytes→ reads in flight ─decode, transform→ straight into a batch
//! ```

mod sample_transform;
pub mod transform;

pub use sample_transform::{SampleInput, SampleKey, SampleOutput, SampleTransform, TransformFailure};
