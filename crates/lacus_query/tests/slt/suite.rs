//! DataFusion's own suite, of the version we use.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lacus_query::QueryError;

use crate::excluded::{Excluded, flat};
use crate::records::{Expected, Record, read};
use crate::tables::{Rows, Tables};
use crate::{compare, directory as own};

/// How long one query may take. None should come near it.
const LONGEST: Duration = Duration::from_secs(120);

/// What came out.
#[derive(Default)]
struct Counts {
    files: usize,
    passed: usize,
    /// Statements that made or changed tables.
    made: usize,
    excluded_files: usize,
    excluded: BTreeMap<String, usize>,
    failed: Vec<String>,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.files += other.files;
        self.passed += other.passed;
        self.made += other.made;
        self.excluded_files += other.excluded_files;
        for (why, count) in other.excluded {
            *self.excluded.entry(why).or_default() += count;
        }
        self.failed.extend(other.failed);
    }

    fn exclude(&mut self, why: &str) {
        *self.excluded.entry(why.to_owned()).or_default() += 1;
    }
}

#[test]
fn the_suite_of_datafusion_passes() {
    let mut out = std::io::stderr();
    let Some(directory) = std::env::var_os("LACUS_TEST_SLT").map(PathBuf::from) else {
        // Past the harness, which shows nothing of tests that pass.
        writeln!(out, "LACUS_TEST_SLT is not set (scripts/setup-slt): DataFusion's suite is SKIPPED")
            .unwrap();
        return;
    };
    let only = std::env::var("LACUS_TEST_SLT_ONLY").ok();
    let excluded = std::fs::read_to_string(own().join("excluded.txt")).unwrap();
    let excluded = Arc::new(Excluded::read(&excluded).unwrap());
    // Some of the files write others, beside where they are run.
    let scratch = tempfile::tempdir().unwrap();
    std::env::set_current_dir(scratch.path()).unwrap();
    let mut files = Vec::new();
    find(&directory, &directory, &mut files);
    assert!(files.len() > 400, "only {} files in {}", files.len(), directory.display());
    files.retain(|name| only.as_ref().is_none_or(|only| name.contains(only.as_str())));
    let counts = Arc::new(Mutex::new(Counts::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // Plans of deep expressions need it where nothing is optimised.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).thread_stack_size(16 << 20).enable_all().build().unwrap();
    let next = Arc::new(AtomicUsize::new(0));
    let files = Arc::new(files);
    runtime.block_on(async {
        let mut workers = Vec::new();
        for _ in 0..threads {
            let (next, files) = (Arc::clone(&next), Arc::clone(&files));
            let (directory, excluded, counts) =
                (directory.clone(), Arc::clone(&excluded), Arc::clone(&counts));
            workers.push(tokio::spawn(async move {
                while let Some(name) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = run_file(&directory, name, &excluded).await;
                    counts.lock().unwrap().add(found);
                }
            }));
        }
        for worker in workers {
            worker.await.unwrap();
        }
    });
    let mut counts = counts.lock().unwrap();
    counts.failed.sort();
    let left_out: usize = counts.excluded.values().sum();
    writeln!(
        out,
        "DataFusion's suite: {} files, {} more excluded; {} records passed, {} failed, {left_out} excluded, {} made tables",
        counts.files,
        counts.excluded_files,
        counts.passed,
        counts.failed.len(),
        counts.made
    )
    .unwrap();
    for (why, count) in &counts.excluded {
        writeln!(out, "{count:6}  {why}").unwrap();
    }
    for failure in &counts.failed {
        writeln!(out, "FAILED {failure}").unwrap();
    }
    assert!(counts.failed.is_empty(), "{} records failed", counts.failed.len());
    if only.is_none() {
        assert_eq!(excluded.unused(), Vec::<String>::new(), "exclusions that nothing needs");
    }
}

/// The files of a directory, by their names in it.
fn find(root: &Path, directory: &Path, files: &mut Vec<String>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            find(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            files.push(path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/"));
        }
    }
}

async fn run_file(directory: &Path, name: &str, excluded: &Excluded) -> Counts {
    let mut counts = Counts::default();
    if excluded.file(name).is_some() {
        counts.excluded_files += 1;
        return counts;
    }
    counts.files += 1;
    let records = match read(&directory.join(name)) {
        Ok(records) => records,
        Err(why) => {
            counts.failed.push(why);
            return counts;
        }
    };
    let tables = Arc::new(Tables::new());
    for record in &records {
        let file = record.file.strip_prefix(directory).unwrap_or(&record.file);
        let place = (normal(file), record.line);
        run_record(&tables, record, &place, excluded, &mut counts).await;
    }
    counts
}

/// A path without `./`.
fn normal(path: &Path) -> String {
    let parts = path.components().filter(|part| !matches!(part, std::path::Component::CurDir));
    parts.collect::<PathBuf>().to_string_lossy().replace('\\', "/")
}

async fn run_record(
    tables: &Arc<Tables>,
    record: &Record,
    (file, line): &(String, usize),
    excluded: &Excluded,
    counts: &mut Counts,
) {
    let sql = record.sql.as_str();
    let words = flat(sql);
    let is_query =
        ["select", "with", "values", "from", "(", "table"].iter().any(|word| words.starts_with(word));
    if let Some(why) = excluded.sql(sql) {
        // A setting or a file may matter to what follows.
        if !is_query && !words.starts_with("explain") {
            let _ = tables.change(sql).await;
        }
        return counts.exclude(why);
    }
    if !is_query {
        let done = tables.change(sql).await;
        return match (&record.expected, done) {
            (Expected::Error(_), Err(_)) | (Expected::Done | Expected::Rows { .. }, Ok(())) => {
                counts.made += 1
            }
            (_, done) => match excluded.plain() {
                Some(why) => counts.exclude(why),
                None => counts.failed.push(format!("{file}:{line}: {done:?}: {words}")),
            },
        };
    }
    let found = tokio::spawn({
        let (tables, sql) = (Arc::clone(tables), sql.to_owned());
        async move { tokio::time::timeout(LONGEST, tables.ask(&sql)).await }
    });
    let found: Result<Rows, QueryError> = match found.await {
        Ok(Ok(found)) => found,
        Ok(Err(_)) => Err(QueryError::Internal("no answer in time".to_owned())),
        Err(panic) => Err(QueryError::Internal(format!("a panic: {panic}"))),
    };
    let wrong = match (&record.expected, &found) {
        (Expected::Error(_), Err(QueryError::Internal(why))) => format!("an internal error: {why}"),
        (Expected::Error(_), Err(_)) => return counts.passed += 1,
        (Expected::Error(said), Ok(_)) => format!("no error, but expected {said:?}"),
        (_, Err(error)) => format!("refused: {error}"),
        (_, Ok(rows)) => match compare(record, rows) {
            Ok(()) => return counts.passed += 1,
            Err(why) => why,
        },
    };
    let refusal = match &found {
        Err(QueryError::Internal(_)) | Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    let by_rule = refusal.as_deref().and_then(|message| excluded.error(message));
    if let Some(why) = by_rule.or_else(|| excluded.at(file, *line)) {
        return counts.exclude(why);
    }
    let plain = tables.run(sql).await;
    let is_plain_right = match (&record.expected, &plain) {
        (Expected::Error(_), plain) => plain.is_err(),
        (_, Ok(rows)) => compare(record, rows).is_ok(),
        (_, Err(_)) => false,
    };
    match excluded.plain() {
        Some(why) if !is_plain_right => counts.exclude(why),
        _ => counts.failed.push(format!("{file}:{line}: {wrong}: {words}")),
    }
}
