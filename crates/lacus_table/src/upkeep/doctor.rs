//! Looks a table over: is every file there, is every chunk what its checksum says, is anything
//! left over.

use lacus_io::boxed;
use std::collections::{HashMap, HashSet};

use lacus_layout::Layout;
use lacus_tensor::Index;

use crate::error::TableError;
use crate::log::deletion;
use crate::log::foreign_rows::{UNNAMED, foreign_rows};
use crate::log::snapshot::{FileKind, Snapshot};
use crate::read::array_read::read_all_sparse;
use crate::read::arrays::read_stored;
use crate::read::form::Form;
use crate::schema::DATASET_ROW;
use crate::table::Table;
use crate::write::stage::{Meter, WriteOptions};

/// Something the doctor found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The tensor or file.
    pub what: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What the doctor saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoctorReport {
    /// The version looked at.
    pub version: u64,
    /// Tensors read.
    pub tensors: usize,
    /// Data files of this version.
    pub files: usize,
    /// Stored bytes whose checksums were verified.
    pub verified_bytes: u64,
    /// Damage. Empty for a healthy table.
    pub damage: Vec<Finding>,
    /// Rows of other writers that belong to no tensor, or are a header row too many.
    pub foreign: Vec<Finding>,
    /// What is no damage, and worth knowing: files that were written in an older way.
    pub notes: Vec<Finding>,
    /// Files that this version does not use, and their bytes: older versions, or what killed
    /// writers left.
    pub unused_files: usize,
    /// Bytes of those.
    pub unused_bytes: u64,
}

/// Samples read at a time while verifying.
const SAMPLES_AT_ONCE: u64 = 1024;

/// Chunks read at a time while verifying.
const AT_ONCE: usize = 64;

impl Table {
    /// Reads everything this version holds and reports what is not as it should be.
    #[boxed]
    pub async fn doctor(&self, options: &WriteOptions) -> Result<DoctorReport, TableError> {
        self.doctor_beside(&mut HashSet::new(), options).await
    }

    /// The same for one of several tables that borrow from each other: what is in `verified` is not read again, and what was
    /// found sound comes into it.
    #[boxed]
    pub async fn doctor_beside(
        &self,
        verified: &mut HashSet<String>,
        options: &WriteOptions,
    ) -> Result<DoctorReport, TableError> {
        let (store, _, cache, snapshot) = self.parts();
        // What others learned before does not show what is on the disk now.
        store.place().forget();
        let mut report =
            DoctorReport { version: snapshot.version, files: snapshot.files.len(), ..Default::default() };
        report.foreign = strange_rows(snapshot);
        report.notes.extend(old_files(snapshot));
        let total = snapshot.tensors().map(|(name, state)| state.stored_bytes(name)).sum();
        let meter = Meter::new(options, total);
        // A file with the same deletion vector has the same rows, whoever has it.
        let mut sound: HashMap<String, String> = HashMap::new();
        for file in snapshot.files.values() {
            let vector = match file.deletions() {
                Some(vector) => match deletion::file_path(vector) {
                    Some(path) => store.outer_path(&path)?,
                    None => vector.path_or_inline_dv.clone(),
                },
                None => String::new(),
            };
            sound.insert(file.path().to_owned(), format!("{} {vector}", store.outer_path(file.path())?));
        }
        let known: HashSet<String> =
            sound.iter().filter(|(_, key)| verified.contains(*key)).map(|(path, _)| path.clone()).collect();
        for name in self.names().into_iter().chain(self.hidden_names()) {
            let damages = report.damage.len();
            report.tensors += 1;
            let damage = |problem: String| Finding { what: format!("tensor {name:?}"), problem };
            if self.is_column(&name) {
                match self.verify_column(&name, &known, options, &meter).await {
                    Ok(bytes) => report.verified_bytes += bytes,
                    Err(TableError::Cancelled) => return Err(TableError::Cancelled),
                    Err(error) => report.damage.push(damage(error.to_string())),
                }
                forget_damaged(&mut sound, snapshot, &name, report.damage.len() > damages);
                continue;
            }
            let index = match cache.tensor(store, snapshot, &name).await {
                Ok(index) => index,
                Err(error) => {
                    report.damage.push(damage(error.to_string()));
                    forget_damaged(&mut sound, snapshot, &name, true);
                    continue;
                }
            };
            if matches!(index.header.layout, Layout::Coordinates) {
                let cells = index.cells.iter().flat_map(|(_, runs)| runs).map(|(_, count)| count).sum();
                if let Some(problem) = wrong_count(index.header.nnz, cells) {
                    report.damage.push(damage(problem));
                    forget_damaged(&mut sound, snapshot, &name, true);
                }
                if index.files.iter().all(|file| known.contains(&file.path)) {
                    continue;
                }
                if let Err(error) = self.read(&name, &[Index::Ellipsis]).await {
                    report.damage.push(damage(error.to_string()));
                    forget_damaged(&mut sound, snapshot, &name, true);
                }
                continue;
            }
            let is_new = |i: &usize| !known.contains(&index.files[index.places[*i].file as usize].path);
            let all: Vec<usize> = (0..index.places.len()).filter(is_new).collect();
            for some in all.chunks(AT_ONCE) {
                if options.cancelled() {
                    return Err(TableError::Cancelled);
                }
                let bytes: u64 = some.iter().map(|&i| index.places[i].bytes).sum();
                match read_stored(store, &index, some).await {
                    Ok(_) => report.verified_bytes += bytes,
                    Err(_) => {
                        // One by one, to name each.
                        for &i in some {
                            match read_stored(store, &index, &[i]).await {
                                Ok(_) => report.verified_bytes += index.places[i].bytes,
                                Err(error) => report.damage.push(damage(error.to_string())),
                            }
                        }
                    }
                }
                meter.add(bytes);
            }
            // Another tool may have taken whole chunks of nonzeros: reading all of them counts them.
            let holders = snapshot.tensor(&name).map(|state| &state.files[..]).unwrap_or_default();
            let is_foreign = holders.iter().any(|file| file.tags.kind == FileKind::Foreign);
            if is_foreign && index.header.layout.is_sparse() && report.damage.len() == damages {
                let read = read_all_sparse(store, self.world().pool(), &index).await;
                report.damage.extend(read.err().map(|error| damage(error.to_string())));
            }
            forget_damaged(&mut sound, snapshot, &name, report.damage.len() > damages);
        }
        let mut used: HashSet<String> = snapshot.files.keys().cloned().collect();
        used.extend(snapshot.files.values().filter_map(|f| f.deletions()).filter_map(deletion::file_path));
        for entry in store.list("").await? {
            let is_data = entry.path.starts_with("data/") || entry.path.starts_with("deletion_vector_");
            if is_data && !used.remove(&entry.path) {
                report.unused_files += 1;
                report.unused_bytes += entry.bytes;
            }
        }
        for path in used {
            // What is borrowed is not below this root.
            if path.starts_with("../") && store.exists(&path).await? {
                continue;
            }
            sound.remove(&path);
            report.damage.push(Finding { what: path, problem: "the file is gone".to_owned() });
        }
        if let Err(error) = self.rows().await {
            report.damage.push(Finding { what: "rows".to_owned(), problem: error.to_string() });
        }
        verified.extend(sound.into_values());
        Ok(report)
    }

