//! WebDataset: tar files in which members `key.ext` that follow each other make one sample.
//!
//! | extension | column | type |
//! |---|---|---|
//! | jpg, png, webp, … | `image` | image |
//! | wav, flac, mp3, … / mp4, webm, … | `audio` / `video` | audio / video |
//! | cls | `label` | class_label |
//! | txt | `text` | text |
//! | json | `json` | json |
//! | npy | `npy` | generic |
//! | bin | `bytes` | bytes |
//!
//! The key goes into `key`. With a longer extension, as in `a.seg.png`, the column is called by its beginning, `seg`.
//! When a sample has two members that would go into one column, columns are called by their extensions.

use lacus_io::boxed;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use lacus_arrow::Cell;
use lacus_dataset::{Base, ColumnSpec, Dataset};
use lacus_files::{FileValue, Packing, ReadOptions, npy_header};
use lacus_media::{Family, Format};
use lacus_tensor::{DType, Shape};
use tar::{Archive, Builder, EntryType, Header};

use crate::error::ExchangeError;
use crate::exporter::{OutColumn, chosen, export_rows, is_media, keep_file, new_file};
use crate::folder::{entries, label_column, media_column};
use crate::importer::{Feed, NewColumn, import};
use crate::names::{column_names, file_name};
use crate::options::{ExportOptions, ImportOptions, Report};

/// A member is read whole; a larger one is no sample.
const LARGEST_MEMBER_BYTES: u64 = 2 << 30;

/// Imports WebDataset tars: one file (`.tar`, `.tar.gz`, `.tar.zst`), a directory of them, or a pattern with braces such
/// as `train-{000..012}.tar`. Samples are taken in the order of the files; a member that is missing is a missing sample.
///
/// Fails as [`ImportOptions::on_error`] says for members that are broken and for extensions that mean nothing here.
#[boxed]
pub async fn from_webdataset(
    dataset: &mut Dataset,
    source: &Path,
    options: &ImportOptions,
) -> Result<Report, ExchangeError> {
    let source = source.to_owned();
    import(dataset, options, move |feed| read(feed, &source)).await
}

/// What an extension means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Media(Family),
    Label,
    Text,
    Json,
    Npy,
    Bytes,
}

impl Kind {
    fn of(extension: &str) -> Option<Kind> {
        let last = extension.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        Some(match last.as_str() {
            "cls" | "cls2" | "index" | "inx" | "id" => Kind::Label,
            "txt" | "text" | "transcript" | "caption" => Kind::Text,
            "json" | "jsn" => Kind::Json,
            "npy" => Kind::Npy,
            "bin" => Kind::Bytes,
            other => Kind::Media(Format::from_extension(other)?.family()),
        })
    }

    fn column(self) -> String {
        match self {
            Kind::Media(family) => family.to_string(),
            Kind::Label => "label".to_owned(),
            Kind::Text => "text".to_owned(),
            Kind::Json => "json".to_owned(),
            Kind::Npy => "npy".to_owned(),
            Kind::Bytes => "bytes".to_owned(),
        }
    }
}

/// What a first pass over the tars finds.
#[derive(Default)]
struct Seen {
    /// Extensions and what they mean, in alphabetical order.
    extensions: BTreeMap<String, Kind>,
    unknown: BTreeMap<String, (u64, String)>,
    /// Extensions of one sample that would go into the same column.
    clash: bool,
    samples: u64,
    /// Labels that are no numbers, by extension.
    labels: BTreeMap<String, BTreeSet<String>>,
}

fn column_of(extension: &str, kind: Kind) -> String {
    match extension.rsplit_once('.') {
        Some((front, _)) => front.to_owned(),
        None => kind.column(),
    }
}

