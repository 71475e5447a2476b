//! `lacus index`: makes, lists and drops the indexes that searches use.

use std::sync::Arc;

use lacus::dataset::Dataset;
use lacus::search::{IndexInfo, IndexSpec, Measure, create_index, drop_index, indexes};
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::{IndexArgs, IndexCreateArgs, IndexDropArgs, IndexLsArgs, IndexVerb};
use crate::failure::Failure;
use crate::output::{Side, columns, number, size};

pub(crate) async fn run(context: &Context, args: IndexArgs) -> Result<(), Failure> {
    match args.verb {
        IndexVerb::Ls(args) => context.stop.or(list(context, args)).await,
        IndexVerb::Create(args) => create(context, args).await,
        IndexVerb::Drop(args) => drop(context, args).await,
    }
}

async fn list(context: &Context, args: IndexLsArgs) -> Result<(), Failure> {
    let dataset = context.open_dataset(&args.dataset.url, &args.version).await?;
    let found = indexes(&Arc::new(dataset)).await?;
    context.output.result(|| found.iter().map(as_json).collect::<Json>(), || shown(&found))
}

async fn create(context: &Context, args: IndexCreateArgs) -> Result<(), Failure> {
    let Some(measure) = Measure::named(&args.metric) else {
        let why = format!("no metric {:?}", args.metric);
        return Err(Failure::invalid(why).hint("an index compares by cosine, dot or l2"));
    };
    let IndexCreateArgs { lists, recall, bits, seed, .. } = args;
    let spec = IndexSpec { measure, lists, recall, bits, seed };
    let mut dataset = Dataset::new(context.open_to_write(&args.dataset.url).await?);
    let bar = context.output.bar("index");
    let made = create_index(&mut dataset, &args.column, &spec, &context.write_options(false, &bar)).await?;
    std::mem::drop(bar);
    context.output.done(
        || as_json(&made),
        || {
            let measured = made.probes.iter().find(|found| found.neighbours == 10);
            let measured = measured.map(|found| {
                format!(
                    "; a search of 10 looks at {} lists and finds {:.1} %",
                    found.probes,
                    100.0 * found.recall
                )
            });
            let (rows, lists) = (number(made.rows), number(made.lists));
            format!(
                "indexed {rows} vectors of {} in {lists} lists{}",
                made.column,
                measured.unwrap_or_default()
            )
        },
    )
}

async fn drop(context: &Context, args: IndexDropArgs) -> Result<(), Failure> {
    let mut dataset = Dataset::new(context.open_to_write(&args.dataset.url).await?);
    let bar = context.output.bar("index");
    let dropped = drop_index(&mut dataset, &args.column, &context.write_options(false, &bar)).await?;
    std::mem::drop(bar);
    context.output.done(
        || json!({"column": args.column, "dropped": dropped}),
        || match dropped {
            true => format!("dropped the index of {}", args.column),
            false => format!("{} has no index", args.column),
        },
    )
}

fn as_json(info: &IndexInfo) -> Json {
    json!({
        "column": info.column, "kind": info.kind, "metric": info.metric, "lists": info.lists, "rows": info.rows,
        "covered": info.covered, "bits": info.bits, "recall": info.recall, "probes": info.probes,
        "stored_bytes": info.stored_bytes, "damage": info.damage,
    })
}

fn shown(found: &[IndexInfo]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let titles = ["COLUMN", "KIND", "METRIC", "LISTS", "COVERS", "RECALL", "STORED", ""].map(str::to_owned);
    let row = |info: &IndexInfo| {
        vec![
            info.column.clone(),
            info.kind.clone(),
            info.metric.clone(),
            number(info.lists),
            format!("{} of {}", number(info.covered), number(info.rows)),
            info.recall.to_string(),
            size(info.stored_bytes),
            info.damage.clone().map(|damage| format!("damaged: {damage}")).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(titles.to_vec()).chain(found.iter().map(row)).collect();
    use Side::{Left, Right};
    columns(&[Left, Left, Left, Right, Right, Right, Right, Left], &rows)
}
