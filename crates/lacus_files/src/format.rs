//! Which format a file has: its name says.
//!
//! | extension | holds | compressed as well |
//! |---|---|---|
//! | `.npy` | one dense tensor | |
//! | `.npz` | named dense and sparse tensors | |
//! | `.safetensors` | named dense tensors, text metadata | |
//! | `.tns` | one sparse tensor (FROSTT) | `.tns.gz`, `.tns.zst` |
//! | `.mtx` | one matrix, sparse or dense (MatrixMarket) | `.mtx.gz`, `.mtx.zst` |

use std::fmt;
use std::path::Path;

use crate::error::{Fault, FileError};

/// A file format that tensors come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One dense array, as `numpy.save` writes it.
    Npy,
    /// Several arrays in a zip archive, as `numpy.savez` writes it.
    Npz,
    /// Several dense tensors behind one JSON header.
    Safetensors,
    /// One sparse tensor as text lines, as in the FROSTT collection.
    Tns,
    /// One matrix as text lines: MatrixMarket.
    Mtx,
}

/// How the file as a whole is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Packing {
    /// Not at all.
    #[default]
    Plain,
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 5] = [Format::Npy, Format::Npz, Format::Safetensors, Format::Tns, Format::Mtx];

    /// The format and the packing that a file's name says, whatever its case. Fails for other
    /// extensions, and for compressed forms of the binary formats, which could not be mapped into
    /// memory.
    pub fn from_path(path: &Path) -> Result<(Format, Packing), FileError> {
        let (_, format, packing) = split(path).map_err(|fault| fault.in_file(path))?;
        Ok((format, packing))
    }

    /// The extension, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Safetensors => "safetensors",
            Format::Tns => "tns",
            Format::Mtx => "mtx",
        }
    }

    /// Whether one file can hold several tensors.
    pub fn holds_several(self) -> bool {
        matches!(self, Format::Npz | Format::Safetensors)
    }

    /// Whether [`crate::write`] keeps the metadata of its items. The other formats have no place
    /// for it: a caller that has some should say that it stays behind.
    pub fn keeps_metadata(self) -> bool {
        self == Format::Safetensors
    }

    /// Whether the format is text. Text may be compressed.
    pub fn is_text(self) -> bool {
        matches!(self, Format::Tns | Format::Mtx)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

/// The file's name without the extensions that say the format: `uber` of `data/uber.tns.zst`.
pub(crate) fn stem(path: &Path) -> Result<String, Fault> {
    split(path).map(|(stem, _, _)| stem)
}

fn split(path: &Path) -> Result<(String, Format, Packing), Fault> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| Fault::unsupported("the file's name is not readable text"))?;
    let (inner, packing) = match name.rsplit_once('.') {
        Some((inner, "gz" | "GZ")) => (inner, Packing::Gzip),
        Some((inner, "zst" | "ZST")) => (inner, Packing::Zstd),
        _ => (name, Packing::Plain),
    };
    let found = inner.rsplit_once('.').and_then(|(stem, extension)| {
        let format = Format::ALL.into_iter().find(|f| extension.eq_ignore_ascii_case(f.extension()))?;
        Some((stem, format))
    });
    let Some((stem, format)) = found else {
        return Err(Fault::unsupported(
            "unknown extension; known are .npy, .npz, .safetensors, .tns and .mtx (the last two also with .gz or .zst)",
        ));
    };
    if packing != Packing::Plain && !format.is_text() {
        return Err(Fault::unsupported(format!(
            "a compressed .{format} cannot be mapped into memory; decompress it first"
        )));
    }
    if stem.is_empty() {
        return Err(Fault::unsupported("the file's name has nothing before its extension"));
    }
    Ok((stem.to_owned(), format, packing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_formats() {
        let check = |name: &str, expected: Option<(&str, Format, Packing)>| {
            let found = split(Path::new(name)).ok();
            assert_eq!(found, expected.map(|(stem, f, p)| (stem.to_owned(), f, p)), "{name}");
        };
        check("a.npy", Some(("a", Format::Npy, Packing::Plain)));
        check("dir.x/a.b.NPZ", Some(("a.b", Format::Npz, Packing::Plain)));
        check("model.safetensors", Some(("model", Format::Safetensors, Packing::Plain)));
        check("uber.tns.zst", Some(("uber", Format::Tns, Packing::Zstd)));
        check("m.mtx.gz", Some(("m", Format::Mtx, Packing::Gzip)));
        check("m.mtx", Some(("m", Format::Mtx, Packing::Plain)));
        check("a.npy.gz", None);
        check("a.csv", None);
        check("npy", None);
        check(".npy", None);
        check("a.zst", None);
        check("..", None);
    }

    #[test]
    fn an_unknown_extension_is_explained() {
        let error = Format::from_path(Path::new("a.csv")).unwrap_err();
        assert_eq!(error.kind(), lacus_tensor::ErrorKind::Invalid);
        assert!(error.to_string().contains(".safetensors"), "{error}");
    }
}
