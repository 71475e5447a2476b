//! Reads samples by the ids of their rows.
//!
//! ```text
//! scalars   ids ─index→ places ─pages, decoded once→ numbers
//! texts     ids ─index→ places ─pages→ texts
//! blobs     ids ─locate→ Samples (shapes, codecs, sizes) ─fetch→ bytes, one planned read for all
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, StringArray};
use bytes::Bytes;
use lacus_io::{Store, blocking, read_ranges};
use lacus_layout::verify_crc32c;
use lacus_tensor::Buffer;
use lacus_threads::Pool;

use crate::error::TableError;
use crate::files::file_index::FileIndex;
use crate::read::arrays::team_for;
use crate::read::blob_index::BlobIndex;
use crate::read::numbers::read_numbers;
use crate::read::row_index::ColumnIndex;
use crate::read::scalars::{Numbers, ScalarRead};
use crate::read::tensor_index::Cache;
use crate::read::texts::{read_text_array, read_texts};
use crate::schema::column;

/// What was learned for reading samples, in the store's place like everything that is learned.
#[derive(Debug)]
pub(crate) struct SampleCache {
    pub(crate) base: Arc<Cache>,
}

impl SampleCache {
    pub(crate) fn new(base: Arc<Cache>) -> SampleCache {
        SampleCache { base }
    }

    /// The scalars of the rows with these ids (runs of first id and count).
    pub(crate) async fn numbers(
        &self,
        store: &Store,
        index: &ColumnIndex,
        ids: &[(u64, u64)],
    ) -> Result<Numbers, TableError> {
        read_numbers(&self.base, store, index, ids).await
    }

    /// The same, as lists.
    pub(crate) async fn scalars(
        &self,
        store: &Store,
        index: &ColumnIndex,
        ids: &[(u64, u64)],
    ) -> Result<ScalarRead, TableError> {
        Ok(self.numbers(store, index, ids).await?.into())
    }

    /// The texts of the rows with these ids (runs of first id and count) as one array, null where one is missing; `None` if
    /// they are too large for that.
    pub(crate) async fn text_array(
        &self,
        store: &Store,
        index: &ColumnIndex,
        ids: &[(u64, u64)],
    ) -> Result<Option<StringArray>, TableError> {
        read_text_array(&self.base, store, index, ids).await
    }

    /// The texts of the rows with these ids.
    pub(crate) async fn texts(
        &self,
        store: &Store,
        index: &ColumnIndex,
        ids: &[u64],
    ) -> Result<Vec<Option<String>>, TableError> {
        read_texts(&self.base, store, index, ids).await
    }

    /// Finds the blobs of the rows with these ids.
    pub(crate) async fn locate(
        &self,
        store: &Store,
        index: Arc<ColumnIndex>,
        ids: &[u64],
    ) -> Result<Samples, TableError> {
        let mut tiles: Vec<(u32, u64)> = Vec::with_capacity(ids.len());
        let mut starts = Vec::with_capacity(ids.len() + 1);
        for &id in ids {
            starts.push(tiles.len());
            tiles.extend(index.places(id));
        }
        starts.push(tiles.len());
        let wanted = tiles.iter().map(|(file, _)| *file);
        let files = self.base.blobs_of(store, &index.files, wanted).await?;
        check_tiles(&files, &tiles)?;
        for (at, id) in ids.iter().enumerate() {
            let of_sample = &tiles[starts[at]..starts[at + 1]];
            let apart = |(file, row): &(u32, u64)| {
                files[*file as usize].as_ref().is_some_and(|known| !known.tile(*row).is_empty())
            };
            if of_sample.len() > 1 && !of_sample.iter().all(apart) {
                let what = format!("column {:?} has two samples for row id {id}", index.name);
                return Err(TableError::corrupt(&index.name, what));
            }
        }
        Ok(Samples { files, tiles, starts })
    }
}

