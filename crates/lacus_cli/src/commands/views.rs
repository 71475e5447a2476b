//! `lacus views`: lists, saves and deletes views.

use lacus::tensor::{Index, parse_indices};
use lacus::{At, SavedView, View};
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::ViewsArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, count, few, number, time};
use crate::place::Standing;

pub(crate) async fn run(context: &Context, args: ViewsArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    // A place without a dataset has no views, but that is not what is to be said.
    here.open(None).await?;
    match (&args.names[..], &args.rows) {
        (names, _) if args.delete => delete(context, &here, names).await,
        ([], _) => list(context, &here).await,
        ([name], Some(rows)) => save(context, &here, name, rows, &args).await,
        ([name], None) => Err(Failure::invalid(format!("which rows of the dataset are view {name:?}?"))
            .hint("--rows says so: `--rows :` for all, `--rows 10:20` for some")),
        _ => Err(Failure::invalid("a view has one name")),
    }
}

async fn list(context: &Context, here: &Standing) -> Result<(), Failure> {
    let found = here.repository.views().await?;
    let row = |view: &SavedView| {
        let said = view.message.trim().lines().next().or(view.query.as_deref()).unwrap_or("");
        vec![view.name.clone(), number(view.rows), view.commit.short(), said.to_owned()]
    };
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    let one = |view: &SavedView| -> Json {
        json!({
            "name": view.name, "commit": view.commit, "rows": view.rows, "author": view.author,
            "time": time(view.time_millis), "message": view.message, "query": view.query,
            "columns": view.view["columns"],
        })
    };
    let sides = [Side::Left, Side::Right, Side::Left, Side::Left];
    context.output.result(|| found.iter().map(one).collect(), || columns(&sides, &rows))
}

async fn save(
    context: &Context,
    here: &Standing,
    name: &str,
    rows: &str,
    args: &ViewsArgs,
) -> Result<(), Failure> {
    let at = args.version.at.as_deref().map_or(At::Here, At::from);
    let whole = here.repository.look(&here.place, &at).await.map_err(|error| here.explained(error))?;
    let mut view = sliced(&whole.view().await?, rows)?;
    if let Some(columns) = &args.columns {
        view = view.select(columns)?;
    }
    let message = args.message.as_deref().unwrap_or_default();
    let saved = here.repository.save_view(name, &view, message, None).await?;
    context.output.done(
        || json!({"view": saved.name, "rows": saved.rows, "commit": saved.commit}),
        || format!("saved {} of {} as {name}", count(view.len() as usize, "row"), saved.commit.short()),
    )
}

/// The rows that a slice means.
fn sliced(view: &View, rows: &str) -> Result<View, Failure> {
    let bad = || {
        Failure::invalid(format!("--rows {rows:?} is no slice"))
            .hint("rows are a slice: `10:20`, `::2`, `-5:`")
    };
    let (start, stop, step) = match parse_indices(rows).map_err(|_| bad())?[..] {
        [Index::Slice { start, stop, step }] => (start, stop, step.unwrap_or(1)),
        _ => return Err(bad()),
    };
    if step == 0 {
        return Err(bad());
    }
    let length = i64::try_from(view.len()).unwrap_or(i64::MAX);
    // What Python's `slice.indices` gives.
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bound = |at: Option<i64>, otherwise: i64| match at {
        None => otherwise,
        Some(at) if at < 0 => (at + length).max(low),
        Some(at) => at.min(high),
    };
    let (start, stop) = match step > 0 {
        true => (bound(start, low), bound(stop, high)),
        false => (bound(start, high), bound(stop, low)),
    };
    let span = if step > 0 { stop - start } else { start - stop };
    let count = if span <= 0 { 0 } else { (span - 1) / step.abs() + 1 };
    Ok(view.every(start.max(0) as u64, step, count as u64)?)
}

async fn delete(context: &Context, here: &Standing, names: &[String]) -> Result<(), Failure> {
    let known = lacus::history::views::names(here.repository.store()).await?;
    // All or none. A damaged view is there, too.
    for name in names.iter().filter(|name| !known.contains(name)) {
        lacus::history::views::get(here.repository.store(), name).await?;
    }
    for name in names {
        here.repository.delete_view(name).await?;
    }
    context.output.done(|| json!({"deleted": names}), || format!("deleted view {}", few(names, 10)))
}
