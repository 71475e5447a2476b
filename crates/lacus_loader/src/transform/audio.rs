//! Sound: numbers from -1 to 1, frame by frame; cut, mixed down, brought to another rate by a windowed sinc.

use std::cell::RefCell;
use std::f64::consts::PI;
use std::ops::Range;

use half::f16;
use lacus_media::{Limits, decode, decode_region, probe};
use lacus_tensor::{DType, TensorRef};

use super::dice::Dice;
use super::error::TransformError;
use super::step::{OutputType, Step};
use crate::sample_transform::SampleKey;

/// What comes in.
pub(super) enum Sound<'a> {
    /// A file.
    File(&'a [u8]),
    /// `(frames, channels)` or `(frames,)`.
    Tensor(&'a TensorRef<'a>),
}

/// What is known of sound before it is decoded.
struct Facts {
    frames: usize,
    channels: usize,
    rate: Option<u32>,
}

impl Sound<'_> {
    fn facts(&self) -> Result<Facts, TransformError> {
        let (dtype, shape, rate) = match self {
            Sound::File(bytes) => {
                let facts = probe(bytes)?;
                let rate = facts.details.get("sample_rate").and_then(serde_json::Value::as_u64);
                (facts.dtype, facts.shape, rate.and_then(|rate| u32::try_from(rate).ok()))
            }
            Sound::Tensor(tensor) => (tensor.dtype(), tensor.shape().dims().to_vec(), None),
        };
        let is_sound = matches!(dtype, DType::U8 | DType::I16 | DType::I32 | DType::F32 | DType::F64);
        match (shape.as_slice(), is_sound) {
            (&[frames], true) => Ok(Facts { frames: frames as usize, channels: 1, rate }),
            (&[frames, channels], true) if (1..=1024).contains(&channels) => {
                Ok(Facts { frames: frames as usize, channels: channels as usize, rate })
            }
            _ => Err(TransformError::Input(format!(
                "transforms of sound take (frames, channels) of uint8, int16, int32, float32 or float64, found {dtype} of shape \
                 {shape:?}"
            ))),
        }
    }

    /// The numbers of some frames.
    fn read(&self, frames: Range<usize>, facts: &Facts) -> Result<Vec<f32>, TransformError> {
        let wanted = frames.start as u64..frames.end as u64;
        let tensor;
        let part = match self {
            Sound::File(bytes) => {
                tensor = if frames == (0..facts.frames) {
                    decode(bytes, &Limits::default())?
                } else {
                    decode_region(bytes, std::slice::from_ref(&wanted), &Limits::default())?
                };
                tensor.as_ref()
            }
            Sound::Tensor(tensor) => {
                let mut extent = tensor.shape().dims().to_vec();
                let mut origin = vec![0; extent.len()];
                (origin[0], extent[0]) = (wanted.start, wanted.end - wanted.start);
                tensor.region(&origin, &extent)
            }
        };
        let copied;
        let bytes = match part.contiguous_bytes() {
            Some(bytes) => bytes,
            None => {
                copied = part.to_tensor();
                copied.bytes()
            }
        };
        Ok(numbers(part.dtype(), bytes))
    }
}

/// As numbers from -1 to 1.
fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        DType::U8 => bytes.iter().map(|&byte| (f32::from(byte) - 128.0) / 128.0).collect(),
        DType::I16 => {
            let numbers = bytes.as_chunks::<2>().0.iter();
            numbers.map(|&number| f32::from(i16::from_le_bytes(number)) / 32768.0).collect()
        }
        DType::I32 => {
            let numbers = bytes.as_chunks::<4>().0.iter();
            numbers.map(|&number| (f64::from(i32::from_le_bytes(number)) / 2_147_483_648.0) as f32).collect()
        }
        DType::F32 => bytes.as_chunks::<4>().0.iter().map(|&number| f32::from_le_bytes(number)).collect(),
        _ => bytes.as_chunks::<8>().0.iter().map(|&number| f64::from_le_bytes(number) as f32).collect(),
    }
}

/// What a list of steps for sound does.
#[derive(Debug)]
pub(super) struct SoundWork<'a> {
    pub(super) steps: &'a [Step],
}

