//! Colors of a picture changed in place, with Pillow's rounding: brightness, contrast, saturation; hue as torchvision does it on
//! tensors. And gray.

use super::dice::Dice;

/// One change, with its factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Adjust {
    Brightness(f32),
    Contrast(f32),
    Saturation(f32),
    Hue(f32),
}

/// The changes of one sample, in the order that was drawn.
pub(super) fn draw(
    dice: &mut Dice,
    brightness: Option<[f64; 2]>,
    contrast: Option<[f64; 2]>,
    saturation: Option<[f64; 2]>,
    hue: Option<[f64; 2]>,
) -> Vec<Adjust> {
    let mut order = [0, 1, 2, 3];
    for last in (1..4).rev() {
        order.swap(last, dice.below(last as u64 + 1) as usize);
    }
    // Every number is drawn, so that one argument does not change what another one does.
    let mut factor = |range: Option<[f64; 2]>| {
        let drawn = dice.between(range.unwrap_or([0.0, 1.0])) as f32;
        range.map(|_| drawn)
    };
    let all = [
        factor(brightness).map(Adjust::Brightness),
        factor(contrast).map(Adjust::Contrast),
        factor(saturation).map(Adjust::Saturation),
        factor(hue).map(Adjust::Hue),
    ];
    order.iter().filter_map(|&place: &usize| all[place]).collect()
}

/// The brightness of a pixel, in 8 bits (ITU-R 601).
#[inline(always)]
pub(super) fn luma([red, green, blue]: [u8; 3]) -> u8 {
    ((u32::from(red) * 19595 + u32::from(green) * 38470 + u32::from(blue) * 7471 + 0x8000) >> 16) as u8
}

/// Between two numbers, or beyond the second: cut off, not rounded.
#[inline(always)]
fn blend(from: u8, to: u8, factor: f32) -> u8 {
    (f32::from(from) + factor * (f32::from(to) - f32::from(from))).clamp(0.0, 255.0) as u8
}

/// Changes pixels of 1 or 3 channels.
pub(super) fn adjust(bytes: &mut [u8], channels: usize, adjust: Adjust) {
    match adjust {
        Adjust::Brightness(factor) => through_table(bytes, |byte| blend(0, byte, factor)),
        Adjust::Contrast(factor) => {
            let mean = mean_luma(bytes, channels);
            through_table(bytes, |byte| blend(mean, byte, factor));
        }
        Adjust::Saturation(factor) if channels == 3 => {
            for pixel in bytes.as_chunks_mut::<3>().0 {
                let gray = luma(*pixel);
                *pixel = [
                    blend(gray, pixel[0], factor),
                    blend(gray, pixel[1], factor),
                    blend(gray, pixel[2], factor),
                ];
            }
        }
        Adjust::Hue(turn) if channels == 3 => {
            for pixel in bytes.as_chunks_mut::<3>().0 {
                *pixel = turned(*pixel, turn);
            }
        }
        // Gray has neither.
        Adjust::Saturation(_) | Adjust::Hue(_) => {}
    }
}

fn through_table(bytes: &mut [u8], change: impl Fn(u8) -> u8) {
    let mut table = [0; 256];
    (0..=255u8).for_each(|byte| table[usize::from(byte)] = change(byte));
    bytes.iter_mut().for_each(|byte| *byte = table[usize::from(*byte)]);
}

/// The mean brightness, rounded.
fn mean_luma(bytes: &[u8], channels: usize) -> u8 {
    let (sum, count) = if channels == 3 {
        let pixels = bytes.as_chunks::<3>().0;
        (pixels.iter().map(|pixel| u64::from(luma(*pixel))).sum::<u64>(), pixels.len())
    } else {
        (bytes.iter().map(|&byte| u64::from(byte)).sum(), bytes.len())
    };
    if count == 0 { 0 } else { (sum as f64 / count as f64 + 0.5) as u8 }
}

/// A color with another hue: `turn` is a part of the circle.
fn turned(pixel: [u8; 3], turn: f32) -> [u8; 3] {
    let unit = |byte: u8| f32::from(byte) / 255.0;
    let [red, green, blue] = [unit(pixel[0]), unit(pixel[1]), unit(pixel[2])];
    let most = red.max(green).max(blue);
    let least = red.min(green).min(blue);
    let range = most - least;
    if range == 0.0 {
        return pixel;
    }
    let saturation = range / most;
    let hue = if most == red {
        (green - blue) / range
    } else if most == green {
        2.0 + (blue - red) / range
    } else {
        4.0 + (red - green) / range
    };
    let hue = (hue / 6.0 + 1.0 + turn).rem_euclid(1.0) * 6.0;
    let sector = hue.floor();
    let within = hue - sector;
    let low = most * (1.0 - saturation);
    let falling = most * (1.0 - saturation * within);
    let rising = most * (1.0 - saturation * (1.0 - within));
    let [red, green, blue] = match sector as u32 % 6 {
        0 => [most, rising, low],
        1 => [falling, most, low],
        2 => [low, most, rising],
        3 => [low, falling, most],
        4 => [rising, low, most],
        _ => [most, low, falling],
    };
    // Each of the 256 numbers has the same share of 0 to 1.
    let byte = |unit: f32| (unit.clamp(0.0, 1.0) * 255.999) as u8;
    [byte(red), byte(green), byte(blue)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_of_one_changes_nothing() {
        let bytes: Vec<u8> = (0..300).map(|at| (at * 7 % 256) as u8).collect();
        for change in [Adjust::Brightness(1.0), Adjust::Contrast(1.0), Adjust::Saturation(1.0)] {
            for channels in [1, 3] {
                let mut changed = bytes.clone();
                adjust(&mut changed, channels, change);
                assert_eq!(changed, bytes, "{change:?}");
            }
        }
        for color in [[0, 0, 0], [255, 255, 255], [255, 0, 0], [12, 200, 100], [1, 2, 3]] {
            let same = turned(color, 0.0);
            assert!(color.iter().zip(same).all(|(a, b)| a.abs_diff(b) <= 1), "{color:?} {same:?}");
        }
    }

    #[test]
    fn a_third_of_a_turn_exchanges_the_channels() {
        assert_eq!(turned([255, 0, 0], 1.0 / 3.0), [0, 255, 0]);
        assert_eq!(turned([255, 0, 0], -1.0 / 3.0), [0, 0, 255]);
        assert_eq!(turned([0, 255, 0], 0.5), [255, 0, 255]);
    }

    #[test]
    fn no_brightness_is_black_and_no_contrast_is_the_mean() {
        let mut bytes = [10, 20, 30, 40, 50, 60];
        adjust(&mut bytes, 1, Adjust::Contrast(0.0));
        assert_eq!(bytes, [35; 6]);
        adjust(&mut bytes, 1, Adjust::Brightness(0.0));
        assert_eq!(bytes, [0; 6]);
        let mut bytes = [10, 20, 30];
        adjust(&mut bytes, 3, Adjust::Saturation(0.0));
        assert_eq!(bytes, [luma([10, 20, 30]); 3]);
    }
}
