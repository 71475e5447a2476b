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
            let largest = frame.iter().copied().max().unwrap_or(0);
            let narrow = largest <= u64::from(u32::MAX);
            if matches!(plan, Plan::Varints) && frame.len() >= TRY_ALL_BELOW {
                self.write_varints(frame, out)?;
            } else if frame.len() < TRY_ALL_BELOW || !matches!(plan, Plan::Pco(_)) || !narrow {
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
        let mut numbers = vec![T::default(); bytes.len() / T::WIDTH];
        T::get(bytes, &mut numbers);
        let mut counts = Vec::new();
        for frame in numbers.chunks(FRAME_NUMBERS) {
            counts.clear();
            counts.extend(frame.iter().map_while(|number| number.count()));
            match counts.len() == frame.len() {
                true => self.write_frame(&counts, &plan.for_counts(), out)?,
                false => self.write_frame(frame, plan, out)?,
            }
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

/// Floats that may be counts.
trait Count: Number + From<u8> {
    /// The count, if this number has its very bits.
    fn count(self) -> Option<u8>;
}
impl Count for f32 {
    fn count(self) -> Option<u8> {
        let count = self as u8;
        (f32::from(count).to_bits() == self.to_bits()).then_some(count)
    }
}
impl Count for f64 {
    fn count(self) -> Option<u8> {
        let count = self as u8;
        (f64::from(count).to_bits() == self.to_bits()).then_some(count)
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
