//! The line that the shell reads from a terminal: editing, history, completion.

use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::config::Config;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Context, Editor, Helper};

/// Statements that are remembered.
const MOST_REMEMBERED: usize = 1000;

/// Words that queries are made of.
const KEYWORDS: &[&str] = &[
    "ALL",
    "AND",
    "ARRANGE BY",
    "AS",
    "ASC",
    "BETWEEN",
    "CASE",
    "CAST",
    "CROSS JOIN",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPAND BY",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "FALSE",
    "FROM",
    "GROUP BY",
    "HAVING",
    "ILIKE",
    "IN",
    "INTERSECT",
    "IS NOT NULL",
    "IS NULL",
    "JOIN",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "NULLS LAST",
    "OFFSET",
    "ON",
    "OR",
    "ORDER BY",
    "OVER",
    "PARTITION BY",
    "SAMPLE BY",
    "SELECT",
    "THEN",
    "TRUE",
    "UNGROUP BY",
    "UNION ALL",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
];

/// What the user did.
pub(crate) enum Line {
    /// Wrote this.
    Text(String),
    /// Pressed Ctrl-C: the statement is not wanted.
    Dropped,
    /// Pressed Ctrl-D.
    End,
}

/// A prompt on a terminal.
pub(crate) struct Prompt {
    editor: Editor<Words, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    /// A prompt that completes these names, and remembers statements in a file.
    pub(crate) fn new(names: Vec<String>, history: Option<PathBuf>) -> Result<Prompt, String> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .max_history_size(MOST_REMEMBERED)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(|error| error.to_string())?
            .build();
        let mut editor = Editor::with_config(config).map_err(|error| error.to_string())?;
        editor.set_helper(Some(Words { names }));
        if let Some(file) = &history {
            // The first time there is none.
            let _ = editor.load_history(file);
        }
        Ok(Prompt { editor, history })
    }

    /// The next line.
    pub(crate) fn read(&mut self, prompt: &str) -> Result<Line, String> {
        match self.editor.readline(prompt) {
            Ok(text) => Ok(Line::Text(text)),
            Err(ReadlineError::Interrupted) => Ok(Line::Dropped),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Remembers a statement. That there is no place for it is no reason to stop.
    pub(crate) fn remember(&mut self, statement: &str) {
        let _ = self.editor.add_history_entry(statement);
        if let Some(file) = &self.history {
            if let Some(directory) = file.parent() {
                let _ = std::fs::create_dir_all(directory);
            }
            let _ = self.editor.append_history(file);
        }
    }
}

/// Completes names and keywords.
struct Words {
    names: Vec<String>,
}

impl Words {
    /// Where the word before the cursor begins, and what it may become.
    fn candidates(&self, line: &str, cursor: usize) -> (usize, Vec<String>) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '\\';
        let start = line[..cursor]
            .rfind(|c| !is_part(c))
            .map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
        let word = line[start..cursor].to_lowercase();
        if word.is_empty() {
            return (start, Vec::new());
        }
        let fits = |name: &&str| name.to_lowercase().starts_with(&word);
        let names = self.names.iter().map(String::as_str).filter(fits);
        let mut found: Vec<String> =
            names.chain(KEYWORDS.iter().copied().filter(fits)).map(str::to_owned).collect();
        found.dedup();
        (start, found)
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(line, cursor))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Validator for Words {}

impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed() {
        let words = Words { names: ["label", "labels2", "größe", "log"].map(str::to_owned).to_vec() };
        let check = |line: &str, start: usize, found: &[&str]| {
            assert_eq!(
                words.candidates(line, line.len()),
                (start, found.iter().map(|f| (*f).to_owned()).collect())
            );
        };
        check("SELECT lab", 7, &["label", "labels2"]);
        check("sel", 0, &["SELECT"]);
        check("SELECT gr", 7, &["größe", "GROUP BY"]);
        check("SELECT ", 7, &[]);
        check("x(lo", 2, &["log"]);
    }
}
