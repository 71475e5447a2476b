//! Baseline JPEG: one scan of Huffman codes, gray or YCbCr. Decodes at full size or at a half, a quarter, an eighth of it, and only
//! the blocks of the wanted part: what is outside is stepped over, what is behind it is not read.
//!
//! ```text
//! segments ─read→ Plan ─for each block: codes → coefficients ─idct→ planes ─interpolate, convert→ rows of RGB
//! ```
//!
//! Pixels are the same bits as those of libjpeg-turbo with its default settings. Whatever is unusual (progressive or arithmetic
//! coding, CMYK, several scans, odd sampling, damage) is `None`: then the caller asks a decoder that knows all of JPEG.

use std::ops::Range;
use std::rc::Rc;

use super::color::{Plane, Row, to_rgb};
use super::huffman::{Bits, Codes, END_OF_BLOCK};
use super::idct::{self, Spot};
#[cfg(target_arch = "x86_64")]
use super::lanes::Avx2;
use super::lanes::{Lanes, Plain};
#[cfg(target_arch = "x86_64")]
use super::vectors::{self, Loop};

/// The place in a block of each coefficient, in the order of the file.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Memory and tables that the next file of this thread uses again: small pictures often have the same tables as their neighbours.
#[derive(Default)]
pub(super) struct Scratch {
    codes: Vec<Rc<Codes>>,
    planes: [Plane; 3],
    rows: [Row; 2],
}

/// Tables that are kept; a file has four.
const MOST_TABLES: usize = 8;
/// Planes of larger pictures are given back.
const MOST_KEPT_BYTES: usize = 4 << 20;

impl Scratch {
    fn codes(&mut self, segment: &[u8], is_ac: bool) -> Option<Rc<Codes>> {
        if let Some(found) = self.codes.iter().find(|codes| codes.is_of(segment, is_ac)) {
            return Some(Rc::clone(found));
        }
        let made = Rc::new(Codes::new(segment, is_ac)?);
        if self.codes.len() == MOST_TABLES {
            self.codes.remove(0);
        }
        self.codes.push(Rc::clone(&made));
        Some(made)
    }

    fn give_back(&mut self) {
        for plane in &mut self.planes {
            if plane.numbers.capacity() > MOST_KEPT_BYTES {
                plane.numbers = Vec::new();
            }
        }
    }
}

struct Component {
    id: u8,
    across: usize,
    down: usize,
    table: u8,
    quantisers: [i16; 64],
    differences: Option<Rc<Codes>>,
    coefficients: Option<Rc<Codes>>,
}

/// A file whose headers were read.
pub(super) struct Baseline<'a> {
    width: usize,
    height: usize,
    components: Vec<Component>,
    /// Blocks of the first component in a unit of coding, across and down.
    across: usize,
    down: usize,
    restart_interval: usize,
    coded: &'a [u8],
}

