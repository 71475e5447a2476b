//! What was asked for, as plain values.

mod history;
mod index;
mod query;
mod views;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use lacus::exchange::{Kind, OnError};
use lacus::files::ReadOptions;
use lacus::layout::{Compression, CompressionWish, Optimize, Wish};
use lacus::tensor::{DType, Index, Shape, parse_indices};
use serde_json::Value as Json;

use history::{
    BRANCH_EXAMPLES, CHECK_EXAMPLES, CHECKOUT_EXAMPLES, CHERRY_PICK_EXAMPLES, COMMIT_EXAMPLES, DIFF_EXAMPLES,
    DISCARD_EXAMPLES, EXPIRE_EXAMPLES, GC_EXAMPLES, LINEAGE_EXAMPLES, LOG_EXAMPLES, MERGE_EXAMPLES,
    PUBLISH_EXAMPLES, RESTORE_EXAMPLES, REVERT_EXAMPLES, SHOW_EXAMPLES, STATUS_EXAMPLES, TAG_EXAMPLES,
};
pub(crate) use history::{
    BranchArgs, CheckArgs, CheckoutArgs, CherryPickArgs, CommitArgs, DiffArgs, DiscardArgs, ExpireArgs,
    GcArgs, LineageArgs, LogArgs, MadeArgs, MergeArgs, PublishArgs, RestoreArgs, RevertArgs, ShowArgs,
    StatusArgs, TagArgs,
};
pub(crate) use index::{IndexArgs, IndexCreateArgs, IndexDropArgs, IndexLsArgs, IndexVerb};
pub(crate) use query::{QueryArgs, ShellArgs};
pub(crate) use views::ViewsArgs;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "lacus",
    version,
    about = "Tensors in open Delta tables, on disk or in an object store.",
    after_help = EXAMPLES,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lacus create ./data                          an empty dataset in a directory
  lacus put ./data photos.npy uber.tns.zst     two tensors, one version
  lacus ls ./data --long                       what is in it
  lacus get ./data photos                      a look at it
  lacus get ./data photos --slice '0:100, ::2' -o some.npy
  lacus import ./photos ./cats                 a folder of class folders, as rows
  lacus head ./cats                            the first of them
  lacus query ./cats 'SELECT * LIMIT 5'        a query in SQL
  lacus commit ./data -m 'First photos'        record this state in the history
  lacus checkout ./data -b try                 a branch to try something on

A dataset is a directory, or s3://bucket/path, gs://bucket/path, az://container/path.
Credentials come from the usual environment variables, or from --storage-option.
LACUS_THREADS (such as 4) limits the threads, LACUS_MEMORY (such as 2GiB) the bytes read ahead and cached.

Exit codes: 0 done, 2 invalid input, 3 not found, 4 conflict, 5 unavailable,
6 corrupt, 70 a bug, 130 stopped by Ctrl-C.";

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print results as one JSON value, and errors as JSON on stderr
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only results and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// An option of the store, such as aws_region=eu-central-1 (repeatable)
    #[arg(long = "storage-option", value_name = "KEY=VALUE", global = true, value_parser = key_value)]
    pub storage_options: Vec<(String, String)>,
    /// Read and write this branch instead of the one that is checked out
    #[arg(long = "branch", value_name = "NAME", global = true, env = "LACUS_BRANCH", hide_env_values = true)]
    pub on_branch: Option<String>,
}

