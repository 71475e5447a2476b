//! What the steps mean for one picture: random choices made, sizes known, and whatever can be done in one pass put together.
//!
//! ```text
//! steps + sides of the picture + key ─resolve→ operations ─fuse→ stages: shot │ pad │ colors
//! ```
//!
//! A shot is a part of a picture, resized, a part of that, flipped: rows of it are made one by one and go where they are wanted.

use super::color::{self, Adjust};
use super::dice::Dice;
use super::error::TransformError;
use super::picture::Area;
use super::step::{Interpolation, PaddingMode, Step};
use crate::sample_transform::SampleKey;

/// More pixels around a picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Padding {
    pub(super) left: usize,
    pub(super) top: usize,
    pub(super) right: usize,
    pub(super) bottom: usize,
    pub(super) fill: Vec<u8>,
    pub(super) mode: PaddingMode,
}

/// A part of a picture, perhaps resized, a part of that, perhaps flipped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shot {
    pub(super) area: Area,
    /// With which filter, to which height and width.
    pub(super) resize: Option<(Interpolation, usize, usize)>,
    /// Of what was resized, or of the area.
    pub(super) window: Area,
    pub(super) flips_across: bool,
    pub(super) flips_down: bool,
}

impl Shot {
    pub(super) fn whole(height: usize, width: usize) -> Shot {
        let whole = Area::whole(height, width);
        Shot { area: whole, resize: None, window: whole, flips_across: false, flips_down: false }
    }

    fn is_whole(&self, height: usize, width: usize) -> bool {
        *self == Shot::whole(height, width)
    }

    fn crop(&mut self, mut part: Area) {
        if self.flips_across {
            part.left = self.window.width - part.left - part.width;
        }
        if self.flips_down {
            part.top = self.window.height - part.top - part.height;
        }
        self.window = self.window.part(part);
        if self.resize.is_none() {
            self.area = self.area.part(Area { ..self.window });
            self.window = Area::whole(part.height, part.width);
        }
    }
}

/// What is done to a picture in one go.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    Shot(Shot),
    Pad(Padding),
    Adjust(Vec<Adjust>),
    /// To so many channels, 1 or 3, that are the brightness.
    Gray(usize),
    /// To three channels.
    Rgb,
}

/// The stages for one picture. The last one is a shot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) stages: Vec<Stage>,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
}

impl Plan {
    /// For a picture of these sides.
    pub(super) fn new(
        steps: &[Step],
        height: usize,
        width: usize,
        channels: usize,
        key: SampleKey,
    ) -> Result<Plan, TransformError> {
        let mut plan =
            Plan { stages: vec![Stage::Shot(Shot::whole(height, width))], height, width, channels };
        for (place, step) in steps.iter().enumerate() {
            plan.add(step, || Dice::new(key, place))?;
        }
        plan.end_with_a_shot();
        Ok(plan)
    }

