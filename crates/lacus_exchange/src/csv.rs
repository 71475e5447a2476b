//! CSV: numbers, booleans, dates, times and text, as far as every field of a column agrees. Empty fields are missing.

use lacus_io::boxed;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use csv::{ByteRecord, Reader, ReaderBuilder, WriterBuilder};
use lacus_arrow::{Cell, class_name};
use lacus_dataset::{Base, ColumnSpec, Dataset};
use lacus_sample::{Logical, Unit};
use lacus_tensor::DType;

use crate::error::ExchangeError;
use crate::exporter::{OutColumn, chosen, export_rows, is_media, keep_file, new_file};
use crate::importer::{Feed, NewColumn, import};
use crate::names::column_names;
use crate::number_text::{nested_text, number_text};
use crate::options::{ExportOptions, ImportOptions, Report};

/// Imports a CSV file with a header line. Columns all of whose fields are whole numbers become int64 (uint64 where they
/// need it), numbers float64, `true` and `false` bool, `2026-01-31` dates, `2026-01-31T08:30:00` timestamps in microseconds, in UTC
/// where every one says its offset; others text. Numbers with leading zeros are text, and so are
/// whole numbers that no integer holds. Empty fields are missing.
///
/// Fails as [`ImportOptions::on_error`] says for lines with too many or too few fields and for text that is not UTF-8.
#[boxed]
pub async fn from_csv(
    dataset: &mut Dataset,
    source: &Path,
    options: &ImportOptions,
) -> Result<Report, ExchangeError> {
    let source = source.to_owned();
    import(dataset, options, move |feed| read(feed, &source)).await
}

/// What all fields of a column so far could be, the narrowest that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Bool,
    Int,
    Unsigned,
    Float,
    Date,
    /// A date and a time of day.
    Moment,
    /// The same, with its offset from UTC.
    Instant,
    Text,
}

impl Kind {
    fn of(field: &str) -> Kind {
        if field.is_empty() {
            return Kind::Nothing;
        }
        if field.eq_ignore_ascii_case("true") || field.eq_ignore_ascii_case("false") {
            return Kind::Bool;
        }
        let digits = field.strip_prefix(['-', '+']).unwrap_or(field);
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let begins_with_zero =
            digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
        if begins_with_zero || field.trim() != field {
            return Kind::Text;
        }
        if is_whole {
            return match (field.parse::<i64>(), field.parse::<u64>()) {
                (Ok(_), _) => Kind::Int,
                (_, Ok(_)) => Kind::Unsigned,
                _ => Kind::Text,
            };
        }
        match field.parse::<f64>() {
            Ok(_) => Kind::Float,
            Err(_) => Kind::of_time(field),
        }
    }

    fn of_time(field: &str) -> Kind {
        // Years of four digits only: whatever else is in a file may be a number of something.
        if !field.starts_with(|first: char| first.is_ascii_digit()) {
            return Kind::Text;
        }
        let is = |kind: Kind| kind.logical().is_some_and(|logical| logical.count(field).is_ok());
        let all = [Kind::Date, Kind::Moment, Kind::Instant];
        // A date with a time is no date here, be it midnight.
        let fits = |kind: &Kind| is(*kind) && (*kind != Kind::Date || field.len() == 10);
        all.into_iter().find(fits).unwrap_or(Kind::Text)
    }

    /// What dates and times mean.
    fn logical(self) -> Option<Logical> {
        let unit = Unit::Microsecond;
        Some(match self {
            Kind::Date => Logical::Date,
            Kind::Moment => Logical::Timestamp { unit, timezone: None },
            Kind::Instant => Logical::Timestamp { unit, timezone: Some("UTC".into()) },
            _ => return None,
        })
    }

    /// What holds both.
    fn with(self, other: Kind) -> Kind {
        use Kind::{Date, Float, Int, Moment, Nothing, Text, Unsigned};
        match (self, other) {
            (a, b) if a == b => a,
            (Nothing, kind) | (kind, Nothing) => kind,
            (Int | Float, Float) | (Float, Int) | (Float, Unsigned) | (Unsigned, Float) => Float,
            // Negative numbers and ones beyond int64 share no integer; see below for those that are not.
            (Int, Unsigned) | (Unsigned, Int) => Unsigned,
            (Date, Moment) | (Moment, Date) => Moment,
            _ => Text,
        }
    }
}

