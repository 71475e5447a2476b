//! Which samples are nearest? Search by vector and by text, exact or by an index.
//!
//! An index is kept in ordinary tensors of the dataset, under names that begin with [`INDEX_PREFIX`]: so it is versioned, branched, merged
//! and cleaned up with everything else. It covers the rows that were there when it was made; rows since are searched exactly.

pub use lacus_table::INDEX_PREFIX;

mod text;
mod vector;

pub use vector::{
    Allowed, Found, IndexInfo, IndexSpec, IndexUse, Measure, Nearest, Probes, QueryVector, Ranking, Report,
    create_index, drop_index, expected, indexes, nearest,
};
