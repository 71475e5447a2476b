//! What is in memory, and what goes when room is needed: decisions only, nothing is moved here.
//!
//! Tiles that running units work with are pinned. All others are a cache: the one whose next use is farthest goes first,
//! which the order of units tells (Belady's rule).

use crate::spill::Aside;
use crate::tile::Tile;
use lacus_algebra::expr::Slot;
use std::collections::BTreeSet;

/// A tile of a run, by its number.
pub(crate) type TileId = usize;

/// Where a tile is.
#[derive(Debug)]
pub(crate) enum Place {
    /// Nowhere yet: a unit makes it, or it can be read where it is stored.
    Away,
    /// In memory.
    Here(Tile),
    /// Somebody brings it here, works on it or puts it aside.
    Busy,
    /// On disk.
    Aside,
}

/// What is known of a tile.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    /// Bytes it takes in memory; none if the memory is the caller's.
    pub(crate) bytes: u64,
    /// Where it is stored, so that it can be read again: the value that is loaded, and the tile of it.
    pub(crate) origin: Option<(Slot, u32)>,
    /// Its copy on disk, if there is one.
    pub(crate) aside: Option<Aside>,
    pins: u32,
    /// Where in the order it is used, and how many of these are over.
    uses: Vec<u32>,
    used: usize,
    /// Whether it outlives the units of now.
    pub(crate) keeps: u32,
}

/// No use among the units of now.
const LATER: u32 = u32::MAX;

impl Entry {
    pub(crate) fn new(place: Place, bytes: u64, origin: Option<(Slot, u32)>) -> Entry {
        Entry { place, bytes, origin, aside: None, pins: 0, uses: Vec::new(), used: 0, keeps: 0 }
    }

    fn next_use(&self) -> u32 {
        self.uses.get(self.used).copied().unwrap_or(LATER)
    }

    fn is_over(&self) -> bool {
        self.used >= self.uses.len() && self.keeps == 0
    }
}

/// All tiles of a run.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    entries: Vec<Option<Entry>>,
    free: Vec<TileId>,
    budget: u64,
    held: u64,
    pub(crate) peak: u64,
    /// What could go, by next use.
    idle: BTreeSet<(u32, TileId)>,
}

/// What to do for room.
#[derive(Debug)]
pub(crate) enum Room {
    /// There is room, and it is taken.
    Taken,
    /// A tile has to be written to disk first; call [`Memory::put_aside`] after that.
    Spill(TileId, Tile),
    /// Everything is in use. Something will be released.
    Wait,
}

impl Memory {
    pub(crate) fn new(budget: u64) -> Memory {
        Memory { budget, ..Memory::default() }
    }

    pub(crate) fn add(&mut self, entry: Entry) -> TileId {
        match self.free.pop() {
            Some(id) => {
                self.entries[id] = Some(entry);
                id
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        }
    }

    /// A tile. Panics if it is gone: a bug of ours.
    pub(crate) fn entry(&mut self, id: TileId) -> &mut Entry {
        match self.entries.get_mut(id).and_then(Option::as_mut) {
            Some(entry) => entry,
            None => panic!("tile {id} is gone"),
        }
    }

    /// True when a tile is stored, nowhere in memory, and nobody brings it. A tile that is gone is not away.
    pub(crate) fn can_be_read(&self, id: TileId) -> bool {
        let entry = self.entries.get(id).and_then(Option::as_ref);
        entry.is_some_and(|entry| matches!(entry.place, Place::Away) && entry.origin.is_some())
    }

    /// Bytes in memory.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Says where in the order of units to come a tile is used.
    pub(crate) fn plan_uses(&mut self, id: TileId, uses: Vec<u32>) {
        self.leave_idle(id);
        let entry = self.entry(id);
        (entry.uses, entry.used) = (uses, 0);
        self.enter_idle(id);
    }

    fn enter_idle(&mut self, id: TileId) {
        let entry = self.entry(id);
        if entry.pins == 0 && entry.bytes > 0 && matches!(entry.place, Place::Here(_)) {
            let next = entry.next_use();
            self.idle.insert((next, id));
        }
    }

    fn leave_idle(&mut self, id: TileId) {
        let next = self.entry(id).next_use();
        self.idle.remove(&(next, id));
    }

    /// Takes room for bytes that a unit at this place in the order needs; `is_urgent` if it is that unit's turn.
    pub(crate) fn take(&mut self, bytes: u64, position: u32, is_urgent: bool) -> Room {
        while self.held + bytes > self.budget {
            let Some(&(next, id)) = self.idle.last() else { return Room::Wait };
            if !is_urgent && next <= position {
                return Room::Wait;
            }
            self.idle.remove(&(next, id));
            let entry = self.entry(id);
            let Place::Here(tile) = std::mem::replace(&mut entry.place, Place::Busy) else { continue };
            if entry.origin.is_some() || entry.aside.is_some() {
                entry.place = if entry.aside.is_some() { Place::Aside } else { Place::Away };
                let freed = entry.bytes;
                self.held -= freed;
                continue;
            }
            return Room::Spill(id, tile);
        }
        self.held += bytes;
        self.peak = self.peak.max(self.held);
        Room::Taken
    }

    /// Takes room that is not there.
    pub(crate) fn take_anyway(&mut self, bytes: u64) {
        self.held += bytes;
        self.peak = self.peak.max(self.held);
    }

    /// A tile is on disk now.
    pub(crate) fn put_aside(&mut self, id: TileId, aside: Aside) {
        let entry = self.entry(id);
        entry.aside = Some(aside);
        entry.place = Place::Aside;
        let freed = entry.bytes;
        self.held -= freed;
    }

    /// A tile could not be written to disk: it stays.
    pub(crate) fn keep_here(&mut self, id: TileId, tile: Tile) {
        self.entry(id).place = Place::Here(tile);
        self.enter_idle(id);
    }

    /// Gives back room that was taken and not used.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.held -= bytes;
    }

