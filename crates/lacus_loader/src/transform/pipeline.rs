//! A list of steps that was checked, and can be applied to samples.

use lacus_sample::{Base, Column};
use lacus_tensor::{Buffer, DType, Shape, Tensor, TensorRef};

use super::audio::{Sound, SoundWork};
use super::error::TransformError;
use super::finish::Finish;
use super::image::{ImageWork, Source};
use super::plan::resized;
use super::step::{OutputType, Step};
use crate::sample_transform::{SampleInput, SampleKey, SampleOutput, SampleTransform, TransformFailure};

/// Steps for pictures or for sound: checked once, applied to many samples from many threads.
#[derive(Debug, Clone)]
pub struct Pipeline {
    steps: Vec<Step>,
    finish: Finish,
    is_for_sound: bool,
    is_exact: bool,
}

/// What [`Pipeline::from_json`] reads.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    steps: Vec<Step>,
    #[serde(default)]
    exact: bool,
}

impl Pipeline {
    /// Checks the steps. With `is_exact`, a JPEG is decoded at full size before it is made smaller; else at the smallest of 1, 1/2,
    /// 1/4 and 1/8 that is at least as large as what is made of it.
    ///
    /// Fails for arguments that no sample could go with, and for steps that cannot follow each other: both name the step.
    pub fn new(steps: Vec<Step>, is_exact: bool) -> Result<Pipeline, TransformError> {
        let refuse =
            |at: usize, why: String| Err(TransformError::Step { place: at + 1, name: steps[at].name(), why });
        let is_for_sound = steps.iter().any(Step::is_for_sound);
        let mut is_float = is_for_sound;
        let mut channels: Option<usize> = None;
        for (at, step) in steps.iter().enumerate() {
            if let Err(why) = step.check() {
                return refuse(at, why);
            }
            if is_for_sound && !step.is_for_sound() && !step.is_for_both() {
                return refuse(at, "is for pictures, other steps of the list are for sound".into());
            }
            match step {
                Step::ToDtype { dtype: OutputType::Uint8, .. } if is_float => {
                    return refuse(at, "floats do not become bytes again".into());
                }
                Step::ToDtype { dtype, .. } => is_float |= *dtype != OutputType::Uint8,
                Step::Normalize { .. } if !is_float => {
                    return refuse(at, "takes floats: put ToDtype(\"float32\", scale=True) before it".into());
                }
                Step::Normalize { mean, .. } => match channels {
                    Some(channels) if mean.len() != 1 && mean.len() != channels => {
                        let why =
                            format!("mean has {} numbers, what comes in {channels} channels", mean.len());
                        return refuse(at, why);
                    }
                    _ if mean.len() > 4 => {
                        return refuse(
                            at,
                            format!("mean has {} numbers, pictures at most 4 channels", mean.len()),
                        );
                    }
                    _ if mean.len() > 1 => channels = Some(mean.len()),
                    _ => {}
                },
                Step::Grayscale { num_output_channels } => channels = Some(*num_output_channels as usize),
                Step::RGB {} => channels = Some(3),
                _ => {}
            }
            let only_moves = match step {
                Step::CenterCrop { .. }
                | Step::RandomHorizontalFlip { .. }
                | Step::RandomVerticalFlip { .. } => true,
                Step::RandomCrop { padding, pad_if_needed, .. } => padding.is_none() && !pad_if_needed,
                Step::ToDtype { .. } | Step::ToImage {} | Step::Normalize { .. } => true,
                _ => step.is_for_sound(),
            };
            if is_float && !only_moves {
                return refuse(at, "works on bytes: put it before ToDtype".into());
            }
        }
        Ok(Pipeline { finish: Finish::new(&steps), steps, is_for_sound, is_exact })
    }

