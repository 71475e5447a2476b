//! `lacus gc`: what nothing needs any more, and what is kept and why.

use lacus::history::{GcOptions, GcReport};
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::GcArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, count, size};

/// Objects told one by one; all of them are in the JSON.
const TOLD: usize = 20;

pub(crate) async fn run(context: &Context, args: GcArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let bar = context.output.bar("gc");
    let (grace, retention) = (args.grace, args.keep);
    let options = GcOptions { dry_run: !args.remove, grace, retention, dropped_grace: None };
    let report = here.timeline().gc(&options, &context.write_options(false, &bar)).await?;
    drop(bar);
    context.output.result(|| as_json(&report), || as_text(&report))?;
    if !report.removed && !report.removable.is_empty() {
        context.output.say("nothing was removed; `--remove` removes it");
    }
    Ok(())
}

fn bytes(report: &GcReport) -> u64 {
    report.removable.iter().map(|removable| removable.bytes).sum()
}

fn as_text(report: &GcReport) -> String {
    let mut rows = Vec::new();
    for kept in &report.kept {
        rows.push(vec!["kept".to_owned(), count(kept.files, "file"), size(kept.bytes), kept.reason.clone()]);
    }
    let word = if report.removed { "removed" } else { "unneeded" };
    for removable in report.removable.iter().take(TOLD) {
        let what = format!("{}: {}", removable.path, removable.why);
        rows.push(vec![word.to_owned(), String::new(), size(removable.bytes), what]);
    }
    if let more @ 1.. = report.removable.len().saturating_sub(TOLD) {
        rows.push(vec![word.to_owned(), String::new(), String::new(), format!("... and {more} more")]);
    }
    let table = columns(&[Side::Left, Side::Right, Side::Right, Side::Left], &rows);
    format!("{table}{word}: {}, {}\n", count(report.removable.len(), "file"), size(bytes(report)))
}

fn as_json(report: &GcReport) -> Json {
    let removable: Vec<Json> = report
        .removable
        .iter()
        .map(|removable| json!({"path": removable.path, "bytes": removable.bytes, "why": removable.why}))
        .collect();
    let kept: Vec<Json> = report
        .kept
        .iter()
        .map(|kept| json!({"reason": kept.reason, "files": kept.files, "bytes": kept.bytes}))
        .collect();
    json!({"removed": report.removed, "removable": removable, "removable_bytes": bytes(report), "kept": kept})
}
