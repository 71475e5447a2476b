//! `subscript`: what `x[1:3, ::2, ...]` means for a tensor.
//!
//! The text between the brackets is given as a pattern, with a letter where a bound is, and the bounds follow in order:
//! `x[1:3, ::n, ..., -1]` is `subscript(x, 'a:b, ::c, ..., i', 1, 3, n, -1)`.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::functions_nested::extract::array_slice_udf;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use lacus_tensor::{Index, Selection, Shape};

use super::function::{Body, Call, Function, Planned};
use crate::tensors::{Dims, Kind, TensorBuilder};

#[derive(Debug)]
struct Subscript;

pub(super) fn functions() -> Vec<Function> {
    vec![Function::new(
        "subscript",
        "x, pattern, bounds…",
        "What x[…] stands for: numpy's indexing, from 0, half open, negative numbers from the end. The pattern has an entry \
         for each axis, with letters for bounds, which follow: 'i' an index, 'a:b:c' a slice, '...' all other axes.",
        "SELECT subscript(image, 'a:b,:,i', 10, 20, 0) FROM photos -- image[10:20, :, 0]",
        Subscript,
    )]
}

/// One entry of a pattern: which of its bounds are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    At,
    Slice { start: bool, stop: bool, step: bool },
    Ellipsis,
}

/// Reads a pattern.
fn parse(pattern: &str) -> Result<Vec<Entry>, String> {
    let wrong = |entry: &str| format!("cannot read {entry:?} in the pattern {pattern:?}");
    let is_bound = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    pattern
        .split(',')
        .map(|entry| {
            let entry = entry.trim();
            let parts: Vec<&str> = entry.split(':').map(str::trim).collect();
            if parts.iter().any(|part| !part.is_empty() && !is_bound(part)) && entry != "..." {
                return Err(wrong(entry));
            }
            match parts[..] {
                ["..."] => Ok(Entry::Ellipsis),
                [index] if is_bound(index) => Ok(Entry::At),
                [start, stop] => {
                    Ok(Entry::Slice { start: is_bound(start), stop: is_bound(stop), step: false })
                }
                [start, stop, step] => {
                    Ok(Entry::Slice { start: is_bound(start), stop: is_bound(stop), step: is_bound(step) })
                }
                _ => Err(wrong(entry)),
            }
        })
        .collect()
}

fn bounds_of(entry: &Entry) -> usize {
    match entry {
        Entry::At => 1,
        Entry::Slice { start, stop, step } => usize::from(*start) + usize::from(*stop) + usize::from(*step),
        Entry::Ellipsis => 0,
    }
}

/// The index of an entry, its bounds taken in order.
fn index(entry: &Entry, bounds: &mut impl Iterator<Item = i64>) -> Index {
    let mut next = |is_given: bool| is_given.then(|| bounds.next()).flatten();
    match entry {
        Entry::At => Index::At(next(true).unwrap_or(0)),
        Entry::Slice { start, stop, step } => {
            Index::Slice { start: next(*start), stop: next(*stop), step: next(*step) }
        }
        Entry::Ellipsis => Index::Ellipsis,
    }
}

/// The sizes of the result, where they are known. `bounds` has what is constant.
fn result_dims(dims: &Dims, entries: &[Entry], bounds: &[Option<i64>]) -> Result<Dims, String> {
    let mut at = 0;
    let mut indices: Vec<(Entry, Option<Index>)> = Vec::new();
    for entry in entries {
        let given = &bounds[at..at + bounds_of(entry)];
        at += given.len();
        let known: Option<Vec<i64>> = given.iter().copied().collect();
        if let (Entry::Slice { step: true, .. }, Some(Some(0))) = (entry, given.last()) {
            return Err("slice step cannot be zero".to_owned());
        }
        indices.push((*entry, known.map(|known| index(entry, &mut known.into_iter()))));
    }
    if entries.iter().filter(|entry| **entry == Entry::Ellipsis).count() > 1 {
        return Err("an index can only have a single ellipsis ('...')".to_owned());
    }
    let Some(sizes) = dims.sizes() else { return Ok(Dims::Unranked) };
    let indexed = entries.iter().filter(|entry| **entry != Entry::Ellipsis).count();
    let Some(free) = sizes.len().checked_sub(indexed) else {
        let rank = sizes.len();
        return Err(format!("too many indices: the tensor has {rank} axes, but {indexed} were indexed"));
    };
    let (mut axis, mut result) = (0, Vec::new());
    for (entry, index) in &indices {
        match (entry, index) {
            (Entry::Ellipsis, _) => {
                result.extend_from_slice(&sizes[axis..axis + free]);
                axis += free;
                continue;
            }
            (Entry::At, Some(Index::At(place))) => {
                if let Some(size) = sizes[axis]
                    && (*place >= size as i64 || *place < -(size as i64))
                {
                    return Err(format!("index {place} is out of bounds for axis {axis} with size {size}"));
                }
            }
            (Entry::At, _) => {}
            (Entry::Slice { .. }, Some(Index::Slice { start: None, stop: None, step: None })) => {
                result.push(sizes[axis]);
            }
            (Entry::Slice { .. }, index) => result.push(match (sizes[axis], index) {
                (Some(size), Some(index)) => {
                    let shape = Shape::new([size]).map_err(|error| error.to_string())?;
                    let selection = Selection::resolve(&shape, std::slice::from_ref(index));
                    Some(selection.map_err(|error| error.to_string())?.output_shape().dims()[0])
                }
                _ => None,
            }),
        }
        axis += 1;
    }
    // What is not named is whole; if there is an ellipsis, nothing is left.
    result.extend_from_slice(&sizes[axis..]);
    Ok(Dims::ranked(result))
}

