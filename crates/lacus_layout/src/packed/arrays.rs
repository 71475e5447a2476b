//! Arrays of integers and of elements, as frames.

use lacus_tensor::DType;

use crate::error::LayoutError;
use crate::packed::frame::{Number, Packer, Plan, TRY_ALL_BELOW, VARINTS};
use crate::packed::reader::{FRAME_NUMBERS, Frame, Reader, bad};

impl Packer {
    /// Appends integers.
    pub(crate) fn write_ints(
        &mut self,
        ints: &[u64],
        plan: &Plan,
        out: &mut Vec<u8>,
    ) -> Result<(), LayoutError> {
        for frame in ints.chunks(FRAME_NUMBERS) {
            if let Plan::Varints(repeats) = plan
                && frame.len() >= TRY_ALL_BELOW
            {
                self.write_varints(frame, *repeats, out)?;
                continue;
            }
            let largest = frame.iter().copied().max().unwrap_or(0);
            let narrow = largest <= u64::from(u32::MAX);
            if frame.len() < TRY_ALL_BELOW || !matches!(plan, Plan::Pco(_)) || !narrow {
                match largest {
                    0..=0xff => self.write_narrow::<u8>(frame, plan, out)?,
                    0x100..=0xffff => self.write_narrow::<u16>(frame, plan, out)?,
                    0x1_0000..=0xffff_ffff => self.write_narrow::<u32>(frame, plan, out)?,
                    _ => self.write_frame(frame, plan, out)?,
                }
            } else {
                let mut numbers = std::mem::take(&mut self.narrow);
                numbers.clear();
                numbers.extend(frame.iter().map(|int| *int as u32));
                self.write_frame(&numbers, plan, out)?;
                self.narrow = numbers;
            }
        }
        Ok(())
    }

    fn write_narrow<T: Number + Narrow>(
        &mut self,
        frame: &[u64],
        plan: &Plan,
        out: &mut Vec<u8>,
    ) -> Result<(), LayoutError> {
        let numbers: Vec<T> = frame.iter().map(|int| T::narrow(*int)).collect();
        self.write_frame(&numbers, plan, out)
    }

    /// Appends elements, given as their bytes.
    pub(crate) fn write_values(
        &mut self,
        dtype: DType,
        bytes: &[u8],
        plan: &Plan,
        out: &mut Vec<u8>,
    ) -> Result<(), LayoutError> {
        match dtype {
            DType::Bool | DType::U8 => self.write_all(bytes, plan, out),
            DType::I8 => self.write_mapped(bytes, 1, 0, |number: u8| number ^ 0x80, plan, out),
            DType::U16 => self.write_mapped(bytes, 1, 0, |number: u16| number, plan, out),
            DType::I16 => self.write_mapped(bytes, 1, 0, |number: u16| number ^ 0x8000, plan, out),
            DType::F16 | DType::BF16 => self.write_mapped(bytes, 1, 0, order_half, plan, out),
            DType::U32 => self.write_mapped(bytes, 1, 0, |number: u32| number, plan, out),
            DType::I32 => self.write_mapped(bytes, 1, 0, |number: u32| number ^ 1 << 31, plan, out),
            DType::U64 => self.write_mapped(bytes, 1, 0, |number: u64| number, plan, out),
            DType::I64 => self.write_mapped(bytes, 1, 0, |number: u64| number ^ 1 << 63, plan, out),
            DType::F32 => self.write_floats::<f32>(bytes, plan, out),
            DType::F64 => self.write_floats::<f64>(bytes, plan, out),
            DType::C64 => {
                self.write_mapped(bytes, 2, 0, |number: f32| number, plan, out)?;
                self.write_mapped(bytes, 2, 1, |number: f32| number, plan, out)
            }
            DType::C128 => {
                self.write_mapped(bytes, 2, 0, |number: f64| number, plan, out)?;
                self.write_mapped(bytes, 2, 1, |number: f64| number, plan, out)
            }
        }
    }

    /// Floats, or where all of a frame are counts of at most 255, these.
    fn write_floats<T: Count>(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        out: &mut Vec<u8>,
    ) -> Result<(), LayoutError> {
        for frame in bytes.chunks(FRAME_NUMBERS * T::WIDTH) {
            if let Some(counts) = counts::<T>(frame) {
                self.write_frame(&counts, &plan.for_counts(), out)?;
                continue;
            }
            let mut numbers = vec![T::default(); frame.len() / T::WIDTH];
            T::get(frame, &mut numbers);
            self.write_frame(&numbers, plan, out)?;
        }
        Ok(())
    }

