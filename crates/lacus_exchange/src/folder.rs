//! A folder of class subfolders: `cat/1.jpg` is a picture with the label `cat`.
//!
//! ```text
//! source/cat/1.jpg            image, label
//! source/train/cat/1.jpg      image, label, split       (with a column for the split)
//! source/1.jpg                image
//! ```

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use lacus_dataset::{Base, ColumnSpec, Dataset};
use lacus_media::{Family, Format};
use serde_json::json;

use crate::cell::Cell;
use crate::error::ExchangeError;
use crate::exporter::{OutColumn, chosen, export_rows, is_media, new_directory};
use crate::importer::{Feed, NewColumn, import};
use crate::names::file_name;
use crate::options::{ExportOptions, ImportOptions, Report};

/// Imports a folder of class subfolders into the columns `image` (or `audio`, `video`, `dicom`, as the files are) and
/// `label`. Files are taken in the order of their names; hidden ones are passed over.
///
/// Fails as [`ImportOptions::on_error`] says for files that are no media, are of another kind than most, or are
/// broken.
pub async fn from_folder(
    dataset: &mut Dataset,
    source: &Path,
    options: &ImportOptions,
) -> Result<Report, ExchangeError> {
    let source = source.to_owned();
    import(dataset, options, move |feed| read(feed, &source)).await
}

/// A file, and where it is.
struct Found {
    path: PathBuf,
    family: Option<Family>,
    split: Option<String>,
    class: Option<String>,
}

impl Found {
    fn new(path: PathBuf, split: &Option<String>, class: Option<String>) -> Found {
        Found { family: family_of(&path), path, split: split.clone(), class }
    }
}

fn read(feed: &mut Feed, source: &Path) -> Result<(), ExchangeError> {
    let split_column = feed.options().split_column.clone();
    let mut found = Vec::new();
    match split_column {
        None => classes(feed, source, None, &mut found)?,
        Some(_) => {
            for Listed { path, is_dir } in listed(source)? {
                match is_dir {
                    true => classes(feed, &path, Some(name_of(&path)), &mut found)?,
                    false => feed.bad(path.display().to_string(), "is in no split")?,
                }
            }
        }
    }
    let Some(family) = most(&found) else {
        return Err(ExchangeError::source(source, "there are no media files in it"));
    };
    let (found, others): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|file| file.family == Some(family));
    for file in others {
        let why = match file.family {
            Some(other) => format!("is {other}, but most files are {family}"),
            None => "is of no known media format".to_owned(),
        };
        feed.bad(file.path.display().to_string(), why)?;
    }
    let mut columns = vec![media_column(&family.to_string(), family)];
    let names = |of: fn(&Found) -> Option<&String>| {
        let mut names: Vec<String> = found.iter().filter_map(of).cloned().collect();
        names.sort();
        names.dedup();
        names
    };
    let class_names = names(|file| file.class.as_ref());
    if !class_names.is_empty() {
        columns.push(label_column("label", class_names));
    }
    if let Some(name) = split_column {
        columns.push(label_column(name, names(|file| file.split.as_ref())));
    }
    let (has_class, has_split) =
        (columns.iter().any(|column| column.name == "label"), found.iter().any(|file| file.split.is_some()));
    feed.columns(columns, Some(found.len() as u64))?;
    let mut next = 0;
    let mut window = FIRST_WINDOW;
    while next < found.len() {
        let files = &found[next..(next + window).min(found.len())];
        let contents = read_all(files);
        let bytes: usize = contents.iter().flatten().map(Bytes::len).sum();
        for (file, content) in files.iter().zip(contents) {
            let place = file.path.display().to_string();
            let content = match content {
                Ok(content) => content,
                Err(error) => {
                    feed.bad(place, error.to_string())?;
                    continue;
                }
            };
            let label = |name: &Option<String>| name.clone().map_or(Cell::Missing, Cell::Text);
            let mut cells = vec![Cell::Media(content)];
            if has_class {
                cells.push(label(&file.class));
            }
            if has_split {
                cells.push(label(&file.split));
            }
            feed.row(place, cells)?;
        }
        next += files.len();
        window = (files.len() * WINDOW_BYTES / bytes.max(1)).clamp(1, LARGEST_WINDOW);
    }
    Ok(())
}

