//! One file per verb. What they share: where the dataset is, how to speak, whether to stop.

mod branch;
mod check;
mod checkout;
mod cherry_pick;
mod commit;
mod compact;
mod completions;
mod create;
mod diff;
mod discard;
mod doctor;
mod expire;
mod explain;
mod export;
mod gc;
mod get;
pub(crate) mod head;
mod history;
mod import;
mod index;
mod info;
mod lineage;
mod log;
mod ls;
mod merge;
mod mv;
mod publish;
mod put;
mod query;
mod restore;
mod revert;
mod rm;
mod run;
mod shell;
mod show;
mod status;
mod tag;
mod views;

pub(crate) use explain::parse_bytes;

use std::collections::BTreeMap;
use std::sync::Arc;

use lacus::dataset::Dataset;
use lacus::exchange::Report;
use lacus::io::Store;
use lacus::layout::Header;
use lacus::table::{Table, TensorInfo, WriteOptions};
use lacus::{Place, Record, Repository, View};
use serde_json::{Value as Json, json};

use crate::args::{Cli, Command, Version};
use crate::checkouts::Checkouts;
use crate::failure::Failure;
use crate::output::{Bar, Output, number, percent};
use crate::place::Standing;
use crate::stop::Stop;

/// Runs the command that was asked for.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let output = Output { json: cli.global.json, quiet: cli.global.quiet };
    let storage_options = cli.global.storage_options.into_iter().collect();
    let on_branch = cli.global.on_branch.filter(|name| !name.is_empty());
    let checkouts = Checkouts::of_user();
    let stop = match &cli.command {
        // There, Ctrl-C ends a query and not the command.
        Command::Shell(_) => Stop::never(),
        _ => Stop::listen(output).await,
    };
    let context = Context { output, storage_options, on_branch, checkouts, stop };
    match cli.command {
        Command::Create(args) => create::run(&context, args).await,
        Command::Put(args) => put::run(&context, *args).await,
        Command::Get(args) => context.stop.or(get::run(&context, args)).await,
        Command::Import(args) => import::run(&context, args).await,
        Command::Export(args) => context.stop.or(export::run(&context, args)).await,
        Command::Head(args) => context.stop.or(head::run(&context, args)).await,
        Command::Query(args) => context.stop.or(query::run(&context, *args)).await,
        Command::Shell(args) => shell::run(&context, args).await,
        Command::Index(args) => index::run(&context, args).await,
        Command::Ls(args) => context.stop.or(ls::run(&context, args)).await,
        Command::Info(args) => context.stop.or(info::run(&context, args)).await,
        Command::Rm(args) => rm::run(&context, args).await,
        Command::Mv(args) => mv::run(&context, args).await,
        Command::History(args) => context.stop.or(history::run(&context, args)).await,
        Command::Commit(args) => commit::run(&context, *args).await,
        Command::Status(args) => context.stop.or(status::run(&context, args)).await,
        Command::Log(args) => context.stop.or(log::run(&context, args)).await,
        Command::Show(args) => context.stop.or(show::run(&context, args)).await,
        Command::Branch(args) => branch::run(&context, args).await,
        Command::Tag(args) => tag::run(&context, args).await,
        Command::Views(args) => views::run(&context, args).await,
        Command::Checkout(args) => checkout::run(&context, args).await,
        Command::Diff(args) => context.stop.or(diff::run(&context, args)).await,
        Command::Merge(args) => merge::run(&context, args).await,
        Command::CherryPick(args) => cherry_pick::run(&context, args).await,
        Command::Revert(args) => revert::run(&context, args).await,
        Command::Restore(args) => restore::run(&context, args).await,
        Command::Discard(args) => discard::run(&context, args).await,
        Command::Publish(args) => publish::run(&context, args).await,
        Command::Lineage(args) => context.stop.or(lineage::run(&context, args)).await,
        Command::Gc(args) => gc::run(&context, args).await,
        Command::Expire(args) => expire::run(&context, args).await,
        Command::Check(args) => check::run(&context, args).await,
        Command::Compact(args) => compact::run(&context, args).await,
        Command::Doctor(args) => context.stop.or(doctor::run(&context, args)).await,
        Command::Run(args) => run::run(&context, args).await,
        Command::Explain(args) => explain::run(&context, args),
        Command::Completions(args) => completions::run(&context, args),
    }
}

/// What every command needs.
pub(crate) struct Context {
    output: Output,
    storage_options: BTreeMap<String, String>,
    /// The branch that `--branch` or the environment names.
    on_branch: Option<String>,
    checkouts: Checkouts,
    stop: Stop,
}

impl Context {
    fn store(&self, url: &str) -> Result<Store, Failure> {
        Ok(Store::open(url, &self.storage_options)?)
    }

    /// A dataset, and where the user stands in it.
    fn here(&self, url: &str) -> Result<Standing, Failure> {
        let repository = Repository::at(url, &self.storage_options)?;
        let place = match &self.on_branch {
            Some(name) => Place::on(name),
            None => self.checkouts.get(repository.store().url().as_str())?,
        };
        Ok(Standing { repository, place })
    }

