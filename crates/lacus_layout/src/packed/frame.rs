//! One frame: up to 65,536 numbers, plain, through zstd or through pco.

use pco::data_types::Number as PcoNumber;
use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DeltaSpec, ModeSpec};

use crate::compress::{Compression, DEFAULT_ZSTD_LEVEL, Zstd, shuffle, unshuffle};
use crate::error::LayoutError;
use crate::packed::reader::{Frame, Reader, bad, put_varints, write_varint};

/// Frames shorter than this are packed every way, the shortest result is kept.
pub(crate) const TRY_ALL_BELOW: usize = 512;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const PCO: u8 = 2;
pub(crate) const VARINTS: u8 = 3;

/// A number an array may hold.
pub(crate) trait Number: PcoNumber {
    const CODE: u8;
    const WIDTH: usize;
    fn put(numbers: &[Self], bytes: &mut [u8]);
    fn get(bytes: &[u8], numbers: &mut [Self]);
}

macro_rules! number {
    ($type:ty, $code:literal) => {
        impl Number for $type {
            const CODE: u8 = $code;
            const WIDTH: usize = size_of::<$type>();
            fn put(numbers: &[Self], bytes: &mut [u8]) {
                for (number, bytes) in numbers.iter().zip(bytes.as_chunks_mut().0) {
                    *bytes = number.to_le_bytes();
                }
            }
            fn get(bytes: &[u8], numbers: &mut [Self]) {
                for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
                    *number = <$type>::from_le_bytes(*bytes);
                }
            }
        }
    };
}

number!(u8, 0);
number!(u16, 1);
number!(u32, 2);
number!(u64, 3);
number!(f32, 4);
number!(f64, 5);

/// How the arrays of one kind are packed, decided on a sample of them.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// pco with this configuration.
    Pco(ChunkConfig),
    /// zstd after a byte shuffle.
    Zstd(Repeats),
    /// Integers of as few bytes as they take, through zstd. Elements are packed as by [`Plan::Zstd`].
    Varints(Repeats),
}

/// Whether zstd looks for what repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    Sought,
    /// Bytes are only coded by how often they occur. Measured on pickups, which hardly repeat: their counts
    /// take a third of the time, to write and to read, and a fifth less room; their gaps take a fifth less
    /// time to write, and the same room.
    Ignored,
}

/// How hard arrays are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Few bins: measured, a third less time for a fourteenth more bytes.
    Quick,
    /// Many bins.
    Small,
}

impl Effort {
    /// What a header's level of compression means for packed arrays.
    pub(crate) fn of(compression: Compression) -> Effort {
        match compression {
            Compression::Zstd { level } if level > DEFAULT_ZSTD_LEVEL => Effort::Small,
            _ => Effort::Quick,
        }
    }

    /// pco's level.
    fn level(self) -> usize {
        match self {
            Effort::Quick => 4,
            Effort::Small => 8,
        }
    }
}

impl Plan {
    /// The same for counts, which have no modes.
    pub(crate) fn for_counts(&self) -> Plan {
        match self {
            Plan::Pco(config) if config.compression_level > Effort::Quick.level() => {
                Plan::plain(Effort::Small)
            }
            Plan::Pco(_) => Plan::plain(Effort::Quick),
            Plan::Zstd(repeats) | Plan::Varints(repeats) => Plan::Zstd(*repeats),
        }
    }

    /// Numbers as they are.
    pub(crate) fn plain(effort: Effort) -> Plan {
        Plan::Pco(classic(effort))
    }
}

/// Numbers as they are: no modes, no differences.
pub(crate) fn classic(effort: Effort) -> ChunkConfig {
    ChunkConfig::default()
        .with_compression_level(effort.level())
        .with_mode_spec(ModeSpec::Classic)
        .with_delta_spec(DeltaSpec::NoOp)
        .with_enable_8_bit(true)
}

/// Packs arrays; keeps its buffers.
#[derive(Default)]
pub(crate) struct Packer {
    pub(crate) zstd: Zstd,
    plain: Vec<u8>,
    shuffled: Vec<u8>,
    squeezed: Vec<u8>,
    varints: Vec<u8>,
    pub(crate) narrow: Vec<u32>,
}

impl Packer {
    /// Appends one frame.
    pub(crate) fn write_frame<T: Number>(
        &mut self,
        numbers: &[T],
        plan: &Plan,
        out: &mut Vec<u8>,
    ) -> Result<(), LayoutError> {
        let plain_len = numbers.len() * T::WIDTH;
        let mut best = (PLAIN, plain_len);
        let try_all = numbers.len() < TRY_ALL_BELOW;
        self.squeezed.clear();
        // Neither packs a handful of bytes.
        if plain_len > 12 {
            let pco = match plan {
                Plan::Pco(config) => Some(config.clone()),
                _ => try_all.then(|| classic(Effort::Small)),
            };
            let is_pco = matches!(plan, Plan::Pco(_));
            if let Some(config) = pco {
                write_pco(numbers, &config, &mut self.squeezed)?;
                if self.squeezed.len() < best.1 {
                    best = (PCO, self.squeezed.len());
                }
            }
            if !is_pco || try_all {
                self.shuffle(numbers);
                match plan {
                    Plan::Zstd(Repeats::Ignored) | Plan::Varints(Repeats::Ignored) if !try_all => {
                        self.zstd.compress_by_counts(&self.shuffled, &mut self.plain)?;
                    }
                    _ => self.zstd.compress(&self.shuffled, 1, &mut self.plain)?,
                }
                if self.plain.len() < best.1 {
                    best = (ZSTD, self.plain.len());
                }
            }
        }
        out.push(best.0 | T::CODE << 4);
        write_varint(best.1 as u64, out);
        match best.0 {
            PCO => out.extend_from_slice(&self.squeezed),
            ZSTD => out.extend_from_slice(&self.plain),
            _ => {
                self.shuffle(numbers);
                out.extend_from_slice(&self.shuffled);
            }
        }
        Ok(())
    }

