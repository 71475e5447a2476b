//! A few bytes that claim a lot must not make a reader allocate a lot.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use lacus_layout::{Codec, Coords, Header, Layout, Scratch, StoredChunk, Value, decode_sparse, read_sparse};
use lacus_tensor::{DType, ErrorKind, Selection, Shape};
use lacus_threads::Team;

use crate::support::{encode, sparse, sparse_header};

/// Remembers the largest allocation of each thread.
struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    // A thread that ends has no place to note it in.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: hands everything to the system's allocator and only looks at sizes.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        note(memory.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(memory) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, memory) }
    }
    unsafe fn alloc_zeroed(&self, memory: Memory) -> *mut u8 {
        note(memory.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(memory) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, memory: Memory, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, memory, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

const MOST: usize = 32 << 20;

fn header(nnz: u64, layout: Layout) -> Header {
    Header {
        dtype: DType::F64,
        shape: Shape::new(vec![1 << 31, 1 << 31]).unwrap(),
        layout,
        nnz: Some(nnz),
        compression: lacus_layout::Compression::None,
        reasons: vec![],
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[test]
fn claims_beyond_the_bytes() {
    let layouts = [
        Layout::CompressedRows { split: 1 },
        Layout::FiberTree { axis_order: vec![1, 0] },
        Layout::SparseBlocks { block_shape: vec![1 << 31, 1 << 31], axis_order: vec![0, 1] },
    ];
    for layout in layouts {
        let levels: u8 = if matches!(layout, Layout::SparseBlocks { .. }) { 1 } else { 2 };
        for nnz in [70_000, 1 << 30, 1 << 40, 1 << 60] {
            let header = header(nnz, layout.clone());
            // Frames of every encoding with all kinds of lengths behind a large claim.
            for filler in [
                &[0u8][..],
                &[0x20, 3, 4, 1, 0],
                &[0x22, 9, 4, 1, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                &[0x31, 40],
            ] {
                let mut bytes = vec![0x10 | (levels - 1)];
                bytes.extend(varint(nnz));
                if levels == 2 {
                    bytes.extend(varint(nnz / 2));
                }
                while bytes.len() < 60 {
                    bytes.extend(filler);
                }
                LARGEST.set(0);
                let coords = Coords::new(&[0, 0]).unwrap();
                let all = Selection::all(&header.shape);
                let chunk = StoredChunk { coords, codec: Codec::Packed, bytes: &bytes };
                let error = read_sparse(&header, &all, &[chunk], Team::alone()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                let error = decode_sparse(&header, &coords, Codec::Packed, &bytes, &all, &mut Scratch::new())
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(
                    LARGEST.get() < MOST,
                    "{} bytes allocated for {} stored ones",
                    LARGEST.get(),
                    bytes.len()
                );
            }
        }
    }
}

/// Every flipped bit of a small chunk that is packed very well.
#[test]
fn flips_of_a_well_packed_chunk() {
    let cells: Vec<u64> = (0..60_000).collect();
    let tensor = sparse(DType::F64, &[60, 1000], &cells, 0);
    for layout in [
        Layout::CompressedRows { split: 1 },
        Layout::SparseBlocks { block_shape: vec![60, 1000], axis_order: vec![1, 0] },
    ] {
        // A header that would allow far more than there is.
        let real = sparse_header(&tensor, layout);
        let row = encode(&real, Value::Sparse(&tensor)).remove(0);
        let shape = Shape::new(vec![60, 1000]).unwrap();
        let all = Selection::all(&shape);
        let head = row.bytes.len().min(200);
        for bit in 0..head * 8 {
            let mut bytes = row.bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            LARGEST.set(0);
            let _ = decode_sparse(&real, &row.coords, row.codec, &bytes, &all, &mut Scratch::new());
            assert!(LARGEST.get() < MOST, "bit {bit}: {} bytes", LARGEST.get());
        }
    }
}