/// One of the verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an empty dataset
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// Store tensors from files, all in one atomic version
    #[command(after_help = PUT_EXAMPLES)]
    Put(Box<PutArgs>),
    /// Read a tensor, or a slice of it, into a file or to the screen
    #[command(after_help = GET_EXAMPLES)]
    Get(GetArgs),
    /// Import samples: a folder, COCO, CSV, Parquet, WebDataset, safetensors
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Export samples to these formats, or to one wide table
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Show the first rows
    #[command(after_help = HEAD_EXAMPLES)]
    Head(HeadArgs),
    /// Run an SQL query
    #[command(after_help = query::QUERY_EXAMPLES)]
    Query(Box<QueryArgs>),
    /// Run SQL queries at a prompt
    #[command(after_help = query::SHELL_EXAMPLES)]
    Shell(ShellArgs),
    /// List, create and drop the indexes that searches use
    #[command(after_help = index::INDEX_EXAMPLES)]
    Index(IndexArgs),
    /// List the tensors and columns
    #[command(after_help = LS_EXAMPLES)]
    Ls(LsArgs),
    /// Show details of the dataset, or of one tensor or column
    #[command(after_help = INFO_EXAMPLES)]
    Info(InfoArgs),
    /// Remove tensors and columns, all in one version
    #[command(after_help = RM_EXAMPLES)]
    Rm(RmArgs),
    /// Rename a tensor or column
    #[command(after_help = MV_EXAMPLES)]
    Mv(MvArgs),
    /// Show the versions: what was done, when and by whom
    #[command(after_help = HISTORY_EXAMPLES)]
    History(HistoryArgs),
    /// Commit the draft: record the newest version in the history
    #[command(after_help = COMMIT_EXAMPLES)]
    Commit(Box<CommitArgs>),
    /// Show the current branch and uncommitted changes
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// Show the commits, newest first
    #[command(after_help = LOG_EXAMPLES)]
    Log(LogArgs),
    /// Show a commit and what it changed
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// List, create, rename and delete branches
    #[command(after_help = BRANCH_EXAMPLES)]
    Branch(BranchArgs),
    /// List, create and delete tags
    #[command(after_help = TAG_EXAMPLES)]
    Tag(TagArgs),
    /// List, save and delete views: rows and columns of a commit
    #[command(after_help = views::VIEWS_EXAMPLES)]
    Views(ViewsArgs),
    /// Switch to a branch, or look at an older state
    #[command(after_help = CHECKOUT_EXAMPLES)]
    Checkout(CheckoutArgs),
    /// Show the differences between two states
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Merge a branch or commit into the current branch
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(MergeArgs),
    /// Apply the changes of one commit to the current branch
    #[command(after_help = CHERRY_PICK_EXAMPLES)]
    CherryPick(CherryPickArgs),
    /// Undo the changes of one commit
    #[command(after_help = REVERT_EXAMPLES)]
    Revert(RevertArgs),
    /// Restore the content of an older state as a new version
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(RestoreArgs),
    /// Discard the draft
    #[command(after_help = DISCARD_EXAMPLES)]
    Discard(DiscardArgs),
    /// Publish a branch as a table that any Delta reader can open
    #[command(after_help = PUBLISH_EXAMPLES)]
    Publish(PublishArgs),
    /// Show where a tensor came from
    #[command(after_help = LINEAGE_EXAMPLES)]
    Lineage(LineageArgs),
    /// Find files that are no longer needed, and remove them
    #[command(after_help = GC_EXAMPLES)]
    Gc(GcArgs),
    /// Squash old drafts: versions that are in no commit
    #[command(after_help = EXPIRE_EXAMPLES)]
    Expire(ExpireArgs),
    /// Verify refs, commits, logs and every stored byte, and repair
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Join small files into fewer, larger ones
    #[command(after_help = COMPACT_EXAMPLES)]
    Compact(CompactArgs),
    /// Check the store and every byte of the dataset
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Run a tensor program on a dataset
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Show how a tensor program would be computed, without any data
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Print a script that completes commands in a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
}

/// Where the dataset is.
#[derive(Debug, Args)]
pub(crate) struct Url {
    /// The dataset: a directory, s3://…, gs://… or az://…
    #[arg(value_name = "URL", value_hint = ValueHint::DirPath)]
    pub url: String,
}

