//! Arguments of `lacus index`.

use clap::{Args, Subcommand};

use super::{Url, Version};

pub(super) const INDEX_EXAMPLES: &str = "\
Examples:
  lacus index ls ./docs                                  all indexes, and what they cover
  lacus index create ./docs embedding                    for searches by cosine
  lacus index create ./docs embedding --metric l2 --recall 0.99
  lacus index create ./docs embedding --bits 8           a quarter of the size
  lacus index drop ./docs embedding

Searches use an index by themselves:
  lacus query ./docs \"SELECT * FROM vector_search('embedding', [0.1, 0.2], 10)\"

An index is part of the dataset: it is versioned, branched and merged. Rows that
are added later are searched exactly, until you create it again.";

#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub verb: IndexVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexVerb {
    /// List the indexes
    Ls(IndexLsArgs),
    /// Make an index of a column of vectors, in place of the one it has
    Create(IndexCreateArgs),
    /// Drop the index of a column
    Drop(IndexDropArgs),
}

#[derive(Debug, Args)]
pub(crate) struct IndexLsArgs {
    #[command(flatten)]
    pub dataset: Url,
    #[command(flatten)]
    pub version: Version,
}

#[derive(Debug, Args)]
pub(crate) struct IndexCreateArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The column
    pub column: String,
    /// What vectors are compared by: cosine, dot or l2
    #[arg(long, value_name = "NAME", default_value = "cosine")]
    pub metric: String,
    /// How many lists vectors are sorted into [default: twice the square root of the rows]
    #[arg(long, value_name = "N")]
    pub lists: Option<usize>,
    /// The share of the true neighbours that a search is to find
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub recall: f64,
    /// Bits of an element in the index: 8 [default: as in the column]
    #[arg(long, value_name = "BITS")]
    pub bits: Option<u8>,
    /// What random choices depend on
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct IndexDropArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The column
    pub column: String,
}
