//! `lacus check`: refs, commits, logs, checksums, rows; and repairs.

use lacus::history::CheckReport;
use lacus::table::{ErrorKind, Finding};
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::output::{count, facts, size};

pub(crate) async fn run(context: &Context, args: CheckArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let bar = context.output.bar("check");
    let report = here.timeline().check(args.repair, &context.write_options(false, &bar)).await?;
    drop(bar);
    context.output.result(|| as_json(&report, args.repair), || as_text(&report))?;
    if report.is_healthy() {
        return Ok(());
    }
    let found = report.damage.len() + report.repairable.len();
    let failure = Failure::new(ErrorKind::Corrupt, format!("{} found", count(found, "problem")));
    Err(match report.repairable.len() {
        0 => failure,
        some => failure.hint(format!("--repair puts {some} of them right")),
    })
}

fn as_text(report: &CheckReport) -> String {
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
    lines.extend(report.repaired.iter().map(|found| ("repaired", told(found))));
    lines.extend(report.repairable.iter().map(|found| ("repairable", told(found))));
    lines.extend(report.notes.iter().map(|found| ("note", told(found))));
    lines.extend(report.damage.iter().map(|found| ("damage", told(found))));
    lines.push(("result", if report.is_healthy() { "healthy" } else { "damaged" }.to_owned()));
    facts(&lines)
}

fn as_json(report: &CheckReport, repair: bool) -> Json {
    let all = |found: &[Finding]| -> Json {
        found.iter().map(|found| json!({"what": found.what, "problem": found.problem})).collect()
    };
    json!({
        "healthy": report.is_healthy(), "repair": repair,
        "branches": report.branches, "tags": report.tags, "commits": report.commits,
        "verified_bytes": report.verified_bytes,
        "damage": all(&report.damage), "repairable": all(&report.repairable),
        "repaired": all(&report.repaired), "notes": all(&report.notes),
    })
}
