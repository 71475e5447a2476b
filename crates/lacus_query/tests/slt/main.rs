//! Logic tests: queries and what they should say, in plain text.
//!
//! Our own are `tests/slt/*.slt`, asked of the dataset of `datasets.rs`. DataFusion's own suite is run where
//! `scripts/setup-slt` found it, with every table in a dataset of ours; `tests/slt/excluded.txt` says what of it cannot pass, and why.

#[path = "../it/datasets.rs"]
#[expect(dead_code, reason = "the other tests read views in other ways")]
mod datasets;
mod excluded;
mod own;
mod records;
mod shown;
mod suite;
mod tables;

use std::path::{Path, PathBuf};

use records::{Expected, Record, Sort};
use tables::Rows;

/// Where our own files are.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt")
}

/// Whether rows are those that a record expects; if not, what differs.
fn compare(record: &Record, found: &Rows) -> Result<(), String> {
    let Expected::Rows { types, sort, lines } = &record.expected else { return Ok(()) };
    let found_types = shown::letters(&found.schema);
    let mut rows = shown::rows(&found.batches)?;
    let mut expected = lines.clone();
    // Rows that nobody puts in order come in any.
    let sort = match sort {
        Sort::None if !is_ordered(&record.sql) => &Sort::Rows,
        told => told,
    };
    match sort {
        Sort::None => {}
        Sort::Rows => rows.sort(),
        Sort::Values => {
            let mut values: Vec<String> = rows.concat();
            values.sort();
            rows = values.into_iter().map(|value| vec![value]).collect();
        }
    }
    let line = |row: Vec<String>| row.join(" ").trim_end().to_owned();
    let mut rows: Vec<String> = rows.into_iter().map(line).collect();
    if *sort != Sort::None {
        expected.sort();
        rows.sort();
    }
    let is_same = match lines.iter().any(|line| line.contains(IGNORED)) {
        true => matches_parts(&rows.join("\n"), &expected.join("\n")),
        false => rows == expected,
    };
    // Rows that are not there have no types.
    if found_types != *types && !(rows.is_empty() && found_types.is_empty()) {
        return Err(format!("columns of types {types} expected, found {found_types}: {}", first(&rows)));
    }
    match is_same {
        true => Ok(()),
        false => Err(format!("expected {}, found {}", first(&expected), first(&rows))),
    }
}

/// Whether a query says in which order its rows come: ORDER BY in brackets is about something else.
fn is_ordered(sql: &str) -> bool {
    let mut depth = 0usize;
    let outside = sql.chars().filter(|sign| {
        match sign {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    let outside: String = outside.collect();
    outside.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ").contains("order by")
}

/// Stands for anything.
const IGNORED: &str = "<slt:ignore>";

/// Whether a text has all parts of another one in their order, beginning with the first.
fn matches_parts(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    for (number, part) in pattern.split(IGNORED).enumerate() {
        match rest.find(part) {
            Some(at) if number > 0 || at == 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    true
}

fn first(rows: &[String]) -> String {
    const MOST: usize = 6;
    let some: Vec<&str> = rows.iter().take(MOST).map(String::as_str).collect();
    match rows.len() > MOST {
        true => format!("{some:?} and {} more", rows.len() - MOST),
        false => format!("{some:?}"),
    }
}
