//! The steps of a transform, as data: torchvision's names and arguments, as JSON (`{"step": "Resize", "size": [224]}`).

use serde::{Deserialize, Serialize};

/// How new pixels are made of old ones when a picture is resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The nearest pixel.
    Nearest,
    /// The mean of the pixels that a new one covers (`area` in other programs).
    Box,
    /// Weights that fall off linearly.
    #[default]
    Bilinear,
    /// Cubic weights, with -1/2 as the slope.
    Bicubic,
    /// A windowed sinc of three lobes.
    Lanczos,
}

/// What pixels outside of a picture are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum PaddingMode {
    /// A color.
    #[default]
    Constant,
    /// The pixel at the edge.
    Edge,
    /// Mirrored at the pixel at the edge, which is not repeated.
    Reflect,
    /// Mirrored at the edge.
    Symmetric,
}

/// A dtype that a transform can end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputType {
    /// Bytes.
    Uint8,
    /// Half precision.
    Float16,
    /// Single precision.
    Float32,
}

/// One step. Sizes are `[height, width]`; where one number is allowed, it is the length of the shorter side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", deny_unknown_fields)]
#[non_exhaustive]
pub enum Step {
    /// To another size, antialiased.
    Resize {
        /// `[height, width]`, or `[shorter side]`.
        size: Vec<u32>,
        /// With one number in `size`: the longer side has at most this length.
        #[serde(default)]
        max_size: Option<u32>,
        /// How.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// The middle. A picture that is smaller is padded with zeros.
    CenterCrop {
        /// `[height, width]`.
        size: [u32; 2],
    },
    /// A part at a random place.
    RandomCrop {
        /// `[height, width]`.
        size: [u32; 2],
        /// Padding before that: left, top, right, bottom.
        #[serde(default)]
        padding: Option<[u32; 4]>,
        /// Whether a picture that is too small is padded, on both sides.
        #[serde(default)]
        pad_if_needed: bool,
        /// The color of the padding: one number, or one per channel.
        #[serde(default)]
        fill: Vec<u8>,
        /// What the padding is.
        #[serde(default)]
        padding_mode: PaddingMode,
    },
    /// A part of random area, shape and place, resized.
    RandomResizedCrop {
        /// `[height, width]`.
        size: [u32; 2],
        /// The least and the largest part of the area.
        scale: [f64; 2],
        /// The least and the largest ratio of width to height.
        ratio: [f64; 2],
        /// How.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// Left becomes right, sometimes.
    RandomHorizontalFlip {
        /// How likely.
        p: f64,
    },
    /// Top becomes bottom, sometimes.
    RandomVerticalFlip {
        /// How likely.
        p: f64,
    },
    /// More pixels around.
    Pad {
        /// Left, top, right, bottom.
        padding: [u32; 4],
        /// The color: one number, or one per channel.
        #[serde(default)]
        fill: Vec<u8>,
        /// What the padding is.
        #[serde(default)]
        padding_mode: PaddingMode,
    },
    /// Brightness, contrast, saturation and hue changed at random, in random order.
    ColorJitter {
        /// The range of the factor.
        #[serde(default)]
        brightness: Option<[f64; 2]>,
        /// The range of the factor.
        #[serde(default)]
        contrast: Option<[f64; 2]>,
        /// The range of the factor.
        #[serde(default)]
        saturation: Option<[f64; 2]>,
        /// The range of the turn, within -0.5 and 0.5.
        #[serde(default)]
        hue: Option<[f64; 2]>,
    },
    /// Brightness only.
    Grayscale {
        /// 1, or 3 that are the same.
        num_output_channels: u32,
    },
    /// Three channels: gray is repeated, alpha dropped.
    RGB {},
    /// To another dtype. Sound is always scaled.
    ToDtype {
        /// To which.
        dtype: OutputType,
        /// Whether 0 to 255 becomes 0 to 1.
        scale: bool,
    },
    /// `(value - mean) / std`.
    Normalize {
        /// One per channel, or one for all.
        mean: Vec<f32>,
        /// One per channel, or one for all.
        std: Vec<f32>,
    },
    /// Channels become the first axis.
    ToImage {},
    /// Sound at another rate.
    Resample {
        /// The rate it has, if the file does not say.
        #[serde(default)]
        orig_freq: Option<u32>,
        /// The rate it gets.
        new_freq: u32,
        /// Zero crossings of the sinc on each side.
        lowpass_filter_width: u32,
        /// The part of the usable frequencies that is kept.
        rolloff: f64,
    },
    /// All channels of sound become their mean.
    ToMono {},
    /// The first frames of sound; zeros behind what is shorter.
    Crop {
        /// How many.
        length: u64,
    },
    /// So many frames of sound from a random place on; zeros behind what is shorter.
    RandomAudioCrop {
        /// How many.
        length: u64,
    },
}

impl Step {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Resize { .. } => "Resize",
            Step::CenterCrop { .. } => "CenterCrop",
            Step::RandomCrop { .. } => "RandomCrop",
            Step::RandomResizedCrop { .. } => "RandomResizedCrop",
            Step::RandomHorizontalFlip { .. } => "RandomHorizontalFlip",
            Step::RandomVerticalFlip { .. } => "RandomVerticalFlip",
            Step::Pad { .. } => "Pad",
            Step::ColorJitter { .. } => "ColorJitter",
            Step::Grayscale { .. } => "Grayscale",
            Step::RGB {} => "RGB",
            Step::ToDtype { .. } => "ToDtype",
            Step::Normalize { .. } => "Normalize",
            Step::ToImage {} => "ToImage",
            Step::Resample { .. } => "Resample",
            Step::ToMono {} => "ToMono",
            Step::Crop { .. } => "Crop",
            Step::RandomAudioCrop { .. } => "RandomAudioCrop",
        }
    }