fn read(feed: &mut Feed, source: &Path) -> Result<(), ExchangeError> {
    let tars = expand(source)?;
    let seen = look(feed, &tars)?;
    if seen.extensions.is_empty() {
        return Err(ExchangeError::source(source, "there are no samples in it"));
    }
    for (extension, (count, first)) in &seen.unknown {
        let why = format!("nothing is known of .{extension} members ({count} of them)");
        feed.bad(first.clone(), why)?;
    }
    // Extensions that share a column, such as jpg and png of different samples.
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut columns = vec![NewColumn::of("key", "text")];
    for (extension, kind) in &seen.extensions {
        let found = if seen.clash { extension.clone() } else { column_of(extension, *kind) };
        let name = column_names(&[found]).remove(0);
        let known = columns.iter().position(|column| column.name == name);
        let place = known.unwrap_or_else(|| {
            columns.push(new_column(&name, extension, *kind, &seen));
            columns.len() - 1
        });
        places.insert(extension.clone(), place);
    }
    let width = columns.len();
    feed.columns(columns, Some(seen.samples))?;
    let scratch =
        tempfile::tempdir().map_err(ExchangeError::io(&std::env::temp_dir(), "make a directory in"))?;
    for path in &tars {
        let mut current: Option<(String, Vec<Cell>, Option<String>)> = None;
        each_member(path, |key, extension, entry| {
            if current.as_ref().is_none_or(|(known, ..)| known != key) {
                finish(feed, path, current.take())?;
                let mut cells = vec![Cell::Missing; width];
                cells[0] = Cell::text(key);
                current = Some((key.to_owned(), cells, None));
            }
            let (Some(place), Some((_, cells, fault))) = (places.get(extension), &mut current) else {
                return Ok(());
            };
            match member(path, entry, Kind::of(extension), &seen.labels, extension, scratch.path()) {
                Ok(cell) => cells[*place] = cell,
                Err(Ended::Stop(error)) => return Err(error),
                Err(Ended::Bad(why)) => *fault = fault.take().or(Some(format!(".{extension}: {why}"))),
            }
            Ok(())
        })?;
        finish(feed, path, current)?;
    }
    Ok(())
}

fn finish(
    feed: &mut Feed,
    path: &Path,
    sample: Option<(String, Vec<Cell>, Option<String>)>,
) -> Result<(), ExchangeError> {
    let Some((key, cells, fault)) = sample else { return Ok(()) };
    let place = format!("{}: {key}", path.display());
    match fault {
        Some(why) => feed.bad(place, why),
        // Nothing but members that mean nothing here.
        None if cells[1..].iter().all(|cell| matches!(cell, Cell::Missing)) => Ok(()),
        None => feed.row(place, cells),
    }
}

enum Ended {
    /// The sample cannot be taken.
    Bad(String),
    /// Nothing can.
    Stop(ExchangeError),
}

fn member(
    path: &Path,
    entry: &mut dyn Read,
    kind: Option<Kind>,
    labels: &BTreeMap<String, BTreeSet<String>>,
    extension: &str,
    scratch: &Path,
) -> Result<Cell, Ended> {
    let bytes = bytes_of(path, entry).map_err(Ended::Stop)?;
    let text = || {
        let text = std::str::from_utf8(&bytes).map_err(|_| Ended::Bad("it is not UTF-8".to_owned()))?;
        Ok(text.to_owned())
    };
    match kind {
        Some(Kind::Media(_) | Kind::Bytes) => Ok(Cell::Media(bytes.into())),
        Some(Kind::Text) => Ok(Cell::Text(text()?)),
        Some(Kind::Json) => {
            let value = serde_json::from_slice(&bytes);
            value.map(Cell::Json).map_err(|error| Ended::Bad(format!("it is not JSON: {error}")))
        }
        Some(Kind::Label) => {
            let text = text()?;
            let label = text.trim();
            match label.parse::<u32>() {
                _ if labels.contains_key(extension) => Ok(Cell::text(label)),
                Ok(number) => Ok(Cell::Scalar(DType::U32, widened(number))),
                Err(_) => Err(Ended::Bad(format!("{label:?} is no number of a class"))),
            }
        }
        Some(Kind::Npy) => {
            // Arrays are read from files, so it is one for a moment.
            let file = scratch.join("member.npy");
            std::fs::write(&file, &bytes).map_err(|e| Ended::Stop(ExchangeError::io(&file, "write")(e)))?;
            let opened = lacus_files::open_as(
                &file,
                lacus_files::Format::Npy,
                Packing::Plain,
                &ReadOptions::default(),
            );
            let opened = opened.map_err(|error| Ended::Bad(error.cause().to_string()))?;
            match opened.entries().next().map(|entry| entry.value()) {
                Some(FileValue::Dense(tensor)) => Ok(Cell::of_tensor(tensor.to_tensor())),
                _ => Err(Ended::Bad("there is no array in it".to_owned())),
            }
        }
        None => Ok(Cell::Missing),
    }
}