impl<'a> Baseline<'a> {
    /// Reads the segments up to the coded pixels.
    pub(super) fn read(bytes: &'a [u8], scratch: &mut Scratch) -> Option<Baseline<'a>> {
        let mut quantisers: [Option<[i16; 64]>; 4] = [None; 4];
        let mut codes: [[Option<Rc<Codes>>; 4]; 2] = Default::default();
        let (mut is_jfif, mut adobe) = (false, None);
        let mut plan: Option<Baseline<'a>> = None;
        let mut restart_interval = 0;
        let mut at = 2;
        loop {
            // Markers may be filled up with more 0xff, and stray bytes before them harm nobody.
            at += bytes.get(at..)?.iter().position(|&byte| byte == 0xff)?;
            at += bytes[at..].iter().position(|&byte| byte != 0xff)?;
            let (&marker, rest) = bytes[at..].split_first()?;
            let length = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
            let segment = rest.get(2..length)?;
            at += 1 + length;
            match marker {
                0xdb => read_quantisers(segment, &mut quantisers)?,
                0xc4 => {
                    let mut segment = segment;
                    while let Some((&kind, rest)) = segment.split_first() {
                        let counts = rest.get(..16)?;
                        let length = 16 + counts.iter().map(|&count| usize::from(count)).sum::<usize>();
                        let (table, rest) = rest.split_at_checked(length)?;
                        let (class, place) = (usize::from(kind >> 4), usize::from(kind & 15));
                        *codes.get_mut(class)?.get_mut(place)? = Some(scratch.codes(table, class == 1)?);
                        segment = rest;
                    }
                }
                0xc0 | 0xc1 if plan.is_none() => plan = Some(Baseline::of_frame(segment)?),
                0xdd => restart_interval = usize::from(u16::from_be_bytes(*segment.first_chunk()?)),
                0xda => {
                    let mut plan = plan?;
                    plan.restart_interval = restart_interval;
                    plan.coded = bytes.get(at..)?;
                    plan.read_scan(segment, &quantisers, &codes)?;
                    return plan.has_usual_colors(is_jfif, adobe).then_some(plan);
                }
                0xe0 => is_jfif |= segment.starts_with(b"JFIF\0"),
                0xee if segment.starts_with(b"Adobe") => adobe = Some(*segment.get(11)?),
                0xe1..=0xef | 0xfe => {}
                _ => return None,
            }
        }
    }

    fn of_frame(segment: &[u8]) -> Option<Baseline<'a>> {
        let (&[8, h1, h0, w1, w0, count], rest) = segment.split_first_chunk::<6>()? else { return None };
        let (height, width) =
            (usize::from(u16::from_be_bytes([h1, h0])), usize::from(u16::from_be_bytes([w1, w0])));
        let (described, rest) = rest.as_chunks::<3>();
        if height == 0 || width == 0 || described.len() != usize::from(count) || !rest.is_empty() {
            return None;
        }
        let mut components: Vec<Component> = Vec::with_capacity(3);
        for &[id, sampling, table] in described {
            components.push(Component {
                id,
                across: usize::from(sampling >> 4),
                down: usize::from(sampling & 15),
                table,
                quantisers: [0; 64],
                differences: None,
                coefficients: None,
            });
        }
        match components.as_mut_slice() {
            // A lone component is coded block by block, whatever its sampling.
            [gray] => (gray.across, gray.down) = (1, 1),
            [luma, blue, red]
                if (1..=2).contains(&luma.across)
                    && (1..=2).contains(&luma.down)
                    && [blue.across, blue.down, red.across, red.down] == [1; 4] => {}
            _ => return None,
        }
        let (across, down) = (components[0].across, components[0].down);
        Some(Baseline { width, height, components, across, down, restart_interval: 0, coded: &[] })
    }

    fn read_scan(
        &mut self,
        segment: &[u8],
        quantisers: &[Option<[i16; 64]>; 4],
        codes: &[[Option<Rc<Codes>>; 4]; 2],
    ) -> Option<()> {
        let (&count, rest) = segment.split_first()?;
        let (selected, rest) = rest.split_at_checked(2 * usize::from(count))?;
        // All components at once, from coefficient 0 to 63, at full precision.
        if rest != [0, 63, 0] || usize::from(count) != self.components.len() {
            return None;
        }
        for (component, &[id, tables]) in self.components.iter_mut().zip(selected.as_chunks::<2>().0) {
            if component.id != id {
                return None;
            }
            component.quantisers = (*quantisers.get(usize::from(component.table))?)?;
            component.differences = Some(Rc::clone(codes[0].get(usize::from(tables >> 4))?.as_ref()?));
            component.coefficients = Some(Rc::clone(codes[1].get(usize::from(tables & 15))?.as_ref()?));
        }
        Some(())
    }

    /// Whether three components are YCbCr, by the rules of the usual library.
    fn has_usual_colors(&self, is_jfif: bool, adobe: Option<u8>) -> bool {
        let [first, second, third] = self.components.as_slice() else { return true };
        match adobe {
            _ if is_jfif => true,
            Some(transform) => transform == 1,
            None => [first.id, second.id, third.id] != *b"RGB",
        }
    }

    /// The sides of the picture when it is decoded to `eighths` (8, 4, 2 or 1) of its size.
    pub(super) fn sides(&self, eighths: usize) -> (usize, usize) {
        ((self.height * eighths).div_ceil(8), (self.width * eighths).div_ceil(8))
    }

    pub(super) fn channels(&self) -> usize {
        self.components.len()
    }

