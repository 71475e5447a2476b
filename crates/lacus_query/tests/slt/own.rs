//! Our own logic tests: `tests/slt/*.slt`.
//!
//! They ask the ten rows of `datasets.rs`, as `dataset` and, up to row 5, as the state `first`. The text of an error is compared.

use std::sync::Arc;

use async_trait::async_trait;
use lacus_dataset::View;
use lacus_query::{Named, Parameter, Parameters, QueryError, Question, Sources, ask};
use serde_json::Value as Json;

use crate::datasets::animals;
use crate::records::{Expected, Record, read};
use crate::tables::{Rows, rows_of};
use crate::{compare, directory};

struct States(View);

#[async_trait]
impl Sources for States {
    fn has_default(&self) -> bool {
        true
    }

    fn names(&self) -> Vec<String> {
        vec!["dataset".to_owned()]
    }

    async fn open(&self, named: &Named) -> Result<Option<View>, QueryError> {
        match (named.name.as_str(), named.at.as_deref()) {
            ("dataset", None) => Ok(Some(self.0.clone())),
            ("dataset", Some("first" | "@1" | "2026-01-01")) => Ok(Some(self.0.take(&[0, 1, 2, 3, 4])?)),
            ("dataset", Some(at)) => Err(QueryError::text(format!("there is no state {at:?}"))),
            _ => Ok(None),
        }
    }
}

fn parameters(text: Option<&str>) -> Parameters {
    let value = |value: &Json| match value {
        Json::Bool(value) => Parameter::from(*value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Parameter::from(whole),
            None => Parameter::from(number.as_f64().unwrap()),
        },
        Json::String(text) => Parameter::from(text.as_str()),
        other => panic!("no parameter of these tests: {other}"),
    };
    match text.map(|text| serde_json::from_str::<Json>(text).unwrap()) {
        None => Parameters::None,
        Some(Json::Array(values)) => Parameters::Positional(values.iter().map(value).collect()),
        Some(Json::Object(values)) => {
            Parameters::Named(values.iter().map(|(name, json)| (name.clone(), value(json))).collect())
        }
        Some(other) => panic!("no parameters: {other}"),
    }
}

async fn answer(states: &States, record: &Record) -> Result<Rows, QueryError> {
    let parameters = parameters(record.parameters.as_deref());
    let question = Question { parameters, ..Question::new(record.sql.clone()) };
    rows_of(ask(&question, states).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_files_pass() {
    let mut files: Vec<_> =
        std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "slt"));
    files.sort();
    assert!(!files.is_empty());
    let states = Arc::new(States(animals().await));
    let mut failed = Vec::new();
    for file in files {
        for record in read(&file).unwrap() {
            let wrong = match (&record.expected, answer(&states, &record).await) {
                (Expected::Error(said), Err(error)) => match error.to_string().contains(said.as_str()) {
                    true => continue,
                    false => format!("expected the error {said:?}, found {error}"),
                },
                (Expected::Error(said), Ok(_)) => format!("no error, but expected {said:?}"),
                (_, Err(error)) => format!("{error}"),
                (_, Ok(rows)) => match compare(&record, &rows) {
                    Ok(()) => continue,
                    Err(why) => why,
                },
            };
            failed.push(format!("{}:{}: {wrong}", file.display(), record.line));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
