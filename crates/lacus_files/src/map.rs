//! A file as a slice of memory. The crate's only `unsafe` file.
//!
//! Dense tensors are not read when they are opened: their bytes are the file's own pages, and an input
//! larger than memory streams through the page cache while it is used.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::error::Fault;

/// The bytes of a file, mapped read-only.
#[derive(Debug)]
pub(crate) struct Map {
    pages: Option<Mmap>,
}

impl Map {
    pub(crate) fn open(path: &Path) -> Result<Map, Fault> {
        let file = File::open(path).map_err(Fault::io("open"))?;
        let facts = file.metadata().map_err(Fault::io("open"))?;
        if !facts.is_file() {
            return Err(Fault::unsupported("not a regular file"));
        }
        if facts.len() == 0 {
            return Ok(Map { pages: None });
        }
        // SAFETY: the map is private and read-only, and only ever seen as bytes, for which every
        // pattern is valid. Somebody who changes the file meanwhile changes values that are read; one
        // who truncates it ends this process by a bus error, which no lock that other programs respect
        // could prevent. `crate::open` documents both.
        let pages = unsafe { Mmap::map(&file) }.map_err(Fault::io("map"))?;
        Ok(Map { pages: Some(pages) })
    }

    /// A map of nothing, for formats whose values are owned.
    pub(crate) fn empty() -> Map {
        Map { pages: None }
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pages.as_deref().unwrap_or_default()
    }
}
