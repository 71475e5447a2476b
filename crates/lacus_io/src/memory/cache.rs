//! What was learned of immutable objects, as much as the budget allows: what was not used for longest
//! goes first.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// Once something has to go, this part more goes with it, so that not every entry that comes looks at all
/// that are there.
const SLACK: u64 = 16;

/// What an entry takes besides its value and its name.
const ENTRY_BYTES: u64 = 128;

#[derive(Debug)]
pub(crate) struct Cache {
    limit: AtomicU64,
    held: RwLock<Held>,
    /// Counts uses: the greater, the later.
    now: AtomicU64,
    loads: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    places: HashMap<u64, HashMap<TypeId, HashMap<String, Entry>>>,
    bytes: u64,
}

#[derive(Debug)]
struct Entry {
    value: Arc<dyn Any + Send + Sync>,
    bytes: u64,
    used: AtomicU64,
}

impl Cache {
    pub(crate) fn new(limit: u64) -> Cache {
        Cache {
            limit: AtomicU64::new(limit),
            held: RwLock::default(),
            now: AtomicU64::new(0),
            loads: AtomicU64::new(0),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.shrink(&mut self.held_mut());
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.held.read().unwrap_or_else(PoisonError::into_inner).bytes
    }

    pub(crate) fn loads(&self) -> u64 {
        self.loads.load(Ordering::Relaxed)
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self, place: u64, name: &str) -> Option<Arc<T>> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let entry = held.places.get(&place)?.get(&TypeId::of::<T>())?.get(name)?;
        entry.used.store(self.now.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Arc::clone(&entry.value).downcast().ok()
    }

    /// Keeps a value that takes `bytes`, unless that alone is more than there may be.
    pub(crate) fn put<T: Send + Sync + 'static>(&self, place: u64, name: String, value: Arc<T>, bytes: u64) {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let bytes = bytes.saturating_add(name.len() as u64 + ENTRY_BYTES);
        if bytes > self.limit() {
            return;
        }
        let used = AtomicU64::new(self.now.fetch_add(1, Ordering::Relaxed));
        let mut held = self.held_mut();
        let entries = held.places.entry(place).or_default().entry(TypeId::of::<T>()).or_default();
        let before = entries.insert(name, Entry { value, bytes, used });
        held.bytes = held.bytes + bytes - before.map_or(0, |before| before.bytes);
        self.shrink(&mut held);
    }

    /// Forgets one value.
    pub(crate) fn remove<T: Send + Sync + 'static>(&self, place: u64, name: &str) {
        let mut held = self.held_mut();
        let entries = held.places.get_mut(&place).and_then(|kinds| kinds.get_mut(&TypeId::of::<T>()));
        let gone = entries.and_then(|entries| entries.remove(name));
        held.bytes -= gone.as_ref().map_or(0, |entry| entry.bytes);
        drop(held);
        // Its value is dropped without the lock.
        drop(gone);
    }

    /// Forgets everything of a place.
    pub(crate) fn forget(&self, place: u64) {
        let mut held = self.held_mut();
        let Some(kinds) = held.places.remove(&place) else { return };
        let freed: u64 = kinds.values().flat_map(HashMap::values).map(|entry| entry.bytes).sum();
        held.bytes -= freed;
        drop(held);
        // Whatever is in it is dropped without the lock.
        drop(kinds);
    }

    fn shrink(&self, held: &mut Held) {
        let limit = self.limit();
        if held.bytes <= limit {
            return;
        }
        let least = limit - limit / SLACK;
        let all = held.places.values().flat_map(HashMap::values).flat_map(HashMap::values);
        let mut uses: Vec<(u64, u64)> =
            all.map(|entry| (entry.used.load(Ordering::Relaxed), entry.bytes)).collect();
        uses.sort_unstable();
        // Everything that was used before this moment goes.
        let (mut left, mut moment) = (held.bytes, 0);
        for (used, bytes) in uses {
            if left <= least {
                break;
            }
            left -= bytes;
            moment = used + 1;
        }
        for kinds in held.places.values_mut() {
            for entries in kinds.values_mut() {
                entries.retain(|_, entry| entry.used.load(Ordering::Relaxed) >= moment);
            }
        }
        held.bytes = left;
    }

    fn held_mut(&self) -> RwLockWriteGuard<'_, Held> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cache: &Cache) -> Vec<&'static str> {
        ["a", "b", "c", "d"].into_iter().filter(|name| cache.held_has(name)).collect()
    }

    impl Cache {
        fn held_has(&self, name: &str) -> bool {
            let held = self.held.read().unwrap();
            held.places.values().flat_map(HashMap::values).any(|entries| entries.contains_key(name))
        }
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let each = 1000;
        let cache = Cache::new(3 * (each + ENTRY_BYTES + 1));
        let put = |place, name: &str| cache.put(place, name.to_owned(), Arc::new(7u32), each);
        put(1, "a");
        put(1, "b");
        put(2, "c");
        assert_eq!(names(&cache), ["a", "b", "c"]);
        assert_eq!(cache.get::<u32>(1, "a").as_deref(), Some(&7));
        assert_eq!(cache.get::<u64>(1, "a"), None, "of another type");
        assert_eq!(cache.get::<u32>(2, "a"), None, "of another place");
        // One goes for room, and one more as the slack is less than an entry.
        put(2, "d");
        assert_eq!(names(&cache), ["a", "d"]);
        assert_eq!((cache.bytes(), cache.loads()), (2 * (each + ENTRY_BYTES + 1), 4));
        put(2, "d");
        assert_eq!(cache.bytes(), 2 * (each + ENTRY_BYTES + 1), "in place of the old one");
        cache.remove::<u64>(2, "d");
        cache.remove::<u32>(1, "d");
        assert_eq!(names(&cache), ["a", "d"], "of another type, of another place");
        put(1, "a");
        cache.remove::<u32>(1, "a");
        assert_eq!((names(&cache), cache.bytes()), (vec!["d"], each + ENTRY_BYTES + 1));
        put(1, "a");
        cache.forget(1);
        assert_eq!(names(&cache), ["d"]);
        cache.put(1, "b".to_owned(), Arc::new(1u32), 1 << 40);
        assert_eq!(names(&cache), ["d"], "what is larger than everything is not kept");
        cache.set_limit(10);
        assert_eq!((names(&cache), cache.bytes()), (vec![], 0));
    }
}
