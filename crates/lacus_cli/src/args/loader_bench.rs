//! Arguments of `lacus loader-bench`.

use clap::{Args, ValueEnum};

use super::{Url, Version};
use crate::commands::parse_bytes;

pub(super) const LOADER_BENCH_EXAMPLES: &str = "\
Examples:
  lacus loader-bench ./cats
  lacus loader-bench ./cats \"SELECT * WHERE label < 5\" --batch-size 256
  lacus loader-bench s3://bucket/cats --shuffle full --seconds 30
  lacus loader-bench ./cats --columns image --prefetch 1GiB --json

It loads batches as a training loop would, as fast as this machine can, and says
what limits the speed. Then it tries other ways to shuffle, for comparison.";

/// How rows are shuffled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShuffleArg {
    /// In the order of the rows
    None,
    /// Within blocks
    Blocks,
    /// All rows together
    Full,
}

#[derive(Debug, Args)]
pub(crate) struct LoaderBenchArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// A query that chooses rows [default: all rows]
    #[arg(value_name = "SQL")]
    pub query: Option<String>,
    /// Samples of a batch
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub batch_size: u64,
    /// The columns to load [default: all stored ones]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// How rows are shuffled
    #[arg(long, value_enum, default_value_t = ShuffleArg::Blocks)]
    pub shuffle: ShuffleArg,
    /// The stored bytes that shuffling mixes
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = parse_bytes)]
    pub block: u64,
    /// Bytes that are read and decoded ahead
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = parse_bytes)]
    pub prefetch: u64,
    /// How long each measurement takes, at most
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub seconds: f64,
    #[command(flatten)]
    pub version: Version,
}
