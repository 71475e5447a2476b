//! Reads texts by the ids of their rows, as one Arrow array.
//!
//! ```text
//! runs of ids ─segments→ spans (file, row, count) ─one read a file→ arrays ─in the order asked for→ StringArray
//! ```
//!
//! Rows that lie one after the other in one file are the array that was decoded, not copied again. Texts are not cached.

use arrow::array::{AsArray, BooleanBufferBuilder, StringArray};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use lacus_io::Store;

use crate::error::TableError;
use crate::files::file_index::FileIndex;
use crate::log::held::extend_run;
use crate::read::cells::read_verified;
use crate::read::row_index::ColumnIndex;
use crate::read::tensor_index::{Cache, all};
use crate::schema::column;

/// Rows that come one after the other: the file and its first row (`None`: they have no text), and how many.
type Span = (Option<(u32, u64)>, u64);

/// The texts of some rows of a file, in the order of rows.
struct FileTexts {
    /// Runs (first row, count) that ascend and lie apart.
    runs: Vec<(u64, u64)>,
    /// Where each run begins in the array.
    starts: Vec<usize>,
    texts: StringArray,
}

/// Reads the texts of rows, given as runs (first id, count) in any order. `None` if they are too large for one array.
pub(crate) async fn read_text_array(
    cache: &Cache,
    store: &Store,
    index: &ColumnIndex,
    ids: &[(u64, u64)],
) -> Result<Option<StringArray>, TableError> {
    let mut spans: Vec<Span> = Vec::with_capacity(ids.len());
    index.spans(ids, |place, count| match spans.last_mut() {
        Some((Some((file, first)), length))
            if place.is_some_and(|(same, row)| same == *file && *first + *length == row) =>
        {
            *length += count;
        }
        _ => spans.push((place, count)),
    });
    let numbers = index.files_of(ids);
    let loads = numbers.iter().map(|number| FileTexts::read(cache, store, index, *number, &spans)).collect();
    let files: Vec<FileTexts> = all(loads).await?;
    if let ([(Some(_), _)], [file]) = (&spans[..], &files[..]) {
        return Ok(Some(file.texts.clone()));
    }
    Ok(joined(&spans, &numbers, &files))
}

/// The texts of rows.
pub(crate) async fn read_texts(
    cache: &Cache,
    store: &Store,
    index: &ColumnIndex,
    ids: &[u64],
) -> Result<Vec<Option<String>>, TableError> {
    let mut texts = Vec::with_capacity(ids.len());
    let mut rest = vec![ids];
    while let Some(ids) = rest.pop() {
        let mut runs = Vec::new();
        ids.iter().for_each(|id| extend_run(&mut runs, *id, 1));
        match read_text_array(cache, store, index, &runs).await? {
            Some(array) => texts.extend(array.iter().map(|text| text.map(str::to_owned))),
            None if ids.len() > 1 => {
                let (front, back) = ids.split_at(ids.len() / 2);
                rest.extend([back, front]);
            }
            None => return Err(TableError::corrupt(&index.name, "a text is larger than can be read")),
        }
    }
    Ok(texts)
}

impl FileTexts {
    async fn read(
        cache: &Cache,
        store: &Store,
        index: &ColumnIndex,
        number: u32,
        spans: &[Span],
    ) -> Result<FileTexts, TableError> {
        let entry = &index.files[number as usize];
        let own =
            |(place, count): &Span| place.filter(|(file, _)| *file == number).map(|(_, row)| (row, *count));
        let runs = united(spans.iter().filter_map(own).collect());
        let file = cache.file_at(store, entry, &index.file_keys[number as usize].file).await?;
        file.check_rows(&runs)?;
        let texts = FileTexts::decoded(store, &file, &runs).await?;
        let mut starts = Vec::with_capacity(runs.len());
        let mut next = 0;
        for (_, count) in &runs {
            starts.push(next);
            next += *count as usize;
        }
        Ok(FileTexts { runs, starts, texts })
    }

