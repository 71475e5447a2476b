//! `lacus shell`: a prompt for questions.
//!
//! ```text
//! lines ─until `;`→ statement ─ask→ answer ─print→ stdout          \d, \timing, … ─→ stderr or stdout
//! ```

use std::io::{BufRead, IsTerminal};
use std::time::Instant;

use lacus::arrow::type_name;
use lacus::{Asked, Question, View};

use super::query::{opened, print};
use super::{Context, open_shape};
use crate::args::ShellArgs;
use crate::checkouts::state_directory;
use crate::failure::Failure;
use crate::output::{Side, columns, facts, few};
use crate::prompt::{Line, Prompt};
use crate::statements::split_statement;

const HELP: &str = "\
SELECT …;     a question, which may have several lines
\\d            the columns and their types
\\d NAME       one column
\\df           the functions
\\timing       how long answers take: on or off
\\x            a line for each value: on or off
\\?            this
\\q            leaves, as Ctrl-D does
";

/// What the shell is about, and how it answers.
struct Shell<'a> {
    context: &'a Context,
    asked: Asked,
    shown: u64,
    memory: Option<u64>,
    is_timed: bool,
    is_expanded: bool,
}

/// Whether to go on.
enum Next {
    Go,
    Leave,
}

pub(crate) async fn run(context: &Context, args: ShellArgs) -> Result<(), Failure> {
    let (here, asked) = opened(context, &args.dataset.url, &args.version).await?;
    let (shown, memory) = (args.shown, args.memory);
    let mut shell = Shell { context, asked, shown, memory, is_timed: false, is_expanded: false };
    match std::io::stdin().is_terminal() {
        true => shell.converse(here.url()).await,
        false => shell.obey().await,
    }
}

