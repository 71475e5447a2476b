//! Opening a file: what is in it, without copying what can stay where it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Cause, Fault, FileError, Place};
use crate::format::{Format, Packing, stem};
use crate::lines::Lines;
use crate::map::Map;
use crate::value::{FileValue, Held, Metadata, ReadOptions};
use crate::{mtx, npy, npz, safetensors, tns};

/// Opens a file whose name says its format.
///
/// `.npy` and `.safetensors` files, and stored members of `.npz` files, are mapped: opening reads only their
/// headers (and an `.npz`'s checksums), and their elements are read as they are used. Such a file must not
/// be changed while it is open, and truncating it ends the process, as it would for anybody who maps files.
/// Text files and deflated members are read here, whole.
///
/// # Errors
///
/// A file that is not there is `NotFound`, as is a tensor asked for by `only`; everything about its content
/// and every option that does not apply to its format is `Invalid`.
pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<FileTensors, FileError> {
    let path = path.as_ref();
    let (format, packing) = Format::from_path(path)?;
    open_as(path, format, packing, options)
}

/// Opens a file of a given format, whatever its name says.
pub fn open_as(
    path: impl AsRef<Path>,
    format: Format,
    packing: Packing,
    options: &ReadOptions,
) -> Result<FileTensors, FileError> {
    let path = path.as_ref();
    read(path, format, packing, options).map_err(|fault| fault.in_file(path))
}

fn read(path: &Path, format: Format, packing: Packing, options: &ReadOptions) -> Result<FileTensors, Fault> {
    check_options(format, packing, options)?;
    let name = match stem(path) {
        Ok(name) => name,
        // A file under another name: it has no extension of ours to take off.
        Err(_) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let mut metadata = Metadata::new();
    let map = if format.is_text() { Map::empty() } else { Map::open(path)? };
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let entries = match format {
        Format::Npy => vec![(name, Held::Dense(npy::read(&map)?))],
        Format::Npz => npz::read(&map, &name, options)?,
        Format::Safetensors => {
            let (entries, found) = safetensors::read(&map, wanted)?;
            metadata = found;
            entries
        }
        Format::Tns => vec![(name, Held::Sparse(tns::read(Lines::open(path, packing)?, options)?))],
        Format::Mtx => vec![(name, mtx::read(Lines::open(path, packing)?, options)?)],
    };
    let mut names = BTreeSet::new();
    for (name, _) in &entries {
        if !names.insert(name) {
            return Err(Fault::malformed("two tensors of this name").in_member(name));
        }
    }
    for only in &options.only {
        if !names.contains(only) {
            return Err(Fault {
                place: Place::Whole,
                cause: Cause::Absent(format!("has no tensor {only:?}")),
            });
        }
    }
    // Once here, so that looking at a value cannot fail.
    for (name, held) in &entries {
        if let Held::Dense(dense) = held {
            dense.borrow(&map).map_err(|fault| fault.in_member(name))?;
        }
    }
    Ok(FileTensors { path: path.to_owned(), format, map, entries, metadata })
}

/// Refuses options that would be ignored.
fn check_options(format: Format, packing: Packing, options: &ReadOptions) -> Result<(), Fault> {
    let tns_only = [
        (options.dims.is_some(), "a shape"),
        (options.tns_pattern, "a pattern"),
        (!options.one_based, "a first coordinate"),
    ];
    let refused =
        if let Some((_, what)) = tns_only.into_iter().find(|(given, _)| *given && format != Format::Tns) {
            what
        } else if options.dtype.is_some() && !format.is_text() {
            "a dtype"
        } else if packing != Packing::Plain && !format.is_text() {
            "a compression"
        } else {
            return Ok(());
        };
    Err(Fault::unsupported(format!("{refused} was given, which a .{format} file has no use for")))
}

/// An open file and the tensors in it. Owns whatever memory its values borrow.
#[derive(Debug)]
pub struct FileTensors {
    path: PathBuf,
    format: Format,
    map: Map,
    entries: Vec<(String, Held)>,
    metadata: Metadata,
}

impl FileTensors {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The tensors, in the order of the file.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        self.entries.iter().map(|(name, held)| Entry { name, held, map: &self.map })
    }

    /// The tensor of this name.
    pub fn get(&self, name: &str) -> Option<FileValue<'_>> {
        self.entries().find(|entry| entry.name == name).map(|entry| entry.value())
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none: an archive may be empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The texts under `__metadata__` of a safetensors file; empty for other formats.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// One tensor of an open file.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    name: &'a str,
    held: &'a Held,
    map: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Its name: the key in a file that holds several, else the file's name without its extensions.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Its elements, borrowed from the file's map or memory.
    pub fn value(&self) -> FileValue<'a> {
        match self.held {
            Held::Sparse(tensor) => FileValue::Sparse(tensor),
            Held::Dense(dense) => {
                FileValue::Dense(dense.borrow(self.map).expect("checked when the file was opened"))
            }
        }
    }
}
