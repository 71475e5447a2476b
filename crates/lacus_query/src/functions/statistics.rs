//! Numbers about numbers: `histogram`, `quantile`, `normalize`; and numbers by chance that stay the same.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array};
use arrow::datatypes::{DataType, Field};
use arrow::util::display::array_value_to_string;
use datafusion::common::{Result, plan_err};
use lacus_tensor::DType;

use super::function::{Body, Call, Function, Planned};
use super::promote::quotient_of;
use super::reduce::{runs, sum, without_axis};
use crate::tensors::{Dims, in_order, loaded, tensor_of};

#[derive(Debug)]
struct Histogram;

#[derive(Debug)]
struct Quantile;

#[derive(Debug)]
struct Normalize;

#[derive(Debug)]
struct HashRandom;

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "histogram",
            "x, bins, low, high",
            "How many elements lie in each of some bins of one width between two bounds; the last bin has its upper bound.",
            "SELECT histogram(image, 16, 0, 256) FROM photos",
            Histogram,
        ),
        Function::new(
            "quantile",
            "x, q, axis?",
            "The number below which a part q of the elements lies, interpolated between neighbours.",
            "SELECT quantile(image, 0.5) FROM photos",
            Quantile,
        ),
        Function::new(
            "normalize",
            "x",
            "The vector of length 1 in the same direction; NaN if it has no length.",
            "SELECT normalize(embedding) FROM docs",
            Normalize,
        ),
        Function::new(
            "hash_random",
            "seed, value",
            "A number from 0 (which it may be) to 1 (which it never is) that looks random and depends on the two alone: the same \
             row gets the same number in every run.",
            "SELECT * FROM photos WHERE hash_random(7, file_name) < 0.1",
            HashRandom,
        ),
    ]
}

impl Body for Histogram {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        if call.operand(0)?.dtype.is_complex() {
            return plan_err!("{}: complex numbers have no order", call.name);
        }
        let Some(bins) =
            call.constant_int(1, "the number of bins")?.and_then(|bins| u64::try_from(bins).ok())
        else {
            return plan_err!("{}: the number of bins must be positive", call.name);
        };
        if bins == 0 {
            return plan_err!("{}: the number of bins must be positive", call.name);
        }
        call.expect_number(2, "low")?;
        call.expect_number(3, "high")?;
        call.field(DType::I64, Dims::Fixed(vec![bins]))
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let tensors = call.tensors(0)?;
        let bins = call.constant_int(1).unwrap_or(1).max(1) as usize;
        let (lows, highs) = (call.doubles(2)?, call.doubles(3)?);
        call.build(|row| {
            if call.any_null(row) {
                return Ok(None);
            }
            let Some(tensor) = tensors.get(row)? else { return Ok(None) };
            let (low, high) = (lows.value(row), highs.value(row));
            if !(low < high && low.is_finite() && high.is_finite()) {
                return call.fail(format!("low must be below high, found {low} and {high}"));
            }
            let tensor = tensor.view();
            let mut counts = vec![0i64; bins];
            for value in loaded::<f64>(tensor.dtype(), &in_order(&tensor)) {
                if let Some(bin) = bin(value, bins, low, high) {
                    counts[bin] += 1;
                }
            }
            tensor_of(DType::I64, &[bins as u64], &counts).map(Some).map_err(|error| call.wrong(error))
        })
    }
}

/// The bin of a value, by the edges that numpy has.
fn bin(value: f64, bins: usize, low: f64, high: f64) -> Option<usize> {
    if !(value >= low && value <= high) {
        return None;
    }
    let edge = |at: usize| match at == bins {
        true => high,
        false => low + at as f64 * ((high - low) / bins as f64),
    };
    let guess = ((value - low) / (high - low) * bins as f64) as usize;
    let guess = guess.min(bins - 1);
    // The guess may be one off, since edges are rounded otherwise.
    Some(match value {
        value if value < edge(guess) => guess - 1,
        value if guess + 1 < bins && value >= edge(guess + 1) => guess + 1,
        _ => guess,
    })
}

impl Body for Quantile {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let operand = call.operand(0)?;
        if operand.dtype.is_complex() {
            return plan_err!("{}: complex numbers have no order", call.name);
        }
        call.expect_number(1, "q")?;
        let dims = without_axis(call, &operand.dims, call.constant_int(2, "axis")?)?;
        call.field(quotient_of(operand.dtype), dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let (tensors, parts) = (call.tensors(0)?, call.doubles(1)?);
        let (dtype, axis) = (call.output_type()?.dtype, call.constant_int(2));
        call.build(|row| {
            let Some(tensor) = tensors.get(row)?.filter(|_| !parts.is_null(row)) else { return Ok(None) };
            let part = parts.value(row);
            if !(0.0..=1.0).contains(&part) {
                return call.fail(format!("q must be in the range from 0 to 1, found {part}"));
            }
            let tensor = tensor.view();
            let (bytes, left, length) = runs(call.name, &tensor, axis)?;
            let mut all = loaded::<f64>(tensor.dtype(), &bytes);
            let count = left.iter().product::<u64>() as usize;
            if length == 0 && count > 0 {
                return call.fail("there are no elements");
            }
            let made: Vec<f64> =
                all.chunks_mut(length.max(1)).take(count).map(|run| quantile(run, part)).collect();
            tensor_of(dtype, &left, &made).map(Some).map_err(|error| call.wrong(error))
        })
    }
}