impl SoundWork<'_> {
    pub(super) fn dtype(&self) -> DType {
        let last = self.steps.iter().rev().find_map(|step| match step {
            Step::ToDtype { dtype, .. } => Some(*dtype),
            _ => None,
        });
        if last == Some(OutputType::Float16) { DType::F16 } else { DType::F32 }
    }

    fn channels_first(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::ToImage {}))
    }

    /// The shape that comes out, as far as it follows from what is known.
    pub(super) fn known_shape(
        &self,
        frames: Option<u64>,
        channels: Option<u64>,
        rate: Option<u32>,
    ) -> Option<Vec<u64>> {
        let (mut frames, mut channels, mut rate) = (frames, channels, rate);
        for step in self.steps {
            match step {
                Step::Crop { length } | Step::RandomAudioCrop { length } => frames = Some(*length),
                Step::ToMono {} => channels = Some(1),
                Step::Resample { orig_freq, new_freq, .. } => {
                    let from = orig_freq.or(rate);
                    frames = frames.zip(from).map(|(frames, from)| resampled_length(frames, from, *new_freq));
                    rate = Some(*new_freq);
                }
                _ => {}
            }
        }
        let (frames, channels) = (frames?, channels?);
        Some(if self.channels_first() { vec![channels, frames] } else { vec![frames, channels] })
    }

    pub(super) fn shape(&self, sound: &Sound<'_>) -> Result<Vec<u64>, TransformError> {
        let facts = sound.facts()?;
        self.check_rates(facts.rate)?;
        self.known_shape(Some(facts.frames as u64), Some(facts.channels as u64), facts.rate)
            .ok_or_else(|| TransformError::Input("the length of the sound is not known".into()))
    }

    fn check_rates(&self, rate: Option<u32>) -> Result<(), TransformError> {
        let first = self.steps.iter().find_map(|step| match step {
            Step::Resample { orig_freq, .. } => Some(orig_freq.or(rate)),
            _ => None,
        });
        if first == Some(None) {
            return Err(TransformError::sample(
                "Resample",
                "the rate of the sound is not known: give orig_freq, or keep a file that says it",
            ));
        }
        Ok(())
    }

    /// Writes what comes out to what `memory_for` gives for its shape.
    pub(super) fn run<'o>(
        &self,
        sound: &Sound<'_>,
        key: SampleKey,
        memory_for: impl FnOnce(&[u64]) -> Result<&'o mut [u8], TransformError>,
    ) -> Result<(), TransformError> {
        let shape = self.shape(sound)?;
        let out = memory_for(&shape)?;
        let facts = sound.facts()?;
        let (mut channels, mut rate) = (facts.channels, facts.rate);
        let mut frames: Option<Vec<f32>> = None;
        for (place, step) in self.steps.iter().enumerate() {
            let count = frames.as_ref().map_or(facts.frames, |frames| frames.len() / channels);
            match step {
                Step::Crop { length } | Step::RandomAudioCrop { length } => {
                    let length = *length as usize;
                    let start = match step {
                        Step::RandomAudioCrop { .. } if count > length => {
                            Dice::new(key, place).below((count - length + 1) as u64) as usize
                        }
                        _ => 0,
                    };
                    let range = start..(start + length).min(count);
                    // The first cut of a file decodes no more than that.
                    let mut cut = match frames.take() {
                        Some(mut frames) => {
                            frames.truncate(range.end * channels);
                            frames.drain(..range.start * channels);
                            frames
                        }
                        None => sound.read(range, &facts)?,
                    };
                    cut.resize(length * channels, 0.0);
                    frames = Some(cut);
                }
                Step::ToMono {} => {
                    let all = frames.take().map_or_else(|| sound.read(0..facts.frames, &facts), Ok)?;
                    let mean = |frame: &[f32]| frame.iter().sum::<f32>() / channels as f32;
                    frames = Some(all.chunks_exact(channels).map(mean).collect());
                    channels = 1;
                }
                Step::Resample { orig_freq, new_freq, lowpass_filter_width, rolloff } => {
                    let all = frames.take().map_or_else(|| sound.read(0..facts.frames, &facts), Ok)?;
                    let from = orig_freq.or(rate).unwrap_or(*new_freq);
                    frames = Some(resample(&all, channels, from, *new_freq, *lowpass_filter_width, *rolloff));
                    rate = Some(*new_freq);
                }
                _ => {}
            }
        }
        let frames = frames.map_or_else(|| sound.read(0..facts.frames, &facts), Ok)?;
        if frames.len() as u64 != shape.iter().product::<u64>() {
            return Err(TransformError::Input(
                "the file holds another number of frames than its header says".into(),
            ));
        }
        self.write(&frames, channels, out);
        Ok(())
    }

    fn write(&self, frames: &[f32], channels: usize, out: &mut [u8]) {
        let count = frames.len() / channels.max(1);
        let is_first = self.channels_first();
        let from = |at: usize| if is_first { frames[at % count * channels + at / count] } else { frames[at] };
        if self.dtype() == DType::F16 {
            let out = out.as_chunks_mut::<2>().0;
            out.iter_mut().enumerate().for_each(|(at, out)| *out = f16::from_f32(from(at)).to_le_bytes());
        } else {
            let out = out.as_chunks_mut::<4>().0;
            out.iter_mut().enumerate().for_each(|(at, out)| *out = from(at).to_le_bytes());
        }
    }
}

/// Frames after a change of the rate.
fn resampled_length(frames: u64, from: u32, to: u32) -> u64 {
    (u128::from(frames) * u128::from(to)).div_ceil(u128::from(from)) as u64
}

/// What of a sinc is needed: for each phase, the place of the first old frame and the weights from there on.
struct Kernel {
    made_for: (u32, u32, u32, u64),
    phases: Vec<(i64, Vec<f32>)>,
}

