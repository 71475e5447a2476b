//! Pictures through a plan: decoded no larger than needed, rows written straight to where the batch wants them.

use std::cell::RefCell;

use lacus_media::{Limits, Part, PictureFacts, decode_part};
use lacus_tensor::DType;

use super::color::{self, luma};
use super::error::TransformError;
use super::finish::Finish;
use super::picture::{Area, Picture};
use super::plan::{Padding, Plan, Shot, Stage};
use super::resize::{Resize, ResizeMemory, resize};
use super::step::{Interpolation, PaddingMode, Step};
use crate::sample_transform::SampleKey;

/// Memory that the next picture of this thread uses again.
#[derive(Default)]
struct Memory {
    decoded: Vec<u8>,
    stages: [Vec<u8>; 2],
    row: Vec<u8>,
    resize: ResizeMemory,
}

/// What is kept of it between pictures; that of larger ones is given back.
const MOST_KEPT_BYTES: usize = 8 << 20;

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// Runs `work` with the memory of this thread, also if it is within such work already.
fn with_memory<T>(work: impl FnOnce(&mut Memory) -> T) -> T {
    let mut memory = MEMORY.take();
    let result = work(&mut memory);
    let [first, second] = &mut memory.stages;
    for bytes in [&mut memory.decoded, first, second] {
        if bytes.capacity() > MOST_KEPT_BYTES {
            *bytes = Vec::new();
        }
    }
    MEMORY.set(memory);
    result
}

/// What comes in.
pub(super) enum Source<'a> {
    /// A file.
    File(&'a [u8]),
    /// Bytes of pixels without gaps, channels last.
    Pixels { bytes: &'a [u8], height: usize, width: usize, channels: usize },
}

/// What a list of steps for pictures does.
#[derive(Debug)]
pub(super) struct ImageWork<'a> {
    pub(super) steps: &'a [Step],
    pub(super) finish: &'a Finish,
    /// Whether JPEG is decoded at full size before it is made smaller.
    pub(super) is_exact: bool,
}

impl ImageWork<'_> {
    fn plan(
        &self,
        height: usize,
        width: usize,
        channels: usize,
        key: SampleKey,
    ) -> Result<Plan, TransformError> {
        if height == 0 || width == 0 || channels == 0 || channels > 4 {
            return Err(TransformError::Input(format!(
                "transforms take pictures of 1 to 4 channels, found {height} × {width} pixels of {channels} channels"
            )));
        }
        let plan = Plan::new(self.steps, height, width, channels, key)?;
        match self.finish.channels() {
            Some(expected) if expected != plan.channels => Err(TransformError::sample(
                "Normalize",
                format!(
                    "mean has {expected} numbers, the picture {} channels; put RGB() or Grayscale() before it",
                    plan.channels
                ),
            )),
            _ => Ok(plan),
        }
    }

    /// The shape of what comes out.
    pub(super) fn shape(
        &self,
        height: usize,
        width: usize,
        channels: usize,
        key: SampleKey,
    ) -> Result<Vec<u64>, TransformError> {
        let plan = self.plan(height, width, channels, key)?;
        Ok(self.finish.shape(plan.height as u64, plan.width as u64, plan.channels as u64))
    }

    /// Writes what comes out to what `memory` gives for its shape.
    pub(super) fn run<'o>(
        &self,
        source: &Source<'_>,
        key: SampleKey,
        memory_for: impl FnOnce(&[u64]) -> Result<&'o mut [u8], TransformError>,
    ) -> Result<(), TransformError> {
        with_memory(|memory| {
            let Memory { decoded, stages, row, resize } = memory;
            let mut work = Rendering { stages, row, resize };
            match *source {
                Source::Pixels { bytes, height, width, channels } => {
                    let plan = self.plan(height, width, channels, key)?;
                    let picture = Picture::new(bytes, height, width, channels);
                    work.run(picture, None, &plan, self.finish, memory_for)
                }
                Source::File(bytes) => {
                    let mut plan = None;
                    let (facts, part) = decode_part(
                        bytes,
                        &Limits::default(),
                        decoded,
                        |facts| -> Result<Part, TransformError> {
                            if facts.dtype != DType::U8 {
                                return Err(TransformError::Input(format!(
                                    "transforms take pictures of uint8, found {}",
                                    facts.dtype
                                )));
                            }
                            let plan =
                                plan.insert(self.plan(facts.height, facts.width, facts.channels, key)?);
                            Ok(self.wanted_part(plan, facts))
                        },
                    )?;
                    let plan =
                        plan.ok_or_else(|| TransformError::Input("the file was not looked at".into()))?;
                    let picture = Picture::new(decoded, part.rows.len(), part.columns.len(), facts.channels);
                    work.run(picture, Some(&part), &plan, self.finish, memory_for)
                }
            }
        })
    }

    /// What of a file is needed for the first stage.
    fn wanted_part(&self, plan: &Plan, facts: &PictureFacts) -> Part {
        let Some(Stage::Shot(shot)) = plan.stages.first() else {
            return Part { reduction: 1, rows: 0..facts.height, columns: 0..facts.width };
        };
        let reduction = match shot.resize {
            Some((filter, height, width)) if !self.is_exact && filter != Interpolation::Nearest => {
                // Still at least as large as what is made of it, so that the filter has the last word.
                let fits = |by: usize| shot.area.height >= height * by && shot.area.width >= width * by;
                [8, 4, 2].into_iter().find(|&by| fits(by)).unwrap_or(1)
            }
            _ => 1,
        };
        let Area { top, left, height, width } = shot.area;
        Part {
            reduction: reduction as u8,
            rows: top / reduction..(top + height).div_ceil(reduction),
            columns: left / reduction..(left + width).div_ceil(reduction),
        }
    }
}

