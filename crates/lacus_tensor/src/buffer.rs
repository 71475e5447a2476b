//! Aligned, reusable memory. The only file of this crate that allocates by hand.
//!
//! A fresh large allocation costs three to five times the read into it, because the kernel zeroes
//! and maps each page on first touch. So buffers of 256 KiB or more go back to a process-wide pool
//! when they are dropped, and come from it when one is asked for.
//!
//! ```
//! use lacus_tensor::Buffer;
//! let mut buffer = Buffer::zeroed(16);
//! buffer.cast_mut::<u32>()[1] = 7;
//! assert_eq!(buffer.cast::<u32>(), [0, 7, 0, 0]);
//! ```

mod available;
mod pool;

use crate::error::TensorError;
use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

pub use available::available_bytes;
pub use pool::{PoolCap, pool_limit_bytes, set_pool_limit_bytes};

/// Alignment of every buffer: a cache line, enough for any vector instruction.
const SMALL_ALIGN: usize = 64;
/// From this size on memory is mapped from the kernel (so aligned to a page, which direct I/O needs)
/// and pooled. Below it the allocator's own free lists are fast.
const MAPPED_BYTES: usize = 256 << 10;
/// From this size on it is looked whether there is so much memory: that takes a tenth of a millisecond, and clearing the pages
/// a hundred times as long.
const LARGE_BYTES: usize = 256 << 20;
/// A page.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 4096;
/// A huge page. Mappings at least this long are aligned to it and ask for huge pages: 512 times fewer faults.
const HUGE_BYTES: usize = 2 << 20;

/// Owned bytes, aligned to 64 (to a page from 256 KiB on), from the pool where possible.
pub struct Buffer {
    memory: Memory,
    len: usize,
}

/// Types a [`Buffer`] can be looked at as: plain numbers, for which every bit pattern is a value.
///
/// # Safety
/// Implementors have no padding, no invalid bit patterns and an alignment of at most 64.
pub unsafe trait Element: sealed::Sealed + Copy + 'static {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}
        // SAFETY: a primitive number: no padding, all bits valid, alignment at most 16.
        unsafe impl Element for $type {}
    )*};
}
element!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// Unwinds with an error that whoever called hands on. It is no fault of the program, so nothing is printed: a backtrace would read the
/// debug information of the whole library, for which there is no memory now.
fn refused(error: TensorError) -> Buffer {
    std::panic::resume_unwind(Box::new(error))
}

impl Buffer {
    /// `len` zero bytes.
    ///
    /// # Panics
    /// When there is no memory, with the [`TensorError`] that [`Buffer::try_zeroed`] returns.
    pub fn zeroed(len: usize) -> Buffer {
        Buffer::try_zeroed(len).unwrap_or_else(refused)
    }

    /// `len` bytes of initialised but arbitrary contents, for a caller who writes all of them.
    ///
    /// # Panics
    /// When there is no memory, with the [`TensorError`] that [`Buffer::try_for_overwrite`] returns.
    pub fn for_overwrite(len: usize) -> Buffer {
        Buffer::try_for_overwrite(len).unwrap_or_else(refused)
    }

    /// [`Buffer::zeroed`] for lengths that come from data: fails when there is no memory.
    pub fn try_zeroed(len: usize) -> Result<Buffer, TensorError> {
        if let Some(memory) = pool::take(len) {
            let mut buffer = Buffer { memory, len };
            buffer.fill(0);
            return Ok(buffer);
        }
        Memory::fresh(len).map(|memory| Buffer { memory, len })
    }

    /// [`Buffer::for_overwrite`] for lengths that come from data: fails when there is no memory.
    pub fn try_for_overwrite(len: usize) -> Result<Buffer, TensorError> {
        match pool::take(len) {
            Some(memory) => Ok(Buffer { memory, len }),
            None => Memory::fresh(len).map(|memory| Buffer { memory, len }),
        }
    }

    /// A copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::for_overwrite(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// A copy of numbers, in the machine's byte order.
    pub fn from_elements<T: Element>(values: &[T]) -> Buffer {
        let mut buffer = Buffer::for_overwrite(size_of_val(values));
        buffer.cast_mut::<T>().copy_from_slice(values);
        buffer
    }

