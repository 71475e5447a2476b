//! How much memory decoders ask for. A tensor's own large buffers are mapped and not counted here; they are
//! what [`lacus_media::Limits`] bound.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Notes the largest allocation of a thread.
struct Counting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What `work` asked for at once, at most.
pub(crate) fn largest_allocation(work: impl FnOnce()) -> usize {
    LARGEST.set(0);
    work();
    LARGEST.get()
}