fn check_tiles(files: &[Option<Arc<BlobIndex>>], tiles: &[(u32, u64)]) -> Result<(), TableError> {
    for &(file, row) in tiles {
        if let Some(known) = files[file as usize].as_ref().filter(|known| row >= known.file.rows()) {
            let what = "the file has fewer rows than its tags say";
            return Err(TableError::corrupt(&known.file.path, what));
        }
    }
    Ok(())
}

/// Samples that were found: what is known of them without reading them.
#[derive(Debug)]
pub struct Samples {
    files: Vec<Option<Arc<BlobIndex>>>,
    /// (file, row) of every tile.
    tiles: Vec<(u32, u64)>,
    /// Where each sample's tiles begin, and the end.
    starts: Vec<usize>,
}

impl Samples {
    /// How many rows were asked for.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether none was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn blob(&self, tile: usize) -> (&BlobIndex, u64) {
        let (file, row) = self.tiles[tile];
        (self.files[file as usize].as_ref().expect("located with its file"), row)
    }

    /// The tiles of a sample, as numbers for [`Samples::tile`]; none when it is missing.
    pub fn tiles(&self, sample: usize) -> std::ops::Range<usize> {
        self.starts[sample]..self.starts[sample + 1]
    }

    /// The shape of a sample, where it has one of its own.
    pub fn shape(&self, sample: usize) -> Option<&[i64]> {
        let tile = self.tiles(sample).next()?;
        let (blob, row) = self.blob(tile);
        blob.shape(row)
    }

    /// Coordinates, codec and stored bytes of a tile. No coordinates: the sample is in one piece.
    pub fn tile(&self, tile: usize) -> (Vec<i64>, &str, u64) {
        let (blob, row) = self.blob(tile);
        (blob.tile(row), blob.codec(row), blob.bytes(row))
    }

    /// The codec of a tile.
    pub fn codec(&self, tile: usize) -> &str {
        let (blob, row) = self.blob(tile);
        blob.codec(row)
    }

    /// The checksum of a tile's bytes.
    pub fn crc(&self, tile: usize) -> u32 {
        let (blob, row) = self.blob(tile);
        blob.crc(row)
    }

    /// The shape on a tile's row.
    pub(crate) fn tile_shape(&self, tile: usize) -> Option<&[i64]> {
        let (blob, row) = self.blob(tile);
        blob.shape(row)
    }

    /// Some of the blobs at `places` (id, file, row), from `at` on: about `bytes` of them, each as a sample
    /// of one tile. Also returns where the next ones begin.
    pub(crate) async fn group(
        cache: &Cache,
        store: &Store,
        index: &ColumnIndex,
        places: &[(u64, u32, u64)],
        at: usize,
        bytes: u64,
    ) -> Result<(Samples, usize), TableError> {
        let mut files: Vec<Option<Arc<BlobIndex>>> = vec![None; index.files.len()];
        let (mut taken, mut next) = (0, at);
        // The tiles of a sample stay together.
        let is_inside = |next: usize| next > at && places[next - 1].0 == places[next].0;
        while next < places.len() && (next == at || taken < bytes || is_inside(next)) {
            let (_, file, row) = places[next];
            let known = match &mut files[file as usize] {
                Some(known) => known,
                slot => slot.insert(cache.blobs(store, &index.files[file as usize]).await?),
            };
            if row >= known.file.rows() {
                let what = "the file has fewer rows than its tags say";
                return Err(TableError::corrupt(&known.file.path, what));
            }
            taken += known.bytes(row);
            next += 1;
        }
        let tiles: Vec<(u32, u64)> = places[at..next].iter().map(|&(_, file, row)| (file, row)).collect();
        let starts = (0..=tiles.len()).collect();
        Ok((Samples { files, tiles, starts }, next))
    }

    /// Which bytes of which files hold tiles (by number).
    pub(crate) fn ranges(&self, tiles: &[usize]) -> Result<TileRanges, TableError> {
        let mut ranges = TileRanges { wanted: Vec::with_capacity(tiles.len()), ..TileRanges::default() };
        for (place, &tile) in tiles.iter().enumerate() {
            let (blob, row) = self.blob(tile);
            if blob.file.has_plain_pages() {
                let range =
                    blob.range(row).ok_or_else(|| TableError::corrupt(&blob.file.path, "no bytes"))?;
                ranges.wanted.push((self.tiles[tile].0 as usize, range));
                ranges.places.push(place);
            } else {
                ranges.foreign.push((place, tile));
            }
        }
        Ok(ranges)
    }

    /// Reads the bytes of tiles, in the order in which they were asked for. They are not verified yet.
    pub(crate) async fn read_ranges(
        &self,
        store: &Store,
        pool: &Pool,
        ranges: &TileRanges,
    ) -> Result<Vec<Bytes>, TableError> {
        let path = |file: &Option<Arc<BlobIndex>>| file.as_ref().map(|blob| blob.file.path.clone());
        let paths: Vec<String> = self.files.iter().map(|file| path(file).unwrap_or_default()).collect();
        let memory = |length| {
            Buffer::try_for_overwrite(length).map_err(|e| TableError::from(e.for_what("stored samples")))
        };
        let read = read_ranges(store, pool, &paths, &ranges.wanted, memory).await?;
        if ranges.foreign.is_empty() {
            return Ok(read);
        }
        let mut found = vec![Bytes::new(); ranges.places.len() + ranges.foreign.len()];
        for (place, bytes) in ranges.places.iter().zip(read) {
            found[*place] = bytes;
        }
        for &(place, tile) in &ranges.foreign {
            let (blob, row) = self.blob(tile);
            found[place] = read_foreign(store, &blob.file, row).await?;
        }
        Ok(found)
    }

    /// Compares tiles with their checksums.
    pub(crate) fn verify(&self, pool: &Pool, tiles: &[usize], bytes: &[Bytes]) -> Result<(), TableError> {
        let total: u64 = bytes.iter().map(|bytes| bytes.len() as u64).sum();
        let pairs = tiles.iter().zip(bytes).collect();
        // Checksums are made several times as fast as anything is decoded.
        let verified = team_for(pool, total / 8).map(pairs, |(tile, bytes): (&usize, &Bytes)| {
            let (blob, row) = self.blob(*tile);
            verify_crc32c(bytes, blob.crc(row)).map_err(|_| {
                let what = format!("the sample in row {row} does not have its checksum");
                TableError::corrupt(&blob.file.path, what)
            })
        });
        verified.into_iter().collect()
    }

    /// Reads tiles (by number): one planned read, checksums verified, results in the order asked for.
    pub(crate) async fn fetch(
        &self,
        store: &Store,
        pool: &Pool,
        tiles: &[usize],
    ) -> Result<Vec<Bytes>, TableError> {
        let bytes = self.read_ranges(store, pool, &self.ranges(tiles)?).await?;
        blocking(|| self.verify(pool, tiles, &bytes))?;
        Ok(bytes)
    }
}

/// Where the bytes of tiles lie.
#[derive(Debug, Default)]
pub(crate) struct TileRanges {
    /// File and range of those that can be read by hand.
    wanted: Vec<(usize, Range<u64>)>,
    /// Which of the tiles asked for each of them is.
    places: Vec<usize>,
    /// The others, which another tool wrote: which of those asked for, and the tile's number.
    foreign: Vec<(usize, usize)>,
}

impl TileRanges {
    /// How many bytes there are to read, as far as that is known.
    pub(crate) fn bytes(&self) -> u64 {
        self.wanted.iter().map(|(_, range)| range.end - range.start).sum()
    }
}

/// Reads a value from a file that another tool wrote.
async fn read_foreign(store: &Store, file: &FileIndex, row: u64) -> Result<Bytes, TableError> {
    let batch = file.columns(store, &[(row, 1)], &[column::DATA]).await?;
    let gone = || TableError::corrupt(&file.path, format!("row {row} has no data"));
    let data = batch.column_by_name(column::DATA).and_then(|c| c.as_binary_opt::<i32>()).ok_or_else(gone)?;
    match data.is_valid(0) {
        true => Ok(Bytes::copy_from_slice(data.value(0))),
        false => Err(gone()),
    }
}
