//! Freed memory that waits for its next use: one pool per process, bounded in bytes, oldest out first.

use super::{MAPPED_BYTES, Memory, capacity_for};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};

/// Freed memory, oldest first. A `Vec` searched from its end: there are at most a thousand.
struct Pool {
    free: Vec<Memory>,
    bytes: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), bytes: 0 });
static POOL_LIMIT: AtomicUsize = AtomicUsize::new(256 << 20);

/// The most bytes the pool keeps for reuse.
pub fn pool_limit_bytes() -> usize {
    POOL_LIMIT.load(Ordering::Relaxed)
}

/// Sets the most bytes the pool keeps, and frees what is above. 0 switches the pool off.
pub fn set_pool_limit_bytes(bytes: usize) {
    POOL_LIMIT.store(bytes, Ordering::Relaxed);
    with_pool(|pool| pool.make_room(0));
}

/// Limits in force for a while, see [`PoolCap`].
static CAPS: Mutex<Vec<(u64, usize)>> = Mutex::new(Vec::new());
static NEXT_CAP: AtomicU64 = AtomicU64::new(0);
/// The least of the limits.
static CAPPED: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Keeps the pool below so many bytes for as long as it lives. Of several the least counts.
#[derive(Debug)]
pub struct PoolCap(u64);

impl PoolCap {
    /// Frees what is above.
    pub fn new(bytes: usize) -> PoolCap {
        let id = NEXT_CAP.fetch_add(1, Ordering::Relaxed);
        change_caps(|caps| caps.push((id, bytes)));
        with_pool(|pool| pool.make_room(0));
        PoolCap(id)
    }
}

impl Drop for PoolCap {
    fn drop(&mut self) {
        change_caps(|caps| caps.retain(|(id, _)| *id != self.0));
    }
}

fn change_caps(change: impl FnOnce(&mut Vec<(u64, usize)>)) {
    let mut caps = CAPS.lock().unwrap_or_else(|e| e.into_inner());
    change(&mut caps);
    CAPPED.store(caps.iter().map(|(_, bytes)| *bytes).min().unwrap_or(usize::MAX), Ordering::Relaxed);
}

/// What the pool may keep now.
fn limit_now() -> usize {
    pool_limit_bytes().min(CAPPED.load(Ordering::Relaxed))
}

impl Pool {
    /// Takes out the oldest until `bytes` more fit under the limit.
    fn make_room(&mut self, bytes: usize) -> Vec<Memory> {
        let limit = limit_now();
        let mut surplus = self.bytes.saturating_add(bytes).saturating_sub(limit);
        let mut count = 0;
        while surplus > 0 && count < self.free.len() {
            surplus = surplus.saturating_sub(self.free[count].capacity);
            self.bytes -= self.free[count].capacity;
            count += 1;
        }
        self.free.drain(..count).collect()
    }
}

/// Runs `change` on the pool and releases what it took out, after the lock is given back. Does
/// nothing when somebody else holds the lock: waiting would cost more than an allocation, and after
/// a fork the holder may not exist.
fn with_pool(change: impl FnOnce(&mut Pool) -> Vec<Memory>) -> bool {
    let surplus = match POOL.try_lock() {
        Ok(mut pool) => change(&mut pool),
        Err(TryLockError::Poisoned(poisoned)) => change(&mut poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => return false,
    };
    surplus.into_iter().for_each(Memory::release);
    true
}

/// Memory for `len` bytes, if some is free.
pub(super) fn take(len: usize) -> Option<Memory> {
    if len < MAPPED_BYTES {
        return None;
    }
    let wanted = capacity_for(len)?;
    let mut found = None;
    with_pool(|pool| {
        // A little larger will do, so that sizes next to each other share.
        let fits = |memory: &Memory| memory.capacity >= wanted && memory.capacity - wanted <= wanted / 4;
        if let Some(place) = pool.free.iter().rposition(fits) {
            let memory = pool.free.remove(place);
            pool.bytes -= memory.capacity;
            found = Some(memory);
        }
        Vec::new()
    });
    found
}

/// Gives all free memory back to the system. False if there was none.
pub(super) fn empty() -> bool {
    let mut had_some = false;
    with_pool(|pool| {
        had_some = pool.bytes > 0;
        pool.bytes = 0;
        std::mem::take(&mut pool.free)
    });
    had_some
}

/// Keeps memory for reuse, or releases it.
pub(super) fn give(memory: Memory) {
    let mut memory = Some(memory);
    with_pool(|pool| {
        let Some(given) = memory.take_if(|memory| memory.capacity <= limit_now()) else {
            return Vec::new();
        };
        let surplus = pool.make_room(given.capacity);
        pool.bytes += given.capacity;
        pool.free.push(given);
        surplus
    });
    if let Some(memory) = memory {
        memory.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;

    // One test, because tests of one process share the pool.
    #[test]
    fn the_pool_reuses_up_to_its_limit_and_zeroes_what_must_be_zero() {
        let len = 77 << 20;
        let mut first = Buffer::for_overwrite(len);
        first.fill(9);
        let place = first.as_ptr();
        drop(first);
        let second = Buffer::for_overwrite(len - 5);
        // Another test may hold the lock for a moment; then the memory is fresh.
        assert!(second[0] == 9 && second.as_ptr() == place || second[0] == 0);
        drop(second);
        let third = Buffer::zeroed(len);
        assert!(third.iter().all(|&byte| byte == 0));
        drop(third);
        set_pool_limit_bytes(1 << 20);
        assert_eq!(pool_limit_bytes(), 1 << 20);
        drop(Buffer::zeroed(2 << 20));
        let kept = POOL.lock().unwrap().bytes;
        assert!(kept <= 1 << 20);
        set_pool_limit_bytes(256 << 20);
        drop(Buffer::zeroed(2 << 20));
        {
            let (_wide, _narrow) = (PoolCap::new(64 << 20), PoolCap::new(1 << 20));
            assert_eq!((limit_now(), pool_limit_bytes()), (1 << 20, 256 << 20));
            assert!(POOL.lock().unwrap().bytes <= 1 << 20);
        }
        assert_eq!(limit_now(), 256 << 20);
        set_pool_limit_bytes(256 << 20);
    }
}
