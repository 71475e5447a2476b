//! A folder of class subfolders: `cat/1.jpg` is a picture with the label `cat`.
//!
//! ```text
//! source/cat/1.jpg            image, label, file_name
//! source/train/cat/1.jpg      image, label, split, file_name       (with a column for the split)
//! source/1.jpg                image, file_name
//! ```
//!
//! `file_name` is the path below the class (`1.jpg`, `deep/2.jpg`). An export puts each file where it was, or below the class
//! that its label has now.

use lacus_io::boxed;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use lacus_arrow::{Cell, class_name, label_spec};
use lacus_dataset::{Base, ColumnSpec, Dataset};
use lacus_media::{Family, Format};
use lacus_sample::Compression;
use lacus_threads::Pool;
use serde_json::json;

use crate::error::ExchangeError;
use crate::exporter::{OutColumn, chosen, export_rows, is_media, new_directory};
use crate::importer::{Feed, NewColumn, import};
use crate::names::{FileNames, file_name, relative_path};
use crate::options::{ExportOptions, ImportOptions, Report};

/// The key of a column's metadata for the part it plays in a folder: one of the following.
const FOLDER_KEY: &str = "folder";
const CLASS: &str = "class";
const SPLIT: &str = "split";
const FILE_NAME: &str = "file_name";

/// Imports a folder of class subfolders into the columns `image` (or `audio`, `video`, `dicom`, as the files are), `label` and
/// `file_name`. Files are taken in the order of their names; hidden ones are passed over.
///
/// Fails as [`ImportOptions::on_error`] says for files that are no media, are of another kind than most, or are
/// broken.
#[boxed]
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
    /// The path below the folder of its class.
    name: String,
}

impl Found {
    /// A file below `root`, which is the folder of its class, if it has one.
    fn new(path: PathBuf, root: &Path, split: &Option<String>, class: Option<String>) -> Found {
        let below = path.strip_prefix(root).unwrap_or(&path);
        let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
        Found { family: family_of(&path), name: parts.join("/"), path, split: split.clone(), class }
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
    let part = |part: &str| Some(json!({FOLDER_KEY: part}));
    if !class_names.is_empty() {
        columns.push(label_column("label", class_names).with_metadata(part(CLASS)));
    }
    if let Some(name) = split_column {
        columns.push(label_column(name, names(|file| file.split.as_ref())).with_metadata(part(SPLIT)));
    }
    let (has_class, has_split) =
        (columns.iter().any(|column| column.name == "label"), found.iter().any(|file| file.split.is_some()));
    columns.push(NewColumn::of("file_name", "text").with_metadata(part(FILE_NAME)));
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
            cells.push(Cell::text(&file.name));
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
    let parts = files.chunks(each).collect();
    Pool::for_waiting().team(THREADS).map(parts, read_part).into_iter().flatten().collect()
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
            files_below(&path, &path, &split, Some(name_of(&path)), found)?;
        } else if has_classes {
            feed.bad(path.display().to_string(), "is in no class folder")?;
        } else {
            found.push(Found::new(path, directory, &split, None));
        }
        feed.check()?;
    }
    Ok(())
}

fn files_below(
    root: &Path,
    directory: &Path,
    split: &Option<String>,
    class: Option<String>,
    found: &mut Vec<Found>,
) -> Result<(), ExchangeError> {
    for Listed { path, is_dir } in listed(directory)? {
        match is_dir {
            true => files_below(root, &path, split, class.clone(), found)?,
            false => found.push(Found::new(path, root, split, class.clone())),
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
    NewColumn::new(name, label_spec(names))
}

/// Exports the first column of media into a new folder, with a subfolder for each class of the first column of labels
/// if there is one, and subfolders of splits above them if it was imported so. Files have the names of the column
/// `file_name`; those without one are called by the number of their row. Of several of one name, those after the first get a
/// number. No name leads out of the folder.
///
/// The folder appears whole or not at all.
#[boxed]
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
    let plays = |column: &OutColumn, part: &str| {
        column
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.get(FOLDER_KEY))
            .is_some_and(|found| found == part)
    };
    let is_label = |column: &OutColumn| {
        let htype = column.column.htype();
        htype.base == Base::ClassLabel && !htype.sequence && column.column.shape() == Some(&[])
    };
    let is_name = |column: &OutColumn| {
        let htype = column.column.htype();
        htype.base == Base::Text && !htype.sequence && column.name.rsplit('/').next() == Some("file_name")
    };
    let split = all.iter().find(|column| plays(column, SPLIT) && is_label(column));
    let label = all.iter().find(|column| plays(column, CLASS) && is_label(column));
    let label = label.or_else(|| all.iter().find(|column| is_label(column) && !plays(column, SPLIT)));
    let named =
        all.iter().find(|column| plays(column, FILE_NAME)).or_else(|| all.iter().find(|c| is_name(c)));
    let columns: Vec<OutColumn> = [Some(media), split, label, named].into_iter().flatten().cloned().collect();
    let folders = usize::from(split.is_some()) + usize::from(label.is_some());
    let directory = new_directory(dest)?;
    let mut report =
        Report { columns: columns.iter().map(|c| c.name.clone()).collect(), ..Report::default() };
    let mut names = FileNames::default();
    export_rows(dataset, &columns, options, &mut report, |report, row, mut cells| {
        let place = format!("row {row}");
        let Cell::Media(bytes) = std::mem::replace(&mut cells[0], Cell::Missing) else {
            return report.skip(options.on_error, place, format!("it has no {}", columns[0].name));
        };
        let mut path = String::new();
        for (column, cell) in columns[1..].iter().zip(&cells[1..]).take(folders) {
            let Some(number) = cell.as_int() else {
                return report.skip(options.on_error, place, format!("it has no {}", column.name));
            };
            path.push_str(&file_name(&class_name(&column.column, number)));
            path.push('/');
        }
        let format = lacus_media::sniff(&bytes);
        match cells.last() {
            Some(Cell::Text(name)) if named.is_some() => {
                path.push_str(&renamed(&columns[0], &relative_path(name), format));
            }
            _ => path.push_str(&format!("{row:08}.{}", format.map_or("bin", Format::extension))),
        }
        let (path, _) = names.take(&path, |_| false);
        write_file(&directory.path().join(path), &bytes)?;
        report.rows += 1;
        report.bytes += bytes.len() as u64;
        Ok(())
    })
    .await?;
    directory.keep()?;
    Ok(report)
}

/// The name of a file, with another extension where the column made a file of another format of it.
fn renamed(column: &OutColumn, name: &str, format: Option<Format>) -> String {
    let keeps_files = column.column.htype().link || column.column.compression() == Compression::Auto;
    let path = Path::new(name);
    let said = path.extension().and_then(|extension| Format::from_extension(&extension.to_string_lossy()));
    match format {
        Some(format) if !keeps_files && said != Some(format) => {
            path.with_extension(format.extension()).to_string_lossy().into_owned()
        }
        _ => name.to_owned(),
    }
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
