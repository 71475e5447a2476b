//! Packed arrays: the integers and values inside a packed chunk, in as few bytes as measurement allows.
//!
//! An array is cut into **frames** of at most [`FRAME_NUMBERS`] numbers. How many numbers an array has is
//! known from what precedes it, so an empty array takes no bytes. A frame is
//!
//! ```text
//! byte 0      low half: encoding    0 plain    bytes of the numbers, little-endian, byte-shuffled
//!                                   1 zstd     the same, as one zstd frame (RFC 8878)
//!                                   2 pco      one wrapped pco chunk with one page (pcodec format 4.1)
//!                                   3 varints  their length as a varint, one zstd frame of varints
//!             high half: number     0 u8   1 u16   2 u32   3 u64   4 f32   5 f64
//! varint      bytes that follow (LEB128)
//! bytes
//! ```
//!
//! Two ways of packing, because each wins by far on some tensors. Measured on the gaps between nonzeros of
//! two real tensors, in bytes per nonzero:
//!
//! | gaps | shuffle + zstd 1 | zstd 3 | pco 8 |
//! |---|---|---|---|
//! | pickups, day by day | 0.95 | 0.96 | **0.80** |
//! | pickups, place by place | 0.63 | 0.66 | **0.61** |
//! | flights, day by day | 0.90 | 0.90 | **0.84** |
//! | flights, route by route (a timetable repeats itself) | **0.29** | **0.29** | 0.44 |
//!
//! pco models the distribution of the numbers and codes it without loss to whole bits; zstd finds what
//! repeats. Which one is used is decided once per tensor on a sample ([`Plan`]).

mod reader;

mod frame;

mod arrays;
mod plan;

pub(crate) use frame::{Effort, Packer, Plan};
pub(crate) use reader::{Reader, write_varint};

#[cfg(test)]
mod tests;