    /// Reads `{"steps": [{"step": "Resize", "size": [224]}, …], "exact": false}`. Fails as [`Pipeline::new`] does, and for unknown
    /// names.
    pub fn from_json(text: &str) -> Result<Pipeline, TransformError> {
        let description: Description = serde_json::from_str(text).map_err(TransformError::Description)?;
        Pipeline::new(description.steps, description.exact)
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether it is for sound, not for pictures.
    pub fn is_for_sound(&self) -> bool {
        self.is_for_sound
    }

    /// The dtype of what comes out.
    pub fn dtype(&self) -> DType {
        if self.is_for_sound { self.sound_work().dtype() } else { self.finish.dtype() }
    }

    /// The shape of what comes out, if it is the same for all samples of this shape, in which unknown sizes are `None`.
    pub fn fixed_shape(&self, input: &[Option<u64>]) -> Option<Vec<u64>> {
        if self.is_for_sound {
            let (frames, channels) = match *input {
                [frames] => (frames, Some(1)),
                [frames, channels] => (frames, channels),
                _ => (None, None),
            };
            return self.sound_work().known_shape(frames, channels, None);
        }
        let (mut sides, mut channels) = match *input {
            [Some(height), Some(width)] => (Some((height, width)), Some(1)),
            [_, _] => (None, Some(1)),
            [Some(height), Some(width), channels] => (Some((height, width)), channels),
            [_, _, channels] => (None, channels),
            _ => (None, None),
        };
        for step in &self.steps {
            match step {
                Step::Resize { size, max_size, .. } => {
                    let new = match (size.as_slice(), sides) {
                        (&[height, width], _) => Some((height as usize, width as usize)),
                        (size, Some((height, width))) => {
                            Some(resized(height as usize, width as usize, size, *max_size))
                        }
                        _ => None,
                    };
                    sides = new.map(|(height, width)| (height as u64, width as u64));
                }
                Step::CenterCrop { size: [height, width] }
                | Step::RandomCrop { size: [height, width], .. }
                | Step::RandomResizedCrop { size: [height, width], .. } => {
                    sides = Some(((*height).into(), (*width).into()));
                }
                Step::Pad { padding: [left, top, right, bottom], .. } => {
                    sides = sides.map(|(height, width)| {
                        (
                            height + u64::from(*top) + u64::from(*bottom),
                            width + u64::from(*left) + u64::from(*right),
                        )
                    });
                }
                Step::Grayscale { num_output_channels } => channels = Some((*num_output_channels).into()),
                Step::RGB {} => channels = Some(3),
                _ => {}
            }
        }
        let channels = self.finish.channels().map(|channels| channels as u64).or(channels)?;
        let (height, width) = sides?;
        Some(self.finish.shape(height, width, channels))
    }

    /// Applies the steps to a media file.
    pub fn apply_to_file(&self, bytes: &[u8], key: SampleKey) -> Result<Tensor, TransformError> {
        self.to_tensor(&Input::File(bytes), key)
    }

    /// Applies the steps to pixels (`(height, width)` or `(height, width, channels)` of uint8), or to frames of sound.
    pub fn apply_to_tensor(&self, tensor: &TensorRef<'_>, key: SampleKey) -> Result<Tensor, TransformError> {
        self.to_tensor(&Input::Tensor(tensor), key)
    }

    fn to_tensor(&self, input: &Input<'_>, key: SampleKey) -> Result<Tensor, TransformError> {
        let shape = self.shape_of(input, key)?;
        let invalid = |error: lacus_tensor::TensorError| TransformError::Input(error.to_string());
        let shape = Shape::new(shape).map_err(invalid)?;
        let length = shape.byte_len(self.dtype()).map_err(invalid)?;
        let mut buffer = Buffer::try_for_overwrite(length).map_err(invalid)?;
        self.write(input, key, &mut buffer)?;
        Tensor::new(self.dtype(), shape, buffer).map_err(invalid)
    }

    fn shape_of(&self, input: &Input<'_>, key: SampleKey) -> Result<Vec<u64>, TransformError> {
        if self.is_for_sound {
            return self.sound_work().shape(&input.sound());
        }
        let (height, width, channels) = match input {
            Input::File(bytes) => match *lacus_media::probe(bytes)?.shape.as_slice() {
                [height, width] => (height, width, 1),
                [height, width, channels] => (height, width, channels),
                _ => return Err(TransformError::Input("the file holds no picture".into())),
            },
            Input::Tensor(tensor) => picture_sides(tensor)?,
        };
        self.image_work().shape(height as usize, width as usize, channels as usize, key)
    }

    fn write(&self, input: &Input<'_>, key: SampleKey, out: &mut [u8]) -> Result<(), TransformError> {
        let size = self.dtype().size_bytes() as u64;
        let memory_for = |shape: &[u64]| {
            let length = shape.iter().product::<u64>() * size;
            if out.len() as u64 != length {
                return Err(TransformError::Input(format!(
                    "comes out with shape {shape:?}, which takes {length} bytes; there are {}",
                    out.len()
                )));
            }
            Ok(out)
        };
        if self.is_for_sound {
            return self.sound_work().run(&input.sound(), key, memory_for);
        }
        match input {
            Input::File(bytes) => self.image_work().run(&Source::File(bytes), key, memory_for),
            Input::Tensor(tensor) => {
                let (height, width, channels) = picture_sides(tensor)?;
                let copied;
                let bytes = match tensor.contiguous_bytes() {
                    Some(bytes) => bytes,
                    None => {
                        copied = tensor.to_tensor();
                        copied.bytes()
                    }
                };
                let (height, width, channels) = (height as usize, width as usize, channels as usize);
                self.image_work().run(&Source::Pixels { bytes, height, width, channels }, key, memory_for)
            }
        }
    }

    fn image_work(&self) -> ImageWork<'_> {
        ImageWork { steps: &self.steps, finish: &self.finish, is_exact: self.is_exact }
    }