    async fn decoded(
        store: &Store,
        file: &FileIndex,
        runs: &[(u64, u64)],
    ) -> Result<StringArray, TableError> {
        let batch = read_verified(store, file, &[column::ROW], Some(column::TEXT), runs).await?;
        let found = batch.column_by_name(column::TEXT).and_then(|c| c.as_string_opt::<i32>());
        found.cloned().ok_or_else(|| TableError::corrupt(&file.path, "texts are missing"))
    }

    /// Where a row's text is in the array.
    fn place(&self, row: u64) -> usize {
        let at = self.runs.partition_point(|(first, _)| *first <= row) - 1;
        self.starts[at] + (row - self.runs[at].0) as usize
    }
}

/// Runs in any order as runs that ascend and lie apart.
fn united(mut runs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    runs.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(runs.len());
    for (first, count) in runs {
        match joined.last_mut() {
            Some((start, length)) if first <= *start + *length => {
                *length = (*length).max(first + count - *start);
            }
            _ => joined.push((first, count)),
        }
    }
    joined
}

/// Texts in the order of spans; `None` if offsets of 32 bits do not reach their end.
fn joined(spans: &[Span], numbers: &[u32], files: &[FileTexts]) -> Option<StringArray> {
    // Each span that has texts: the array they are in, and its first and last place there.
    let mut slices = Vec::with_capacity(spans.len());
    let (mut rows, mut bytes) = (0, 0);
    for &(place, count) in spans {
        let count = count as usize;
        rows += count;
        slices.push(place.map(|(number, row)| {
            let file = &files[numbers.partition_point(|other| *other < number)];
            let from = file.place(row);
            let offsets = &file.texts.value_offsets()[from..=from + count];
            bytes += (offsets[count] - offsets[0]) as usize;
            (file, offsets)
        }));
    }
    i32::try_from(bytes).ok()?;
    let mut offsets: Vec<i32> = Vec::with_capacity(rows + 1);
    offsets.push(0);
    let mut values = MutableBuffer::new(bytes);
    let is_whole = slices.iter().all(Option::is_some);
    let mut present = BooleanBufferBuilder::new(if is_whole { 0 } else { rows });
    for ((_, count), slice) in spans.iter().zip(slices) {
        let end = values.len() as i32;
        match slice {
            Some((file, of)) => {
                values.extend_from_slice(&file.texts.value_data()[of[0] as usize..of[of.len() - 1] as usize]);
                offsets.extend(of[1..].iter().map(|offset| offset - of[0] + end));
            }
            None => offsets.resize(offsets.len() + *count as usize, end),
        }
        if !is_whole {
            present.append_n(*count as usize, slice.is_some());
        }
    }
    let nulls = (!is_whole).then(|| NullBuffer::new(present.finish()));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    // Whole texts of arrays that were made of texts.
    StringArray::try_new(offsets, Buffer::from(values), nulls).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_several_files_are_joined_in_order() {
        let file = |runs: &[(u64, u64)], texts: &[&str]| {
            let starts =
                runs.iter().scan(0, |next, run| Some(std::mem::replace(next, *next + run.1 as usize)));
            FileTexts {
                runs: runs.to_vec(),
                starts: starts.collect(),
                texts: StringArray::from(texts.to_vec()),
            }
        };
        let files =
            [file(&[(3, 2), (9, 1)], &["three", "", "nine"]), file(&[(0, 3)], &["zero", "one", "two"])];
        let spans = [
            (Some((7, 1)), 2),
            (None, 1),
            (Some((4, 9)), 1),
            (Some((4, 3)), 2),
            (Some((7, 0)), 3),
            (None, 2),
        ];
        let texts = joined(&spans, &[4, 7], &files).unwrap();
        let found: Vec<Option<&str>> = texts.iter().collect();
        let expected = "one two - nine three  zero one two - -".split(' ');
        let expected: Vec<Option<&str>> = expected.map(|text| (text != "-").then_some(text)).collect();
        assert_eq!(found, expected);
        assert_eq!(united(vec![(5, 2), (0, 1), (6, 4), (1, 1), (20, 1)]), [(0, 2), (5, 5), (20, 1)]);
        assert_eq!(joined(&[], &[], &[]).unwrap().iter().count(), 0);
    }
}
