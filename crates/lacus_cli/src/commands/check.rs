//! `lacus check`: refs, commits, logs, checksums, rows; and repairs.

use lacus_history::CheckReport;
use lacus_table::{ErrorKind, Finding};
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::output::{count, facts, size};

pub(crate) async fn run(context: &Context, args: CheckArgs) -> Result<(), Failure> {
    let place = context.place(&args.dataset.url)?;
    let bar = context.output.bar("check");
    let report = place.timeline.check(args.repair, &context.write_options(false, &bar)).await?;
    drop(bar);
    context.output.result(|| as_json(&report, args.repair), || as_text(&report, args.repair))?;
    let left = report.damage.len() + if args.repair { 0 } else { report.repaired.len() };
    match (left, args.repair || report.repaired.is_empty()) {
        (0, _) => Ok(()),
        (found, true) => Err(Failure::new(ErrorKind::Corrupt, format!("{} found", count(found, "problem")))),
        (found, false) => Err(Failure::new(ErrorKind::Corrupt, format!("{} found", count(found, "problem")))
            .hint(format!("--repair puts {} of them right", report.repaired.len()))),
    }
}

fn as_text(report: &CheckReport, repair: bool) -> String {
    let seen = [
        count(report.branches, "branch").replace("branchs", "branches"),
        count(report.tags, "tag"),
        count(report.commits, "commit"),
    ];
    let mut lines = vec![
        ("checked", seen.join(", ")),
        ("verified", format!("{} against their checksums", size(report.verified_bytes))),
    ];
    let told = |found: &Finding| format!("{}: {}", found.what, found.problem);
    let word = if repair { "repaired" } else { "repairable" };
    lines.extend(report.repaired.iter().map(|found| (word, told(found))));
    lines.extend(report.notes.iter().map(|found| ("note", told(found))));
    lines.extend(report.damage.iter().map(|found| ("damage", told(found))));
    lines.push(("result", if is_healthy(report, repair) { "healthy" } else { "damaged" }.to_owned()));
    facts(&lines)
}

fn is_healthy(report: &CheckReport, repair: bool) -> bool {
    report.damage.is_empty() && (repair || report.repaired.is_empty())
}

fn as_json(report: &CheckReport, repair: bool) -> Json {
    let all = |found: &[Finding]| -> Json {
        found.iter().map(|found| json!({"what": found.what, "problem": found.problem})).collect()
    };
    json!({
        "healthy": is_healthy(report, repair), "repair": repair,
        "branches": report.branches, "tags": report.tags, "commits": report.commits,
        "verified_bytes": report.verified_bytes,
        "damage": all(&report.damage), "repaired": all(&report.repaired), "notes": all(&report.notes),
    })
}