    fn sound_work(&self) -> SoundWork<'_> {
        SoundWork { steps: &self.steps }
    }
}

/// What comes in.
enum Input<'a> {
    File(&'a [u8]),
    Tensor(&'a TensorRef<'a>),
}

impl Input<'_> {
    fn sound(&self) -> Sound<'_> {
        match self {
            Input::File(bytes) => Sound::File(bytes),
            Input::Tensor(tensor) => Sound::Tensor(tensor),
        }
    }
}

fn picture_sides(tensor: &TensorRef<'_>) -> Result<(u64, u64, u64), TransformError> {
    match (tensor.dtype(), tensor.shape().dims()) {
        (DType::U8, &[height, width]) => Ok((height, width, 1)),
        (DType::U8, &[height, width, channels]) => Ok((height, width, channels)),
        (dtype, _) => Err(TransformError::Input(format!(
            "transforms take pictures of uint8 and shape (height, width) or (height, width, channels), found {dtype} of shape {}",
            tensor.shape()
        ))),
    }
}

impl From<TransformError> for TransformFailure {
    fn from(error: TransformError) -> TransformFailure {
        TransformFailure { kind: error.kind(), why: error.to_string() }
    }
}

fn input_of<'a>(input: &'a SampleInput<'a>) -> Input<'a> {
    match input {
        SampleInput::File { bytes, .. } => Input::File(bytes),
        SampleInput::Tensor(tensor) => Input::Tensor(tensor),
    }
}

impl SampleTransform for Pipeline {
    fn output(&self, column: &Column) -> Result<SampleOutput, TransformFailure> {
        let htype = column.htype();
        let is_right = match htype.base {
            Base::Generic => true,
            Base::Audio => self.is_for_sound,
            Base::Image | Base::ImageGray | Base::Dicom => !self.is_for_sound,
            _ => false,
        };
        if !is_right || htype.sequence {
            let what = if self.is_for_sound { "sound" } else { "pictures" };
            return Err(TransformFailure::invalid(format!(
                "the steps are for {what}, the column is {htype}"
            )));
        }
        if !self.is_for_sound && column.dtype().is_some_and(|dtype| dtype != DType::U8) {
            let found = column.dtype().map_or_else(String::new, |dtype| dtype.to_string());
            return Err(TransformFailure::invalid(format!(
                "transforms take pictures of uint8, the column is {found}"
            )));
        }
        let known = match (column.shape(), htype.base) {
            (Some(shape), _) => shape.to_vec(),
            (None, Base::ImageGray) => vec![None; 2],
            (None, _) => Vec::new(),
        };
        Ok(SampleOutput { dtype: self.dtype(), shape: self.fixed_shape(&known) })
    }

    fn output_shape(&self, input: &SampleInput<'_>, key: SampleKey) -> Result<Vec<u64>, TransformFailure> {
        Ok(self.shape_of(&input_of(input), key)?)
    }

    fn apply(&self, input: &SampleInput<'_>, key: SampleKey, out: &mut [u8]) -> Result<(), TransformFailure> {
        Ok(self.write(&input_of(input), key, out)?)
    }
}