impl Body for Subscript {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let Some(pattern) = call.constant_text(1, "the pattern")? else {
            return plan_err!("{}: the pattern must not be NULL", call.name);
        };
        let entries =
            parse(&pattern).map_err(|why| DataFusionError::Plan(format!("{}: {why}", call.name)))?;
        let wanted: usize = entries.iter().map(bounds_of).sum();
        let given = call.count() - 2;
        if given != wanted {
            return plan_err!("{}: the pattern {pattern:?} has {wanted} bounds, found {given}", call.name);
        }
        for at in 2..call.count() {
            call.expect_integer(at, "a bound")?;
        }
        if call.kind(0) == Kind::List {
            return match entries[..] {
                [Entry::Slice { .. }] => Ok(call.fields[0].as_ref().clone().with_name(call.name)),
                _ => plan_err!(
                    "{}: a list of SQL is no tensor and takes one slice, found {pattern:?}; \
                     astype(list, 'float32') makes a tensor of it",
                    call.name
                ),
            };
        }
        let operand = call.operand(0)?;
        let bounds: Vec<Option<i64>> = (2..call.count())
            .map(|at| match call.constant(at).map(|bound| bound.cast_to(&DataType::Int64)) {
                Some(Ok(ScalarValue::Int64(bound))) => bound,
                _ => None,
            })
            .collect();
        let dims = result_dims(&operand.dims, &entries, &bounds)
            .map_err(|why| DataFusionError::Plan(format!("{}: {why}", call.name)))?;
        call.field(operand.dtype, dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let pattern = call.constant_text(1).unwrap_or_default();
        let entries =
            parse(&pattern).map_err(|why| DataFusionError::Execution(format!("{}: {why}", call.name)))?;
        if Kind::of(&call.fields[0]) == Kind::List {
            return sql_slice(call, &entries);
        }
        let tensors = call.tensors(0)?;
        let bounds = (2..call.count()).map(|at| call.ints(at)).collect::<Result<Vec<_>>>()?;
        let mut builder = TensorBuilder::new(call.name, &call.output_type()?, call.rows)?;
        for row in 0..call.rows {
            if call.any_null(row) {
                builder.push_null();
                continue;
            }
            let mut values = bounds.iter().map(|bound| bound.value(row));
            let indices: Vec<Index> = entries.iter().map(|entry| index(entry, &mut values)).collect();
            match tensors.select(row, &indices)? {
                Some(found) => builder.push(&found.view())?,
                None => builder.push_null(),
            }
        }
        builder.finish()
    }
}

