//! `lacus compact`: few files instead of many.

use serde_json::json;

use super::Context;
use crate::args::CompactArgs;
use crate::failure::Failure;
use crate::output::{count, size};

pub(crate) async fn run(context: &Context, args: CompactArgs) -> Result<(), Failure> {
    let mut table = context.open_to_write(&args.dataset.url).await?;
    let bar = context.output.bar("compact");
    let report = table.compact(&context.write_options(false, &bar)).await?;
    drop(bar);
    context.output.done(
        || {
            json!({
                "version": report.version,
                "files_before": report.files_before, "files_after": report.files_after,
                "bytes_before": report.bytes_before, "bytes_after": report.bytes_after,
                "files_kept": report.files_kept,
            })
        },
        || {
            let done = match report.files_before {
                0 => "nothing to compact".to_owned(),
                before => format!(
                    "compacted {} ({}) into {} ({}), version {}",
                    count(before, "file"),
                    size(report.bytes_before),
                    report.files_after,
                    size(report.bytes_after),
                    report.version
                ),
            };
            match report.files_kept {
                0 => done,
                kept => format!(
                    "{done}; left {} alone that other writers' rows are in (`lacus check` names them)",
                    count(kept, "file")
                ),
            }
        },
    )
}