    /// Appends one frame of integers of as few bytes as they take.
    pub(crate) fn write_varints(
        &mut self,
        ints: &[u64],
        repeats: Repeats,
        out: &mut Vec<u8>,
    ) -> Result<(), LayoutError> {
        let end = put_varints(ints, &mut self.varints);
        let varints = &self.varints[..end];
        match repeats {
            Repeats::Sought => self.zstd.compress(varints, 1, &mut self.squeezed)?,
            Repeats::Ignored => self.zstd.compress_by_counts(varints, &mut self.squeezed)?,
        }
        let mut length = Vec::with_capacity(5);
        write_varint(end as u64, &mut length);
        out.push(VARINTS | u64::CODE << 4);
        write_varint((length.len() + self.squeezed.len()) as u64, out);
        out.extend_from_slice(&length);
        out.extend_from_slice(&self.squeezed);
        Ok(())
    }

    /// Appends the `n` integers of a frame that [`Packer::write_varints`] wrote.
    pub(crate) fn read_varints(
        &mut self,
        frame: &Frame<'_>,
        n: usize,
        ints: &mut Vec<u64>,
    ) -> Result<(), LayoutError> {
        let mut reader = Reader::new(frame.bytes);
        let length = reader.varint()?;
        // One to ten bytes each.
        if length < n as u64 || length > 10 * n as u64 {
            return Err(bad(format!("{length} bytes where {n} integers belong")));
        }
        self.shuffled.resize(length as usize, 0);
        self.zstd.decompress(reader.rest(), &mut self.shuffled)?;
        let mut reader = Reader::new(&self.shuffled);
        ints.reserve(n);
        for _ in 0..n {
            ints.push(reader.varint()?);
        }
        reader.finish()
    }

    fn shuffle<T: Number>(&mut self, numbers: &[T]) {
        let len = numbers.len() * T::WIDTH;
        self.plain.resize(len, 0);
        T::put(numbers, &mut self.plain[..len]);
        self.shuffled.resize(len, 0);
        shuffle(&self.plain[..len], T::WIDTH, &mut self.shuffled);
    }

    /// Reads one frame that holds as many numbers as `numbers` has places.
    pub(crate) fn read_frame<T: Number>(
        &mut self,
        frame: &Frame<'_>,
        numbers: &mut [T],
    ) -> Result<(), LayoutError> {
        let len = numbers.len() * T::WIDTH;
        match frame.encoding {
            PLAIN if frame.bytes.len() == len => {
                self.plain.resize(len, 0);
                unshuffle(frame.bytes, T::WIDTH, &mut self.plain);
                T::get(&self.plain, numbers);
            }
            PLAIN => return Err(bad(format!("{} plain bytes where {len} belong", frame.bytes.len()))),
            ZSTD => {
                self.shuffled.resize(len, 0);
                self.zstd.decompress(frame.bytes, &mut self.shuffled)?;
                self.plain.resize(len, 0);
                unshuffle(&self.shuffled, T::WIDTH, &mut self.plain);
                T::get(&self.plain, numbers);
            }
            PCO => read_pco(frame.bytes, numbers)?,
            other => return Err(bad(format!("frame encoding {other} is unknown"))),
        }
        Ok(())
    }
}

fn write_pco<T: Number>(numbers: &[T], config: &ChunkConfig, out: &mut Vec<u8>) -> Result<(), LayoutError> {
    let failed =
        |error: pco::errors::PcoError| LayoutError::Compressor { op: "pco", detail: error.to_string() };
    let file = FileCompressor::default();
    file.write_header(&mut *out).map_err(failed)?;
    let mut chunk = file.chunk_compressor(numbers, config).map_err(failed)?;
    chunk.write_meta(&mut *out).map_err(failed)?;
    chunk.write_page(0, &mut *out).map_err(failed)?;
    Ok(())
}

fn read_pco<T: Number>(bytes: &[u8], numbers: &mut [T]) -> Result<(), LayoutError> {
    check_pco(bytes, T::WIDTH * 8)?;
    let failed = |error: pco::errors::PcoError| bad(error.to_string());
    let (file, rest) = FileDecompressor::new(bytes).map_err(failed)?;
    let (mut chunk, rest) = file.chunk_decompressor::<T, _>(rest).map_err(failed)?;
    let mut page = chunk.page_decompressor(rest, numbers.len()).map_err(failed)?;
    let progress = page.read(numbers).map_err(failed)?;
    if progress.n_processed != numbers.len() || !page.into_src().is_empty() {
        return Err(bad("a pco page of another length".into()));
    }
    Ok(())
}

/// Lets only those kinds of pco chunk through that are written here. The others (a dictionary, a look-back
/// window, a convolution) allocate what their header says, before any number of it is read.
fn check_pco(bytes: &[u8], bits: usize) -> Result<(), LayoutError> {
    let nibble = |at: usize| Some(bytes.get(at / 8)? >> (at % 8) & 0xf);
    let known = || {
        if *bytes.first()? != 4 || *bytes.get(1)? > 1 {
            return None;
        }
        let mode_bits = match nibble(16)? {
            0 => 0,
            1 | 2 => bits,
            3 => 8,
            _ => return None,
        };
        (nibble(20 + mode_bits)? <= 1).then_some(())
    };
    known().ok_or_else(|| bad("no pco chunk of a kind that is written here".into()))
}