    fn add(&mut self, step: &Step, dice: impl FnOnce() -> Dice) -> Result<(), TransformError> {
        let (height, width) = (self.height, self.width);
        match step {
            Step::Resize { size, max_size, interpolation } => {
                let (height, width) = resized(height, width, size, *max_size);
                self.resize(*interpolation, height, width);
            }
            Step::CenterCrop { size: [high, wide] } => {
                let (high, wide) = (*high as usize, *wide as usize);
                let (more_high, more_wide) = (high.saturating_sub(height), wide.saturating_sub(width));
                self.pad(Padding {
                    left: more_wide / 2,
                    top: more_high / 2,
                    right: more_wide.div_ceil(2),
                    bottom: more_high.div_ceil(2),
                    fill: Vec::new(),
                    mode: PaddingMode::Constant,
                })?;
                let (top, left) = (half_rounded(self.height - high), half_rounded(self.width - wide));
                self.crop(Area { top, left, height: high, width: wide });
            }
            Step::RandomCrop { size: [high, wide], padding, pad_if_needed, fill, padding_mode } => {
                let (high, wide) = (*high as usize, *wide as usize);
                let padded = |left, top, right, bottom| Padding {
                    left,
                    top,
                    right,
                    bottom,
                    fill: fill.clone(),
                    mode: *padding_mode,
                };
                if let Some([left, top, right, bottom]) =
                    padding.map(|padding| padding.map(|side| side as usize))
                {
                    self.pad(padded(left, top, right, bottom))?;
                }
                if *pad_if_needed {
                    let (down, across) = (high.saturating_sub(self.height), wide.saturating_sub(self.width));
                    self.pad(padded(across, down, across, down))?;
                }
                if high > self.height || wide > self.width {
                    return Err(TransformError::sample(
                        "RandomCrop",
                        format!(
                            "a part of {high} × {wide} of a picture of {} × {}; pad_if_needed=True pads it",
                            self.height, self.width
                        ),
                    ));
                }
                let mut dice = dice();
                let top = dice.below((self.height - high + 1) as u64) as usize;
                let left = dice.below((self.width - wide + 1) as u64) as usize;
                self.crop(Area { top, left, height: high, width: wide });
            }
            Step::RandomResizedCrop { size: [high, wide], scale, ratio, interpolation } => {
                self.crop(random_area(height, width, *scale, *ratio, &mut dice()));
                self.resize(*interpolation, *high as usize, *wide as usize);
            }
            Step::RandomHorizontalFlip { p } => {
                let flips = dice().unit() < *p;
                self.shot().flips_across ^= flips;
            }
            Step::RandomVerticalFlip { p } => {
                let flips = dice().unit() < *p;
                self.shot().flips_down ^= flips;
            }
            Step::Pad { padding, fill, padding_mode } => {
                let [left, top, right, bottom] = padding.map(|side| side as usize);
                self.pad(Padding { left, top, right, bottom, fill: fill.clone(), mode: *padding_mode })?;
            }
            Step::ColorJitter { brightness, contrast, saturation, hue } => {
                if !matches!(self.channels, 1 | 3) {
                    return Err(TransformError::sample(
                        "ColorJitter",
                        format!(
                            "takes 1 or 3 channels, the picture has {}; put RGB() before it",
                            self.channels
                        ),
                    ));
                }
                let drawn = color::draw(&mut dice(), *brightness, *contrast, *saturation, *hue);
                if !drawn.is_empty() {
                    self.stages.push(Stage::Adjust(drawn));
                }
            }
            Step::Grayscale { num_output_channels } => {
                if !matches!(self.channels, 1 | 3) {
                    return Err(TransformError::sample(
                        "Grayscale",
                        format!(
                            "takes 1 or 3 channels, the picture has {}; put RGB() before it",
                            self.channels
                        ),
                    ));
                }
                self.stages.push(Stage::Gray(*num_output_channels as usize));
                self.channels = *num_output_channels as usize;
            }
            Step::RGB {} if self.channels != 3 => {
                self.stages.push(Stage::Rgb);
                self.channels = 3;
            }
            // What is done to single numbers, or to their order, is done when rows are written.
            _ => {}
        }
        Ok(())
    }

    /// The shot at the end, a new one if there is none.
    fn shot(&mut self) -> &mut Shot {
        self.end_with_a_shot();
        match self.stages.last_mut() {
            Some(Stage::Shot(shot)) => shot,
            _ => unreachable!("the last stage is a shot"),
        }
    }

    fn end_with_a_shot(&mut self) {
        if !matches!(self.stages.last(), Some(Stage::Shot(_))) {
            self.stages.push(Stage::Shot(Shot::whole(self.height, self.width)));
        }
    }

    fn crop(&mut self, area: Area) {
        self.shot().crop(area);
        (self.height, self.width) = (area.height, area.width);
    }

