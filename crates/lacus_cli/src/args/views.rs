//! Arguments of `lacus views`.

use clap::Args;

use super::{Url, Version};

pub(super) const VIEWS_EXAMPLES: &str = "\
Examples:
  lacus views ./cats                               all saved views
  lacus views ./cats first --rows :1000            save the first 1,000 rows
  lacus views ./cats odd --rows 1::2 --columns image,label -m 'Every other one'
  lacus views ./cats old --rows : --at v1.0        all rows of a tag
  lacus views ./cats -d odd                        delete one; its rows stay
  lacus head ./cats --view first                   look at the rows of one
  lacus export ./cats first.parquet --view first

A view is rows and columns of one commit. It never changes, and the clean-up
keeps what it needs.";

#[derive(Debug, Args)]
pub(crate) struct ViewsArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The view to save, or those to delete
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Its rows, as a slice: START:STOP:STEP, each of which may be left out
    #[arg(
        long,
        value_name = "SLICE",
        requires = "names",
        conflicts_with = "delete",
        allow_hyphen_values = true
    )]
    pub rows: Option<String>,
    /// Its columns [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "rows")]
    pub columns: Option<Vec<String>>,
    /// What it is for
    #[arg(long, short, value_name = "TEXT", requires = "rows")]
    pub message: Option<String>,
    /// Delete
    #[arg(long, short, requires = "names")]
    pub delete: bool,
    #[command(flatten)]
    pub version: Version,
}
