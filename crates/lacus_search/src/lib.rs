//! Which samples are nearest? Search by vector and by text, exact or by an index.
//!
//! An index is kept in ordinary tensors of the dataset, under names that begin with [`INDEX_PREFIX`]: so it is versioned, branched, merged
//! and cleaned up with everything else. It covers the rows that were there when it was made; rows since are searched exactly.

pub use lacus_table::INDEX_PREFIX;

mod fuse;
mod text;
mod vector;

pub use fuse::{RANK_CONSTANT, fused};
pub use text::{
    DEFAULT_TOKENIZER, TextIndex, TextScores, create_text_index, drop_text_index, text_index, text_indexes,
    text_scores, tokenizer_names, update_text_index,
};
