//! Values inside of JSON: `json_get` and its kin. A path is written `a[0].b` or `$.a[0].b`; a key with other characters `["a b"]`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DataFusionError, Result, plan_err};
use serde_json::Value as Json;

use super::function::{Body, Call, Function, Planned};
use crate::tensors::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Get {
    Text,
    Number,
    Bool,
    Length,
}

pub(super) fn functions() -> Vec<Function> {
    let one = |name, about, example, get: Get| Function::new(name, "json, path", about, example, get);
    vec![
        one(
            "json_get",
            "The value at a path as text: strings without quotes, all others as JSON. NULL if there is none.",
            "SELECT json_get(info, 'camera.lenses[0].name') FROM photos",
            Get::Text,
        ),
        one(
            "json_number",
            "The number at a path; NULL if there is none.",
            "SELECT * FROM photos WHERE json_number(info, '$.camera.iso') > 800",
            Get::Number,
        ),
        one(
            "json_bool",
            "The truth value at a path; NULL if there is none.",
            "SELECT * FROM photos WHERE json_bool(info, 'flash')",
            Get::Bool,
        ),
        Function::new(
            "json_array_length",
            "json, path?",
            "How many values the array has, or the one at a path; NULL if there is none.",
            "SELECT json_array_length(info, 'tags') FROM photos",
            Get::Length,
        ),
    ]
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Place(i64),
}

/// Reads a path.
fn parse(path: &str) -> Result<Vec<Step>, String> {
    let wrong = |why: &str| format!("cannot read the path {path:?}: {why}");
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let quote = inside.chars().next().filter(|quote| matches!(quote, '"' | '\''));
            if let Some(quote) = quote {
                let (key, after) =
                    inside[1..].split_once(quote).ok_or_else(|| wrong("a quote is not closed"))?;
                steps.push(Step::Key(key.to_owned()));
                rest = after.strip_prefix(']').ok_or_else(|| wrong("expected ']'"))?;
            } else {
                let (place, after) = inside.split_once(']').ok_or_else(|| wrong("expected ']'"))?;
                let place =
                    place.trim().parse().map_err(|_| wrong("expected an integer between brackets"))?;
                steps.push(Step::Place(place));
                rest = after;
            }
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        if end == 0 {
            return Err(wrong("a name is missing"));
        }
        steps.push(Step::Key(rest[..end].to_owned()));
        rest = &rest[end..];
    }
    Ok(steps)
}

/// The value at the end of a path.
fn follow<'a>(value: &'a Json, steps: &[Step]) -> Option<&'a Json> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Place(place) => {
            let items = value.as_array()?;
            let place = if *place < 0 { place + items.len() as i64 } else { *place };
            items.get(usize::try_from(place).ok()?)
        }
    })
}

impl Body for Get {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let is_text = |at: usize| {
            matches!(
                call.fields[at].data_type(),
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null
            )
        };
        for at in 0..call.count() {
            if !is_text(at) || matches!(call.kind(at), Kind::Class(_)) {
                let what = if at == 0 { "JSON" } else { "a path as text" };
                return plan_err!("{}: expected {what}, found {}", call.name, call.describe(at));
            }
        }
        if call.constant(1).is_some()
            && let Some(path) = call.constant_text(1, "the path")?
        {
            parse(&path).map_err(|why| DataFusionError::Plan(format!("{}: {why}", call.name)))?;
        }
        Ok(call.plain_field(match self {
            Get::Text => DataType::Utf8,
            Get::Number => DataType::Float64,
            Get::Bool => DataType::Boolean,
            Get::Length => DataType::Int64,
        }))
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let values = call.texts(0)?;
        let paths = if call.count() > 1 { Some(call.texts(1)?) } else { None };
        let read = |path: &str| {
            parse(path).map_err(|why| DataFusionError::Execution(format!("{}: {why}", call.name)))
        };
        let constant = match call.constant_text(1) {
            Some(path) => Some(read(&path)?),
            None => None,
        };
        let mut found: Vec<Option<Json>> = Vec::with_capacity(call.rows);
        for row in 0..call.rows {
            if call.any_null(row) {
                found.push(None);
                continue;
            }
            let steps = match (&constant, &paths) {
                (Some(steps), _) => steps.clone(),
                (None, Some(paths)) => read(paths.value(row))?,
                (None, None) => Vec::new(),
            };
            let value: Json = match serde_json::from_str(values.value(row)) {
                Ok(value) => value,
                Err(error) => return call.fail(format!("the text is no JSON: {error}")),
            };
            found.push(follow(&value, &steps).filter(|value| !value.is_null()).cloned());
        }
        let found = found.into_iter();
        Ok(match self {
            Get::Text => Arc::new(
                found
                    .map(|value| {
                        value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                    })
                    .collect::<StringArray>(),
            ),
            Get::Number => Arc::new(found.map(|value| value?.as_f64()).collect::<Float64Array>()),
            Get::Bool => Arc::new(found.map(|value| value?.as_bool()).collect::<BooleanArray>()),
            Get::Length => {
                Arc::new(found.map(|value| Some(value?.as_array()?.len() as i64)).collect::<Int64Array>())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, text, texts};

    #[test]
    fn paths_lead_into_values() {
        let json = texts(r#"{"a": [{"b": "x"}, 2.5, true, null], "c d": {"e": 7}}"#);
        let case =
            |name: &str, path: &str, expected: &str| check(name, &[json.clone(), text(path)], expected);
        case("json_get", "a[0].b", "x");
        case("json_get", "$.a[0].b", "x");
        case("json_get", "a[0]", r#"{"b":"x"}"#);
        case("json_get", "a[-3]", "2.5");
        case("json_get", "$['c d'].e", "7");
        case("json_get", "a[3]", "null");
        case("json_get", "nothing.here", "null");
        case("json_number", "a[1]", "2.5");
        case("json_number", "a[0].b", "null");
        case("json_bool", "a[2]", "true");
        case("json_array_length", "a", "4");
        check("json_array_length", &[texts("[1, 2]")], "2");
        check_error(
            "json_get",
            &[json.clone(), text("a[x]")],
            "json_get: cannot read the path \"a[x]\": expected an integer",
        );
        check_error("json_get", &[texts("{"), text("a")], "json_get: the text is no JSON");
        check_error("json_get", &[1.into(), text("a")], "json_get: expected JSON, found a number (int64)");
    }
}