/// Which state a reading command reads.
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Read a branch, tag, commit or the beginning of its id, branch~2, a version (12, @12), or a time
    /// (2026-01-31, 2026-01-31T12:00:00Z; local time unless it says otherwise)
    #[arg(long, value_name = "REV")]
    pub at: Option<String>,
}

const CREATE_EXAMPLES: &str = "\
Examples:
  lacus create ./data
  lacus create s3://bucket/data
  lacus create s3://bucket/data --storage-option aws_endpoint=http://localhost:9000";

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub dataset: Url,
}

const PUT_EXAMPLES: &str = "\
Examples:
  lacus put ./data photos.npy                           as \"photos\"
  lacus put ./data model.safetensors --prefix run-1/    as \"run-1/...\"
  lacus put ./data uber.tns.zst --dtype float32 --optimize size
  lacus put ./data photos.npy --chunk-shape 1,3,256,256 --compression none
  lacus put ./data scan.npy --name ct/scan --metadata '{\"unit\": \"HU\"}'

Files are .npy, .npz, .safetensors, .tns and .mtx, the last two also .gz or .zst.
Either all of their tensors are stored, or none. A tensor of the same name is
replaced; older versions keep it, and --at reads them.";

#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Files of tensors
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Name of the tensor, if there is only one [default: the file's, or the one in the file]
    #[arg(long)]
    pub name: Option<String>,
    /// Group to put the names under
    #[arg(long, value_name = "GROUP", conflicts_with = "name")]
    pub prefix: Option<String>,
    /// JSON object to keep with each tensor
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub metadata: Option<Json>,
    /// Return only when it is safe against power loss
    #[arg(long)]
    pub durable: bool,
    #[command(flatten)]
    pub layout: LayoutArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// How tensors are stored.
#[derive(Debug, Args)]
#[command(next_help_heading = "How it is stored")]
pub(crate) struct LayoutArgs {
    /// How the tensor is stored as rows
    #[arg(
        long,
        default_value = "auto",
        ignore_case = true,
        value_parser = ["auto", "dense", "sparse", "ftsf", "coo", "csr", "csc", "csf", "bsgs"]
    )]
    pub layout: String,
    /// What the automatic choice optimizes for
    #[arg(long, default_value = "slices", value_parser = ["slices", "size"])]
    pub optimize: String,
    /// Shape of a dense chunk, such as 1,3,256,256
    #[arg(long, value_name = "DIMS", value_parser = dims)]
    pub chunk_shape: Option<Dims>,
    /// Number of trailing axes that a dense chunk holds whole, with one step of the others
    #[arg(long, value_name = "N", conflicts_with = "chunk_shape")]
    pub chunk_rank: Option<usize>,
    /// Shape of a block, for bsgs
    #[arg(long, value_name = "DIMS", value_parser = dims)]
    pub block_shape: Option<Dims>,
    /// For csr and csc: axes before this one become matrix rows, the others columns
    #[arg(long, value_name = "AXIS")]
    pub split: Option<usize>,
    /// Order of the axes, such as 2,3,0,1, for csf and bsgs
    #[arg(long, value_name = "AXES", value_parser = dims)]
    pub axis_order: Option<Dims>,
    /// Compression of dense chunks: auto, none, lz4, zstd or zstd:LEVEL
    #[arg(long, default_value = "auto", hide_default_value = true, value_parser = compression)]
    pub compression: CompressionWish,
}

impl LayoutArgs {
    /// The same in the library's words.
    pub(crate) fn wish(&self) -> Wish {
        let axes =
            |dims: &Dims| dims.0.iter().map(|&axis| usize::try_from(axis).unwrap_or(usize::MAX)).collect();
        Wish {
            layout: (self.layout != "auto").then(|| self.layout.clone()),
            chunk_shape: self.chunk_shape.as_ref().map(|dims| dims.0.clone()),
            chunk_rank: self.chunk_rank,
            block_shape: self.block_shape.as_ref().map(|dims| dims.0.clone()),
            split: self.split,
            axis_order: self.axis_order.as_ref().map(axes),
            compression: self.compression,
            optimize: if self.optimize == "size" { Optimize::Size } else { Optimize::Slices },
        }
    }
}