/// Files that are read together, on a few threads: few at first, then as many as take [`WINDOW_BYTES`] if they are as
/// large as those before.
const FIRST_WINDOW: usize = 16;
const LARGEST_WINDOW: usize = 2048;
const WINDOW_BYTES: usize = 16 << 20;

/// Reads files on a few threads. Reading a small one is mostly waiting for the kernel.
fn read_all(files: &[Found]) -> Vec<io::Result<Bytes>> {
    const THREADS: usize = 4;
    let each = files.len().div_ceil(THREADS).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = files.chunks(each).map(|part| scope.spawn(move || read_part(part))).collect();
        let panicked = |_| vec![Err(io::Error::other("reading panicked"))];
        parts.into_iter().flat_map(|part| part.join().unwrap_or_else(panicked)).collect()
    })
}

/// Reads files into one piece of memory: many small ones would cost more than the reading.
fn read_part(files: &[Found]) -> Vec<io::Result<Bytes>> {
    let mut memory = Vec::new();
    let mut ranges = Vec::with_capacity(files.len());
    for file in files {
        let start = memory.len();
        let read = append(&file.path, &mut memory);
        if read.is_err() {
            memory.truncate(start);
        }
        ranges.push(read.map(|()| start..memory.len()));
    }
    let memory = Bytes::from(memory);
    ranges.into_iter().map(|range| range.map(|range| memory.slice(range))).collect()
}

/// Appends what is in a file, with one read where its length is known.
fn append(path: &Path, memory: &mut Vec<u8>) -> io::Result<()> {
    let mut file = fs::File::open(path)?;
    match file.metadata()?.len() {
        // Perhaps no file, but something that is made while it is read.
        0 => file.read_to_end(memory)?,
        length => {
            memory.reserve(usize::try_from(length).unwrap_or(0));
            file.take(length).read_to_end(memory)?
        }
    };
    Ok(())
}

/// The files of classes below a directory, or all of its files if it has no subfolders.
fn classes(
    feed: &mut Feed,
    directory: &Path,
    split: Option<String>,
    found: &mut Vec<Found>,
) -> Result<(), ExchangeError> {
    let all = listed(directory)?;
    let has_classes = all.iter().any(|entry| entry.is_dir);
    for Listed { path, is_dir } in all {
        if is_dir {
            files_below(&path, &split, Some(name_of(&path)), found)?;
        } else if has_classes {
            feed.bad(path.display().to_string(), "is in no class folder")?;
        } else {
            found.push(Found::new(path, &split, None));
        }
        feed.check()?;
    }
    Ok(())
}

fn files_below(
    directory: &Path,
    split: &Option<String>,
    class: Option<String>,
    found: &mut Vec<Found>,
) -> Result<(), ExchangeError> {
    for Listed { path, is_dir } in listed(directory)? {
        match is_dir {
            true => files_below(&path, split, class.clone(), found)?,
            false => found.push(Found::new(path, split, class.clone())),
        }
    }
    Ok(())
}

/// Something in a directory.
struct Listed {
    path: PathBuf,
    is_dir: bool,
}

/// What is in a directory, sorted by name; hidden things are not.
fn listed(directory: &Path) -> Result<Vec<Listed>, ExchangeError> {
    let entries = fs::read_dir(directory).map_err(ExchangeError::io(directory, "list"))?;
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.map_err(ExchangeError::io(directory, "list"))?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        // The listing says what most things are; only where links lead has to be asked.
        let is_dir = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => path.is_dir(),
        };
        all.push((name, Listed { path, is_dir }));
    }
    // By names, which are compared much faster than paths.
    all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(all.into_iter().map(|(_, listed)| listed).collect())
}

