//! What DataFusion's errors mean to somebody who asked a question.

use std::sync::Arc;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use lacus_dataset::DatasetError;
use lacus_error::did_you_mean;

use crate::error::QueryError;
use crate::language::bytes_of;

/// What is needed to explain an error.
pub(crate) struct Asked<'a> {
    /// The text of the query.
    pub text: &'a str,
    /// The bytes that it may use.
    pub budget: u64,
}

/// An error of planning or running a query.
pub(crate) fn explained(error: DataFusionError, asked: &Asked<'_>) -> QueryError {
    let place = error.diagnostic().and_then(|found| found.span).map(|span| {
        use datafusion::sql::sqlparser::tokenizer::{Location, Span};
        let location = |at: datafusion::common::Location| Location::new(at.line, at.column);
        bytes_of(Span::new(location(span.start), location(span.end)))
    });
    let at = |why: String| match &place {
        Some(bytes) => QueryError::at(why, asked.text, bytes.clone()),
        None => QueryError::text(why),
    };
    match root(error) {
        DataFusionError::External(found) => match found.downcast::<Arc<DatasetError>>() {
            Ok(found) => match Arc::try_unwrap(*found) {
                Ok(found) => QueryError::Dataset(found),
                Err(shared) => QueryError::SharedDataset(shared),
            },
            Err(found) => match found.downcast::<QueryError>() {
                Ok(found) => *found,
                Err(found) => QueryError::Value(found.to_string()),
            },
        },
        DataFusionError::SchemaError(found, _) => at(schema(&found)),
        DataFusionError::Plan(why) | DataFusionError::Configuration(why) => at(plain(&why)),
        DataFusionError::NotImplemented(why) => at(format!("this is not supported: {}", plain(&why))),
        DataFusionError::SQL(error, _) => at(plain(&error.to_string())),
        DataFusionError::Execution(why) => QueryError::Value(plain(&why)),
        DataFusionError::ArrowError(error, _) => QueryError::Value(match *error {
            arrow::error::ArrowError::DivideByZero => "division by zero".to_owned(),
            other => plain(&other.to_string()),
        }),
        DataFusionError::ResourcesExhausted(why) => {
            QueryError::Memory { budget: asked.budget, why: why.lines().next().unwrap_or("").to_owned() }
        }
        DataFusionError::IoError(error) => QueryError::Value(format!("spilling to disk failed: {error}")),
        other => QueryError::Internal(other.to_string()),
    }
}

/// The error that others only pass on.
fn root(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(*inner),
        DataFusionError::Collection(mut all) if !all.is_empty() => root(all.swap_remove(0)),
        DataFusionError::Shared(shared) => match Arc::try_unwrap(shared) {
            Ok(inner) => root(inner),
            Err(shared) => match shared.find_root() {
                DataFusionError::External(found) => match found.downcast_ref::<Arc<DatasetError>>() {
                    // What to do about it depends on its kind, whoever else has it.
                    Some(found) => DataFusionError::External(Box::new(Arc::clone(found))),
                    None => match found.downcast_ref::<QueryError>() {
                        Some(QueryError::Function { name, row, why, cause }) => {
                            let (name, row, why, cause) = (name.clone(), *row, why.clone(), cause.clone());
                            DataFusionError::External(Box::new(QueryError::Function {
                                name,
                                row,
                                why,
                                cause,
                            }))
                        }
                        _ => DataFusionError::Execution(found.to_string()),
                    },
                },
                DataFusionError::ResourcesExhausted(why) => DataFusionError::ResourcesExhausted(why.clone()),
                DataFusionError::Plan(why) => DataFusionError::Plan(why.clone()),
                other => DataFusionError::Execution(other.strip_backtrace()),
            },
        },
        DataFusionError::ArrowError(error, backtrace) => match *error {
            arrow::error::ArrowError::ExternalError(inner) => match inner.downcast::<DataFusionError>() {
                Ok(inner) => root(*inner),
                Err(inner) => DataFusionError::External(inner),
            },
            other => DataFusionError::ArrowError(Box::new(other), backtrace),
        },
        other => other,
    }
}

/// A message without the name of the error's kind.
fn plain(why: &str) -> String {
    let why = ["Error during planning: ", "Execution error: ", "Arrow error: ", "sql parser error: "]
        .iter()
        .fold(why, |why, prefix| why.strip_prefix(prefix).unwrap_or(why));
    if why == "Divide by zero error" {
        return "division by zero".to_owned();
    }
    why.split("\n\nbacktrace").next().unwrap_or(why).trim().replace('\u{1}', "")
}

fn schema(error: &SchemaError) -> String {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let mut names: Vec<&str> = valid_fields
                .iter()
                .map(|field| field.name.as_str())
                .filter(|name| !name.starts_with('\u{1}'))
                .collect();
            names.sort_unstable();
            names.dedup();
            let close = close_to(&field.name, &names);
            let mut why = format!("no column {:?}", field.name);
            if close.is_empty() && !names.is_empty() {
                let few = names.len().min(20);
                why += &format!(
                    "; columns: {}{}",
                    names[..few].join(", "),
                    if few < names.len() { ", …" } else { "" }
                );
            }
            why += &did_you_mean(&close);
            why
        }
        SchemaError::AmbiguousReference { field } => {
            format!("{:?} is a column of more than one table: write table.{}", field.name, field.name)
        }
        other => plain(&other.to_string()),
    }
}

/// The names nearest to one that is not there, three at most.
pub(crate) fn close_to(name: &str, names: &[&str]) -> Vec<String> {
    lacus_error::close_to(name, names.iter().copied()).iter().map(|known| format!("{known:?}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::external;
    use lacus_dataset::ErrorKind;

    #[test]
    fn an_error_that_several_have_keeps_its_kind() {
        let asked = Asked { text: "", budget: 0 };
        let gone = || external(DatasetError::NoSuchRow { id: 3, version: 1 });
        assert_eq!(explained(gone(), &asked).kind(), ErrorKind::NotFound);
        let shared = Arc::new(gone().context("a join"));
        let found = explained(DataFusionError::Shared(Arc::clone(&shared)), &asked);
        assert_eq!(found.kind(), ErrorKind::NotFound);
        assert!(found.to_string().starts_with("no row has the id 3"), "{found}");
        drop(shared);
    }
}