/// How files are read.
#[derive(Debug, Args)]
#[command(next_help_heading = "How the files are read")]
pub(crate) struct ReadingArgs {
    /// Only this tensor of a file that holds several (repeatable)
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Add up the values of duplicate coordinates instead of refusing them
    #[arg(long)]
    pub sum_duplicates: bool,
    /// Type of the values of a .tns or .mtx file [default: what the file says, else float64]
    #[arg(long, value_name = "DTYPE")]
    pub dtype: Option<DType>,
    /// Shape of a .tns tensor [default: the smallest that fits its coordinates]
    #[arg(long, value_name = "DIMS", value_parser = dims)]
    pub shape: Option<Dims>,
    /// The coordinates of a .tns file start at 0, not at 1
    #[arg(long)]
    pub zero_based: bool,
    /// A .tns file has coordinates only; every value is 1
    #[arg(long)]
    pub pattern: bool,
}

impl ReadingArgs {
    /// The same in the library's words.
    pub(crate) fn options(&self) -> Result<ReadOptions, lacus::tensor::TensorError> {
        Ok(ReadOptions {
            sum_duplicates: self.sum_duplicates,
            one_based: !self.zero_based,
            dims: self.shape.as_ref().map(|dims| Shape::new(dims.0.clone())).transpose()?,
            dtype: self.dtype,
            tns_pattern: self.pattern,
            only: self.only.clone(),
        })
    }
}

const GET_EXAMPLES: &str = "\
Examples:
  lacus get ./data photos                               a look at it
  lacus get ./data photos --slice '0:100, :, ::2' -o some.npy
  lacus get ./data uber --slice '[1, 5, 9], ...' -o days.tns.zst
  lacus get ./data run-1/weight run-1/bias -o model.safetensors
  lacus get ./data photos --at 3 -o - > photos.npy      as of version 3

The extension determines the format: .npy, .npz, .safetensors, .tns or .mtx, the last
two also .gz or .zst. Selections are numpy's: integers, start:stop:step, ...,
None and lists.";

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Names of tensors; several go into one .npz or .safetensors file
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// File to write; `-` for .npy on stdout; without it, a preview
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// What to read of each, as in numpy's brackets
    #[arg(long, short, value_name = "SLICE", allow_hyphen_values = true, value_parser = slice)]
    pub slice: Option<Slice>,
    /// Write a sparse tensor as a dense one, whatever its size
    #[arg(long)]
    pub dense: bool,
    #[command(flatten)]
    pub version: Version,
}

const IMPORT_EXAMPLES: &str = "\
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

const EXPORT_EXAMPLES: &str = "\
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

const HEAD_EXAMPLES: &str = "\
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

const LS_EXAMPLES: &str = "\
Examples:
  lacus ls ./data
  lacus ls ./data run-1/ --long
  lacus ls ./data --at 2026-01-31 --json";

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Only names that begin with this
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub prefix: String,
    /// Also type, shape, layout and size
    #[arg(long, short)]
    pub long: bool,
    #[command(flatten)]
    pub version: Version,
}

const INFO_EXAMPLES: &str = "\
Examples:
  lacus info ./data                   the dataset: version, tensors, columns, files, bytes
  lacus info ./data photos            a tensor: type, shape, layout and why, stored size
  lacus info ./cats image             a column: type, samples, shapes, stored size";

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// A tensor or column; without it, the dataset
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub version: Version,
}

const RM_EXAMPLES: &str = "\
Examples:
  lacus rm ./data photos
  lacus rm ./data run-1/weight run-1/bias
  lacus rm ./cats caption              a column, from every row