    /// Bytes held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keeps the first `len` bytes; does nothing when there are no more than that.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Has the system give all pages of a part of a buffer now, instead of each when it is first written, which throws out
    /// of the caches what the writer has there.
    pub fn populate(part: &mut [u8]) {
        #[cfg(target_os = "linux")]
        {
            let start = part.as_ptr().align_offset(PAGE_BYTES).min(part.len());
            let pages = &mut part[start..];
            let len = pages.len() / PAGE_BYTES * PAGE_BYTES;
            // SAFETY: whole pages of memory that the caller may write; what is in them stays. Where it cannot be done
            // (before Linux 5.14) pages come when they are written.
            unsafe { libc::madvise(pages.as_mut_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = part;
    }

    /// The first byte. Valid (and stable) for as long as the buffer lives.
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.start.as_ptr()
    }

    /// The first byte, for writing.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.start.as_ptr()
    }

    /// The bytes as numbers in the machine's byte order. Bytes at the end that fill no whole number are left
    /// out.
    pub fn cast<T: Element>(&self) -> &[T] {
        // SAFETY: the memory is initialised, aligned to 64 and `len` long; T takes any bits.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len / size_of::<T>()) }
    }

    /// [`Buffer::cast`] for writing.
    pub fn cast_mut<T: Element>(&mut self) -> &mut [T] {
        // SAFETY: as in `cast`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.len / size_of::<T>()) }
    }
}

/// Numbers as bytes, in the machine's order.
pub fn bytes_of<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: elements have no padding, and bytes any alignment.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The elements that bytes are, if they lie as the machine wants them and are whole elements.
pub fn elements_of<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: elements take any bits.
    let (before, elements, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(elements)
}

/// [`bytes_of`] for writing.
pub fn bytes_of_mut<T: Element>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; elements take any bits, and `values` is borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.cast()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.cast_mut()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        Buffer::from_slice(self)
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Buffer) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::zeroed(0)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// One allocation: initialised memory of `capacity` bytes at `start`.
struct Memory {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: `Memory` owns its bytes and hands out references only through `Buffer`'s borrows.
unsafe impl Send for Memory {}
// SAFETY: shared access only reads.
unsafe impl Sync for Memory {}

impl Memory {
    /// New zeroed memory for `len` bytes.
    fn fresh(len: usize) -> Result<Memory, TensorError> {
        let refused =
            |available| TensorError::OutOfMemory { what: "a buffer".to_owned(), bytes: len, available };
        let capacity = capacity_for(len).ok_or_else(|| refused(available_bytes()))?;
        // Linux promises more than it has, and kills who takes it at its word: look first.
        if len >= LARGE_BYTES
            && let Some(available) = available_bytes().filter(|&available| len as u64 > available)
        {
            return Err(refused(Some(available)));
        }
        let start = if capacity == 0 {
            NonNull::new(std::ptr::without_provenance_mut(SMALL_ALIGN))
        } else if capacity < MAPPED_BYTES {
            // SAFETY: the layout is not of size zero.
            NonNull::new(unsafe { alloc::alloc_zeroed(small_layout(capacity)) })
        } else {
            // Memory that waits for its next use is no reason to refuse somebody who needs some now.
            map_zeroed(capacity).or_else(|| pool::empty().then(|| map_zeroed(capacity))?)
        };
        start.map(|start| Memory { start, capacity }).ok_or_else(|| refused(None))
    }