/// One slice of a list of SQL: DataFusion's own, from 1 on, with both ends.
fn sql_slice(call: &Call, entries: &[Entry]) -> Result<ArrayRef> {
    let [Entry::Slice { start, stop, step }] = entries else { return call.fail("a list takes one slice") };
    let mut given = 2..call.count();
    let mut bound = |is_given: &bool, default: i64| -> Result<ColumnarValue> {
        match is_given.then(|| given.next()).flatten() {
            Some(at) => Ok(ColumnarValue::Array(Arc::new(call.ints(at)?))),
            None => {
                Ok(ColumnarValue::Array(Arc::new(arrow::array::Int64Array::from(vec![default; call.rows]))))
            }
        }
    };
    let mut args = vec![ColumnarValue::Array(call.array(0)?), bound(start, 1)?, bound(stop, -1)?];
    if *step {
        args.push(bound(step, 1)?);
    }
    let mut arg_fields = vec![Arc::clone(&call.fields[0])];
    arg_fields.extend((1..args.len()).map(|_| Arc::new(Field::new("bound", DataType::Int64, true))));
    let result = array_slice_udf().invoke_with_args(ScalarFunctionArgs {
        args,
        arg_fields,
        number_rows: call.rows,
        return_field: Arc::clone(&call.output),
        config_options: Arc::new(ConfigOptions::default()),
    })?;
    result.into_array(call.rows)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Value, check, check_error, fixed, image, list, ragged, text};
    use super::*;
    use lacus_tensor::DType;

    fn matrix() -> Value {
        fixed(DType::I16, &[3, 4], &(0..12).map(f64::from).collect::<Vec<_>>())
    }

    fn subscript(of: Value, pattern: &str, bounds: &[i64]) -> Vec<Value> {
        let mut args = vec![of, text(pattern)];
        args.extend(bounds.iter().map(|bound| Value::from(*bound)));
        args
    }

    #[test]
    fn tensors_follow_numpy() {
        let case = |pattern: &str, bounds: &[i64], expected: &str| {
            check("subscript", &subscript(matrix(), pattern, bounds), expected);
        };
        case("i,i", &[1, 2], "6");
        case("i,i", &[-1, -1], "11");
        case("i", &[0], "int16 (4,) [0, 1, 2, 3]");
        case(":,i", &[1], "int16 (3,) [1, 5, 9]");
        case("a:b,a:b", &[0, 2, 1, 3], "int16 (2, 2) [1, 2, 5, 6]");
        case("...,::c", &[-2], "int16 (3, 2) [3, 1, 7, 5, 11, 9]");
        case("a:, :b", &[-1, 2], "int16 (1, 2) [8, 9]");
        case("a:b", &[2, 100], "int16 (1, 4) [8, 9, 10, 11]");
        case("a:b", &[5, 100], "int16 (0, 4) []");
        case("a:b:c,i", &[2, 0, -1, 0], "int16 (2,) [8, 4]");
        case("...", &[], "int16 (3, 4) [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]");
        check(
            "subscript",
            &subscript(ragged(DType::F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]), "i,i", &[1, 0]),
            "3.0",
        );
        check(
            "subscript",
            &subscript(ragged(DType::F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]), "i", &[1]),
            "float32 (2,) [3, 4]",
        );
        let pixels: Vec<f64> = (0..12).map(f64::from).collect();
        check("subscript", &subscript(image(&[2, 2, 3], &pixels), "i,:,i", &[1, 2]), "uint8 (2,) [8, 11]");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let case = |pattern: &str, bounds: &[i64], why: &str| {
            check_error("subscript", &subscript(matrix(), pattern, bounds), why);
        };
        case("i", &[3], "subscript: index 3 is out of bounds for axis 0 with size 3");
        case(":,i", &[-5], "subscript: index -5 is out of bounds for axis 1 with size 4");
        case("::c", &[0], "subscript: slice step cannot be zero");
        case("i,i,i", &[0, 0, 0], "subscript: too many indices: the tensor has 2 axes, but 3 were indexed");
        case("i,i", &[0], "has 2 bounds, found 1");
        case("1", &[], "cannot read \"1\"");
        let uneven = ragged(DType::F32, &[2], &[1.0, 2.0]);
        check_error(
            "subscript",
            &subscript(uneven, "i", &[2]),
            "index 2 is out of bounds for axis 0 with size 2",
        );
    }

    #[test]
    fn lists_of_sql_keep_their_rules() {
        let numbers = list(&[1.0, 2.0, 3.0, 4.0]);
        check("subscript", &subscript(numbers.clone(), "a:b", &[2, 3]), "[2.0, 3.0]");
        check("subscript", &subscript(numbers.clone(), "a:", &[3]), "[3.0, 4.0]");
        check_error(
            "subscript",
            &subscript(numbers, "i", &[2]),
            "a list of SQL is no tensor and takes one slice",
        );
    }

    #[test]
    fn constant_bounds_give_the_exact_type() {
        let case = |dims: Dims, pattern: &str, bounds: &[Option<i64>], expected: Dims| {
            assert_eq!(result_dims(&dims, &parse(pattern).unwrap(), bounds), Ok(expected));
        };
        let fixed = || Dims::Fixed(vec![10, 20, 3]);
        case(fixed(), "a:b", &[Some(2), Some(5)], Dims::Fixed(vec![3, 20, 3]));
        case(fixed(), "a:b", &[None, Some(5)], Dims::Ranked(vec![None, Some(20), Some(3)]));
        case(fixed(), "...,i", &[None], Dims::Fixed(vec![10, 20]));
        case(
            Dims::Ranked(vec![None, None, Some(3)]),
            ":b,:,::c",
            &[Some(2), Some(2)],
            Dims::Ranked(vec![None, None, Some(2)]),
        );
        case(Dims::Unranked, "i", &[Some(0)], Dims::Unranked);
    }
}