Older versions keep them: `lacus get --at` still reads what was removed.";

#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Names of tensors and columns
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
}

const MV_EXAMPLES: &str = "\
Examples:
  lacus mv ./data photos raw/photos";

#[derive(Debug, Args)]
pub(crate) struct MvArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The name of a tensor or column
    #[arg(value_name = "FROM")]
    pub from: String,
    /// Its new name, which must not be taken
    #[arg(value_name = "TO")]
    pub to: String,
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  lacus history ./data
  lacus history ./data --limit 5 --json

The reading commands accept these versions and times as --at.";

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Only the newest N versions
    #[arg(long, short = 'n', value_name = "N")]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub version: Version,
}

const COMPACT_EXAMPLES: &str = "\
Examples:
  lacus compact ./data

Readers are not disturbed, and older versions stay readable: their files are kept.";

#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub dataset: Url,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  lacus explain product.lac --sites 10 --shapes A=40000x40000,B=40000x40000
  lacus explain product.lac --sites 10 --shapes A=40000x40000,B=40000x40000 --block 4000 --json
  echo 'save(load(\"A\") @ load(\"B\"), \"C\")' | lacus explain - --shapes A=1000x500,B=500x800:float32

Shows the plan, its grids and costs, what else was considered, the task graph and how a run would go.
With --json, moved_floats is the number of elements that the plan moves between sites.";

/// What a plan is to save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Goal {
    /// Elements moved between sites
    Moved,
    /// Estimated time
    Time,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The program's file; - reads standard input
    #[arg(value_name = "PROGRAM")]
    pub program: String,
    /// Number of sites that compute
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub sites: u64,
    /// Shapes of what the program loads: A=40000x40000,v=1000:float32 (float64 by default)
    #[arg(long, value_name = "NAME=SHAPE,…")]
    pub shapes: Option<String>,
    /// Extent of a tile along every axis [default: chosen automatically]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub block: Option<u64>,
    /// What the plan minimizes
    #[arg(long, value_enum, default_value_t = Goal::Time)]
    pub objective: Goal,
    /// Memory of a site, such as 2GiB
    #[arg(long, value_parser = crate::commands::parse_bytes)]
    pub memory: Option<u64>,
    /// Rounds to assume for loops whose end depends on data
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..))]
    pub rounds: Option<u64>,
    /// Print Graphviz instead of text
    #[arg(long)]
    pub dot: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  lacus run pagerank.lac --data ./graph
  lacus run product.lac --data s3://bucket/data --memory 2GiB --spill /mnt/scratch
  lacus run score.lac --data ./data --input query=query.npy
  echo 'save(load(\"A\") @ load(\"B\"), \"C\")' | lacus run - --data ./data

A program loads tensors from the dataset or from --input. What it saves becomes one
version when it ends; if it fails, nothing is written. The language
is described in docs/algebra.md; `lacus explain` shows what a program would do.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The program's file; - reads standard input
    #[arg(value_name = "PROGRAM")]
    pub program: String,
    /// The dataset to load from and save into: a directory, s3://…, gs://… or az://…
    #[arg(long, value_name = "URL", value_hint = ValueHint::DirPath)]
    pub data: String,
    /// Memory for all tiles together, such as 2GiB [default: half of the machine's]
    #[arg(long, value_parser = crate::commands::parse_bytes)]
    pub memory: Option<u64>,
    /// Threads, at most LACUS_THREADS [default: LACUS_THREADS, or the number of cores]. The result does
    /// not depend on it
    #[arg(long, value_name = "N", value_parser = parse_workers)]
    pub workers: Option<usize>,
    /// Directory for what does not fit into memory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub spill: Option<PathBuf>,
    /// A file of one tensor that the program loads by this name (repeatable)
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = parse_input)]
    pub inputs: Vec<(String, PathBuf)>,
    /// Fail if a result contains NaN
    #[arg(long)]
    pub forbid_nan: bool,
    /// Store the state of loops every N rounds; the same command resumes from there
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub checkpoint_every: Option<u64>,
    /// Return only when the result is safe against power loss
    #[arg(long)]
    pub durable: bool,
}

