//! The sparse tiles of a result, in memory while there is room and on disk from then on, until all have come and their rows
//! can be put together.

use crate::error::ExecuteError;
use crate::panels::Panels;
use crate::spill::{Aside, Spill};
use crate::tile::{Rows, SparseTile};
use lacus_algebra::Tiles;
use lacus_tensor::{DType, Shape};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Room that all results of a run share.
pub(crate) struct SpoolRoom {
    /// Bytes in memory now, and at most.
    held: AtomicU64,
    most: u64,
    spill: Spill,
}

impl SpoolRoom {
    pub(crate) fn new(most: u64, spill: Spill) -> SpoolRoom {
        SpoolRoom { held: AtomicU64::new(0), most, spill }
    }
}

/// The tiles of one result.
pub(crate) struct Spool {
    tiles: Tiles,
    dtype: DType,
    room: Arc<SpoolRoom>,
    kept: Mutex<BTreeMap<u32, Kept>>,
}

#[derive(Clone)]
enum Kept {
    Here(SparseTile, u64),
    Aside(Aside),
}

impl Spool {
    pub(crate) fn new(tiles: Tiles, dtype: DType, room: &Arc<SpoolRoom>) -> Spool {
        Spool { tiles, dtype, room: Arc::clone(room), kept: Mutex::default() }
    }

    /// The type of the elements.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// How the matrix is cut.
    pub(crate) fn tiles(&self) -> &Tiles {
        &self.tiles
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<u32, Kept>> {
        self.kept.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes a tile, in place of the one that was there.
    pub(crate) fn put(&self, number: u32, tile: &SparseTile) -> Result<(), ExecuteError> {
        self.forget(self.kept().remove(&number));
        let bytes = tile.size_bytes();
        let room = &*self.room;
        let fits = room.held.fetch_add(bytes, Ordering::Relaxed) + bytes <= room.most;
        let kept = if fits {
            Kept::Here(tile.clone(), bytes)
        } else {
            room.held.fetch_sub(bytes, Ordering::Relaxed);
            Kept::Aside(room.spill.put_sparse(tile)?)
        };
        self.kept().insert(number, kept);
        Ok(())
    }

    fn forget(&self, kept: Option<Kept>) {
        match kept {
            Some(Kept::Here(_, bytes)) => {
                self.room.held.fetch_sub(bytes, Ordering::Relaxed);
            }
            Some(Kept::Aside(aside)) => self.room.spill.remove(aside),
            None => {}
        }
    }

    /// The nonzeros of every row of the matrix.
    pub(crate) fn counts(&self) -> Result<Vec<u32>, ExecuteError> {
        let mut counts = vec![0; self.tiles.dims[0] as usize];
        for (&number, kept) in &*self.kept() {
            let first = self.tiles.coordinates(number as usize)[0] * self.tiles.blocks[0];
            let starts = match kept {
                Kept::Here(tile, _) => tile.starts().to_vec(),
                Kept::Aside(aside) => self.room.spill.starts(aside)?,
            };
            for (count, ends) in counts[first as usize..].iter_mut().zip(starts.windows(2)) {
                *count += (ends[1] - ends[0]) as u32;
            }
        }
        Ok(counts)
    }

    /// Bytes of the tiles that are in memory.
    pub(crate) fn held(&self) -> u64 {
        let of = |kept: &Kept| if let Kept::Here(_, bytes) = kept { *bytes } else { 0 };
        self.kept().values().map(of).sum()
    }

    /// The rows of some tiles side by side.
    fn rows(&self, band: u64, rows: Range<usize>) -> Result<Vec<Rows>, ExecuteError> {
        let across = self.tiles.counts[1];
        let mut all = Vec::with_capacity(across as usize);
        for at in band * across..(band + 1) * across {
            let kept = self.kept().get(&(at as u32)).cloned();
            all.push(match kept {
                Some(Kept::Here(tile, _)) => tile.rows(rows.clone()),
                Some(Kept::Aside(aside)) => self.room.spill.rows(&aside, rows.clone())?,
                None => Rows { starts: vec![0; rows.len() + 1], columns: Vec::new(), values: Vec::new() },
            });
        }
        Ok(all)
    }
}

/// A result whose tiles have all come.
pub(crate) struct Spooled<'a> {
    pub(crate) spool: &'a Spool,
    pub(crate) shape: Shape,
    pub(crate) panels: Vec<(Range<usize>, usize)>,
}

impl Panels for Spooled<'_> {
    fn dtype(&self) -> DType {
        self.spool.dtype
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn panels(&self) -> &[(Range<usize>, usize)] {
        &self.panels
    }

    fn fill(
        &self,
        panel: usize,
        [rows, columns]: [&mut [i64]; 2],
        values: &mut [u8],
    ) -> Result<(), ExecuteError> {
        let wanted = self.panels[panel].0.clone();
        let tiles = &self.spool.tiles;
        let (height, width) = (tiles.blocks[0] as usize, tiles.blocks[1] as i64);
        let size = self.spool.dtype.size_bytes();
        let (mut first, mut at) = (wanted.start, 0);
        while first < wanted.end {
            let band = first / height;
            let last = wanted.end.min((band + 1) * height);
            let parts = self.spool.rows(band as u64, first - band * height..last - band * height)?;
            for row in 0..last - first {
                for (part, left) in parts.iter().zip((0..).step_by(width as usize)) {
                    let (from, to) = (part.starts[row], part.starts[row + 1]);
                    let count = to - from;
                    rows[at..at + count].fill((first + row) as i64);
                    let own = columns[at..at + count].iter_mut().zip(&part.columns[from..to]);
                    own.for_each(|(column, &found)| *column = left as i64 + i64::from(found));
                    values[at * size..(at + count) * size]
                        .copy_from_slice(&part.values[from * size..to * size]);
                    at += count;
                }
            }
            first = last;
        }
        Ok(())
    }
}
