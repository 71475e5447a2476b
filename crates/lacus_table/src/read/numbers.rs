//! Reads scalars by the ids of their rows: every page that holds some is looked up once, every value is copied once.
//!
//! ```text
//! runs of ids ─segments→ files ─borders of pages→ parts ─cache, or one read a file→ pages ─copy→ Numbers
//! ```

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type};
use lacus_io::Store;
use lacus_tensor::{Buffer, Element};

use crate::error::TableError;
use crate::files::checks::overlapping;
use crate::files::file_index::FileIndex;
use crate::log::held::extend_run;
use crate::read::cells::read_verified;
use crate::read::form::Form;
use crate::read::row_index::ColumnIndex;
use crate::read::scalars::{Numbers, width};
use crate::read::tensor_index::{Cache, all};
use crate::schema::column;

/// What a kept page takes beside its values, about.
const PAGE_BYTES: u64 = 128;

/// Of how many pages one must be wanted for all of them to be read: a page is some 50 KB, and requests have their price.
const MANY_PAGES: usize = 4;

/// Reads the scalars of rows, given as runs (first id, count) in any order.
pub(crate) async fn read_numbers(
    cache: &Cache,
    store: &Store,
    index: &ColumnIndex,
    ids: &[(u64, u64)],
) -> Result<Numbers, TableError> {
    let form = match index.form {
        Some(form @ (Form::Int | Form::Float | Form::Real)) => form,
        _ => return Err(TableError::refused("read scalars", format!("{:?} has none", index.name))),
    };
    let numbers = index.files_of(ids);
    let opened = numbers.iter().map(|number| FilePages::open(cache, store, index, *number)).collect();
    let mut files: Vec<FilePages<'_>> = all(opened).await?;
    let parts = parts(index, ids, &numbers, &mut files)?;
    let loads = files.iter().map(|file| file.load(store, form)).collect();
    let pages: Vec<Pages> = all(loads).await?;
    gather(&parts, &files, &pages, form)
}

/// The scalars of one tensor in one page of a file, dead rows included.
#[derive(Debug)]
enum Page {
    Wide(Vec<u64>),
    Narrow(Vec<u32>),
}

impl Page {
    /// A part of a column; `None` if it is of another type.
    fn of(array: &ArrayRef, form: Form, from: usize, count: usize) -> Option<Page> {
        let rows = from..from + count;
        Some(match form {
            Form::Float => {
                let values = &array.as_primitive_opt::<Float32Type>()?.values()[rows];
                Page::Narrow(values.iter().map(|value| value.to_bits()).collect())
            }
            Form::Real => {
                let values = &array.as_primitive_opt::<Float64Type>()?.values()[rows];
                Page::Wide(values.iter().map(|value| value.to_bits()).collect())
            }
            _ => {
                let values = &array.as_primitive_opt::<Int64Type>()?.values()[rows];
                Page::Wide(values.iter().map(|value| *value as u64).collect())
            }
        })
    }

    fn wide(&self) -> &[u64] {
        match self {
            Page::Wide(values) => values,
            Page::Narrow(_) => &[],
        }
    }

    fn narrow(&self) -> &[u32] {
        match self {
            Page::Narrow(values) => values,
            Page::Wide(_) => &[],
        }
    }
}

/// Pages of a file from its first wanted one on.
type Pages = Vec<Option<Arc<Page>>>;

/// Some consecutive rows of one page, which come one after the other; or rows that have no sample.
struct Part {
    /// Which of the files that are read.
    file: u32,
    /// Which page of it; [`NO_PAGE`] where there is no sample.
    page: u32,
    within: usize,
    count: usize,
}

const NO_PAGE: u32 = u32::MAX;

/// A file that holds scalars of the column, and which of its pages are wanted.
struct FilePages<'a> {
    index: &'a ColumnIndex,
    number: usize,
    file: Arc<FileIndex>,
    /// The column's rows in it.
    rows: &'a [(u64, u64)],
    /// The first page that is wanted.
    first: usize,
    wanted: Vec<bool>,
}

