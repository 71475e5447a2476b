//! Which samples are nearest? Search by vector and by text, exact or by an index.
//!
//! An index is kept in ordinary tensors of the dataset, under names that begin with [`INDEX_PREFIX`]: so it is versioned, branched, merged
//! and cleaned up with everything else. It covers the rows that were there when it was made; rows since are searched exactly.

/// Names of tensors that belong to indexes begin with this. They are hidden from listings.
pub const INDEX_PREFIX: &str = "_index/";

mod text;
mod vector;