fn quantile(run: &mut [f64], part: f64) -> f64 {
    if run.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    run.sort_unstable_by(f64::total_cmp);
    let place = part * (run.len() - 1) as f64;
    let (below, rest) = (place.floor() as usize, place.fract());
    let (low, high) = (run[below], run[(below + 1).min(run.len() - 1)]);
    // From the nearer end, as numpy does it, so that both ends are exact.
    match low == high {
        true => low,
        false if rest >= 0.5 => high - (high - low) * (1.0 - rest),
        false => low + (high - low) * rest,
    }
}

impl Body for Normalize {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let operand = call.operand(0)?;
        if operand.dtype.is_complex() {
            return plan_err!("{}: is not defined for {}", call.name, operand.dtype);
        }
        call.field(quotient_of(operand.dtype), operand.dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let (tensors, dtype) = (call.tensors(0)?, call.output_type()?.dtype);
        call.build(|row| {
            let Some(tensor) = tensors.get(row)? else { return Ok(None) };
            let tensor = tensor.view();
            let mut all = loaded::<f64>(tensor.dtype(), &in_order(&tensor));
            let length = sum(&all.iter().map(|value| value * value).collect::<Vec<_>>()).sqrt();
            all.iter_mut().for_each(|value| *value /= length);
            tensor_of(dtype, tensor.shape().dims(), &all).map(Some).map_err(|error| call.wrong(error))
        })
    }
}

impl Body for HashRandom {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        call.expect_integer(0, "the seed")?;
        Ok(call.plain_field(DataType::Float64))
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let (seeds, values) = (call.ints(0)?, call.array(1)?);
        let ints = if values.data_type().is_integer() { Some(call.ints(1)?) } else { None };
        let mut found = Vec::with_capacity(call.rows);
        for row in 0..call.rows {
            if call.any_null(row) {
                found.push(None);
                continue;
            }
            let hash = match &ints {
                Some(ints) => mixed(ints.value(row) as u64),
                None => texts_hash(&array_value_to_string(&values, row)?),
            };
            let bits = mixed(hash ^ mixed(seeds.value(row) as u64 ^ 0x6c61_6375_7300_0000));
            // The 53 bits that a double holds.
            found.push(Some((bits >> 11) as f64 / (1u64 << 53) as f64));
        }
        Ok(Arc::new(Float64Array::from(found)))
    }
}

/// SplitMix64: all bits of the result depend on all bits of the number.
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// FNV-1a, mixed.
fn texts_hash(text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325u64;
    mixed(text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, fixed, number, ragged, texts};
    use super::*;

    #[test]
    fn counts_and_quantiles_are_numpys() {
        let bytes = || fixed(DType::U8, &[5], &[0.0, 1.0, 2.0, 3.0, 4.0]);
        check("histogram", &[bytes(), 2.into(), 0.into(), 4.into()], "int64 (2,) [2, 3]");
        check("histogram", &[bytes(), 4.into(), 1.into(), 3.into()], "int64 (4,) [1, 0, 1, 1]");
        check(
            "histogram",
            &[fixed(DType::F64, &[3], &[0.3, f64::NAN, 9.0]), 10.into(), 0.into(), 1.into()],
            "int64 (10,) [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]",
        );
        check("quantile", &[bytes(), 0.5.into()], "2.0");
        check("quantile", &[bytes(), 0.1.into()], "0.4");
        check(
            "quantile",
            &[fixed(DType::F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]), 0.5.into(), 0.into()],
            "float32 (2,) [2, 3]",
        );
        check("quantile", &[fixed(DType::F64, &[2], &[1.0, f64::NAN]), 0.5.into()], "NaN");
        check(
            "normalize",
            &[ragged(DType::F32, &[2], &[3.0, 4.0])],
            "float32 (2,) [0.6000000238418579, 0.800000011920929]",
        );
        check_error(
            "quantile",
            &[bytes(), 1.5.into()],
            "quantile: q must be in the range from 0 to 1, found 1.5",
        );
        check_error(
            "histogram",
            &[bytes(), 2.into(), 4.into(), 0.into()],
            "histogram: low must be below high",
        );
    }

    #[test]
    fn chance_is_the_same_every_time_and_even() {
        check("hash_random", &[7.into(), number(DType::I64, 1.0)], "0.41474443246105597");
        check("hash_random", &[7.into(), number(DType::U8, 1.0)], "0.41474443246105597");
        check("hash_random", &[7.into(), texts("a")], "0.21573555226358188");
        let draws: Vec<f64> =
            (0..10_000u64).map(|at| (mixed(mixed(at)) >> 11) as f64 / (1u64 << 53) as f64).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }
}
