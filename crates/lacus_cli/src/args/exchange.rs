//! Arguments of `lacus import`, `lacus export` and `lacus head`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use lacus::exchange::{Kind, OnError};

use super::{Url, Version};

pub(super) const IMPORT_EXAMPLES: &str = "\
Examples:
  lacus import ./photos ./cats                     photos/<class>/<file>: image, label
  lacus import ./photos ./cats --split-column split     photos/<split>/<class>/<file>
  lacus import instances_val2017.json ./coco --images val2017
  lacus import people.csv ./people --on-error skip
  lacus import 'shards-{000..012}.tar' s3://bucket/web
  lacus import model.safetensors ./models --prefix run-1

The format is detected from the name or content; --as overrides it. The dataset is
created if it does not exist. Either all samples are imported, or with --on-error skip
all that fit; the others are reported. Large imports write one version per 64 MiB and
undo them on failure.";

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A file, a directory, or a pattern of tar files such as 'a-{00..12}.tar'
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub source: PathBuf,
    #[command(flatten)]
    pub dataset: Url,
    /// Format of the source [default: detected]
    #[arg(long = "as", value_name = "KIND", value_parser = import_kind)]
    pub kind: Option<Kind>,
    /// What to do with samples that do not fit: raise an error, or skip them
    #[arg(long, value_name = "raise|skip", default_value = "raise", hide_default_value = true, value_parser = on_error)]
    pub on_error: OnError,
    /// Append to columns that already exist
    #[arg(long)]
    pub append: bool,
    /// Group to put the columns under
    #[arg(long, value_name = "GROUP")]
    pub prefix: Option<String>,
    /// Treat the first level of a folder as splits, stored in this column
    #[arg(long, value_name = "NAME")]
    pub split_column: Option<String>,
    /// Where COCO's images are [default: beside the annotations]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub images: Option<PathBuf>,
    /// Separator of the fields of a CSV file [default: a comma; a tab in .tsv]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Return only when it is safe against power loss
    #[arg(long)]
    pub durable: bool,
}

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  lacus export ./cats ./photos                     a folder of class folders
  lacus export ./coco ./out --as coco
  lacus export ./people people.csv --columns name,age
  lacus export ./cats cats.parquet                 one wide Parquet file
  lacus export ./cats ./cats-delta --wide          one wide Delta table
  lacus export ./web web.tar
  lacus export ./cats some.csv --view first        the rows of a saved view

The extension determines the format; --as overrides it. The output appears whole or
not at all. Wide tables have plain columns that any engine reads: arrays are lists, with
their shapes in <column>_shape.";

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The file or directory to write
    #[arg(value_name = "DEST", value_hint = ValueHint::AnyPath)]
    pub dest: PathBuf,
    /// Format to write [default: by the extension, else a folder]
    #[arg(long = "as", value_name = "KIND", value_parser = export_kind)]
    pub kind: Option<Kind>,
    /// One wide table: Parquet if DEST ends with .parquet, else Delta
    #[arg(long, conflicts_with = "kind")]
    pub wide: bool,
    /// Only these columns, or tensors for safetensors
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// What to do with values that the format cannot hold: raise an error, or skip them
    #[arg(long, value_name = "raise|skip", default_value = "raise", hide_default_value = true, value_parser = on_error)]
    pub on_error: OnError,
    /// Separator of the fields of a CSV file [default: a comma; a tab in .tsv]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Only the rows and columns of a saved view
    #[arg(long, value_name = "NAME", conflicts_with = "at")]
    pub view: Option<String>,
    #[command(flatten)]
    pub version: Version,
}

pub(super) const HEAD_EXAMPLES: &str = "\
Examples:
  lacus head ./cats
  lacus head ./cats -n 3 --columns image,label
  lacus head ./cats --json

Long texts are truncated; arrays and media are shown as type, shape and size.";

#[derive(Debug, Args)]
pub(crate) struct HeadArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// How many rows
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    pub rows: u64,
    /// Only these columns
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// The rows and columns of a saved view
    #[arg(long, value_name = "NAME", conflicts_with = "at")]
    pub view: Option<String>,
    #[command(flatten)]
    pub version: Version,
}

fn import_kind(text: &str) -> Result<Kind, String> {
    match text.parse::<Kind>() {
        Ok(Kind::Delta) | Err(_) => Err(one_of(|kind| kind != Kind::Delta)),
        Ok(kind) => Ok(kind),
    }
}

fn export_kind(text: &str) -> Result<Kind, String> {
    text.parse::<Kind>().map_err(|_| one_of(|_| true))
}

fn one_of(wanted: impl Fn(Kind) -> bool) -> String {
    let names: Vec<&str> = Kind::ALL.into_iter().filter(|kind| wanted(*kind)).map(Kind::name).collect();
    format!("it should be one of {}", names.join(", "))
}

fn on_error(text: &str) -> Result<OnError, String> {
    match text {
        "raise" => Ok(OnError::Raise),
        "skip" => Ok(OnError::Skip),
        _ => Err("it should be raise or skip".to_owned()),
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && *byte != b'"' && *byte != b'\n' && *byte != b'\r' => Ok(*byte),
        _ => Err("it should be one character, such as ; or \\t".to_owned()),
    }
}
