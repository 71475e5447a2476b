//! `lacus doctor`: is the store what commits need, and is every stored byte what it was?

use std::time::{Duration, Instant};

use lacus::io::{Store, World, commit_safety};
use lacus::table::{DoctorReport, ErrorKind, Finding};
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output::{count, facts, size};

pub(crate) async fn run(context: &Context, args: DoctorArgs) -> Result<(), Failure> {
    let began = Instant::now();
    let table = context.open(&args.dataset.url, &args.version).await?;
    let store = table.home().clone();
    let open_time = began.elapsed();
    let commits = commit_safety(&store, &World::real()).await.map_err(Failure::from);
    let bar = context.output.bar("doctor");
    let report = table.doctor(&context.write_options(false, &bar)).await?;
    drop(bar);
    context.output.result(
        || as_json(&store, open_time, &commits, &report),
        || as_text(&store, open_time, &commits, &report),
    )?;
    match (report.damage.len() + report.foreign.len(), commits) {
        (0, Ok(_)) => Ok(()),
        (0, Err(failure)) => Err(failure),
        (found, _) => Err(Failure::new(ErrorKind::Corrupt, format!("{} found", count(found, "problem")))),
    }
}

fn as_text(
    store: &Store,
    open_time: Duration,
    commits: &Result<&str, Failure>,
    report: &DoctorReport,
) -> String {
    let store_line = format!("{}, opened in {} ms", store.url(), open_time.as_millis());
    let commits = match commits {
        Ok(how) => (*how).to_owned(),
        Err(failure) => format!("not safe: {}", failure.message()),
    };
    let mut lines = vec![
        ("lacus", format!("{}, {}", env!("CARGO_PKG_VERSION"), threads())),
        ("store", store_line),
        ("commits", commits),
        (
            "dataset",
            format!(
                "version {}, {} in {}",
                report.version,
                count(report.tensors, "tensor"),
                count(report.files, "file")
            ),
        ),
        ("verified", format!("{} of chunks against their checksums", size(report.verified_bytes))),
    ];
    if report.unused_files > 0 {
        let unused = count(report.unused_files, "file");
        lines.push((
            "unused",
            format!(
                "{unused}, {}: of older versions, or of writers that were stopped",
                size(report.unused_bytes)
            ),
        ));
    }
    for found in &report.notes {
        lines.push(("note", format!("{}: {}", found.what, found.problem)));
    }
    for found in report.foreign.iter().chain(&report.damage) {
        lines.push(("damage", format!("{}: {}", found.what, found.problem)));
    }
    lines.push(("result", if is_healthy(report) { "healthy" } else { "damaged" }.to_owned()));
    facts(&lines)
}

fn is_healthy(report: &DoctorReport) -> bool {
    report.damage.is_empty() && report.foreign.is_empty()
}

fn threads() -> String {
    count(std::thread::available_parallelism().map_or(1, usize::from), "thread")
}

fn as_json(
    store: &Store,
    open_time: Duration,
    commits: &Result<&str, Failure>,
    report: &DoctorReport,
) -> Json {
    let listed = |findings: &[Finding]| -> Vec<Json> {
        findings.iter().map(|found| json!({"what": found.what, "problem": found.problem})).collect()
    };
    json!({
        "healthy": is_healthy(report) && commits.is_ok(),
        "lacus": env!("CARGO_PKG_VERSION"),
        "url": store.url().as_str(),
        "open_ms": open_time.as_secs_f64() * 1e3,
        "commits_are_safe": commits.is_ok(),
        "version": report.version, "tensors": report.tensors, "files": report.files,
        "verified_bytes": report.verified_bytes, "damage": listed(&report.damage),
        "foreign": listed(&report.foreign),
        "notes": listed(&report.notes),
        "unused_files": report.unused_files, "unused_bytes": report.unused_bytes,
    })
}