    /// Decodes `rows` and `columns` of the picture at `eighths` of its size into `out`, which has exactly their length.
    pub(super) fn decode(
        &self,
        eighths: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Option<()> {
        let wanted = self.wanted_units(eighths, &rows, &columns);
        let sizes = self.prepare(eighths, &wanted, scratch);
        Blocks { file: self, sizes, wanted, planes: &mut scratch.planes }.decode()?;
        Rows { file: self, rows, columns, scratch, out }.write();
        scratch.give_back();
        Some(())
    }

    /// Units of coding that hold the wanted pixels and the neighbours that color is interpolated from.
    fn wanted_units(&self, eighths: usize, rows: &Range<usize>, columns: &Range<usize>) -> Wanted {
        let units = |range: &Range<usize>, sampling: usize, all: usize| {
            let side = eighths * sampling;
            range.start.saturating_sub(2) / side
                ..(range.end + 2).div_ceil(side).min(all.div_ceil(8 * sampling))
        };
        Wanted {
            rows: units(rows, self.down, self.height),
            columns: units(columns, self.across, self.width),
            across: self.width.div_ceil(8 * self.across),
        }
    }

    /// Takes memory for the planes, and says how many pixels a block of each component becomes, along a side.
    fn prepare(&self, eighths: usize, wanted: &Wanted, scratch: &mut Scratch) -> [usize; 3] {
        let mut sizes = [0; 3];
        for ((component, plane), taken) in self.components.iter().zip(&mut scratch.planes).zip(&mut sizes) {
            // Color at half the resolution is not reduced as far, so that it needs no interpolation.
            let spare = (self.across / component.across).min(self.down / component.down);
            let size = (eighths * spare).min(8);
            *taken = size;
            plane.left = wanted.columns.start * component.across * size;
            plane.top = wanted.rows.start * component.down * size;
            plane.stride = wanted.columns.len() * component.across * size;
            plane.width = (self.width * component.across * size).div_ceil(self.across * 8);
            plane.height = (self.height * component.down * size).div_ceil(self.down * 8);
            plane.across = self.across * eighths / (component.across * size);
            plane.down = self.down * eighths / (component.down * size);
            plane.is_smooth = eighths > 1 && (plane.width > 2 || plane.across == 1);
            plane.numbers.resize(plane.stride * wanted.rows.len() * component.down * size, 0);
        }
        sizes
    }
}

/// From codes to planes.
struct Blocks<'a> {
    file: &'a Baseline<'a>,
    sizes: [usize; 3],
    wanted: Wanted,
    planes: &'a mut [Plane; 3],
}

impl Blocks<'_> {
    fn decode(self) -> Option<()> {
        #[cfg(target_arch = "x86_64")]
        if vectors::has_avx2() {
            return vectors::vectorise(WithAvx2(self));
        }
        self.decode_with::<Plain>()
    }

    #[inline(always)]
    fn decode_with<L: Lanes>(self) -> Option<()> {
        let Blocks { file, sizes, wanted, planes } = self;
        let mut bits = Bits::new(file.coded);
        let mut last = [0i32; 3];
        let (mut until_restart, mut restarts) = (file.restart_interval, 0u8);
        let mut block = [0i16; 64];
        for unit_row in 0..wanted.rows.end {
            for unit in 0..wanted.across {
                if file.restart_interval > 0 {
                    if until_restart == 0 {
                        if !bits.restart(restarts) {
                            return None;
                        }
                        restarts = restarts.wrapping_add(1);
                        until_restart = file.restart_interval;
                        last = [0; 3];
                    }
                    until_restart -= 1;
                }
                let is_wanted = unit_row >= wanted.rows.start && wanted.columns.contains(&unit);
                for (index, component) in file.components.iter().enumerate() {
                    let (differences, coefficients) =
                        (component.differences.as_deref()?, component.coefficients.as_deref()?);
                    let size = sizes[index];
                    for part in 0..component.across * component.down {
                        let (_, difference) = bits.next(differences)?;
                        last[index] = last[index].wrapping_add(difference);
                        if !is_wanted {
                            step_over(&mut bits, coefficients)?;
                            continue;
                        }
                        block[0] = last[index] as i16;
                        let end = read_coefficients(&mut bits, coefficients, &mut block)?;
                        let plane = &mut planes[index];
                        let x = (unit - wanted.columns.start) * component.across + part % component.across;
                        let y = (unit_row - wanted.rows.start) * component.down + part / component.across;
                        let at = y * size * plane.stride + x * size;
                        let spot = Spot { at, stride: plane.stride, plane: &mut plane.numbers };
                        match (size, end) {
                            (8, 0) => idct::flat::<8>(block[0], component.quantisers[0], spot),
                            (8, _) => idct::full::<L>(&block, &component.quantisers, spot),
                            (4, 0) => idct::flat::<4>(block[0], component.quantisers[0], spot),
                            (4, _) => idct::half::<L>(&block, &component.quantisers, spot),
                            (2, 0) => idct::flat::<2>(block[0], component.quantisers[0], spot),
                            (2, _) => idct::quarter::<L>(&block, &component.quantisers, spot),
                            _ => idct::flat::<1>(block[0], component.quantisers[0], spot),
                        }
                        if end > 0 {
                            block = [0; 64];
                        }
                    }
                }
            }
            if bits.is_past_the_end() {
                return None;
            }
        }
        Some(())
    }
}