impl<'a> FilePages<'a> {
    async fn open(
        cache: &Cache,
        store: &Store,
        index: &'a ColumnIndex,
        number: u32,
    ) -> Result<FilePages<'a>, TableError> {
        let number = number as usize;
        let entry = &index.files[number];
        let file = cache.file_at(store, entry, &index.file_keys[number].file).await?;
        let rows = entry.held(&index.name).map(|held| held.rows.as_slice()).unwrap_or_default();
        file.check_rows(rows)?;
        Ok(FilePages { index, number, file, rows, first: 0, wanted: Vec::new() })
    }

    /// A page as (first row, rows): what was written and has its checksum together. Rows of another tool are one page.
    fn page(&self, at: usize) -> Option<(u64, u64)> {
        match self.file.checks() {
            [] => self.rows.get(at).copied(),
            checks => checks.get(at).map(|check| (check.first, check.rows)),
        }
    }

    /// The page that holds a row, which is often the one that was `last`.
    fn page_of(&self, row: u64, last: usize) -> Option<(usize, u64, u64)> {
        let holds = |(first, rows): (u64, u64)| (first <= row && row - first < rows).then_some((first, rows));
        if let Some((first, rows)) = self.page(last).and_then(holds) {
            return Some((last, first, rows));
        }
        let at = match self.file.checks() {
            [] => self.rows.partition_point(|(first, rows)| first + rows <= row),
            checks => checks.partition_point(|check| check.first + check.rows <= row),
        };
        self.page(at).and_then(holds).map(|(first, rows)| (at, first, rows))
    }

    /// All pages of the column.
    fn all(&self) -> Vec<usize> {
        let checks = self.file.checks();
        if checks.is_empty() {
            return (0..self.rows.len()).collect();
        }
        let mut pages = Vec::new();
        for &(first, count) in self.rows {
            let from = checks.partition_point(|check| check.first + check.rows <= first);
            pages.extend(from..from + overlapping(checks, first, count).len());
        }
        // Several runs may lie in one page.
        pages.dedup();
        pages
    }

    /// The pages that are wanted; those that are not known are read at once. Where many are wanted, all of the column's are
    /// read: the others will be soon.
    async fn load(&self, store: &Store, form: Form) -> Result<Pages, TableError> {
        let mut key = format!("{} {} page ", self.index.file_keys[self.number].rows, form.name());
        let start = key.len();
        let mut known = |page: usize| -> Option<Arc<Page>> {
            key.truncate(start);
            // Writing to a string does not fail.
            let _ = write!(key, "{page}");
            store.place().get(&key)
        };
        let mut pages: Pages = vec![None; self.wanted.len()];
        let mut missing = Vec::new();
        let mut count = 0;
        for (at, page) in pages.iter_mut().enumerate().filter(|(at, _)| self.wanted[*at]) {
            count += 1;
            *page = known(self.first + at);
            if page.is_none() {
                missing.push(self.first + at);
            }
        }
        if missing.is_empty() {
            return Ok(pages);
        }
        let all = self.all();
        if count * MANY_PAGES >= all.len() {
            let is_here = |page: usize| pages.get(page.wrapping_sub(self.first)).is_some_and(Option::is_some);
            // What is wanted stays wanted, even if another thread has read it since: it is not at hand here.
            let is_wanted = |page: usize| missing.binary_search(&page).is_ok();
            let mut more = |page: usize| !is_here(page) && known(page).is_none();
            missing = all.into_iter().filter(|page| is_wanted(*page) || more(*page)).collect();
        }
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (first, rows) in missing.iter().filter_map(|page| self.page(*page)) {
            extend_run(&mut runs, first, rows);
        }
        let batch = read_verified(store, &self.file, &[column::ROW], Some(form.name()), &runs).await?;
        let array = batch.column_by_name(form.name());
        let mut from = 0;
        for at in missing {
            let rows = self.page(at).map_or(0, |(_, rows)| rows as usize);
            let page = array.and_then(|array| Page::of(array, form, from, rows)).ok_or_else(|| {
                let what = format!("column {:?} of {:?} has another type", form.name(), self.index.name);
                TableError::corrupt(&self.file.path, what)
            })?;
            from += rows;
            let page = Arc::new(page);
            let bytes = (rows * width(form)) as u64 + PAGE_BYTES;
            store.place().put(format!("{}{at}", &key[..start]), Arc::clone(&page), bytes);
            if let Some(place) = pages.get_mut(at.wrapping_sub(self.first)) {
                *place = Some(page);
            }
        }
        Ok(pages)
    }
}