    fn read_floats<T: Count>(
        &mut self,
        reader: &mut Reader<'_>,
        bytes: &mut [u8],
    ) -> Result<(), LayoutError> {
        let mut counts = Vec::new();
        for part in bytes.chunks_mut(FRAME_NUMBERS * T::WIDTH) {
            if reader.next_code() != Some(u8::CODE) {
                self.read_mapped(reader, part, 1, 0, |number: T| number)?;
                continue;
            }
            counts.resize(part.len() / T::WIDTH, 0u8);
            self.read_frame(&reader.frame()?, &mut counts)?;
            for (count, bytes) in counts.iter().zip(part.chunks_exact_mut(T::WIDTH)) {
                T::put(&[T::from(*count)], bytes);
            }
        }
        Ok(())
    }

    /// Every `step`-th number from the `first` on, mapped.
    fn write_mapped<T: Number>(
        &mut self,
        bytes: &[u8],
        step: usize,
        first: usize,
        map: impl Fn(T) -> T,
        plan: &Plan,
        out: &mut Vec<u8>,
    ) -> Result<(), LayoutError> {
        let mut numbers = vec![T::default(); bytes.len() / T::WIDTH];
        T::get(bytes, &mut numbers);
        let numbers: Vec<T> = numbers.into_iter().skip(first).step_by(step).map(map).collect();
        self.write_all(&numbers, plan, out)
    }

    fn write_all<T: Number>(
        &mut self,
        numbers: &[T],
        plan: &Plan,
        out: &mut Vec<u8>,
    ) -> Result<(), LayoutError> {
        numbers.chunks(FRAME_NUMBERS).try_for_each(|frame| self.write_frame(frame, plan, out))
    }

    /// Reads `count` integers and appends them to `ints`, whose growth follows what is really there.
    pub(crate) fn read_ints(
        &mut self,
        reader: &mut Reader<'_>,
        count: usize,
        ints: &mut Vec<u64>,
    ) -> Result<(), LayoutError> {
        reader.check_frames(count)?;
        let mut rest = count;
        while rest > 0 {
            let n = rest.min(FRAME_NUMBERS);
            let frame = reader.frame()?;
            match frame.code {
                u64::CODE if frame.encoding == VARINTS => self.read_varints(&frame, n, ints)?,
                u8::CODE => self.read_wide::<u8>(&frame, n, ints)?,
                u16::CODE => self.read_wide::<u16>(&frame, n, ints)?,
                u32::CODE => self.read_wide::<u32>(&frame, n, ints)?,
                u64::CODE => {
                    let start = ints.len();
                    ints.resize(start + n, 0);
                    self.read_frame(&frame, &mut ints[start..])?;
                }
                code => return Err(bad(format!("number type {code} where an integer belongs"))),
            }
            rest -= n;
        }
        Ok(())
    }

    fn read_wide<T: Number + Into<u64>>(
        &mut self,
        frame: &Frame<'_>,
        n: usize,
        ints: &mut Vec<u64>,
    ) -> Result<(), LayoutError> {
        let mut numbers = vec![T::default(); n];
        self.read_frame(frame, &mut numbers)?;
        ints.extend(numbers.into_iter().map(Into::into));
        Ok(())
    }

    /// Reads as many elements as fill `bytes`.
    pub(crate) fn read_values(
        &mut self,
        reader: &mut Reader<'_>,
        dtype: DType,
        bytes: &mut [u8],
    ) -> Result<(), LayoutError> {
        match dtype {
            DType::Bool | DType::U8 => self.read_mapped(reader, bytes, 1, 0, |number: u8| number),
            DType::I8 => self.read_mapped(reader, bytes, 1, 0, |number: u8| number ^ 0x80),
            DType::U16 => self.read_mapped(reader, bytes, 1, 0, |number: u16| number),
            DType::I16 => self.read_mapped(reader, bytes, 1, 0, |number: u16| number ^ 0x8000),
            DType::F16 | DType::BF16 => self.read_mapped(reader, bytes, 1, 0, unorder_half),
            DType::U32 => self.read_mapped(reader, bytes, 1, 0, |number: u32| number),
            DType::I32 => self.read_mapped(reader, bytes, 1, 0, |number: u32| number ^ 1 << 31),
            DType::U64 => self.read_mapped(reader, bytes, 1, 0, |number: u64| number),
            DType::I64 => self.read_mapped(reader, bytes, 1, 0, |number: u64| number ^ 1 << 63),
            DType::F32 => self.read_floats::<f32>(reader, bytes),
            DType::F64 => self.read_floats::<f64>(reader, bytes),
            DType::C64 => {
                self.read_mapped(reader, bytes, 2, 0, |number: f32| number)?;
                self.read_mapped(reader, bytes, 2, 1, |number: f32| number)
            }
            DType::C128 => {
                self.read_mapped(reader, bytes, 2, 0, |number: f64| number)?;
                self.read_mapped(reader, bytes, 2, 1, |number: f64| number)
            }
        }
    }