    fn resize(&mut self, filter: Interpolation, height: usize, width: usize) {
        if (height, width) == (self.height, self.width) {
            return;
        }
        let shot = *self.shot();
        // The mirror image of a resized picture is not, to the last bit, the resized mirror image.
        if shot.resize.is_some() || shot.flips_across || shot.flips_down {
            self.stages.push(Stage::Shot(Shot::whole(self.height, self.width)));
        }
        let shot = self.shot();
        shot.resize = Some((filter, height, width));
        shot.window = Area::whole(height, width);
        (self.height, self.width) = (height, width);
    }

    fn pad(&mut self, padding: Padding) -> Result<(), TransformError> {
        let Padding { left, top, right, bottom, .. } = padding;
        if (left, top, right, bottom) == (0, 0, 0, 0) {
            return Ok(());
        }
        if !padding.fill.is_empty() && !matches!(padding.fill.len(), 1) && padding.fill.len() != self.channels
        {
            return Err(TransformError::sample(
                "Pad",
                format!("fill has {} numbers, the picture {} channels", padding.fill.len(), self.channels),
            ));
        }
        let room = usize::from(padding.mode != PaddingMode::Reflect);
        let is_too_wide = left.max(right) >= self.width + room || top.max(bottom) >= self.height + room;
        if is_too_wide && matches!(padding.mode, PaddingMode::Reflect | PaddingMode::Symmetric) {
            return Err(TransformError::sample(
                "Pad",
                format!("a picture of {} × {} cannot be mirrored that far", self.height, self.width),
            ));
        }
        // A shot of nothing but the whole picture needs no pass of its own.
        if let Some(Stage::Shot(shot)) = self.stages.last()
            && shot.is_whole(self.height, self.width)
        {
            self.stages.pop();
        }
        self.stages.push(Stage::Pad(padding));
        self.height += top + bottom;
        self.width += left + right;
        Ok(())
    }
}

/// Half, rounded to even as Python does it.
fn half_rounded(difference: usize) -> usize {
    let half = difference / 2;
    if difference % 2 == 1 && half % 2 == 1 { half + 1 } else { half }
}

/// The sides after a resize: torchvision's rule.
pub(super) fn resized(height: usize, width: usize, size: &[u32], max_size: Option<u32>) -> (usize, usize) {
    match *size {
        [height, width] => (height as usize, width as usize),
        [short_wanted] => {
            let (short, long) = (height.min(width) as f64, height.max(width) as f64);
            let mut new_short = f64::from(short_wanted);
            let mut new_long = (new_short * long / short).floor();
            if let Some(most) = max_size.map(f64::from)
                && new_long > most
            {
                (new_short, new_long) = ((most * new_short / new_long).floor(), most);
            }
            let (new_short, new_long) = (new_short.max(1.0) as usize, new_long.max(1.0) as usize);
            if width <= height { (new_long, new_short) } else { (new_short, new_long) }
        }
        _ => (height, width),
    }
}

