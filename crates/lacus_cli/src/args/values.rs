//! Values of arguments, from text.

use lacus::layout::{Compression, CompressionWish};
use lacus::tensor::{Index, parse_indices};
use serde_json::Value as Json;

/// Numbers with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dims(pub Vec<u64>);

/// A selection, not yet checked against a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice(pub Vec<Index>);

pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it should be KEY=VALUE".to_owned()),
    }
}

pub(super) fn dims(text: &str) -> Result<Dims, String> {
    let inner = text.trim().trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
    let inner = inner.trim().trim_end_matches(',');
    if inner.is_empty() {
        return Ok(Dims(Vec::new()));
    }
    let number = |word: &str| {
        word.trim()
            .parse::<u64>()
            .map_err(|_| format!("{:?} is no number; write such as 1,3,256", word.trim()))
    };
    inner.split(',').map(number).collect::<Result<_, _>>().map(Dims)
}

pub(super) fn slice(text: &str) -> Result<Slice, String> {
    parse_indices(text).map(Slice).map_err(|error| error.to_string())
}

pub(super) fn compression(text: &str) -> Result<CompressionWish, String> {
    if text == "auto" {
        return Ok(CompressionWish::Auto);
    }
    text.parse::<Compression>()
        .map(CompressionWish::from)
        .map_err(|_| "it should be auto, none, lz4, zstd or zstd:LEVEL, from -7 to 22, not 0".to_owned())
}

pub(super) fn json_object(text: &str) -> Result<Json, String> {
    match serde_json::from_str(text) {
        Ok(json @ Json::Object(_)) => Ok(json),
        Ok(_) => Err("it should be a JSON object, such as {\"unit\": \"mm\"}".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_commas() {
        let check = |text: &str, expected: Option<&[u64]>| {
            assert_eq!(dims(text).ok().map(|dims| dims.0).as_deref(), expected, "{text}");
        };
        check("1,3,256", Some(&[1, 3, 256]));
        check("(1, 3)", Some(&[1, 3]));
        check("(7,)", Some(&[7]));
        check("", Some(&[]));
        check("()", Some(&[]));
        check("1,,3", None);
        check("-1", None);
        check("1x3", None);
    }
}
