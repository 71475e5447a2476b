//! Tensors written in one process and made a version in another.
//!
//! ```text
//! process 1   values ─stage→ files below data/ ─→ StagedTensors ─to_bytes→ ┐
//! process 2   values ─stage→ files below data/ ─→ StagedTensors ─to_bytes→ ┼─ add_staged → one version
//! ```
//!
//! What is staged is seen by nobody. When nobody adds it, a clean-up takes its files once they are older than its grace period.

use futures::future::BoxFuture;
use lacus_io::boxed;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::TableError;
use crate::files::chunk_file::StagedFile;
use crate::log::seal::{BLANK_SEAL, Seal, look_at_seal, seal};
use crate::table::{Put, Table, check_name};
use crate::write::commit::{Staged, Supersede};
use crate::write::stage::WriteOptions;
use crate::write::write_set::WriteSet;

/// The form of the description. One with a higher number is refused.
const FORM: u32 = 1;

/// Tensors that were staged: what their files are and hold. Plain data, to be handed to whoever adds them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StagedTensors {
    form: u32,
    crc32c: String,
    /// The dataset they were staged for, and the directory of the branch's table in it.
    dataset: String,
    directory: String,
    names: Vec<String>,
    files: Vec<StagedFile>,
}

impl StagedTensors {
    /// The names of the tensors.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Bytes of the files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// JSON with a checksum.
    pub fn to_bytes(&self) -> Result<Vec<u8>, TableError> {
        let blank = StagedTensors { crc32c: BLANK_SEAL.to_owned(), ..self.clone() };
        let text = serde_json::to_vec(&blank).map_err(|e| TableError::refused("stage", e.to_string()))?;
        Ok(seal(text))
    }

    /// What [`StagedTensors::to_bytes`] made.
    pub fn from_bytes(bytes: &[u8]) -> Result<StagedTensors, TableError> {
        #[derive(Deserialize)]
        struct Numbered {
            form: u32,
        }
        let refused = |why: String| TableError::refused("add staged", why);
        if look_at_seal(bytes) != Seal::Whole {
            return Err(refused(
                "these bytes are not what stage returned: their checksum is missing or wrong".to_owned(),
            ));
        }
        // Later forms may have other fields, but they will have this one.
        let numbered: Numbered = serde_json::from_slice(bytes).map_err(|e| refused(e.to_string()))?;
        if numbered.form > FORM {
            let why =
                format!("it was staged by a newer version of Lacus (form {}, not {FORM})", numbered.form);
            return Err(refused(why));
        }
        serde_json::from_slice(bytes).map_err(|e| refused(e.to_string()))
    }

    fn check(&self, table: &Table) -> Result<(), TableError> {
        let refused = |why: String| Err(TableError::refused("add staged", why));
        if self.dataset != table.dataset_id() {
            return refused("it was staged for another dataset".to_owned());
        }
        if self.directory != table.directory() {
            return refused("it was staged for another branch".to_owned());
        }
        let names: BTreeSet<&str> = self.names.iter().map(String::as_str).collect();
        for file in &self.files {
            // Nothing else was ever staged: whoever made this up may have meant a file that others need.
            let stem = file.path.strip_prefix("data/").and_then(|rest| rest.strip_suffix(".parquet"));
            if stem.is_none_or(|stem| uuid::Uuid::parse_str(stem).is_err()) || file.vector.is_some() {
                return refused(format!("{:?} is no staged file", file.path));
            }
            for held in &file.tags.tensors {
                if !names.contains(held.name.as_str()) {
                    return refused(format!("a file holds tensor {:?}, which is not listed", held.name));
                }
            }
        }
        for name in &self.names {
            check_name(name)?;
            table.refuse_column(name)?;
        }
        Ok(())
    }
}

impl Table {
    /// Writes tensors into files that nobody sees until [`Table::add_staged`] is told of them, here or in another process.
    pub fn stage<'a>(
        &'a mut self,
        items: Vec<Put<'a>>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<StagedTensors, TableError>> {
        Box::pin(async move {
            let names = items.iter().map(|item| item.name.clone()).collect();
            let (dataset, directory) = (self.dataset_id().to_owned(), self.directory().to_owned());
            let files = self.stage_puts(items, options).await?.files;
            Ok(StagedTensors { form: FORM, crc32c: BLANK_SEAL.to_owned(), dataset, directory, names, files })
        })
    }

    /// Puts what was staged, here or elsewhere, new or in place of old tensors, all in one version. What was staged stays as it is
    /// if this fails, so that it can be tried again.
    #[boxed]
    pub async fn add_staged(
        &mut self,
        parts: Vec<StagedTensors>,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        self.writable().await?;
        let mut names: BTreeSet<String> = BTreeSet::new();
        for part in &parts {
            part.check(self)?;
            for name in &part.names {
                if !names.insert(name.clone()) {
                    return Err(TableError::BadName { name: name.clone(), why: "it was staged twice" });
                }
            }
        }
        if names.is_empty() {
            return Ok(self.version());
        }
        // A file that others may have added stays whatever becomes of this version.
        let mut files: Vec<StagedFile> = parts.into_iter().flat_map(|part| part.files).collect();
        files.iter_mut().for_each(|file| file.is_old = true);
        if let Some(file) = files.iter().find(|file| self.snapshot().files.contains_key(&file.path)) {
            let why = format!("file {:?} is in this version already: it was added before", file.path);
            return Err(TableError::refused("add staged", why));
        }
        for file in &files {
            self.look_at(file).await?;
        }
        let staged = Staged {
            op: "ADD STAGED",
            files,
            supersede: names.iter().cloned().map(Supersede::Tensor).collect(),
            writes: WriteSet::whole(names.iter().cloned()),
            detail: json!({"tensors": names}),
            data_change: true,
        };
        self.commit(staged, options).await
    }

    /// Fails unless a file is there, and of the length it had.
    async fn look_at(&self, file: &StagedFile) -> Result<(), TableError> {
        let what = match self.store().read_tail(&file.path, 4).await {
            Ok((_, bytes)) if bytes == file.bytes => return Ok(()),
            Ok((_, bytes)) => format!("has {bytes} bytes instead of {}", file.bytes),
            Err(error) if error.is_not_found() => {
                "is missing: it was cleaned up, or staged in another place".to_owned()
            }
            Err(error) => return Err(error.into()),
        };
        Err(TableError::refused("add staged", format!("staged file {:?} {what}", file.path)))
    }
}
