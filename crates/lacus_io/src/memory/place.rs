//! One dataset, as all its handles in this process know it: what they cache, they share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::memory::Memory;

/// Caches of what is immutable in one place, shared by all stores that were opened there with the same
/// options. Once the last of them is gone, so is what was cached: a dataset that is made again at the same
/// URL never sees it.
pub struct Place {
    memory: Memory,
    number: u64,
    /// What tells places apart. It may hold credentials: never shown.
    identity: Option<String>,
}

/// The places that are in use.
#[derive(Default)]
pub(crate) struct Places {
    known: Mutex<HashMap<String, Weak<Place>>>,
    next: AtomicU64,
}

impl Memory {
    /// The place with this identity.
    pub(crate) fn place(&self, identity: &str) -> Arc<Place> {
        let mut known = self.shared().places.known.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(place) = known.get(identity).and_then(Weak::upgrade) {
            return place;
        }
        let place = Arc::new(self.new_place(Some(identity.to_owned())));
        known.insert(identity.to_owned(), Arc::downgrade(&place));
        place
    }

    /// A place that is shared by clones of one store only.
    pub(crate) fn own_place(&self) -> Arc<Place> {
        Arc::new(self.new_place(None))
    }

    fn new_place(&self, identity: Option<String>) -> Place {
        let number = self.shared().places.next.fetch_add(1, Ordering::Relaxed);
        Place { memory: self.clone(), number, identity }
    }
}

impl Place {
    /// The budget that what is cached here is part of.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What was cached under a name and type.
    pub fn get<T: Send + Sync + 'static>(&self, name: &str) -> Option<Arc<T>> {
        self.memory.shared().cache.get(self.number, name)
    }

    /// Keeps a value that takes about `bytes`, as long as there is room.
    pub fn put<T: Send + Sync + 'static>(&self, name: String, value: Arc<T>, bytes: u64) {
        self.memory.shared().cache.put(self.number, name, value, bytes);
    }

    /// Forgets the value of one name and type.
    pub fn remove<T: Send + Sync + 'static>(&self, name: &str) {
        self.memory.shared().cache.remove::<T>(self.number, name);
    }

    /// Forgets everything: what was here is gone.
    pub fn forget(&self) {
        self.memory.shared().cache.forget(self.number);
    }

    pub(crate) fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.forget();
        let Some(identity) = &self.identity else { return };
        let mut known = self.memory.shared().places.known.lock().unwrap_or_else(|e| e.into_inner());
        // Somebody may have come back meanwhile.
        if known.get(identity).is_some_and(|place| place.strong_count() == 0) {
            known.remove(identity);
        }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_lasts_as_long_as_somebody_is_there() {
        let memory = Memory::new(1 << 20);
        let one = memory.place("here");
        one.put("x".to_owned(), Arc::new(5u8), 10);
        let two = memory.place("here");
        assert_eq!(two.get::<u8>("x").as_deref(), Some(&5));
        assert_eq!(memory.place("there").get::<u8>("x"), None);
        assert_eq!(memory.own_place().get::<u8>("x"), None);
        drop(one);
        assert_eq!(two.get::<u8>("x").as_deref(), Some(&5));
        drop(two);
        assert_eq!(memory.cached(), 0);
        assert_eq!(memory.place("here").get::<u8>("x"), None);
        assert!(memory.shared().places.known.lock().unwrap().is_empty());
    }
}
