//! What to load, and how.

use std::sync::Arc;
use std::time::Duration;

use crate::order::{Ranks, Tail};
use crate::sample_transform::SampleTransform;

/// How the samples of a column become one value of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collate {
    /// One tensor if all samples of the batch are tensors of one dtype and shape, else a list.
    #[default]
    Auto,
    /// One tensor; an error if samples have different shapes.
    Stack,
    /// One tensor of the largest sizes, and a mask that says which elements are samples'.
    Pad,
    /// A list.
    List,
    /// All samples one after the other along their first axis, and where each begins.
    Nested,
}

/// What becomes of a row without a sample. Rows can also be left out before: then the loader has a smaller view.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Missing {
    /// It is missing in the batch too, which makes it a list; under [`Collate::Pad`] its mask is all false.
    #[default]
    Keep,
    /// Every element has this value.
    Number(f64),
    /// It is this text.
    Text(String),
}

/// What becomes of a sample that cannot be decoded or transformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The batch fails, with an error that names the sample. The next batch can be asked for.
    #[default]
    Raise,
    /// Its row is left out: the batch has one sample less.
    Skip,
    /// Zeros stand for it.
    Zeros,
}

/// A column to load.
#[derive(Clone, Debug)]
pub struct ColumnPlan {
    /// Its name.
    pub name: String,
    /// How samples become one value.
    pub collate: Collate,
    /// What stands for missing samples.
    pub missing: Missing,
    /// The value of elements that [`Collate::Pad`] adds.
    pub pad_value: f64,
    /// What is made of each sample.
    pub transform: Option<Arc<dyn SampleTransform>>,
}

impl ColumnPlan {
    /// A column as it is.
    pub fn new(name: impl Into<String>) -> ColumnPlan {
        ColumnPlan {
            name: name.into(),
            collate: Collate::default(),
            missing: Missing::default(),
            pad_value: 0.0,
            transform: None,
        }
    }
}

/// How rows are shuffled, as users say it. The view decides what it means in rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShuffleWish {
    /// Not at all.
    #[default]
    None,
    /// Within blocks of so many stored bytes.
    Blocks {
        /// Bytes of a block.
        bytes: u64,
    },
    /// All rows together.
    Full,
}

/// How much, by whom, how far ahead.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Samples of a batch on one rank.
    pub batch_size: u64,
    /// Which rank this is.
    pub ranks: Ranks,
    /// What becomes of samples that do not fill a batch on every rank.
    pub tail: Tail,
    /// Bytes that may be fetched or decoded ahead. A batch that is larger goes alone.
    pub prefetch_bytes: u64,
    /// What becomes of samples that cannot be loaded.
    pub on_error: OnError,
    /// The longest time without a batch; retries of a store that is gone go on for as long.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            batch_size: 1,
            ranks: Ranks { rank: 0, world: 1 },
            tail: Tail::default(),
            prefetch_bytes: 256 << 20,
            on_error: OnError::default(),
            // Long enough for a store that restarts, short enough for somebody who looks after lunch.
            timeout: Duration::from_secs(600),
        }
    }
}