    /// Whether it is for sound alone.
    pub(super) fn is_for_sound(&self) -> bool {
        matches!(
            self,
            Step::Resample { .. } | Step::ToMono {} | Step::Crop { .. } | Step::RandomAudioCrop { .. }
        )
    }

    /// Whether it is for pictures and sound.
    pub(super) fn is_for_both(&self) -> bool {
        matches!(self, Step::ToDtype { .. } | Step::ToImage {})
    }

    /// What is wrong with its arguments.
    pub(super) fn check(&self) -> Result<(), String> {
        let sides = |size: &[u32]| match size.iter().all(|side| (1..=65535).contains(side)) {
            true => Ok(()),
            false => Err(format!("sides go from 1 to 65535, found {size:?}")),
        };
        let chance = |p: f64| match (0.0..=1.0).contains(&p) {
            true => Ok(()),
            false => Err(format!("p is a probability from 0 to 1, found {p}")),
        };
        let range = |name: &str, range: &[f64; 2], least: f64, most: f64| {
            let [low, high] = *range;
            if low >= least && low <= high && high <= most {
                return Ok(());
            }
            Err(format!("{name} goes from low to high within {least} and {most}, found {low} to {high}"))
        };
        let padded = |padding: &[u32; 4]| match padding.iter().all(|&side| side <= 65535) {
            true => Ok(()),
            false => Err(format!("padding is at most 65535, found {padding:?}")),
        };
        match self {
            Step::Resize { size, max_size, .. } => {
                sides(size)?;
                match (size.as_slice(), max_size) {
                    ([short], Some(most)) if most <= short => {
                        Err(format!("max_size is larger than size, found {most} and {short}"))
                    }
                    ([_], _) | ([_, _], None) => Ok(()),
                    ([_, _], Some(_)) => {
                        Err("max_size goes with one number for size: the shorter side".into())
                    }
                    _ => Err(format!(
                        "size is [height, width] or [shorter side], found {} numbers",
                        size.len()
                    )),
                }
            }
            Step::CenterCrop { size } => sides(size),
            Step::RandomCrop { size, padding, .. } => {
                sides(size).and(padding.as_ref().map_or(Ok(()), padded))
            }
            Step::RandomResizedCrop { size, scale, ratio, .. } => {
                sides(size)?;
                range("scale", scale, f64::MIN_POSITIVE, 1e6)?;
                range("ratio", ratio, 1e-6, 1e6)
            }
            Step::RandomHorizontalFlip { p } | Step::RandomVerticalFlip { p } => chance(*p),
            Step::Pad { padding, .. } => padded(padding),
            Step::ColorJitter { brightness, contrast, saturation, hue } => {
                for (name, factor) in
                    [("brightness", brightness), ("contrast", contrast), ("saturation", saturation)]
                {
                    factor.as_ref().map_or(Ok(()), |factor| range(name, factor, 0.0, 1e6))?;
                }
                hue.as_ref().map_or(Ok(()), |turn| range("hue", turn, -0.5, 0.5))
            }
            Step::Grayscale { num_output_channels: 1 | 3 } => Ok(()),
            Step::Grayscale { num_output_channels } => {
                Err(format!("num_output_channels is 1 or 3, found {num_output_channels}"))
            }
            Step::Normalize { mean, std } => {
                if mean.is_empty() || mean.len() != std.len() {
                    return Err(format!(
                        "mean and std have one number per channel, found {} and {}",
                        mean.len(),
                        std.len()
                    ));
                }
                match std.iter().all(|std| *std != 0.0 && std.is_finite())
                    && mean.iter().all(|mean| mean.is_finite())
                {
                    true => Ok(()),
                    false => {
                        Err(format!("std is finite and not zero, mean is finite; found {std:?} and {mean:?}"))
                    }
                }
            }
            Step::Resample { orig_freq, new_freq, lowpass_filter_width, rolloff } => {
                let rates = [orig_freq.unwrap_or(1), *new_freq];
                if rates.iter().any(|rate| !(1..=10_000_000).contains(rate)) {
                    return Err(format!("rates go from 1 to 10000000 per second, found {rates:?}"));
                }
                if !((1..=1000).contains(lowpass_filter_width) && *rolloff > 0.0 && *rolloff <= 1.0) {
                    return Err(format!(
                        "lowpass_filter_width goes from 1 to 1000 and rolloff up to 1, found {lowpass_filter_width} and {rolloff}"
                    ));
                }
                Ok(())
            }
            Step::Crop { length } | Step::RandomAudioCrop { length } => {
                match (1..=1 << 40).contains(length) {
                    true => Ok(()),
                    false => Err(format!("length is at least 1 frame, found {length}")),
                }
            }
            Step::RGB {} | Step::ToDtype { .. } | Step::ToImage {} | Step::ToMono {} => Ok(()),
        }
    }
}