/// Rates that share no divisor have as many phases as the new rate says: those are computed as they are needed.
const MOST_PHASES: u32 = 4096;

thread_local! {
    /// The last one: the sounds of a column mostly have one rate.
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
}

/// Sound at another rate: torchaudio's windowed sinc (Hann).
fn resample(frames: &[f32], channels: usize, from: u32, to: u32, width: u32, rolloff: f64) -> Vec<f32> {
    if from == to {
        return frames.to_vec();
    }
    let divisor = greatest_common_divisor(from, to);
    let (old, new) = (from / divisor, to / divisor);
    let count = frames.len() / channels;
    let length = resampled_length(count as u64, from, to);
    let weights = |phase: u32| phase_weights(phase, old, new, width, rolloff);
    let mut kernel = KERNEL.take();
    let made_for = (old, new, width, rolloff.to_bits());
    if new <= MOST_PHASES && kernel.as_ref().is_none_or(|kernel| kernel.made_for != made_for) {
        kernel = Some(Kernel { made_for, phases: (0..new).map(weights).collect() });
    }
    let mut out = vec![0.0; length as usize * channels];
    for (at, out) in out.chunks_exact_mut(channels).enumerate() {
        let place = at as u128 * u128::from(old);
        let (whole, phase) = ((place / u128::from(new)) as i64, (place % u128::from(new)) as u32);
        let computed;
        let (first, weights) = match &kernel {
            Some(kernel) if new <= MOST_PHASES => &kernel.phases[phase as usize],
            _ => {
                computed = weights(phase);
                &computed
            }
        };
        let first = whole + first;
        let skipped = usize::try_from(-first).unwrap_or(0).min(weights.len());
        let start = first.max(0) as usize;
        let weights = &weights[skipped..];
        let used = weights.len().min(count.saturating_sub(start));
        for (&weight, frame) in
            weights[..used].iter().zip(frames[start.min(count) * channels..].chunks_exact(channels))
        {
            out.iter_mut().zip(frame).for_each(|(sum, &number)| *sum += weight * number);
        }
    }
    KERNEL.set(kernel);
    out
}

/// The weights of old frames around a new one that lies `phase / new` behind an old one.
fn phase_weights(phase: u32, old: u32, new: u32, width: u32, rolloff: f64) -> (i64, Vec<f32>) {
    let base = f64::from(old.min(new)) * rolloff / f64::from(old);
    let (width, offset) = (f64::from(width), f64::from(phase) / f64::from(new));
    let reach = width / base;
    let (first, last) = ((offset - reach).ceil() as i64, (offset + reach).floor() as i64);
    let weight = |at: i64| {
        let t = ((at as f64 - offset) * base).clamp(-width, width);
        let window = libm::cos(t * PI / width / 2.0);
        let sinc = if t == 0.0 { 1.0 } else { libm::sin(t * PI) / (t * PI) };
        (sinc * window * window * base) as f32
    };
    (first, (first..=last).map(weight).collect())
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_stays_a_tone() {
        for (from, to) in [(8000, 16000), (44100, 16000), (16000, 44100), (8000, 7919), (48000, 8001)] {
            let tone = |rate: u32, at: usize| (at as f64 * 440.0 / f64::from(rate) * 2.0 * PI).sin() as f32;
            let old: Vec<f32> = (0..from as usize / 10).map(|at| tone(from, at)).collect();
            let new = resample(&old, 1, from, to, 6, 0.99);
            assert_eq!(new.len() as u64, resampled_length(old.len() as u64, from, to));
            // Away from the ends, where the sound begins and stops.
            for (at, &found) in new.iter().enumerate().take(new.len() * 3 / 4).skip(new.len() / 4) {
                assert!((found - tone(to, at)).abs() < 0.02, "{from} to {to}: {found} and {}", tone(to, at));
            }
        }
    }

    #[test]
    fn channels_do_not_mix() {
        let stereo: Vec<f32> =
            (0..2000).map(|at| if at % 2 == 0 { (at as f32 / 50.0).sin() } else { 0.5 }).collect();
        let left: Vec<f32> = stereo.iter().copied().step_by(2).collect();
        let both = resample(&stereo, 2, 44100, 32000, 6, 0.99);
        let alone = resample(&left, 1, 44100, 32000, 6, 0.99);
        assert!(both.iter().step_by(2).eq(alone.iter()));
    }

    #[test]
    fn numbers_are_scaled() {
        assert_eq!(numbers(DType::U8, &[0, 128, 192]), [-1.0, 0.0, 0.5]);
        assert_eq!(numbers(DType::I16, &[0, 0x80, 0, 0x40]), [-1.0, 0.5]);
        assert_eq!(numbers(DType::I32, &[0, 0, 0, 0x80]), [-1.0]);
        assert_eq!(numbers(DType::F64, &0.25f64.to_le_bytes()), [0.25]);
    }
}