/// Cuts rows at the borders of pages, in the order in which they were asked for, and notes which pages are wanted.
fn parts(
    index: &ColumnIndex,
    ids: &[(u64, u64)],
    numbers: &[u32],
    files: &mut [FilePages<'_>],
) -> Result<Vec<Part>, TableError> {
    let mut parts: Vec<Part> = Vec::with_capacity(ids.len());
    let mut lost = None;
    let (mut at, mut page) = (0, 0);
    // The first and last page that is wanted of each file.
    let mut bounds = vec![(usize::MAX, 0); files.len()];
    index.spans(ids, |place, count| {
        let mut count = count as usize;
        let Some((number, mut row)) = place else {
            return parts.push(Part { file: 0, page: NO_PAGE, within: 0, count });
        };
        if numbers.get(at) != Some(&number) {
            at = numbers.partition_point(|other| *other < number);
        }
        let file = &files[at];
        while count > 0 {
            let Some((found, first, rows)) = file.page_of(row, page) else {
                lost = Some(at);
                return;
            };
            page = found;
            bounds[at] = (bounds[at].0.min(page), bounds[at].1.max(page));
            let within = (row - first) as usize;
            let step = count.min(rows as usize - within);
            parts.push(Part { file: at as u32, page: page as u32, within, count: step });
            (row, count) = (row + step as u64, count - step);
        }
    });
    if let Some(at) = lost {
        return Err(TableError::corrupt(&files[at].file.path, "samples have no values"));
    }
    for (file, (first, last)) in files.iter_mut().zip(bounds) {
        file.first = first;
        file.wanted = vec![false; (last + 1).saturating_sub(first)];
    }
    for part in parts.iter().filter(|part| part.page != NO_PAGE) {
        let file = &mut files[part.file as usize];
        file.wanted[part.page as usize - file.first] = true;
    }
    Ok(parts)
}

/// Copies parts to one piece of memory.
fn gather(
    parts: &[Part],
    files: &[FilePages<'_>],
    pages: &[Pages],
    form: Form,
) -> Result<Numbers, TableError> {
    let rows: usize = parts.iter().map(|part| part.count).sum();
    let too_much = |error: lacus_tensor::TensorError| TableError::from(error.for_what("numbers"));
    let mut values = Buffer::try_for_overwrite(rows * width(form)).map_err(too_much)?;
    let page = |part: &Part| -> Option<&Page> {
        let at = part.page as usize - files[part.file as usize].first;
        pages[part.file as usize].get(at)?.as_deref()
    };
    let done = match form {
        Form::Float => copy(parts, values.cast_mut(), |part| page(part).map(Page::narrow)),
        _ => copy(parts, values.cast_mut(), |part| page(part).map(Page::wide)),
    };
    if let Some(part) = done.err() {
        let file = &files[part.file as usize].file;
        return Err(TableError::corrupt(&file.path, "samples have no values"));
    }
    let present = parts.iter().any(|part| part.page == NO_PAGE).then(|| {
        let mut present = Vec::with_capacity(rows);
        parts.iter().for_each(|part| present.resize(present.len() + part.count, part.page != NO_PAGE));
        present
    });
    Ok(Numbers { form, values, present })
}

/// Fails with the part that its page does not hold.
fn copy<'p, 'v, T: Element + Default>(
    parts: &'p [Part],
    mut out: &mut [T],
    values: impl Fn(&Part) -> Option<&'v [T]>,
) -> Result<(), &'p Part> {
    for part in parts {
        let (to, rest) = out.split_at_mut(part.count);
        out = rest;
        if part.page == NO_PAGE {
            to.fill(T::default());
            continue;
        }
        let from = values(part).and_then(|values| values.get(part.within..part.within + part.count));
        let from = from.ok_or(part)?;
        match (&mut *to, from) {
            // Scattered rows: cheaper than a call that copies.
            ([to], [from]) => *to = *from,
            (to, from) => to.copy_from_slice(from),
        }
    }
    Ok(())
}