fn widened(number: u32) -> [u8; 8] {
    u64::from(number).to_le_bytes()
}

fn bytes_of(path: &Path, entry: &mut dyn Read) -> Result<Vec<u8>, ExchangeError> {
    let mut bytes = Vec::new();
    let read = entry.take(LARGEST_MEMBER_BYTES + 1).read_to_end(&mut bytes);
    match read.map_err(ExchangeError::io(path, "read"))? as u64 > LARGEST_MEMBER_BYTES {
        true => Err(ExchangeError::source(
            path,
            format!("has a member of more than {LARGEST_MEMBER_BYTES} bytes"),
        )),
        false => Ok(bytes),
    }
}

fn look(feed: &Feed, tars: &[PathBuf]) -> Result<Seen, ExchangeError> {
    let mut seen = Seen::default();
    for path in tars {
        let mut last = String::new();
        let mut columns: BTreeSet<String> = BTreeSet::new();
        each_member(path, |key, extension, entry| {
            feed.check()?;
            if key != last || seen.samples == 0 {
                seen.samples += 1;
                key.clone_into(&mut last);
                columns.clear();
            }
            let Some(kind) = Kind::of(extension) else {
                let place = format!("{}: {key}.{extension}", path.display());
                seen.unknown.entry(extension.to_owned()).or_insert((0, place)).0 += 1;
                return Ok(());
            };
            seen.extensions.insert(extension.to_owned(), kind);
            seen.clash |= !columns.insert(column_of(extension, kind));
            if kind == Kind::Label {
                let label = String::from_utf8_lossy(&bytes_of(path, entry)?).trim().to_owned();
                if !label.is_empty() {
                    seen.labels.entry(extension.to_owned()).or_default().insert(label);
                }
            }
            Ok(())
        })?;
    }
    // Columns of one kind each: a column for jpg and wav would fit neither.
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for (extension, kind) in &seen.extensions {
        let name = column_of(extension, *kind);
        seen.clash |= *kinds.entry(name.clone()).or_insert(*kind) != *kind || name == "key";
    }
    // Where all are numbers there are no names; among names, numbers are names as well.
    seen.labels.retain(|_, labels| labels.iter().any(|label| label.parse::<u32>().is_err()));
    Ok(seen)
}

fn new_column(name: &str, extension: &str, kind: Kind, seen: &Seen) -> NewColumn {
    match kind {
        Kind::Media(family) => media_column(name, family),
        Kind::Text => NewColumn::of(name, "text"),
        Kind::Json => NewColumn::of(name, "json"),
        Kind::Bytes => NewColumn::of(name, "bytes"),
        Kind::Npy => NewColumn::new(name, ColumnSpec::default()),
        Kind::Label => match seen.labels.get(extension) {
            Some(names) => label_column(name, names.iter().cloned().collect()),
            None => NewColumn::of(name, "class_label"),
        },
    }
}

/// Calls `each` with key, extension and content of every member, in their order.
fn each_member(
    path: &Path,
    mut each: impl FnMut(&str, &str, &mut dyn Read) -> Result<(), ExchangeError>,
) -> Result<(), ExchangeError> {
    let broken = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::Other | std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::InvalidData => {
            ExchangeError::source(path, format!("is no whole tar file: {error}"))
        }
        _ => ExchangeError::io(path, "read")(error),
    };
    let file = BufReader::with_capacity(1 << 18, File::open(path).map_err(ExchangeError::io(path, "open"))?);
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let reader: Box<dyn Read> = if name.ends_with(".gz") || name.ends_with(".tgz") {
        Box::new(flate2::read::MultiGzDecoder::new(file))
    } else if name.ends_with(".zst") {
        Box::new(zstd::Decoder::with_buffer(file).map_err(broken)?)
    } else {
        Box::new(file)
    };
    let mut archive = Archive::new(reader);
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        if !matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous) {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = name.trim_start_matches("./");
        let base = name.rfind('/').map_or(0, |slash| slash + 1);
        // Hidden files, and what has no extension, are no members.
        let Some(dot) = name[base..].find('.').filter(|dot| *dot > 0).map(|dot| base + dot) else { continue };
        each(&name[..dot], &name[dot + 1..], &mut entry)?;
    }
    Ok(())
}