/// Paths of what is in a directory, sorted by name; hidden things are not.
pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>, ExchangeError> {
    Ok(listed(directory)?.into_iter().map(|listed| listed.path).collect())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What a file is, by its extension; without one that is known, by its first bytes.
fn family_of(path: &Path) -> Option<Family> {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    if let Some(format) = Format::from_extension(&extension) {
        return Some(format.family());
    }
    let mut head = [0; 4096];
    let length = fs::File::open(path).and_then(|mut file| file.read(&mut head)).ok()?;
    lacus_media::sniff(&head[..length]).map(Format::family)
}

/// The family that most files are of.
fn most(found: &[Found]) -> Option<Family> {
    let families = [Family::Image, Family::Audio, Family::Video, Family::Dicom];
    let count = |family: Family| found.iter().filter(|file| file.family == Some(family)).count();
    let (family, count) =
        families.map(|family| (family, count(family))).into_iter().rev().max_by_key(|f| f.1)?;
    (count > 0).then_some(family)
}

/// A column for files of a family, each with its own dtype.
pub(crate) fn media_column(name: &str, family: Family) -> NewColumn {
    NewColumn::new(name, ColumnSpec { htype: Some(family.to_string()), ..ColumnSpec::default() })
}

/// A column of labels with names.
pub(crate) fn label_column(name: impl Into<String>, names: Vec<String>) -> NewColumn {
    let mut options = serde_json::Map::new();
    options.insert("class_names".to_owned(), json!(names));
    NewColumn::new(
        name,
        ColumnSpec { htype: Some("class_label".to_owned()), options, ..ColumnSpec::default() },
    )
}

/// Exports the first column of media into a new folder, with a subfolder for each class of the first column of labels
/// if there is one. Files are called by the number of their row, or by the column `file_name` if it is among
/// [`ExportOptions::columns`].
///
/// The folder appears whole or not at all.
pub async fn to_folder(
    dataset: &Dataset,
    dest: &Path,
    options: &ExportOptions,
) -> Result<Report, ExchangeError> {
    let all = chosen(dataset, options)?;
    let media = all.iter().find(|column| is_media(&column.column));
    let media = media.ok_or_else(|| {
        ExchangeError::Lacking("there is no column of images, audio or video to make a folder of".to_owned())
    })?;
    let is_label = |column: &&OutColumn| {
        let htype = column.column.htype();
        htype.base == Base::ClassLabel && !htype.sequence && column.column.shape() == Some(&[])
    };
    let label = all.iter().find(is_label);
    let named =
        options.columns.is_some().then(|| all.iter().find(|column| column.name == "file_name")).flatten();
    let columns: Vec<OutColumn> = [Some(media), label, named].into_iter().flatten().cloned().collect();
    let directory = new_directory(dest)?;
    let mut report =
        Report { columns: columns.iter().map(|c| c.name.clone()).collect(), ..Report::default() };
    export_rows(dataset, &columns, options, &mut report, |report, row, mut cells| {
        let place = format!("row {row}");
        let Cell::Media(bytes) = std::mem::replace(&mut cells[0], Cell::Missing) else {
            return report.skip(options.on_error, place, format!("it has no {}", columns[0].name));
        };
        let mut path = directory.path().to_owned();
        if let Some(label) = label {
            let Some(number) = cells[1].as_int() else {
                return report.skip(options.on_error, place, format!("it has no {}", label.name));
            };
            path.push(file_name(&class_name(&label.column, number)));
        }
        let extension = lacus_media::sniff(&bytes).map_or("bin", Format::extension);
        path.push(match cells.last() {
            Some(Cell::Text(name)) if named.is_some() => file_name(name),
            _ => format!("{row:08}.{extension}"),
        });
        write_file(&path, &bytes)?;
        report.rows += 1;
        report.bytes += bytes.len() as u64;
        Ok(())
    })
    .await?;
    directory.keep()?;
    Ok(report)
}

/// The name of a class, or its number if it has none.
pub(crate) fn class_name(column: &lacus_dataset::Column, number: i64) -> String {
    let name = usize::try_from(number).ok().and_then(|number| column.class_names().get(number));
    name.cloned().unwrap_or_else(|| number.to_string())
}

/// Writes a new file, and the directories above it.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ExchangeError> {
    let create = || fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(parent).map_err(ExchangeError::io(parent, "make"))?;
            create()
        }
        other => other,
    }
    .map_err(ExchangeError::io(path, "write"))?;
    file.write_all(bytes).map_err(ExchangeError::io(path, "write"))
}
