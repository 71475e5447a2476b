//! `lacus history`: who did what, when.

use lacus::table::HistoryEntry;
use serde_json::Value as Json;

use super::Context;
use crate::args::HistoryArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, few, time};
use crate::shown::entry_json;

pub(crate) async fn run(context: &Context, args: HistoryArgs) -> Result<(), Failure> {
    let table = context.open(&args.dataset.url, &args.version).await?;
    let entries = table.history(args.limit).await?;
    context.output.result(|| entries.iter().map(entry_json).collect::<Json>(), || as_text(&entries))
}

fn as_text(entries: &[HistoryEntry]) -> String {
    let titles = ["VERSION", "TIME", "AUTHOR", "OPERATION", "WHAT"].map(str::to_owned).to_vec();
    let row = |entry: &HistoryEntry| {
        vec![
            entry.version.to_string(),
            time(entry.time_millis),
            entry.author.clone(),
            entry.operation.to_lowercase(),
            what(&entry.detail),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(titles).chain(entries.iter().map(row)).collect();
    use Side::{Left, Right};
    columns(&[Right, Left, Left, Left, Left], &rows)
}

/// The tensors it was about, or whatever else is known.
pub(super) fn what(detail: &Json) -> String {
    let names: Vec<String> = match detail["tensors"].as_array() {
        Some(names) => names.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        None => Vec::new(),
    };
    let mut what = few(&names, 3);
    if let Some(to) = detail["to"].as_str() {
        what.push_str(&format!(" to {to}"));
    }
    if let (Some(rows), true) = (detail["rows"].as_u64(), names.is_empty()) {
        what.push_str(&crate::output::count(usize::try_from(rows).unwrap_or(usize::MAX), "row"));
    }
    if let (Some(before), Some(after)) = (detail["files_before"].as_u64(), detail["files_after"].as_u64()) {
        what.push_str(&format!("{before} to {after} files"));
    }
    what
}