fn parse_workers(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| format!("{text:?} is no number of threads from 1"))
}

fn parse_input(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err(format!("{text:?} is not NAME=FILE")),
    }
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  lacus doctor ./data
  lacus doctor s3://bucket/data --json

Reads everything and compares checksums. Exits with 6 if something is damaged.";

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub dataset: Url,
    #[command(flatten)]
    pub version: Version,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  lacus completions bash > ~/.local/share/bash-completion/completions/lacus
  lacus completions zsh > \"${fpath[1]}/_lacus\"
  lacus completions fish > ~/.config/fish/completions/lacus.fish";

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Numbers with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dims(pub Vec<u64>);

/// A selection, not yet checked against a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice(pub Vec<Index>);

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it should be KEY=VALUE".to_owned()),
    }
}

fn dims(text: &str) -> Result<Dims, String> {
    let inner = text.trim().trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
    let inner = inner.trim().trim_end_matches(',');
    if inner.is_empty() {
        return Ok(Dims(Vec::new()));
    }
    let number = |word: &str| {
        word.trim()
            .parse::<u64>()
            .map_err(|_| format!("{:?} is no number; write such as 1,3,256", word.trim()))
    };
    inner.split(',').map(number).collect::<Result<_, _>>().map(Dims)
}

fn slice(text: &str) -> Result<Slice, String> {
    parse_indices(text).map(Slice).map_err(|error| error.to_string())
}

fn compression(text: &str) -> Result<CompressionWish, String> {
    if text == "auto" {
        return Ok(CompressionWish::Auto);
    }
    text.parse::<Compression>()
        .map(CompressionWish::from)
        .map_err(|_| "it should be auto, none, lz4, zstd or zstd:LEVEL, from -7 to 22, not 0".to_owned())
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

fn json_object(text: &str) -> Result<Json, String> {
    match serde_json::from_str(text) {
        Ok(json @ Json::Object(_)) => Ok(json),
        Ok(_) => Err("it should be a JSON object, such as {\"unit\": \"mm\"}".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn numbers_with_commas() {
        let check = |text: &str, expected: Option<&[u64]>| {
            assert_eq!(dims(text).ok().map(|dims| dims.0).as_deref(), expected, "{text}");
        };
        check("1,3,256", Some(&[1, 3, 256]));
        check("(1, 3)", Some(&[1, 3]));
        check("(7,)", Some(&[7]));
        check("", Some(&[]));
        check("()", Some(&[]));
        check("1,,3", None);
        check("-1", None);
        check("1x3", None);
    }

    #[test]
    fn wishes_are_the_librarys() {
        let text = "lacus put d f --layout BSGS --block-shape 1,2 --axis-order 1,0 --compression zstd:3 --optimize size";
        let cli = Cli::try_parse_from(text.split(' ')).unwrap();
        let Command::Put(put) = cli.command else { panic!("put") };
        let expected = Wish {
            layout: Some("BSGS".into()),
            block_shape: Some(vec![1, 2]),
            axis_order: Some(vec![1, 0]),
            compression: CompressionWish::Zstd(3),
            optimize: Optimize::Size,
            ..Wish::default()
        };
        assert_eq!(put.layout.wish(), expected);
    }

    #[test]
    fn slices_may_begin_with_a_minus() {
        let cli = Cli::try_parse_from(["lacus", "get", "d", "x", "--slice", "-5:"]).unwrap();
        let Command::Get(get) = cli.command else { panic!("get") };
        let expected = vec![Index::Slice { start: Some(-5), stop: None, step: None }];
        assert_eq!(get.slice, Some(Slice(expected)));
    }
}