fn read(feed: &mut Feed, source: &Path) -> Result<(), ExchangeError> {
    let mut reader = open(source, feed.options().delimiter)?;
    let header = reader.byte_headers().map_err(|error| wrong(source, &error))?.clone();
    let found: Vec<String> = header
        .iter()
        .enumerate()
        .map(|(place, name)| {
            // Editors on Windows put a mark in front of UTF-8.
            let name = if place == 0 { name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(name) } else { name };
            String::from_utf8_lossy(name).trim().to_owned()
        })
        .collect();
    if found.is_empty() || found.iter().all(String::is_empty) && found.len() == 1 {
        return Err(ExchangeError::source(source, "there is no header line in it"));
    }
    let names = column_names(&found);
    let (kinds, rows) = kinds(feed, source, reader, names.len())?;
    let columns = names.iter().zip(&kinds).map(|(name, kind)| {
        let dtype = match kind {
            Kind::Bool => DType::Bool,
            Kind::Int => DType::I64,
            Kind::Unsigned => DType::U64,
            Kind::Float => DType::F64,
            Kind::Date => return NewColumn::of(name, "date"),
            Kind::Moment => return NewColumn::of(name, "timestamp"),
            Kind::Instant => {
                let spec = ColumnSpec {
                    htype: Some("timestamp".to_owned()),
                    options: [("timezone".to_owned(), "UTC".into())].into_iter().collect(),
                    ..ColumnSpec::default()
                };
                return NewColumn::new(name, spec);
            }
            Kind::Nothing | Kind::Text => return NewColumn::of(name, "text"),
        };
        NewColumn::new(
            name,
            ColumnSpec { dtype: Some(dtype), shape: Some(Vec::new()), ..ColumnSpec::default() },
        )
    });
    feed.columns(columns.collect(), Some(rows))?;
    let mut reader = open(source, feed.options().delimiter)?;
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(|error| wrong(source, &error))? {
        let place = || {
            let line = record.position().map_or(0, csv::Position::line);
            format!("{}: line {line}", source.display())
        };
        if record.len() != names.len() {
            let why = format!("{} fields where the header has {}", record.len(), names.len());
            feed.bad(place(), why)?;
            continue;
        }
        let mut cells = Vec::with_capacity(names.len());
        let mut fault = None;
        for ((field, kind), name) in record.iter().zip(&kinds).zip(&names) {
            match std::str::from_utf8(field) {
                Ok(field) => cells.push(cell(field, *kind)),
                Err(_) => fault = fault.or(Some(format!("field {name:?} is not UTF-8"))),
            }
        }
        match fault {
            None => feed.row(place(), cells)?,
            Some(why) => feed.bad(place(), why)?,
        }
    }
    Ok(())
}

/// What the columns are, by all lines that will be taken; and how many lines there are.
fn kinds(
    feed: &Feed,
    source: &Path,
    mut reader: Reader<BufReader<File>>,
    width: usize,
) -> Result<(Vec<Kind>, u64), ExchangeError> {
    let mut kinds = vec![Kind::Nothing; width];
    let mut negative = vec![false; width];
    let mut rows = 0;
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(|error| wrong(source, &error))? {
        rows += 1;
        if rows % 4096 == 0 {
            feed.check()?;
        }
        if record.len() != width || record.iter().any(|field| std::str::from_utf8(field).is_err()) {
            continue;
        }
        for (i, field) in record.iter().enumerate() {
            negative[i] |= field.starts_with(b"-");
            if kinds[i] != Kind::Text {
                kinds[i] = kinds[i].with(Kind::of(std::str::from_utf8(field).unwrap_or_default()));
            }
        }
    }
    for (kind, negative) in kinds.iter_mut().zip(negative) {
        if *kind == Kind::Unsigned && negative {
            *kind = Kind::Text;
        }
    }
    Ok((kinds, rows))
}

fn cell(field: &str, kind: Kind) -> Cell {
    if field.is_empty() {
        return Cell::Missing;
    }
    match kind {
        Kind::Bool => Cell::scalar(DType::Bool, &[u8::from(field.eq_ignore_ascii_case("true"))]),
        Kind::Int => Cell::int(field.parse().unwrap_or_default()),
        Kind::Unsigned => Cell::Scalar(DType::U64, field.parse::<u64>().unwrap_or_default().to_le_bytes()),
        Kind::Float => Cell::Scalar(DType::F64, field.parse::<f64>().unwrap_or(f64::NAN).to_le_bytes()),
        Kind::Date | Kind::Moment | Kind::Instant | Kind::Nothing | Kind::Text => Cell::text(field),
    }
}

fn open(source: &Path, delimiter: Option<u8>) -> Result<Reader<BufReader<File>>, ExchangeError> {
    let file = File::open(source).map_err(ExchangeError::io(source, "open"))?;
    let delimiter = delimiter.unwrap_or_else(|| delimiter_of(source));
    let mut builder = ReaderBuilder::new();
    // Lines of other lengths are told one by one.
    builder.flexible(true).delimiter(delimiter);
    Ok(builder.from_reader(BufReader::with_capacity(1 << 18, file)))
}

fn delimiter_of(path: &Path) -> u8 {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if extension == "tsv" || extension == "tab" { b'\t' } else { b',' }
}

fn wrong(source: &Path, error: &csv::Error) -> ExchangeError {
    match error.kind() {
        csv::ErrorKind::Io(io) => {
            ExchangeError::Io { path: source.to_owned(), doing: "read", source: io.kind().into() }
        }
        _ => ExchangeError::source(source, error.to_string()),
    }
}

