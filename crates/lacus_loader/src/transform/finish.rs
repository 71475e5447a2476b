//! The last pass: bytes become the numbers that are wanted, in the wanted order, in the memory they are wanted in.
//!
//! A byte has 256 values, so that whatever is done to single numbers (scaled, normalised, halved) is one table per channel.

use half::f16;
use lacus_tensor::DType;

use super::step::{OutputType, Step};

/// What rows of bytes become.
#[derive(Debug, Clone)]
pub(super) struct Finish {
    tables: Tables,
    pub(super) channels_first: bool,
}

#[derive(Debug, Clone)]
enum Tables {
    Bytes,
    /// One per channel, or one for all.
    Singles(Vec<[f32; 256]>),
    Halves(Vec<[f16; 256]>),
}

impl Finish {
    /// Of steps that were checked.
    pub(super) fn new(steps: &[Step]) -> Finish {
        let mut channels_first = false;
        let mut table: Option<Vec<[f32; 256]>> = None;
        let mut is_half = false;
        for step in steps {
            match step {
                Step::ToImage {} => channels_first = true,
                Step::ToDtype { dtype: OutputType::Uint8, .. } => {}
                Step::ToDtype { dtype, scale } => {
                    let numbers = table.get_or_insert_with(|| {
                        // torch multiplies by the reciprocal.
                        let factor = if *scale { 1.0 / 255.0 } else { 1.0 };
                        vec![std::array::from_fn(|byte| byte as f32 * factor)]
                    });
                    is_half = *dtype == OutputType::Float16;
                    if is_half {
                        // What follows is computed from what half precision keeps.
                        numbers
                            .iter_mut()
                            .flatten()
                            .for_each(|number| *number = f16::from_f32(*number).to_f32());
                    }
                }
                Step::Normalize { mean, std } => {
                    if let Some(numbers) = &mut table {
                        if numbers.len() == 1 {
                            *numbers = vec![numbers[0]; mean.len()];
                        }
                        let last = mean.len() - 1;
                        for (channel, numbers) in numbers.iter_mut().enumerate() {
                            let (mean, std) = (mean[channel.min(last)], std[channel.min(last)]);
                            numbers.iter_mut().for_each(|number| *number = (*number - mean) / std);
                        }
                    }
                }
                _ => {}
            }
        }
        let tables = match table {
            None => Tables::Bytes,
            Some(table) if is_half => {
                Tables::Halves(table.iter().map(|numbers| numbers.map(f16::from_f32)).collect())
            }
            Some(table) => Tables::Singles(table),
        };
        Finish { tables, channels_first }
    }

    pub(super) fn dtype(&self) -> DType {
        match self.tables {
            Tables::Bytes => DType::U8,
            Tables::Singles(_) => DType::F32,
            Tables::Halves(_) => DType::F16,
        }
    }

    /// How many channels it is for, if not any number.
    pub(super) fn channels(&self) -> Option<usize> {
        let count = match &self.tables {
            Tables::Bytes => 1,
            Tables::Singles(tables) => tables.len(),
            Tables::Halves(tables) => tables.len(),
        };
        (count > 1).then_some(count)
    }

    /// The shape of a picture of these sides.
    pub(super) fn shape(&self, height: u64, width: u64, channels: u64) -> Vec<u64> {
        if self.channels_first { vec![channels, height, width] } else { vec![height, width, channels] }
    }

    /// Writes row `y` of `height` to its place in `out`.
    pub(super) fn write_row(&self, row: &[u8], channels: usize, y: usize, height: usize, out: &mut [u8]) {
        match &self.tables {
            Tables::Bytes => self.place(row, channels, y, height, out, |_| |byte: u8| [byte]),
            Tables::Singles(tables) => self.place(row, channels, y, height, out, |channel| {
                let table = &tables[channel.min(tables.len() - 1)];
                |byte: u8| table[usize::from(byte)].to_le_bytes()
            }),
            Tables::Halves(tables) => self.place(row, channels, y, height, out, |channel| {
                let table = &tables[channel.min(tables.len() - 1)];
                |byte: u8| table[usize::from(byte)].to_le_bytes()
            }),
        }
    }

    #[inline(always)]
    fn place<const N: usize, F: Fn(u8) -> [u8; N]>(
        &self,
        row: &[u8],
        channels: usize,
        y: usize,
        height: usize,
        out: &mut [u8],
        of_channel: impl Fn(usize) -> F,
    ) {
        let width = row.len() / channels;
        let out = out.as_chunks_mut::<N>().0;
        for channel in 0..channels {
            let number = of_channel(channel);
            let bytes = row[channel..].iter().step_by(channels);
            if self.channels_first {
                let out = &mut out[(channel * height + y) * width..][..width];
                out.iter_mut().zip(bytes).for_each(|(out, &byte)| *out = number(byte));
            } else {
                let out = &mut out[y * width * channels..][..width * channels];
                out[channel..]
                    .iter_mut()
                    .step_by(channels)
                    .zip(bytes)
                    .for_each(|(out, &byte)| *out = number(byte));
            }
        }
    }
}