/// The memory of a picture on its way.
struct Rendering<'m> {
    stages: &'m mut [Vec<u8>; 2],
    row: &'m mut Vec<u8>,
    resize: &'m mut ResizeMemory,
}

impl Rendering<'_> {
    /// Runs all stages; `part` says which part of the whole `picture` is.
    fn run<'o>(
        &mut self,
        picture: Picture<'_>,
        part: Option<&Part>,
        plan: &Plan,
        finish: &Finish,
        memory_for: impl FnOnce(&[u64]) -> Result<&'o mut [u8], TransformError>,
    ) -> Result<(), TransformError> {
        let shape = finish.shape(plan.height as u64, plan.width as u64, plan.channels as u64);
        let out = memory_for(&shape)?;
        let [mut current, mut next] = std::mem::take(self.stages);
        let (mut height, mut width, mut channels) = (picture.height, picture.width, picture.channels);
        for (place, stage) in plan.stages.iter().enumerate() {
            let picture = if place == 0 { picture } else { Picture::new(&current, height, width, channels) };
            let part = if place == 0 { part } else { None };
            match stage {
                Stage::Shot(shot) if place + 1 == plan.stages.len() => {
                    self.render(picture, part, shot, |y, row| {
                        finish.write_row(row, channels, y, shot.window.height, out);
                    });
                    break;
                }
                Stage::Shot(shot) => {
                    (height, width) = (shot.window.height, shot.window.width);
                    let length = width * channels;
                    next.resize(height * length, 0);
                    self.render(picture, part, shot, |y, row| {
                        next[y * length..][..length].copy_from_slice(row);
                    });
                }
                Stage::Pad(padding) => {
                    pad(picture, padding, &mut next);
                    (height, width) =
                        (height + padding.top + padding.bottom, width + padding.left + padding.right);
                }
                Stage::Adjust(adjustments) => {
                    copy(picture, &mut next);
                    adjustments.iter().for_each(|&adjustment| color::adjust(&mut next, channels, adjustment));
                }
                Stage::Gray(count) => {
                    to_gray(picture, *count, &mut next);
                    channels = *count;
                }
                Stage::Rgb => {
                    to_rgb(picture, &mut next);
                    channels = 3;
                }
            }
            std::mem::swap(&mut current, &mut next);
        }
        *self.stages = [current, next];
        Ok(())
    }

    /// Makes the rows of a shot, one by one.
    fn render(
        &mut self,
        picture: Picture<'_>,
        part: Option<&Part>,
        shot: &Shot,
        mut take: impl FnMut(usize, &[u8]),
    ) {
        let channels = picture.channels;
        let height = shot.window.height;
        let mut place = |y: usize, row: &mut [u8]| {
            if shot.flips_across {
                mirror(row, channels);
            }
            take(if shot.flips_down { height - 1 - y } else { y }, row);
        };
        let (origin, reduction) = part.map_or((Area::whole(0, 0), 1), |part| {
            let origin = Area { top: part.rows.start, left: part.columns.start, height: 0, width: 0 };
            (origin, usize::from(part.reduction))
        });
        // The area within what was decoded.
        let within = |from: usize, length: usize, start: usize| {
            let at = |place: usize| place as f64 / reduction as f64 - start as f64;
            (at(from), at(from + length))
        };
        let window = shot.window;
        if let Some((filter, new_height, new_width)) = shot.resize {
            let area = shot.area;
            let (picture, rows, columns) = if reduction == 1 {
                let area = Area { top: area.top - origin.top, left: area.left - origin.left, ..area };
                (picture.part(area), (0.0, area.height as f64), (0.0, area.width as f64))
            } else {
                let rows = within(area.top, area.height, origin.top);
                (picture, rows, within(area.left, area.width, origin.left))
            };
            let wanted = Resize { filter, rows, columns, height: new_height, width: new_width };
            let (rows, columns) = (window.top..window.top + height, window.left..window.left + window.width);
            resize(picture, &wanted, rows, columns, self.resize, place);
        } else {
            let area = shot.area.part(window);
            let area = Area { top: area.top - origin.top, left: area.left - origin.left, ..area };
            let picture = picture.part(area);
            for y in 0..height {
                self.row.clear();
                self.row.extend_from_slice(picture.row(y));
                place(y, self.row);
            }
        }
    }
}