    fn release(self) {
        match self.capacity {
            0 => {}
            // SAFETY: allocated by `fresh` with the same layout, and given up here.
            1..MAPPED_BYTES => unsafe { alloc::dealloc(self.start.as_ptr(), small_layout(self.capacity)) },
            MAPPED_BYTES.. => unmap(self.start, self.capacity),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = Memory { start: self.memory.start, capacity: self.memory.capacity };
        if memory.capacity < MAPPED_BYTES { memory.release() } else { pool::give(memory) }
    }
}

/// The room made for `len` bytes: eight sizes per power of two for large ones, so that buffers of about the
/// same length can take each other's place. The room at the end is never touched, so it costs no memory.
fn capacity_for(len: usize) -> Option<usize> {
    if len < MAPPED_BYTES {
        return Some(len);
    }
    let step = (len.checked_next_power_of_two()? / 16).max(64 << 10);
    len.checked_next_multiple_of(step).filter(|&capacity| capacity <= isize::MAX as usize - HUGE_BYTES)
}

fn small_layout(capacity: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and small capacities do not overflow when rounded up to it.
    unsafe { Layout::from_size_align_unchecked(capacity, SMALL_ALIGN) }
}

/// Zero pages from the kernel, aligned to a huge page when at least that long.
#[cfg(unix)]
fn map_zeroed(capacity: usize) -> Option<NonNull<u8>> {
    let slack = if capacity >= HUGE_BYTES { HUGE_BYTES } else { 0 };
    // SAFETY: an anonymous private mapping at an address of the kernel's choice touches nothing of ours.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            capacity + slack,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    if slack == 0 {
        return NonNull::new(mapped.cast());
    }
    let head = (mapped as usize).next_multiple_of(HUGE_BYTES) - mapped as usize;
    // SAFETY: head <= slack, so `start` and the two trimmed ends lie inside of the mapping just made;
    // all three lengths are multiples of the page size, as `capacity` and HUGE_BYTES are.
    unsafe {
        let start = mapped.byte_add(head);
        if head > 0 {
            libc::munmap(mapped, head);
        }
        if slack > head {
            libc::munmap(start.byte_add(capacity), slack - head);
        }
        #[cfg(target_os = "linux")]
        libc::madvise(start, capacity, libc::MADV_HUGEPAGE);
        NonNull::new(start.cast())
    }
}

#[cfg(unix)]
fn unmap(start: NonNull<u8>, capacity: usize) {
    // SAFETY: `start` was mapped with this length by `map_zeroed` and nobody refers to it any more.
    unsafe { libc::munmap(start.as_ptr().cast(), capacity) };
}

#[cfg(not(unix))]
fn map_zeroed(capacity: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(capacity, 4096).ok()?;
    // SAFETY: mapped capacities are not zero.
    NonNull::new(unsafe { alloc::alloc_zeroed(layout) })
}

#[cfg(not(unix))]
fn unmap(start: NonNull<u8>, capacity: usize) {
    // SAFETY: allocated by `map_zeroed` with this size and alignment.
    unsafe { alloc::dealloc(start.as_ptr(), Layout::from_size_align_unchecked(capacity, 4096)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_alignment() {
        for len in [0, 1, 63, 4096, MAPPED_BYTES - 1, MAPPED_BYTES, HUGE_BYTES - 1, HUGE_BYTES, 5_000_001] {
            let buffer = Buffer::zeroed(len);
            assert_eq!((buffer.len(), buffer.iter().all(|&byte| byte == 0)), (len, true));
            let align = if len >= MAPPED_BYTES { 4096 } else { SMALL_ALIGN };
            assert_eq!(buffer.as_ptr() as usize % align, 0, "{len}");
            assert_eq!(buffer.cast::<f64>().len(), len / 8);
        }
    }

    #[test]
    fn populating_changes_nothing() {
        let mut buffer = Buffer::zeroed(3 << 20);
        buffer[5000] = 7;
        for part in buffer.chunks_mut(1_000_001) {
            Buffer::populate(part);
        }
        Buffer::populate(&mut buffer[100..200]);
        Buffer::populate(&mut []);
        assert_eq!((buffer[5000], buffer.iter().map(|&byte| u32::from(byte)).sum::<u32>()), (7, 7));
    }

    #[test]
    fn capacities_hold_their_length_and_waste_little() {
        for len in [0, 5, MAPPED_BYTES, MAPPED_BYTES + 1, 1_000_000, 7_654_321, (1 << 40) + 1] {
            let capacity = capacity_for(len).unwrap();
            assert!(capacity >= len && capacity - len <= len / 4, "{len} → {capacity}");
            assert_eq!(capacity_for(capacity), Some(capacity));
        }
        assert_eq!(capacity_for(usize::MAX), None);
    }
}