    fn read_mapped<T: Number>(
        &mut self,
        reader: &mut Reader<'_>,
        bytes: &mut [u8],
        step: usize,
        first: usize,
        map: impl Fn(T) -> T,
    ) -> Result<(), LayoutError> {
        let mut numbers = Vec::new();
        for part in bytes.chunks_mut(FRAME_NUMBERS * step * T::WIDTH) {
            let n = part.len() / (step * T::WIDTH);
            let frame = reader.frame()?;
            if frame.code != T::CODE {
                return Err(bad(format!("number type {} where {} belongs", frame.code, T::CODE)));
            }
            numbers.resize(n, T::default());
            self.read_frame(&frame, &mut numbers)?;
            for number in &mut numbers {
                *number = map(*number);
            }
            if step == 1 {
                T::put(&numbers, part);
            } else {
                for (number, bytes) in numbers.iter().zip(part.chunks_exact_mut(step * T::WIDTH)) {
                    T::put(std::slice::from_ref(number), &mut bytes[first * T::WIDTH..][..T::WIDTH]);
                }
            }
        }
        Ok(())
    }
}

/// Whether these elements are floats that [`Packer::write_values`] writes as counts.
pub(crate) fn are_counts(dtype: DType, bytes: &[u8]) -> bool {
    match dtype {
        DType::F32 => counts::<f32>(bytes).is_some(),
        DType::F64 => counts::<f64>(bytes).is_some(),
        _ => false,
    }
}

/// Floats as counts, if all of them are.
fn counts<T: Count>(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut counts = vec![0; bytes.len() / T::WIDTH];
    let mut numbers = [T::default(); PIECE];
    let mut pieces = bytes.chunks(PIECE * T::WIDTH).zip(counts.chunks_mut(PIECE));
    let all = pieces.all(|(bytes, counts)| {
        T::get(bytes, &mut numbers);
        // With no way out in between, several are done at once.
        counts.iter_mut().zip(&numbers).fold(true, |all, (count, number)| {
            *count = number.low_byte();
            all & number.is(*count)
        })
    });
    all.then_some(counts)
}

/// Floats are looked at in pieces that stay in the first-level cache.
const PIECE: usize = 1024;

/// Floats that may be counts.
trait Count: Number + From<u8> {
    /// The count if it is one, else anything. At 2^23 (2^52) the last bit of a float is worth 1, so that the
    /// count is in the lowest bits of the sum; a cast would have to look at what is out of its range.
    fn low_byte(self) -> u8;
    /// Whether it has the very bits of a count.
    fn is(self, count: u8) -> bool;
}
impl Count for f32 {
    fn low_byte(self) -> u8 {
        (self + (1u32 << 23) as f32).to_bits() as u8
    }
    fn is(self, count: u8) -> bool {
        f32::from(count).to_bits() == self.to_bits()
    }
}
impl Count for f64 {
    fn low_byte(self) -> u8 {
        (self + (1u64 << 52) as f64).to_bits() as u8
    }
    fn is(self, count: u8) -> bool {
        f64::from(count).to_bits() == self.to_bits()
    }
}

/// Integers to a width they fit.
trait Narrow {
    fn narrow(int: u64) -> Self;
}
impl Narrow for u8 {
    fn narrow(int: u64) -> u8 {
        int as u8
    }
}
impl Narrow for u16 {
    fn narrow(int: u64) -> u16 {
        int as u16
    }
}
impl Narrow for u32 {
    fn narrow(int: u64) -> u32 {
        int as u32
    }
}

/// Half-precision bits so that their order is that of the numbers.
fn order_half(bits: u16) -> u16 {
    if bits & 0x8000 == 0 { bits | 0x8000 } else { !bits }
}

fn unorder_half(order: u16) -> u16 {
    if order & 0x8000 == 0 { !order } else { order & 0x7fff }
}