/// Exchanges left and right.
fn mirror(row: &mut [u8], channels: usize) {
    match channels {
        1 => row.reverse(),
        3 => row.as_chunks_mut::<3>().0.reverse(),
        _ => {
            row.reverse();
            row.chunks_exact_mut(channels).for_each(<[u8]>::reverse);
        }
    }
}

fn copy(picture: Picture<'_>, out: &mut Vec<u8>) {
    out.clear();
    (0..picture.height).for_each(|y| out.extend_from_slice(picture.row(y)));
}

fn to_gray(picture: Picture<'_>, count: usize, out: &mut Vec<u8>) {
    out.clear();
    for y in 0..picture.height {
        let row = picture.row(y);
        if picture.channels == 1 {
            row.iter().for_each(|&gray| out.extend(std::iter::repeat_n(gray, count)));
        } else {
            row.as_chunks::<3>()
                .0
                .iter()
                .for_each(|&pixel| out.extend(std::iter::repeat_n(luma(pixel), count)));
        }
    }
}

/// Gray is repeated, alpha dropped.
fn to_rgb(picture: Picture<'_>, out: &mut Vec<u8>) {
    out.clear();
    for y in 0..picture.height {
        for pixel in picture.row(y).chunks_exact(picture.channels) {
            match *pixel {
                [gray] | [gray, _] => out.extend([gray; 3]),
                [red, green, blue, ..] => out.extend([red, green, blue]),
                [] => {}
            }
        }
    }
}

fn pad(picture: Picture<'_>, padding: &Padding, out: &mut Vec<u8>) {
    let channels = picture.channels;
    let fill: Vec<u8> = (0..channels)
        .map(|channel| *padding.fill.get(channel).or(padding.fill.first()).unwrap_or(&0))
        .collect();
    // The old place of a new one, `None` for the color.
    let old = |new: usize, before: usize, side: usize| -> Option<usize> {
        let (at, last) = (new as i64 - before as i64, side as i64 - 1);
        let inside = (0..=last).contains(&at);
        let at = match padding.mode {
            _ if inside => at,
            PaddingMode::Constant => return None,
            PaddingMode::Edge => at.clamp(0, last),
            PaddingMode::Reflect if at < 0 => -at,
            PaddingMode::Reflect => 2 * last - at,
            PaddingMode::Symmetric if at < 0 => -at - 1,
            PaddingMode::Symmetric => 2 * last + 1 - at,
        };
        Some(at as usize)
    };
    let width = padding.left + picture.width + padding.right;
    let height = padding.top + picture.height + padding.bottom;
    out.clear();
    out.reserve(height * width * channels);
    for y in 0..height {
        let Some(row) = old(y, padding.top, picture.height).map(|y| picture.row(y)) else {
            (0..width).for_each(|_| out.extend_from_slice(&fill));
            continue;
        };
        let outside = |out: &mut Vec<u8>, x: usize| match old(x, padding.left, picture.width) {
            Some(x) => out.extend_from_slice(&row[x * channels..][..channels]),
            None => out.extend_from_slice(&fill),
        };
        (0..padding.left).for_each(|x| outside(out, x));
        out.extend_from_slice(row);
        (padding.left + picture.width..width).for_each(|x| outside(out, x));
    }
}