/// A part of random area and shape: torchvision's rule. Ten tries, then the middle.
fn random_area(height: usize, width: usize, scale: [f64; 2], ratio: [f64; 2], dice: &mut Dice) -> Area {
    const TRIES: usize = 10;
    let (high, wide) = (height as f64, width as f64);
    let log_ratio = ratio.map(libm::log);
    for _ in 0..TRIES {
        let area = high * wide * dice.between(scale);
        let aspect = libm::exp(dice.between(log_ratio));
        let new_width = (area * aspect).sqrt().round_ties_even();
        let new_height = (area / aspect).sqrt().round_ties_even();
        if new_width >= 1.0 && new_width <= wide && new_height >= 1.0 && new_height <= high {
            let (new_height, new_width) = (new_height as usize, new_width as usize);
            let top = dice.below((height - new_height + 1) as u64) as usize;
            let left = dice.below((width - new_width + 1) as u64) as usize;
            return Area { top, left, height: new_height, width: new_width };
        }
    }
    let (new_height, new_width) = if wide / high < ratio[0] {
        (((wide / ratio[0]).round_ties_even() as usize).clamp(1, height), width)
    } else if wide / high > ratio[1] {
        (height, ((high * ratio[1]).round_ties_even() as usize).clamp(1, width))
    } else {
        (height, width)
    };
    Area {
        top: (height - new_height) / 2,
        left: (width - new_width) / 2,
        height: new_height,
        width: new_width,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SampleKey = SampleKey { seed: 1, epoch: 2, row: 3 };

    #[test]
    fn sides_follow_torchvision() {
        let check = |height, width, size: &[u32], most, expected| {
            assert_eq!(resized(height, width, size, most), expected);
        };
        check(480, 640, &[224], None, (224, 298));
        check(640, 480, &[224], None, (298, 224));
        check(100, 1000, &[50], Some(200), (20, 200));
        check(480, 640, &[10, 20], None, (10, 20));
        check(1, 1000, &[1], Some(2), (1, 2));
        for (difference, expected) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 2), (7, 4)] {
            assert_eq!(half_rounded(difference), expected);
        }
    }

    #[test]
    fn crops_resizes_and_flips_are_one_stage() {
        let steps = [
            Step::Resize { size: vec![256], max_size: None, interpolation: Interpolation::Bilinear },
            Step::CenterCrop { size: [224, 224] },
            Step::RandomHorizontalFlip { p: 1.0 },
            Step::RandomCrop {
                size: [200, 100],
                padding: None,
                pad_if_needed: false,
                fill: vec![],
                padding_mode: PaddingMode::Constant,
            },
        ];
        let plan = Plan::new(&steps, 480, 640, 3, KEY).unwrap();
        let [Stage::Shot(shot)] = plan.stages[..] else { panic!("{:?}", plan.stages) };
        assert_eq!(
            (shot.area, shot.resize),
            (Area::whole(480, 640), Some((Interpolation::Bilinear, 256, 341)))
        );
        assert_eq!((shot.window.height, shot.window.width, shot.flips_across), (200, 100, true));
        assert_eq!((plan.height, plan.width), (200, 100));
    }

    #[test]
    fn random_areas_lie_inside_and_have_the_asked_shape() {
        let mut whole = 0;
        for row in 0..2000 {
            let mut dice = Dice::new(SampleKey { row, ..KEY }, 0);
            let area = random_area(300, 400, [0.08, 1.0], [0.75, 4.0 / 3.0], &mut dice);
            assert!(area.top + area.height <= 300 && area.left + area.width <= 400);
            let part = (area.height * area.width) as f64 / 120_000.0;
            let ratio = area.width as f64 / area.height as f64;
            assert!((0.075..=1.0).contains(&part) && (0.73..=1.37).contains(&ratio), "{area:?}");
            whole += usize::from(part > 0.54);
        }
        // Half of the range of areas, less what does not fit.
        assert!((600..1050).contains(&whole), "{whole}");
        let mut dice = Dice::new(KEY, 0);
        let narrow = random_area(1000, 10, [0.9, 1.0], [0.75, 4.0 / 3.0], &mut dice);
        assert_eq!(narrow, Area { top: 493, left: 0, height: 13, width: 10 });
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let crop = Step::RandomCrop {
            size: [33, 32],
            padding: None,
            pad_if_needed: false,
            fill: vec![],
            padding_mode: PaddingMode::Constant,
        };
        let error = Plan::new(&[crop], 32, 32, 3, KEY).unwrap_err().to_string();
        assert!(error.starts_with("RandomCrop: a part of 33 × 32 of a picture of 32 × 32"), "{error}");
        let pad = Step::Pad { padding: [40, 0, 0, 0], fill: vec![], padding_mode: PaddingMode::Reflect };
        assert!(Plan::new(&[pad], 32, 32, 3, KEY).unwrap_err().to_string().contains("mirrored"));
    }
}
