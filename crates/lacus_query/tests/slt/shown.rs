//! Values as files of sqllogictest write them: NULL, (empty), numbers without trailing zeros and with at most twelve digits behind
//! the point, anything else as Arrow shows it.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float16Type,
    Float32Type, Float64Type, Schema,
};
use arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};

/// How many digits behind the point of a float are compared.
const DIGITS: usize = 12;

/// The letters of some columns.
pub(crate) fn letters(schema: &Schema) -> String {
    schema.fields().iter().map(|field| letter(field.data_type())).collect()
}

fn letter(data_type: &DataType) -> char {
    match data_type {
        DataType::Boolean => 'B',
        data_type if data_type.is_integer() => 'I',
        data_type if data_type.is_floating() || data_type.is_decimal() => 'R',
        data_type if data_type.is_string() => 'T',
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => 'D',
        DataType::Timestamp(..) => 'P',
        DataType::Dictionary(_, values) if values.is_string() => 'T',
        _ => '?',
    }
}

/// The rows of some batches, each a list of its values.
pub(crate) fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, String> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<Vec<String>> = batch.columns().iter().map(cells).collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|column| column[row].clone()).collect();
            rows.extend(by_lines(cells));
        }
    }
    Ok(rows)
}

/// A row whose last value has several lines takes a row for each, numbered, with its indent shown.
fn by_lines(mut cells: Vec<String>) -> Vec<Vec<String>> {
    let Some(last) = cells.pop_if(|last| last.contains('\n')) else { return vec![cells] };
    let line = |(at, line): (usize, &str)| {
        let text = line.trim_start();
        vec![format!("{:02}){}{text}", at + 1, "-".repeat(line.len() - text.len()))]
    };
    std::iter::once(cells).chain(last.split('\n').enumerate().map(line)).collect()
}

fn cells(array: &ArrayRef) -> Result<Vec<String>, String> {
    let wrong = |error: arrow::error::ArrowError| error.to_string();
    let said = |text: &dyn Fn(usize) -> String| -> Result<Vec<String>, String> {
        let cell = |row| if array.is_null(row) { "NULL".to_owned() } else { text(row) };
        Ok((0..array.len()).map(cell).collect())
    };
    let text = |text: &str| match text {
        "" => "(empty)".to_owned(),
        text => text.trim_end_matches('\n').replace('\0', "\\0"),
    };
    match array.data_type() {
        DataType::Null => said(&|_| "NULL".to_owned()),
        DataType::Utf8 => said(&|row| text(array.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => said(&|row| text(array.as_string::<i64>().value(row))),
        DataType::Utf8View => said(&|row| text(array.as_string_view().value(row))),
        DataType::Float16 => {
            let array = array.as_primitive::<Float16Type>();
            said(&|row| number(f64::from(array.value(row)), &array.value(row).to_string()))
        }
        DataType::Float32 => {
            let array = array.as_primitive::<Float32Type>();
            said(&|row| number(f64::from(array.value(row)), &array.value(row).to_string()))
        }
        DataType::Float64 => {
            let array = array.as_primitive::<Float64Type>();
            said(&|row| number(array.value(row), &array.value(row).to_string()))
        }
        DataType::Decimal32(_, scale) => {
            said(&|row| decimal::<Decimal32Type>(array.as_primitive::<Decimal32Type>().value(row), *scale))
        }
        DataType::Decimal64(_, scale) => {
            said(&|row| decimal::<Decimal64Type>(array.as_primitive::<Decimal64Type>().value(row), *scale))
        }
        DataType::Decimal128(_, scale) => {
            said(&|row| decimal::<Decimal128Type>(array.as_primitive::<Decimal128Type>().value(row), *scale))
        }
        DataType::Decimal256(_, scale) => {
            said(&|row| decimal::<Decimal256Type>(array.as_primitive::<Decimal256Type>().value(row), *scale))
        }
        DataType::Dictionary(_, values) => cells(&arrow::compute::cast(array, values).map_err(wrong)?),
        _ => {
            let options =
                FormatOptions::default().with_null("NULL").with_duration_format(DurationFormat::Pretty);
            let formatter = ArrayFormatter::try_new(array.as_ref(), &options).map_err(wrong)?;
            (0..array.len()).map(|row| formatter.value(row).try_to_string().map_err(wrong)).collect()
        }
    }
}

fn decimal<T: DecimalType>(value: T::Native, scale: i8) -> String {
    plain(&T::format_decimal(value, u8::MAX, scale), usize::try_from(scale).unwrap_or(0))
}

fn number(value: f64, text: &str) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => plain(text, DIGITS),
    }
}

/// A decimal number with at most so many digits behind the point, rounded to even where it lies between two, without zeros that
/// say nothing.
fn plain(text: &str, digits: usize) -> String {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => ("-", text),
        None => ("", text),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let (kept, rest) = part.split_at(digits.min(part.len()));
    let mut all: Vec<u8> = whole.bytes().chain(kept.bytes()).collect();
    let is_odd = all.last().is_some_and(|digit| digit % 2 == 1);
    let is_up = match rest.as_bytes() {
        [] | [b'0'..=b'4', ..] => false,
        [b'5', more @ ..] if more.iter().all(|digit| *digit == b'0') => is_odd,
        _ => true,
    };
    if is_up {
        let mut carry = true;
        for digit in all.iter_mut().rev() {
            if *digit != b'9' {
                *digit += 1;
                carry = false;
                break;
            }
            *digit = b'0';
        }
        if carry {
            all.insert(0, b'1');
        }
    }
    let all = String::from_utf8_lossy(&all).into_owned();
    let (whole, part) = all.split_at(all.len() - kept.len());
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    match part.is_empty() {
        true if whole == "0" => "0".to_owned(),
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{part}"),
    }
}

#[test]
fn numbers_are_short() {
    for (text, digits, expected) in [
        ("1.50", 12, "1.5"),
        ("-0", 12, "0"),
        ("-0.0000000000001", 12, "0"),
        ("100", 12, "100"),
        ("0.11", 3, "0.11"),
        ("1.0000000000011", 12, "1.000000000001"),
        ("0.1234567890125", 12, "0.123456789012"),
        ("0.1234567890135", 12, "0.123456789014"),
        ("0.12345678901250001", 12, "0.123456789013"),
        ("9.9999999999999", 12, "10"),
        ("-12.5", 0, "-12"),
        ("007", 0, "7"),
    ] {
        assert_eq!(plain(text, digits), expected, "{text}");
    }
    assert_eq!(by_lines(vec!["a".into(), "b\n  c".into()]), [["a"], ["01)b"], ["02)--c"]].map(Vec::from));
}