/// From planes to pixels.
struct Rows<'a> {
    file: &'a Baseline<'a>,
    rows: Range<usize>,
    columns: Range<usize>,
    scratch: &'a mut Scratch,
    out: &'a mut [u8],
}

impl Rows<'_> {
    fn write(self) {
        #[cfg(target_arch = "x86_64")]
        if vectors::has_avx2() {
            return vectors::vectorise(WithAvx2(self));
        }
        self.write_with::<Plain>();
    }

    #[inline(always)]
    fn write_with<L: Lanes>(self) {
        let Rows { file, rows, columns, scratch, out } = self;
        let Scratch { planes: [luma, blue, red], rows: [blue_row, red_row], .. } = scratch;
        let mut plain = Row::default();
        let length = columns.len() * file.channels();
        for (y, out) in rows.zip(out.chunks_exact_mut(length.max(1))) {
            let (from, to) = (columns.start, columns.end);
            let luma = plain.of(luma, y, from, to);
            if file.channels() == 1 {
                out.copy_from_slice(luma);
            } else {
                to_rgb::<L>(luma, blue_row.of(blue, y, from, to), red_row.of(red, y, from, to), out);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
struct WithAvx2<T>(T);

#[cfg(target_arch = "x86_64")]
impl Loop for WithAvx2<Blocks<'_>> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(self) -> Option<()> {
        self.0.decode_with::<Avx2>()
    }
}

#[cfg(target_arch = "x86_64")]
impl Loop for WithAvx2<Rows<'_>> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.0.write_with::<Avx2>();
    }
}

/// Units of coding: those to decode, and how many a row has.
struct Wanted {
    rows: Range<usize>,
    columns: Range<usize>,
    across: usize,
}

/// Reads the coefficients behind the first one of a block of zeros. Gives the place of the last one that was read, 0 for none.
#[inline(always)]
fn read_coefficients(all: &mut Bits<'_>, codes: &Codes, block: &mut [i16; 64]) -> Option<usize> {
    let mut bits = *all;
    let mut at = 1;
    let mut end = 0;
    while at < 64 {
        let (run, value) = bits.next(codes)?;
        at += run as usize;
        if at >= 64 {
            *all = bits;
            return (run >= END_OF_BLOCK).then_some(end);
        }
        block[usize::from(ZIGZAG[at] & 63)] = value as i16;
        end = at;
        at += 1;
    }
    *all = bits;
    Some(end)
}

#[inline(always)]
fn step_over(all: &mut Bits<'_>, codes: &Codes) -> Option<()> {
    let mut bits = *all;
    let mut at = 1;
    while at < 64 {
        let (run, _) = bits.next(codes)?;
        at += run as usize + 1;
        if at > 64 {
            *all = bits;
            return (run >= END_OF_BLOCK).then_some(());
        }
    }
    *all = bits;
    Some(())
}

/// Reads tables of quantisers, of 8 or 16 bits each.
fn read_quantisers(mut segment: &[u8], tables: &mut [Option<[i16; 64]>; 4]) -> Option<()> {
    while let Some((&kind, rest)) = segment.split_first() {
        let mut table = [0; 64];
        let size = match kind >> 4 {
            0 => 1,
            1 => 2,
            _ => return None,
        };
        let (numbers, rest) = rest.split_at_checked(64 * size)?;
        for (number, &place) in numbers.chunks_exact(size).zip(&ZIGZAG) {
            // Sixteen bits are allowed; nobody divides by more than fifteen.
            let number = number.iter().fold(0, |sum, &byte| sum << 8 | i32::from(byte));
            table[usize::from(place)] = i16::try_from(number).ok()?;
        }
        *tables.get_mut(usize::from(kind & 15))? = Some(table);
        segment = rest;
    }
    Some(())
}
