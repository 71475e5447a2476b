//! Which kind of thing a source or a destination is, where nobody says.

use lacus_io::boxed;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use lacus_dataset::Dataset;

use crate::error::ExchangeError;
use crate::folder::entries;
use crate::options::{ExportOptions, ImportOptions, Report};

/// A kind of thing that samples come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder of class subfolders.
    Folder,
    /// COCO's annotations and images.
    Coco,
    /// A CSV file.
    Csv,
    /// A Parquet file.
    Parquet,
    /// WebDataset tars.
    WebDataset,
    /// A safetensors file: arrays, not rows.
    Safetensors,
    /// A wide Delta table; only to go to.
    Delta,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::Folder,
        Kind::Coco,
        Kind::Csv,
        Kind::Parquet,
        Kind::WebDataset,
        Kind::Safetensors,
        Kind::Delta,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Folder => "folder",
            Kind::Coco => "coco",
            Kind::Csv => "csv",
            Kind::Parquet => "parquet",
            Kind::WebDataset => "webdataset",
            Kind::Safetensors => "safetensors",
            Kind::Delta => "delta",
        }
    }

    /// What a name says by its extension.
    fn by_extension(path: &Path) -> Option<Kind> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let ends = |all: &[&str]| all.iter().any(|end| name.ends_with(end));
        if ends(&[".csv", ".tsv", ".tab"]) {
            Some(Kind::Csv)
        } else if ends(&[".parquet", ".pq"]) {
            Some(Kind::Parquet)
        } else if ends(&[".tar", ".tar.gz", ".tgz", ".tar.zst"]) {
            Some(Kind::WebDataset)
        } else if ends(&[".safetensors"]) {
            Some(Kind::Safetensors)
        } else if ends(&[".json"]) {
            Some(Kind::Coco)
        } else {
            None
        }
    }

    /// What a source is, by its name or what is in it.
    pub fn of_source(source: &Path) -> Result<Kind, ExchangeError> {
        if !source.is_dir() {
            let unknown = || ExchangeError::UnknownKind { path: source.to_owned() };
            if !source.exists() && !source.to_string_lossy().contains('{') {
                let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(ExchangeError::io(source, "open")(missing));
            }
            return Kind::by_extension(source).ok_or_else(unknown);
        }
        let inside = entries(source)?;
        if inside.iter().any(|path| path.is_dir() && path.ends_with("annotations")) {
            return Ok(Kind::Coco);
        }
        let kinds: Vec<Kind> = inside.iter().filter_map(|path| Kind::by_extension(path)).collect();
        let only = |kind: Kind| kinds.contains(&kind) && kinds.iter().all(|other| *other == kind);
        Ok(match kinds.first() {
            Some(kind @ (Kind::WebDataset | Kind::Parquet | Kind::Coco)) if only(*kind) => *kind,
            _ => Kind::Folder,
        })
    }

    /// What a destination shall be, by its name: a folder if that says nothing.
    pub fn of_dest(dest: &Path) -> Kind {
        match Kind::by_extension(dest) {
            Some(Kind::Coco) | None => Kind::Folder,
            Some(kind) => kind,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = ExchangeError;

    fn from_str(name: &str) -> Result<Kind, ExchangeError> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known = Kind::ALL.map(Kind::name).join(", ");
            ExchangeError::Lacking(format!("unknown kind {name:?}: expected one of {known}"))
        })
    }
}

/// Imports a source of a kind.
#[boxed]
pub async fn import_as(
    kind: Kind,
    dataset: &mut Dataset,
    source: &Path,
    options: &ImportOptions,
) -> Result<Report, ExchangeError> {
    match kind {
        Kind::Folder => crate::from_folder(dataset, source, options).await,
        Kind::Coco => crate::from_coco(dataset, source, options).await,
        Kind::Csv => crate::from_csv(dataset, source, options).await,
        Kind::Parquet => crate::from_parquet(dataset, source, options).await,
        Kind::WebDataset => crate::from_webdataset(dataset, source, options).await,
        Kind::Safetensors => crate::from_safetensors(dataset, source, options).await,
        Kind::Delta => Err(ExchangeError::source(source, "Delta tables are written, but not imported")),
    }
}

/// Exports to a destination of a kind.
#[boxed]
pub async fn export_as(
    kind: Kind,
    dataset: &Dataset,
    dest: &Path,
    options: &ExportOptions,
) -> Result<Report, ExchangeError> {
    match kind {
        Kind::Folder => crate::to_folder(dataset, dest, options).await,
        Kind::Coco => crate::to_coco(dataset, dest, options).await,
        Kind::Csv => crate::to_csv(dataset, dest, options).await,
        Kind::Parquet => crate::to_parquet(dataset, dest, options).await,
        Kind::WebDataset => crate::to_webdataset(dataset, dest, options).await,
        Kind::Safetensors => crate::to_safetensors(dataset, dest, options).await,
        Kind::Delta => crate::to_delta(dataset, dest, options).await,
    }
}