    /// A tile has come, for which `taken` bytes of room were taken.
    pub(crate) fn arrive(&mut self, id: TileId, tile: Tile, taken: u64) {
        let entry = self.entry(id);
        // A window into memory of the caller takes none of ours; a sparse tile takes more or less than was expected.
        let bytes = if entry.bytes == 0 { 0 } else { tile.size_bytes() };
        entry.bytes = bytes;
        entry.place = Place::Here(tile);
        self.held = self.held + bytes - taken;
        self.peak = self.peak.max(self.held);
        self.enter_idle(id);
    }

    /// Pins a tile that is here, and hands it out.
    pub(crate) fn pin(&mut self, id: TileId) -> Option<Tile> {
        let Place::Here(tile) = &self.entry(id).place else { return None };
        let tile = tile.clone();
        self.leave_idle(id);
        self.entry(id).pins += 1;
        Some(tile)
    }

    /// Takes a tile out, to be worked on.
    pub(crate) fn take_out(&mut self, id: TileId) -> Option<Tile> {
        self.leave_idle(id);
        match std::mem::replace(&mut self.entry(id).place, Place::Busy) {
            Place::Here(tile) => Some(tile),
            other => {
                self.entry(id).place = other;
                None
            }
        }
    }

    /// Brings back a tile that was worked on. Returns its copy on disk, which is no longer what is here.
    pub(crate) fn bring_back(&mut self, id: TileId, tile: Tile) -> Option<Aside> {
        let taken = self.entry(id).bytes;
        let old = self.entry(id).aside.take();
        self.arrive(id, tile, taken);
        old
    }

    /// A unit has used a tile. Returns its copy on disk if it is gone for good.
    pub(crate) fn used(&mut self, id: TileId, was_pinned: bool) -> Option<Aside> {
        self.leave_idle(id);
        let entry = self.entry(id);
        entry.pins -= u32::from(was_pinned);
        entry.used += 1;
        self.drop_or_idle(id)
    }

    /// A tile is to outlive the units of now, or not any longer.
    pub(crate) fn keep(&mut self, id: TileId) {
        self.entry(id).keeps += 1;
    }

    pub(crate) fn release(&mut self, id: TileId) -> Option<Aside> {
        self.leave_idle(id);
        self.entry(id).keeps -= 1;
        self.drop_or_idle(id)
    }

    /// After the last use a tile is gone.
    fn drop_or_idle(&mut self, id: TileId) -> Option<Aside> {
        let entry = self.entry(id);
        if entry.pins > 0 || !entry.is_over() || matches!(entry.place, Place::Busy) {
            self.enter_idle(id);
            return None;
        }
        let held = if matches!(entry.place, Place::Here(_)) { entry.bytes } else { 0 };
        self.held -= held;
        let gone = self.entries[id].take();
        self.free.push(id);
        gone.and_then(|entry| entry.aside)
    }
}
