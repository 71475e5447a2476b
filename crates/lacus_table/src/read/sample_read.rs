//! Reads samples in three steps, so that a caller can overlap them: while one batch is decoded, the next is fetched.
//!
//! ```text
//! Samples ─plan→ SampleRead ─fetch→ FetchedSamples ─decode→ stored bytes, verified
//!          sync              async                  sync, on the pool
//! ```

use std::sync::Arc;

use bytes::Bytes;
use lacus_io::{Store, boxed};
use lacus_threads::Pool;

use crate::error::TableError;
use crate::read::samples::{Samples, TileRanges};

/// Which tiles of located samples to read, and which bytes that takes.
#[derive(Debug)]
pub struct SampleRead {
    store: Store,
    pool: Pool,
    samples: Arc<Samples>,
    tiles: Vec<usize>,
    ranges: TileRanges,
}

impl SampleRead {
    pub(crate) fn plan(
        store: &Store,
        pool: &Pool,
        samples: Arc<Samples>,
        tiles: Vec<usize>,
    ) -> Result<SampleRead, TableError> {
        let ranges = samples.ranges(&tiles)?;
        Ok(SampleRead { store: store.clone(), pool: pool.clone(), samples, tiles, ranges })
    }

    /// Stored bytes of the tiles, for callers that bound what they hold.
    pub fn bytes(&self) -> u64 {
        self.ranges.bytes()
    }

    /// Reads the bytes: one planned read. What is on its way is bounded by the store's budget; what has arrived is the
    /// caller's.
    #[boxed]
    pub async fn fetch(self) -> Result<FetchedSamples, TableError> {
        let SampleRead { store, pool, samples, tiles, ranges } = self;
        let bytes = samples.read_ranges(&store, &pool, &ranges).await?;
        Ok(FetchedSamples { pool, samples, tiles, bytes })
    }
}

/// The bytes of tiles as they came.
#[derive(Debug)]
pub struct FetchedSamples {
    pool: Pool,
    samples: Arc<Samples>,
    tiles: Vec<usize>,
    bytes: Vec<Bytes>,
}

impl FetchedSamples {
    /// What is known of the samples.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The tiles that were asked for, by number.
    pub fn tiles(&self) -> &[usize] {
        &self.tiles
    }

    /// The stored bytes of the tiles, in the order asked for. Fails with a corrupt error if some do not have their checksum.
    pub fn decode(self) -> Result<Vec<Bytes>, TableError> {
        self.verify()?;
        Ok(self.bytes)
    }

    /// The same, borrowed.
    pub fn verified(&self) -> Result<&[Bytes], TableError> {
        self.verify()?;
        Ok(&self.bytes)
    }

    /// The stored bytes of the tile that was asked for at a place among [`FetchedSamples::tiles`], for callers that decode tiles one by
    /// one and go on after a damaged one. Fails with a corrupt error if they do not have their checksum.
    pub fn verified_tile(&self, place: usize) -> Result<&Bytes, TableError> {
        let bytes = &self.bytes[place];
        self.samples.verify_tile(self.tiles[place], bytes)?;
        Ok(bytes)
    }

    fn verify(&self) -> Result<(), TableError> {
        self.samples.verify(&self.pool, &self.tiles, &self.bytes)
    }
}