    /// Reads every sample of a column; returns the bytes verified.
    async fn verify_column(
        &self,
        name: &str,
        known: &HashSet<String>,
        options: &WriteOptions,
        meter: &Meter<'_>,
    ) -> Result<u64, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        let form = Form::of(&index.header)?;
        let mut verified = 0;
        for segment in &index.segments {
            if known.contains(index.files[segment.file as usize].path()) {
                continue;
            }
            for first in
                (segment.first_id..segment.first_id + segment.count).step_by(SAMPLES_AT_ONCE as usize)
            {
                if options.cancelled() {
                    return Err(TableError::Cancelled);
                }
                let count = SAMPLES_AT_ONCE.min(segment.first_id + segment.count - first);
                let ids: Vec<u64> = (first..first + count).collect();
                let bytes = match form {
                    Form::Data => {
                        let samples = self.locate(name, &ids).await?;
                        let tiles: Vec<usize> = (0..ids.len()).flat_map(|i| samples.tiles(i)).collect();
                        let read = self.fetch(&samples, &tiles).await?;
                        read.iter().map(|bytes| bytes.len() as u64).sum()
                    }
                    Form::Text => {
                        let texts = self.read_texts(name, &ids).await?;
                        texts.iter().flatten().map(|text| text.len() as u64).sum()
                    }
                    _ => 8 * self.read_scalars(name, &[(first, count)]).await?.values.len() as u64,
                };
                verified += bytes;
                meter.add(bytes);
            }
        }
        Ok(verified)
    }
}

/// What is wrong if a tensor does not have as many nonzeros as its header says.
fn wrong_count(expected: Option<u64>, found: u64) -> Option<String> {
    let expected = expected.filter(|expected| *expected != found)?;
    Some(format!(
        "its header says {expected} nonzeros, and {found} are stored: another writer deleted or added some; put the \
         tensor again, or restore a version from before"
    ))
}

/// Rows that no tensor has, and tensors with several header rows: what only other writers leave.
fn strange_rows(snapshot: &Snapshot) -> Vec<Finding> {
    let found = foreign_rows(snapshot);
    let unknown = found.unknown.into_iter().map(|(name, rows)| {
        let what = match name.as_str() {
            UNNAMED => "rows without a name".to_owned(),
            DATASET_ROW => "rows with an empty name".to_owned(),
            name => format!("rows of {name:?}"),
        };
        let rows = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
        let problem = format!(
            "{rows} of another writer, and no tensor that they belong to; compact leaves them where they are: delete them with \
             the tool that wrote them, or write the header row that is missing"
        );
        Finding { what, problem }
    });
    let headers = found.headers.into_iter().map(|(name, count)| {
        let what = if name == DATASET_ROW { "metadata".to_owned() } else { format!("tensor {name:?}") };
        let problem = format!(
            "it has {count} header rows where there must be one: another writer added some, and the newest counts; \
             delete the others with that tool, or put the tensor again"
        );
        Finding { what, problem }
    });
    unknown.chain(headers).collect()
}

/// Names files that were written in an older way, together: a table may have thousands.
fn old_files(snapshot: &Snapshot) -> Option<Finding> {
    let old: Vec<&str> =
        snapshot.files.values().filter(|file| file.tags.is_old()).map(|file| file.path()).collect();
    let (first, more) = (old.first()?, old.len() - 1);
    let what = match more {
        0 => format!("data file {first}"),
        more => format!("data file {first} and {more} more"),
    };
    let problem = "old layout: Lacus reads it, and Spark and its kin miss rows of it or refuse it; \
                   compact brings it up to date";
    Some(Finding { what, problem: problem.to_owned() })
}

/// Takes the files of a tensor that is damaged out of those that are sound.
fn forget_damaged(sound: &mut HashMap<String, String>, snapshot: &Snapshot, name: &str, is_damaged: bool) {
    if is_damaged && let Some(state) = snapshot.tensor(name) {
        state.files.iter().for_each(|file| drop(sound.remove(file.path())));
    }
}