/// Exports to a CSV file, which appears whole or not at all. Classes go by their names, dates and times as ISO 8601, tensors and lists as nested
/// lists, JSON as its text; missing samples are empty fields.
///
/// Media have no place in it: with errors raised it fails for them, otherwise their columns are left out and reported.
#[boxed]
pub async fn to_csv(
    dataset: &Dataset,
    dest: &Path,
    options: &ExportOptions,
) -> Result<Report, ExchangeError> {
    let mut report = Report::default();
    let mut columns = Vec::new();
    for column in chosen(dataset, options)? {
        match is_media(&column.column) || holds_files(&column) {
            true => {
                let why = format!("a CSV file has no place for {}", column.column.htype());
                report.skip(options.on_error, format!("column {:?}", column.name), why)?;
            }
            false => columns.push(column),
        }
    }
    if columns.is_empty() {
        return Err(ExchangeError::Lacking("no column is left that a CSV file has a place for".to_owned()));
    }
    report.columns = columns.iter().map(|column| column.name.clone()).collect();
    let file = new_file(dest)?;
    let delimiter = options.delimiter.unwrap_or_else(|| delimiter_of(dest));
    let out = BufWriter::with_capacity(1 << 18, file.reopen().map_err(ExchangeError::io(dest, "create"))?);
    let mut writer = WriterBuilder::new().delimiter(delimiter).from_writer(out);
    let failed = |error: csv::Error| wrong(dest, &error);
    writer.write_record(&report.columns).map_err(failed)?;
    export_rows(dataset, &columns, options, &mut report, |report, _, cells| {
        let fields: Vec<String> =
            columns.iter().zip(&cells).map(|(column, cell)| field(column, cell)).collect();
        report.rows += 1;
        report.bytes += fields.iter().map(|field| field.len() as u64 + 1).sum::<u64>();
        writer.write_record(&fields).map_err(failed)
    })
    .await?;
    let mut out = writer.into_inner().map_err(|error| ExchangeError::Io {
        path: dest.to_owned(),
        doing: "write",
        source: error.error().kind().into(),
    })?;
    out.flush().map_err(ExchangeError::io(dest, "write"))?;
    keep_file(file, dest)?;
    Ok(report)
}

fn holds_files(column: &OutColumn) -> bool {
    matches!(
        column.column.htype().base,
        Base::Image | Base::ImageGray | Base::Video | Base::Audio | Base::Dicom | Base::Bytes
    )
}

fn field(column: &OutColumn, cell: &Cell) -> String {
    match cell {
        Cell::Missing | Cell::Media(_) => String::new(),
        Cell::Scalar(..) if column.column.htype().base == Base::ClassLabel => {
            cell.as_int().map_or(String::new(), |number| class_name(&column.column, number))
        }
        Cell::Scalar(dtype, element) => {
            cell.logical_text(&column.column).unwrap_or_else(|| number_text(*dtype, element))
        }
        Cell::Text(text) => text.clone(),
        Cell::Json(value) => value.to_string(),
        Cell::Tensor(tensor) => nested_text(tensor.dtype(), tensor.shape().dims(), tensor.bytes()),
        Cell::List(cells) => {
            let items: Vec<String> = cells.iter().map(|cell| in_list(column, cell)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

fn in_list(column: &OutColumn, cell: &Cell) -> String {
    match cell {
        Cell::Missing | Cell::Media(_) => "null".to_owned(),
        Cell::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        Cell::Scalar(dtype, element) => match cell.logical_text(&column.column) {
            Some(text) => serde_json::Value::from(text).to_string(),
            None => number_text(*dtype, element),
        },
        Cell::Json(value) => value.to_string(),
        Cell::Tensor(tensor) => nested_text(tensor.dtype(), tensor.shape().dims(), tensor.bytes()),
        Cell::List(cells) => {
            let items: Vec<String> = cells.iter().map(|cell| in_list(column, cell)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_kind_that_holds_all() {
        let check = |fields: &[&str], expected: Kind| {
            let kind = fields.iter().fold(Kind::Nothing, |kind, field| kind.with(Kind::of(field)));
            assert_eq!(kind, expected, "{fields:?}");
        };
        check(&[], Kind::Nothing);
        check(&["", ""], Kind::Nothing);
        check(&["1", "", "-2"], Kind::Int);
        check(&["1", "18446744073709551615"], Kind::Unsigned);
        check(&["99999999999999999999"], Kind::Text);
        check(&["1", "2.5", "1e9"], Kind::Float);
        check(&["nan", "1"], Kind::Float);
        check(&["true", "FALSE"], Kind::Bool);
        check(&["true", "1"], Kind::Text);
        check(&["007"], Kind::Text);
        check(&["0", "0.5"], Kind::Float);
        check(&["1", "x"], Kind::Text);
        check(&[" 1"], Kind::Text);
        check(&["2026-01-31", "", "1969-12-31"], Kind::Date);
        check(&["2026-01-31", "2026-01-31 08:30"], Kind::Moment);
        check(&["2026-01-31T08:30:00Z", "2026-01-31T08:30:00.5+01:00"], Kind::Instant);
        check(&["2026-01-31T08:30:00Z", "2026-01-31T08:30:00"], Kind::Text);
        check(&["2026-01-31", "1"], Kind::Text);
        check(&["2026-02-30"], Kind::Text);
        check(&["2026-01-31T00:00:00"], Kind::Moment);
    }
}