    /// The state to read.
    async fn open(&self, url: &str, version: &Version) -> Result<Table, Failure> {
        let here = self.here(url)?;
        self.stop.or(here.open(version.at.as_deref())).await
    }

    /// The tip of the branch to write to.
    async fn open_to_write(&self, url: &str) -> Result<Table, Failure> {
        let here = self.here(url)?;
        Ok(self.stop.or(here.checkout()).await?.into_dataset().into_table())
    }

    async fn open_dataset(&self, url: &str, version: &Version) -> Result<Dataset, Failure> {
        Ok(Dataset::new(self.open(url, version).await?))
    }

    /// What to show or export: a state, or the rows and columns of a saved view.
    async fn open_view(
        &self,
        url: &str,
        version: &Version,
        view: Option<&str>,
    ) -> Result<(Arc<Dataset>, Option<View>), Failure> {
        let Some(name) = view else {
            return Ok((Arc::new(self.open_dataset(url, version).await?), None));
        };
        let here = self.here(url)?;
        // Where there is no dataset there are no views, but that is not what is to be said.
        self.stop.or(here.open(None)).await?;
        let found = self.stop.or(async { Ok(here.repository.saved_view(name).await?) }).await;
        let (_, view) = found?;
        Ok((Arc::clone(view.source()), Some(view)))
    }

    fn write_options(&self, durable: bool, bar: &Bar) -> WriteOptions {
        WriteOptions { durable, author: None, progress: bar.listener(), cancel: Some(self.stop.flag()) }
    }
}

/// A commit that says only this.
fn record(message: String) -> Record {
    Record { message, ..Record::default() }
}

/// Bytes that a tensor takes in memory: all elements of a dense one, 64-bit coordinates and values of a
/// sparse one.
fn memory_bytes(header: &Header) -> u64 {
    let item = header.dtype.size_bytes() as u64;
    match header.nnz {
        Some(nnz) => nnz.saturating_mul(8 * header.shape.rank() as u64 + item),
        None => header.shape.elements_saturating().saturating_mul(item),
    }
}

/// `6.2 %`: what is stored as a part of what it takes in memory; `-` of nothing.
fn ratio(info: &TensorInfo) -> String {
    percent(info.stored_bytes, memory_bytes(&info.header)).unwrap_or_else(|| "-".to_owned())
}

/// What is known of a tensor, for programs.
fn tensor_json(info: &TensorInfo) -> Json {
    use lacus::layout::Layout;
    let header = &info.header;
    let memory = memory_bytes(header);
    let mut json = json!({
        "name": info.name,
        "dtype": header.dtype.name(),
        "shape": header.shape.dims(),
        "layout": header.layout.name(),
        "chunk_shape": header.chunk_shape(),
        "nnz": header.nnz,
        "compression": header.compression.to_string(),
        "memory_bytes": memory,
        "stored_bytes": info.stored_bytes,
        "ratio": (memory > 0).then(|| info.stored_bytes as f64 / memory as f64),
        "reasons": header.reasons,
        "metadata": info.metadata,
    });
    match &header.layout {
        Layout::CompressedRows { split } | Layout::CompressedColumns { split } => {
            json["split"] = json!(split)
        }
        Layout::FiberTree { axis_order } | Layout::SparseBlocks { axis_order, .. } => {
            json["axis_order"] = json!(axis_order);
        }
        Layout::DenseChunks { .. } | Layout::Coordinates => {}
    }
    json
}

/// Things left out that are told one by one; of more there is a number.
const TOLD: usize = 10;

/// What an import or export left out, for people; empty if nothing.
fn left_out(report: &Report) -> String {
    if report.skipped_total == 0 {
        return String::new();
    }
    let told = report.skipped.iter().take(TOLD).map(|(place, why)| format!("  {place}: {why}\n"));
    let told: String = told.collect();
    let more = match report.skipped_total.saturating_sub(TOLD as u64) {
        0 => String::new(),
        more => format!("  ... and {} more\n", number(more)),
    };
    format!("left out {}:\n{told}{more}", number(report.skipped_total))
}

/// What an import or export did, for programs.
fn report_json(report: &Report) -> Json {
    let skipped: Vec<Json> =
        report.skipped.iter().map(|(place, why)| json!({"place": place, "why": why})).collect();
    json!({
        "rows": report.rows, "bytes": report.bytes, "columns": report.columns,
        "skipped": skipped, "skipped_total": report.skipped_total,
    })
}

/// A shape with sizes that may be open: `(?, ?, 3)`.
fn open_shape(shape: &[Option<u64>]) -> String {
    let sizes: Vec<String> =
        shape.iter().map(|size| size.map_or_else(|| "?".to_owned(), |size| size.to_string())).collect();
    match &sizes[..] {
        [size] => format!("({size},)"),
        sizes => format!("({})", sizes.join(", ")),
    }
}
