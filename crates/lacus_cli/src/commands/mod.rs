//! One file per verb. What they share: where the dataset is, how to speak, whether to stop.

mod compact;
mod completions;
mod create;
mod doctor;
mod export;
mod get;
mod head;
mod history;
mod import;
mod info;
mod ls;
mod mv;
mod put;
mod rm;

use std::collections::BTreeMap;

use lacus_dataset::Dataset;
use lacus_exchange::Report;
use lacus_io::{Store, World};
use lacus_layout::Header;
use lacus_table::{At, Table, TensorInfo, WriteOptions};
use serde_json::{Value as Json, json};

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::output::{Bar, Output, number, percent};
use crate::stop::Stop;

/// Runs the command that was asked for.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let output = Output { json: cli.global.json, quiet: cli.global.quiet };
    let storage_options = cli.global.storage_options.into_iter().collect();
    let context = Context { output, storage_options, stop: Stop::listen(output).await };
    match cli.command {
        Command::Create(args) => create::run(&context, args).await,
        Command::Put(args) => put::run(&context, *args).await,
        Command::Get(args) => context.stop.or(get::run(&context, args)).await,
        Command::Import(args) => import::run(&context, args).await,
        Command::Export(args) => context.stop.or(export::run(&context, args)).await,
        Command::Head(args) => context.stop.or(head::run(&context, args)).await,
        Command::Ls(args) => context.stop.or(ls::run(&context, args)).await,
        Command::Info(args) => context.stop.or(info::run(&context, args)).await,
        Command::Rm(args) => rm::run(&context, args).await,
        Command::Mv(args) => mv::run(&context, args).await,
        Command::History(args) => context.stop.or(history::run(&context, args)).await,
        Command::Compact(args) => compact::run(&context, args).await,
        Command::Doctor(args) => context.stop.or(doctor::run(&context, args)).await,
        Command::Completions(args) => completions::run(&context, args),
    }
}

/// What every command needs.
pub(crate) struct Context {
    output: Output,
    storage_options: BTreeMap<String, String>,
    stop: Stop,
}

impl Context {
    fn store(&self, url: &str) -> Result<Store, Failure> {
        Ok(Store::open(url, &self.storage_options)?)
    }

    async fn open(&self, url: &str, at: At) -> Result<Table, Failure> {
        let open = async { Ok(Table::open(self.store(url)?, World::real(), at).await?) };
        self.stop.or(open).await
    }

    async fn open_dataset(&self, url: &str, at: At) -> Result<Dataset, Failure> {
        Ok(Dataset::new(self.open(url, at).await?))
    }

    fn write_options(&self, durable: bool, bar: &Bar) -> WriteOptions {
        WriteOptions { durable, author: None, progress: bar.listener(), cancel: Some(self.stop.flag()) }
    }
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
    use lacus_layout::Layout;
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