impl Shell<'_> {
    /// Reads from a terminal until the user leaves. What fails is told, and the shell goes on.
    async fn converse(&mut self, url: &str) -> Result<(), Failure> {
        let output = self.context.output;
        let failed =
            |why: String| Failure::new(lacus::ErrorKind::Unavailable, format!("the terminal: {why}"));
        let history = state_directory().map(|directory| directory.join("shell_history"));
        let mut prompt = Prompt::new(self.names(), history).map_err(failed)?;
        output.say(&format!(
            "{url}: {}\nA statement ends with `;`. \\? shows commands, \\q leaves.",
            self.about()
        ));
        let mut text = String::new();
        loop {
            let sign = if text.trim().is_empty() { "lacus> " } else { "  ...> " };
            match tokio::task::block_in_place(|| prompt.read(sign)).map_err(failed)? {
                Line::End => return Ok(()),
                Line::Dropped => text.clear(),
                Line::Text(line) if text.trim().is_empty() && line.trim_start().starts_with('\\') => {
                    prompt.remember(line.trim());
                    match self.command(line.trim()) {
                        Ok(Next::Go) => {}
                        Ok(Next::Leave) => return Ok(()),
                        Err(failure) => output.fail(&failure),
                    }
                }
                Line::Text(line) => {
                    text.push_str(&line);
                    text.push('\n');
                    while let Some((statement, rest)) = split_statement(&text) {
                        prompt.remember(&format!("{};", statement.trim()));
                        if let Err(failure) = self.answer(statement).await {
                            output.fail(&failure);
                        }
                        text = rest.trim_start().to_owned();
                    }
                }
            }
        }
    }

    /// Reads statements from a file or a pipe. The first that fails ends it.
    async fn obey(&mut self) -> Result<(), Failure> {
        let mut text = String::new();
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|error| Failure::file("read", std::path::Path::new("-"), &error))?;
            if text.trim().is_empty() && line.trim_start().starts_with('\\') {
                match self.command(line.trim())? {
                    Next::Go => continue,
                    Next::Leave => return Ok(()),
                }
            }
            text.push_str(&line);
            text.push('\n');
            while let Some((statement, rest)) = split_statement(&text) {
                self.answer(statement).await?;
                text = rest.trim_start().to_owned();
            }
        }
        match text.trim().is_empty() {
            true => Ok(()),
            // The last statement may do without.
            false => self.answer(&text).await,
        }
    }

    /// Answers a statement, until Ctrl-C.
    async fn answer(&self, statement: &str) -> Result<(), Failure> {
        if statement.trim().is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let question = Question { memory: self.memory, ..Question::new(statement.trim()) };
        let work = async {
            let answer = lacus::ask(&question, &self.asked).await?;
            print(self.context, &answer, self.shown, self.is_expanded).await
        };
        tokio::select! {
            done = work => done?,
            Ok(()) = tokio::signal::ctrl_c() => return Err(Failure::invalid("the query was stopped")),
        }
        if self.is_timed {
            self.context.output.say(&format!("{:.3} s", began.elapsed().as_secs_f64()));
        }
        Ok(())
    }

    /// Does what a command says.
    fn command(&mut self, line: &str) -> Result<Next, Failure> {
        let output = self.context.output;
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let switched =
            |what: &str, on: bool| output.say(&format!("{what} is {}", if on { "on" } else { "off" }));
        match (word, rest.trim()) {
            ("\\q", _) => return Ok(Next::Leave),
            ("\\?", _) => output.stdout(HELP)?,
            ("\\d", "") => output.stdout(&self.columns()?)?,
            ("\\d", name) => output.stdout(&self.column(name)?)?,
            ("\\df", _) => output.stdout(&format!("{}\n", lacus::query::function_names().join("\n")))?,
            ("\\timing", _) => {
                self.is_timed = !self.is_timed;
                switched("timing", self.is_timed);
            }
            ("\\x", _) => {
                self.is_expanded = !self.is_expanded;
                switched("a line for each value", self.is_expanded);
            }
            _ => return Err(Failure::invalid(format!("{word} is no command")).hint("\\? lists the commands")),
        }
        Ok(Next::Go)
    }

    fn view(&self) -> Result<&View, Failure> {
        self.asked.dataset.as_ref().ok_or_else(|| Failure::invalid("there is no dataset"))
    }

    fn about(&self) -> String {
        match &self.asked.dataset {
            Some(view) => format!("{} rows, columns {}", view.len(), few(&view.columns(), 8)),
            None => "nothing".to_owned(),
        }
    }

    /// Names that can be completed.
    fn names(&self) -> Vec<String> {
        let mut names = self.asked.dataset.as_ref().map(View::columns).unwrap_or_default();
        names.push("dataset".to_owned());
        names.extend(lacus::query::function_names());
        names.extend(["\\d", "\\df", "\\timing", "\\x", "\\q"].map(str::to_owned));
        names
    }

    fn columns(&self) -> Result<String, Failure> {
        let view = self.view()?;
        let schema = view.source().arrow_schema(&view.columns())?;
        let rows: Vec<Vec<String>> =
            schema.fields().iter().map(|field| vec![field.name().clone(), type_name(field)]).collect();
        Ok(columns(&[Side::Left, Side::Left], &rows))
    }

    fn column(&self, name: &str) -> Result<String, Failure> {
        let source = self.view()?.source();
        let column = source.column(name)?;
        let schema = source.arrow_schema(&[name])?;
        let mut told = vec![
            ("column", name.to_owned()),
            ("type", column.htype().to_string()),
            ("values", type_name(schema.field(0))),
            ("dtype", column.dtype().map_or_else(|| "any".to_owned(), |dtype| dtype.name().to_owned())),
            ("shape", column.shape().map_or_else(|| "any".to_owned(), open_shape)),
            ("compression", column.compression().to_string()),
        ];
        if !column.class_names().is_empty() {
            told.push(("classes", few(column.class_names(), 20)));
        }
        Ok(facts(&told))
    }
}
