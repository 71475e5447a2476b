//! Answers questions.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use lacus_io::boxed;

use crate::answer::{Answer, Table};
use crate::error::QueryError;
use crate::language::Kind;
use crate::question::{Question, Sources};
use crate::run::{plan_text, table, view};
use crate::search::open_searches;
use crate::session::{Settings, open_all, read};
use crate::steps::{Understood, understand};

/// Answers a question about the datasets that `sources` opens.
///
/// A query whose rows are rows of one dataset is answered with a view: only what WHERE, ORDER BY and LIMIT need is read. Any other is
/// answered with a table. `EXPLAIN` is answered with a table of one column.
#[boxed]
pub async fn ask(question: &Question, sources: &dyn Sources) -> Result<Answer, QueryError> {
    let mut parsed = read(question, sources)?;
    let (kind, mut views) = (parsed.kind, open_all(&parsed, sources).await?);
    let settings = Settings::of(question);
    open_searches(&mut parsed, &mut views, &settings).await?;
    let understood = understand(parsed, views, settings).await?;
    if let Kind::Explain { analyze, verbose } = kind {
        let text = explained_text(understood, analyze, verbose).await?;
        let schema = Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8, false)]));
        let lines = Arc::new(StringArray::from(text.lines().collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![lines])
            .map_err(|error| QueryError::Internal(error.to_string()))?;
        return Ok(Answer::Table(Table::new(schema, vec![batch])));
    }
    match understood {
        Understood::InSteps(steps) => steps.answer().await,
        Understood::Plain(bound) => match view(&bound).await? {
            Some(view) => Ok(Answer::View(view)),
            None => Ok(Answer::Table(table(&bound).await?)),
        },
    }
}

/// How a question is answered: the plan, and with `analyze` what came out of each of its parts.
#[boxed]
pub async fn explain(
    question: &Question,
    sources: &dyn Sources,
    analyze: bool,
) -> Result<String, QueryError> {
    let mut parsed = read(question, sources)?;
    let analyze = analyze || matches!(parsed.kind, Kind::Explain { analyze: true, .. });
    let verbose = matches!(parsed.kind, Kind::Explain { verbose: true, .. });
    let (mut views, settings) = (open_all(&parsed, sources).await?, Settings::of(question));
    open_searches(&mut parsed, &mut views, &settings).await?;
    explained_text(understand(parsed, views, settings).await?, analyze, verbose).await
}

async fn explained_text(understood: Understood, analyze: bool, verbose: bool) -> Result<String, QueryError> {
    match understood {
        Understood::Plain(bound) => plan_text(&bound, analyze, verbose).await,
        Understood::InSteps(steps) => steps.explained(analyze, verbose).await,
    }
}
