//! `lacus import`: samples of other formats become rows.

use lacus::dataset::Dataset;
use lacus::exchange::{ExchangeError, ImportOptions, Kind, Report, import_as};
use lacus::io::{Store, World};
use lacus::table::Table;
use serde_json::json;

use super::{Context, left_out, report_json};
use crate::args::ImportArgs;
use crate::failure::Failure;
use crate::output::{few, number, size};

pub(crate) async fn run(context: &Context, args: ImportArgs) -> Result<(), Failure> {
    // Before a dataset is made for it: a source that is nothing makes none.
    let kind = match args.kind {
        Some(kind) => kind,
        None => Kind::of_source(&args.source)?,
    };
    let store = context.store(&args.dataset.url)?;
    let is_new = !context.stop.or(async { Ok(Table::exists(&store).await?) }).await?;
    let table = match is_new {
        true => {
            let table = Table::create(store.clone(), World::real()).await?;
            context.checkouts.forget(store.url().as_str())?;
            table
        }
        false => context.open_to_write(&args.dataset.url).await?,
    };
    let mut dataset = Dataset::new(table);
    let bar = context.output.counter("import");
    let options = ImportOptions {
        on_error: args.on_error,
        append: args.append,
        prefix: args.prefix.clone(),
        split_column: args.split_column.clone(),
        images: args.images.clone(),
        delimiter: args.delimiter,
        durable: args.durable,
        author: None,
        progress: bar.rows_listener(),
        cancel: Some(context.stop.flag()),
    };
    let done = import_as(kind, &mut dataset, &args.source, &options).await;
    drop(bar);
    match done {
        Ok(report) => tell(context, kind, &dataset, &report),
        Err(error) => {
            if is_new {
                forget(store).await;
            }
            Err(explained(error))
        }
    }
}

/// Removes a dataset that was made for an import which failed. The failure is what is told.
async fn forget(store: Store) {
    let _ = Table::delete(store, World::real()).await;
}

fn explained(error: ExchangeError) -> Failure {
    let taken = matches!(&error, ExchangeError::Dataset(lacus::dataset::DatasetError::NameTaken { .. }));
    let failure = Failure::from(error);
    match taken {
        true => failure.hint("--append adds to existing columns, --prefix puts the new ones under a group"),
        false => failure,
    }
}

fn tell(context: &Context, kind: Kind, dataset: &Dataset, report: &Report) -> Result<(), Failure> {
    let version = dataset.table().version();
    let things = match (kind, report.rows) {
        (Kind::Safetensors, 1) => "tensor",
        (Kind::Safetensors, _) => "tensors",
        (_, 1) => "row",
        _ => "rows",
    };
    context.output.done(
        || {
            let mut json = report_json(report);
            json["version"] = json!(version);
            json["kind"] = json!(kind.name());
            json
        },
        || {
            format!(
                "{}imported {} {things} ({}) into {}, version {version}",
                left_out(report),
                number(report.rows),
                size(report.bytes),
                few(&report.columns, 8)
            )
        },
    )
}
