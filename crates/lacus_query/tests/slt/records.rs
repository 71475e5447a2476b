//! Files of sqllogictest: statements and queries in plain text, each with what it should say.

use std::path::{Path, PathBuf};

/// One statement or query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// The file it stands in, which may have been included.
    pub file: PathBuf,
    /// The line of its first word.
    pub line: usize,
    pub sql: String,
    /// What parameters it is given, as JSON. An extension of ours: `parameters [1, "dog"]` before a record.
    pub parameters: Option<String>,
    pub expected: Expected,
}

/// What a record should say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    /// That it was done.
    Done,
    /// An error. Its text is checked in our own files alone: DataFusion's messages are not ours.
    Error(String),
    /// These lines, of these types: a letter for each column.
    Rows { types: String, sort: Sort, lines: Vec<String> },
}

/// How rows are put in order before they are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sort {
    None,
    Rows,
    Values,
}

/// The records of a file and of those it includes. Fails with the line that cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    read_into(path, &mut records, 0)?;
    Ok(records)
}

fn read_into(path: &Path, records: &mut Vec<Record>, depth: usize) -> Result<(), String> {
    let wrong = |line: usize, why: &str| format!("{}:{line}: {why}", path.display());
    if depth > 8 {
        return Err(wrong(1, "files include each other"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(0, &error.to_string()))?;
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line)).peekable();
    let (mut is_skipped, mut parameters) = (false, None);
    while let Some((line, text)) = lines.next() {
        let words: Vec<&str> = text.split_whitespace().collect();
        let rest = |from: usize| words.get(from..).unwrap_or_default().join(" ");
        let expected = match words.as_slice() {
            [] => continue,
            [word, ..] if word.starts_with('#') => continue,
            ["halt"] => return Ok(()),
            ["include", file] => {
                let included = path.parent().unwrap_or(path).join(file);
                read_into(&included, records, depth + 1)?;
                continue;
            }
            ["onlyif", engine, ..] => {
                is_skipped |= !engine.eq_ignore_ascii_case("datafusion");
                continue;
            }
            ["skipif", engine, ..] => {
                is_skipped |= engine.eq_ignore_ascii_case("datafusion");
                continue;
            }
            ["parameters", ..] => {
                parameters = Some(rest(1));
                continue;
            }
            ["statement", "ok"] | ["statement", "count", _] => Expected::Done,
            ["statement" | "query", "error", ..] => Expected::Error(rest(2)),
            ["query", types, modes @ ..] => {
                let sort = match modes.first() {
                    Some(&"rowsort") => Sort::Rows,
                    Some(&"valuesort") => Sort::Values,
                    _ => Sort::None,
                };
                Expected::Rows { types: (*types).to_owned(), sort, lines: Vec::new() }
            }
            _ => return Err(wrong(line, &format!("cannot be read: {text}"))),
        };
        let mut sql = Vec::new();
        let mut has_answer = false;
        for (_, text) in lines.by_ref() {
            match text {
                "----" => {
                    has_answer = true;
                    break;
                }
                text if text.trim().is_empty() => break,
                text => sql.push(text),
            }
        }
        let mut answer: Vec<String> = Vec::new();
        if has_answer {
            while let Some((_, text)) = lines.next() {
                let next = lines.peek().map_or("", |(_, text)| *text);
                // A message may have empty lines, and ends with two of them.
                let is_end = match expected {
                    Expected::Error(_) => text.is_empty() && next.is_empty(),
                    _ => text.is_empty(),
                };
                if is_end {
                    break;
                }
                answer.push(text.trim_end().to_owned());
            }
        }
        let expected = match expected {
            Expected::Rows { types, sort, .. } => Expected::Rows { types, sort, lines: answer },
            Expected::Error(said) if said.is_empty() => Expected::Error(answer.join("\n")),
            other => other,
        };
        let parameters = parameters.take();
        if !std::mem::take(&mut is_skipped) {
            records.push(Record { file: path.to_owned(), line, sql: sql.join("\n"), parameters, expected });
        }
    }
    Ok(())
}

#[test]
fn records_are_read() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("more.part"), "statement ok\nDROP TABLE t\n").unwrap();
    let path = directory.path().join("some.slt");
    let text = "# a comment\n\nstatement ok\nCREATE TABLE t\n(a INT)\n\nskipif postgres\nquery IT rowsort\nSELECT a,\n b\n----\n2 x\n1  \n\n\
        onlyif postgres\nquery I\nSELECT 1\n----\n2\n\nquery error no.*such\nSELECT q\n\nparameters [1]\nstatement error\nSELECT w\n----\none\n\ntwo\n\n\n\
        include ./more.part\n\nhalt\n\nnonsense\n";
    std::fs::write(&path, text).unwrap();
    let found = read(&path).unwrap();
    let short: Vec<(usize, &str)> = found.iter().map(|record| (record.line, record.sql.as_str())).collect();
    let all = [
        (3, "CREATE TABLE t\n(a INT)"),
        (8, "SELECT a,\n b"),
        (21, "SELECT q"),
        (25, "SELECT w"),
        (1, "DROP TABLE t"),
    ];
    assert_eq!(short, all);
    let lines = vec!["2 x".to_owned(), "1".to_owned()];
    assert_eq!(found[1].expected, Expected::Rows { types: "IT".to_owned(), sort: Sort::Rows, lines });
    assert_eq!(found[2].expected, Expected::Error("no.*such".to_owned()));
    assert_eq!(found[3].expected, Expected::Error("one\n\ntwo".to_owned()));
    assert_eq!(found[3].parameters.as_deref(), Some("[1]"));
    std::fs::write(&path, "nonsense\n").unwrap();
    assert!(read(&path).unwrap_err().contains("some.slt:1: cannot be read: nonsense"));
}
