//! Words of `--param` as the values of a query's parameters.

use lacus::tensor::{Buffer, DType, Shape, Tensor};
use lacus::{Parameter, Parameters};
use serde_json::Value as Json;

use crate::failure::Failure;

/// The parameters of a query: by name where the query has a `:name` for what stands before `=`, else by place.
pub(crate) fn parameters(text: &str, words: &[String]) -> Result<Parameters, Failure> {
    let named: Vec<Option<(&str, &str)>> = words.iter().map(|word| name_of(text, word)).collect();
    if words.is_empty() {
        return Ok(Parameters::None);
    }
    if named.iter().all(Option::is_none) {
        return Ok(Parameters::Positional(words.iter().map(|word| value(word)).collect::<Result<_, _>>()?));
    }
    let one = |(word, named): (&String, Option<(&str, &str)>)| match named {
        Some((name, word)) => Ok((name.to_owned(), value(word)?)),
        None => Err(Failure::invalid(format!("--param {word:?} is for no name in the query"))
            .hint("a query has values for `?` or for `:name`, not for both")),
    };
    Ok(Parameters::Named(words.iter().zip(named).map(one).collect::<Result<_, _>>()?))
}

fn name_of<'a>(text: &str, word: &'a str) -> Option<(&'a str, &'a str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_used = [':', '$'].iter().any(|sign| {
        text.match_indices(&format!("{sign}{name}")).any(|(at, found)| {
            !text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    });
    (is_name && is_used).then_some((name, value))
}

fn value(word: &str) -> Result<Parameter, Failure> {
    if word.len() >= 2 && word.starts_with('\'') && word.ends_with('\'') {
        return Ok(word[1..word.len() - 1].replace("''", "'").into());
    }
    match word.to_ascii_lowercase().as_str() {
        "null" => return Ok(Parameter::null()),
        "true" => return Ok(true.into()),
        "false" => return Ok(false.into()),
        _ => {}
    }
    if let Ok(number) = word.parse::<i64>() {
        return Ok(number.into());
    }
    if let Ok(number) = word.parse::<u64>() {
        return Ok(number.into());
    }
    if let Ok(number) = word.parse::<f64>() {
        return Ok(number.into());
    }
    match word.starts_with('[') {
        true => array(word),
        false => Ok(word.into()),
    }
}

/// A list of numbers, or lists of such lists.
fn array(word: &str) -> Result<Parameter, Failure> {
    let bad =
        |why: String| Failure::invalid(format!("--param {word:?}: {why}")).hint("in quotes ('…') it is text");
    let json: Json = serde_json::from_str(word).map_err(|error| bad(error.to_string()))?;
    let (mut dims, mut inner) = (Vec::new(), &json);
    while let Json::Array(items) = inner {
        dims.push(items.len() as u64);
        match items.first() {
            Some(first) => inner = first,
            None => break,
        }
    }
    let mut numbers = Vec::new();
    flatten(&json, &dims, &mut numbers).map_err(|why| bad(why.to_owned()))?;
    let whole: Option<Vec<i64>> = numbers.iter().map(|number| number.as_i64()).collect();
    let (dtype, bytes): (DType, Vec<u8>) = match whole {
        Some(whole) if !whole.is_empty() => {
            (DType::I64, whole.iter().flat_map(|n| n.to_le_bytes()).collect())
        }
        _ => {
            let floats = numbers.iter().map(|number| number.as_f64().unwrap_or(f64::NAN));
            (DType::F64, floats.flat_map(f64::to_le_bytes).collect())
        }
    };
    let tensor = Tensor::new(dtype, Shape::new(dims)?, Buffer::from_slice(&bytes))?;
    Ok(Parameter::tensor(&tensor.as_ref()).map_err(lacus::Error::from)?)
}

fn flatten(json: &Json, dims: &[u64], numbers: &mut Vec<serde_json::Number>) -> Result<(), &'static str> {
    match (json, dims) {
        (Json::Number(number), []) => {
            numbers.push(number.clone());
            Ok(())
        }
        (Json::Array(items), [count, inner @ ..]) if items.len() as u64 == *count => {
            items.iter().try_for_each(|item| flatten(item, inner, numbers))
        }
        (Json::Array(_), _) => Err("its lists are of different lengths"),
        _ => Err("a list of numbers is expected"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match parameters(text, &words) {
            Ok(Parameters::None) => "none".to_owned(),
            Ok(Parameters::Positional(values)) => format!("{} by place", values.len()),
            Ok(Parameters::Named(values)) => {
                let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
                format!("named {}", names.join(" "))
            }
            Err(error) => error.text().unwrap_or_default(),
        }
    }

    #[test]
    fn names_are_those_of_the_query() {
        assert_eq!(told("SELECT 1", &[]), "none");
        assert_eq!(told("SELECT * WHERE a = ?", &["b=c"]), "1 by place");
        assert_eq!(told("SELECT * WHERE a = :b", &["b=c"]), "named b");
        assert_eq!(told("SELECT * WHERE a = :bc", &["b=c"]), "1 by place");
        assert!(told("SELECT * WHERE a = :b", &["b=c", "d"]).contains("for no name"));
    }

    #[test]
    fn words_have_types() {
        for word in
            ["null", "TRUE", "7", "18446744073709551615", "-0.5", "dog", "'42'", "[1, 2]", "[[1, 2.5]]", "[]"]
        {
            assert!(value(word).is_ok(), "{word}");
        }
        for word in ["[1, x]", "[[1], [2, 3]]", "[\"a\"]", "[1, [2]]"] {
            assert!(value(word).is_err(), "{word}");
        }
    }
}
