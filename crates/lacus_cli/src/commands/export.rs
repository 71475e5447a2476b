//! `lacus export`: rows become files of other formats.

use std::path::Path;
use std::sync::Arc;

use lacus::exchange::{ExportOptions, Kind, export_as};
use serde_json::json;

use super::{Context, left_out, report_json};
use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::output::{few, number, size};

pub(crate) async fn run(context: &Context, args: ExportArgs) -> Result<(), Failure> {
    let (dataset, view) = context.open_view(&args.dataset.url, &args.version, args.view.as_deref()).await?;
    let kind = kind(&args.dest, args.kind, args.wide);
    let bar = context.output.counter("export");
    let options = ExportOptions {
        columns: args.columns.clone().or_else(|| view.as_ref().map(|view| view.columns())),
        rows: view.as_ref().map(|view| Arc::clone(view.rows())),
        on_error: args.on_error,
        delimiter: args.delimiter,
        progress: bar.rows_listener(),
        cancel: Some(context.stop.flag()),
    };
    let report = export_as(kind, &dataset, &args.dest, &options).await?;
    drop(bar);
    let dest = args.dest.display();
    let things = if kind == Kind::Safetensors { "tensors" } else { "rows" };
    context.output.done(
        || {
            let mut json = report_json(&report);
            json["kind"] = json!(kind.name());
            json["dest"] = json!(dest.to_string());
            json
        },
        || {
            format!(
                "{}exported {} {things} ({}) of {} to {dest}, as {kind}",
                left_out(&report),
                number(report.rows),
                size(report.bytes),
                few(&report.columns, 8)
            )
        },
    )
}

fn kind(dest: &Path, said: Option<Kind>, wide: bool) -> Kind {
    match (said, wide, Kind::of_dest(dest)) {
        (Some(kind), ..) => kind,
        (None, true, Kind::Parquet) => Kind::Parquet,
        (None, true, _) => Kind::Delta,
        (None, false, kind) => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_says_what_is_written() {
        let check =
            |dest: &str, wide: bool, expected: Kind| assert_eq!(kind(Path::new(dest), None, wide), expected);
        check("a.csv", false, Kind::Csv);
        check("a.parquet", false, Kind::Parquet);
        check("a.parquet", true, Kind::Parquet);
        check("a", true, Kind::Delta);
        check("a", false, Kind::Folder);
        check("a.tar", false, Kind::WebDataset);
        assert_eq!(kind(Path::new("a"), Some(Kind::Coco), false), Kind::Coco);
    }
}
