//! Arguments of `lacus query` and `lacus shell`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{Url, Version};
use crate::commands::parse_bytes;

pub(super) const QUERY_EXAMPLES: &str = "\
Examples:
  lacus query ./cats \"SELECT label, count(*) AS n GROUP BY label ORDER BY n DESC\"
  lacus query ./cats \"SELECT * WHERE width(image) > 300 LIMIT 10\"
  lacus query ./cats \"SELECT * WHERE label = ? AND score > ?\" --param dog --param 0.5
  lacus query ./cats \"SELECT * WHERE label = :what\" --param what=dog --save dogs
  lacus query ./cats \"SELECT label, shape(image) AS size\" --csv > sizes.csv
  lacus query ./cats \"SELECT * ORDER BY score DESC\" --explain
  lacus query ./cats \"SELECT * FROM dataset@\\\"v1.0\\\" EXCEPT SELECT * FROM dataset\"

The rows of the dataset are called `dataset`; FROM may be left out. Tensors have
numpy's subscripts: `image[0:10, :, 0]`. A value of --param is NULL, true, false,
a number, a list of numbers like [1, 2.5], or text; '42' in quotes is text, too.";

#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The query; `-` reads it from standard input
    #[arg(value_name = "SQL")]
    pub text: String,
    /// A value for `?`, in order, or NAME=VALUE for `:NAME` (repeatable)
    #[arg(long = "param", value_name = "VALUE", allow_hyphen_values = true)]
    pub parameters: Vec<String>,
    /// Print all rows as comma-separated values
    #[arg(long, conflicts_with_all = ["json", "parquet", "save", "explain", "analyze"])]
    pub csv: bool,
    /// Write all rows to a Parquet file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["save", "explain", "analyze"])]
    pub parquet: Option<PathBuf>,
    /// Print so many rows, unless with --json or --csv
    #[arg(long = "limit-shown", value_name = "N", default_value_t = 20)]
    pub shown: u64,
    /// Save the rows under a name, as `lacus views` does; they must be rows of the dataset
    #[arg(long, value_name = "NAME", conflicts_with_all = ["explain", "analyze"])]
    pub save: Option<String>,
    /// Print how the query would be answered
    #[arg(long)]
    pub explain: bool,
    /// Answer it, and print what each step read and how long it took
    #[arg(long)]
    pub analyze: bool,
    /// Memory for sorts, joins and groups, such as 2GiB; more than that goes to disk
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub version: Version,
}

pub(super) const SHELL_EXAMPLES: &str = "\
Examples:
  lacus shell ./cats
  lacus shell ./cats --at v1.0
  lacus shell ./cats < questions.sql

A statement ends with `;` and may have several lines. `\\d` lists the columns,
`\\?` all commands, `\\q` leaves. Tab completes names; Ctrl-C stops a query that
runs. When standard input is no terminal, statements are read from there, and
the first that fails ends the shell.";

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Print so many rows of each answer, unless with --json
    #[arg(long = "limit-shown", value_name = "N", default_value_t = 20)]
    pub shown: u64,
    /// Memory for sorts, joins and groups, such as 2GiB; more than that goes to disk
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub version: Version,
}