/// The files that a source means.
fn expand(source: &Path) -> Result<Vec<PathBuf>, ExchangeError> {
    if source.is_dir() {
        let is_tar = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            [".tar", ".tar.gz", ".tgz", ".tar.zst"].iter().any(|end| name.ends_with(end))
        };
        let tars: Vec<PathBuf> = entries(source)?.into_iter().filter(is_tar).collect();
        return match tars.is_empty() {
            true => Err(ExchangeError::source(source, "there are no tar files in it")),
            false => Ok(tars),
        };
    }
    if source.exists() {
        return Ok(vec![source.to_owned()]);
    }
    Ok(braces(&source.to_string_lossy()).into_iter().map(PathBuf::from).collect())
}

/// Texts that a pattern stands for: `{00..12}` and `{a,b}`.
fn braces(pattern: &str) -> Vec<String> {
    let Some((front, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let Some((inside, back)) = rest.split_once('}') else { return vec![pattern.to_owned()] };
    let range = inside.split_once("..").and_then(|(first, last)| {
        let numbers = first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?;
        let width = if first.starts_with('0') { first.len() } else { 0 };
        Some(numbers.map(|number| format!("{number:0width$}")).collect::<Vec<String>>())
    });
    let choices = range.unwrap_or_else(|| inside.split(',').map(str::to_owned).collect());
    let backs = braces(back);
    choices.iter().flat_map(|choice| backs.iter().map(move |back| format!("{front}{choice}{back}"))).collect()
}

/// Exports to one WebDataset tar, which appears whole or not at all. Members are called by the column `key`, or by the
/// number of their row: what [`from_webdataset`] makes of them is what they are. Classes go by their names if they have
/// some.
///
/// What is neither media, label, text, JSON nor one tensor has no place in it, as [`ExportOptions::on_error`] says.
#[boxed]
pub async fn to_webdataset(
    dataset: &Dataset,
    dest: &Path,
    options: &ExportOptions,
) -> Result<Report, ExchangeError> {
    let mut report = Report::default();
    let (mut columns, mut members) = (Vec::new(), Vec::new());
    for column in chosen(dataset, options)? {
        match member_of(&column) {
            Some(member) => {
                columns.push(column);
                members.push(member);
            }
            None => {
                let why = format!("a WebDataset has no place for {}", column.column.htype());
                report.skip(options.on_error, format!("column {:?}", column.name), why)?;
            }
        }
    }
    if !members.iter().any(|member| *member != Member::Key) {
        return Err(ExchangeError::Lacking("no column is left that a WebDataset has a place for".to_owned()));
    }
    report.columns = columns.iter().map(|column| column.name.clone()).collect();
    let file = new_file(dest)?;
    let failed = |error: std::io::Error| ExchangeError::io(dest, "write")(error);
    let out = BufWriter::with_capacity(1 << 20, file.reopen().map_err(failed)?);
    let mut tar = Builder::new(out);
    export_rows(dataset, &columns, options, &mut report, |report, row, cells| {
        let mut key = format!("{row:09}");
        for (member, cell) in members.iter().zip(&cells) {
            if let (Member::Key, Cell::Text(text)) = (member, cell) {
                let parts: Vec<String> = text
                    .split('/')
                    .filter(|part| !part.is_empty())
                    .map(|part| file_name(&part.replace('.', "_")))
                    .collect();
                key = parts.join("/");
            }
        }
        let mut found = false;
        for ((column, member), cell) in columns.iter().zip(&members).zip(&cells) {
            if *member == Member::Key {
                continue;
            }
            let content = match content(column, member, cell) {
                Ok(Some(content)) => content,
                Ok(None) => continue,
                Err(why) => {
                    report.skip(options.on_error, format!("row {row}, column {:?}", column.name), why)?;
                    continue;
                }
            };
            let (extension, bytes) = content;
            let mut header = Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, format!("{key}.{extension}"), &bytes[..]).map_err(failed)?;
            report.bytes += bytes.len() as u64;
            found = true;
        }
        report.rows += u64::from(found);
        match found {
            true => Ok(()),
            false => report.skip(options.on_error, format!("row {row}"), "it has no samples".to_owned()),
        }
    })
    .await?;
    let mut out = tar.into_inner().map_err(failed)?;
    out.flush().map_err(failed)?;
    keep_file(file, dest)?;
    Ok(report)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Member {
    Key,
    /// What comes before the extension of the file's own format; empty, or with a dot at its end.
    Media(String),
    Of(Kind, String),
}

fn member_of(column: &OutColumn) -> Option<Member> {
    let htype = column.column.htype();
    if htype.sequence {
        return None;
    }
    let name = column.name.replace(['/', '.'], "_");
    let extension = |kind: Kind, end: &str| {
        let is_usual = name == kind.column() || name == end;
        Member::Of(kind, if is_usual { end.to_owned() } else { format!("{name}.{end}") })
    };
    Some(match htype.base {
        Base::Text if name == "key" => Member::Key,
        _ if is_media(&column.column) => {
            let usual = ["image", "audio", "video", "dicom"].contains(&name.as_str());
            let is_format = Format::from_extension(&name).is_some();
            Member::Media(if usual || is_format { String::new() } else { format!("{name}.") })
        }
        Base::ClassLabel if column.column.shape() == Some(&[]) => extension(Kind::Label, "cls"),
        Base::Text => extension(Kind::Text, "txt"),
        // As texts that people read; numpy has no decimals, and its dates no time zones.
        _ if column.column.logical().is_some() => extension(Kind::Text, "txt"),
        Base::Json | Base::List | Base::Tag => extension(Kind::Json, "json"),
        Base::Polygon => return None,
        Base::Bytes => extension(Kind::Bytes, "bin"),
        _ => extension(Kind::Npy, "npy"),
    })
}

/// The extension and the bytes of a member; `None` where the sample is missing.
fn content(column: &OutColumn, member: &Member, cell: &Cell) -> Result<Option<(String, Vec<u8>)>, String> {
    Ok(match (member, cell) {
        (Member::Media(front), Cell::Media(bytes)) => {
            let format = lacus_media::sniff(bytes).ok_or("it is a file of no known format")?;
            Some((format!("{front}{}", format.extension()), bytes.to_vec()))
        }
        (Member::Of(Kind::Bytes, extension), Cell::Media(bytes)) => Some((extension.clone(), bytes.to_vec())),
        (Member::Of(Kind::Label, extension), cell) if cell.as_int().is_some() => {
            let number = cell.as_int().unwrap_or_default();
            let name = usize::try_from(number).ok().and_then(|n| column.column.class_names().get(n));
            let text = name.cloned().unwrap_or_else(|| number.to_string());
            Some((extension.clone(), text.into_bytes()))
        }
        (Member::Of(Kind::Text, extension), Cell::Text(text)) => {
            Some((extension.clone(), text.clone().into_bytes()))
        }
        (Member::Of(Kind::Text, extension), cell) => {
            cell.logical_text(&column.column).map(|text| (extension.clone(), text.into_bytes()))
        }
        (Member::Of(Kind::Json, extension), Cell::Json(value)) => {
            Some((extension.clone(), value.to_string().into_bytes()))
        }
        (Member::Of(Kind::Npy, extension), cell) => match cell.elements() {
            Some((dtype, dims, bytes)) => Some((extension.clone(), npy(dtype, dims, bytes)?)),
            None => None,
        },
        _ => None,
    })
}

/// A `.npy` file of an array in C order.
fn npy(dtype: DType, dims: &[u64], bytes: &[u8]) -> Result<Vec<u8>, String> {
    let shape = Shape::new(dims).map_err(|error| error.to_string())?;
    let mut file = npy_header(dtype, &shape).ok_or("numpy has no bfloat16")?;
    file.extend_from_slice(bytes);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_files() {
        assert_eq!(braces("a.tar"), ["a.tar"]);
        assert_eq!(braces("a-{08..10}.tar"), ["a-08.tar", "a-09.tar", "a-10.tar"]);
        assert_eq!(braces("{a,b}-{1..2}"), ["a-1", "a-2", "b-1", "b-2"]);
        assert_eq!(braces("a{b"), ["a{b"]);
    }
}
