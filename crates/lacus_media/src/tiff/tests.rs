use super::*;

/// A TIFF of one directory with short tags, little-endian: `(tag, values)` and then pixels in one strip.
/// `StripOffsets` and `StripByteCounts` are added.
fn tiff(tags: &[(u16, &[u16])], strips: &[&[u8]]) -> Vec<u8> {
    let mut out = b"II*\0\x08\0\0\0".to_vec();
    let mut tags: Vec<(u16, Vec<u16>)> = tags.iter().map(|(tag, values)| (*tag, values.to_vec())).collect();
    tags.push((273, vec![0; strips.len()]));
    tags.push((279, strips.iter().map(|strip| strip.len() as u16).collect()));
    tags.sort();
    let entries_end = 8 + 2 + 12 * tags.len() + 4;
    let long_bytes: usize = tags.iter().map(|(_, values)| values.len() * 2).filter(|&bytes| bytes > 4).sum();
    let mut place = entries_end + long_bytes;
    for (_, offsets) in tags.iter_mut().filter(|(tag, _)| *tag == 273) {
        for (offset, strip) in offsets.iter_mut().zip(strips) {
            *offset = place as u16;
            place += strip.len();
        }
    }
    let mut long = Vec::new();
    out.extend((tags.len() as u16).to_le_bytes());
    for (tag, values) in &tags {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        out.extend(tag.to_le_bytes());
        out.extend(3u16.to_le_bytes());
        out.extend((values.len() as u32).to_le_bytes());
        if bytes.len() <= 4 {
            out.extend(&bytes);
            out.resize(out.len() + 4 - bytes.len(), 0);
        } else {
            out.extend(((entries_end + long.len()) as u32).to_le_bytes());
            long.extend(bytes);
        }
    }
    out.extend([0; 4]);
    [out, long, strips.concat()].concat()
}

const WIDTH: u16 = 256;
const HEIGHT: u16 = 257;
const BITS: u16 = 258;
const COMPRESSION: u16 = 259;
const PHOTOMETRIC: u16 = 262;
const SAMPLES: u16 = 277;
const ROWS_PER_STRIP: u16 = 278;
const PLANAR: u16 = 284;
const COLOR_MAP: u16 = 320;

fn check(bytes: &[u8], shape: &[u64], pixels: &[u8]) {
    let tiff = open(bytes).unwrap();
    assert_eq!(tiff.layout().shape, shape);
    let mut out = vec![0; tiff.layout().bytes() as usize];
    tiff.decode(bytes, 0..shape[0], &mut out).unwrap();
    assert_eq!(out, pixels);
}

#[test]
fn few_bits_are_spread() {
    let tags: &[(u16, &[u16])] = &[
        (WIDTH, &[3]),
        (HEIGHT, &[2]),
        (BITS, &[1]),
        (COMPRESSION, &[1]),
        (PHOTOMETRIC, &[1]),
        (SAMPLES, &[1]),
    ];
    check(&tiff(tags, &[&[0b0100_0000, 0b1010_0000]]), &[2, 3], &[0, 255, 0, 255, 0, 255]);
    let tags: &[(u16, &[u16])] = &[
        (WIDTH, &[3]),
        (HEIGHT, &[1]),
        (BITS, &[4]),
        (COMPRESSION, &[1]),
        (PHOTOMETRIC, &[1]),
        (SAMPLES, &[1]),
    ];
    check(&tiff(tags, &[&[0x0f, 0x30]]), &[1, 3], &[0, 255, 51]);
}

#[test]
fn palettes_are_refused() {
    let tags: &[(u16, &[u16])] = &[
        (WIDTH, &[2]),
        (HEIGHT, &[1]),
        (BITS, &[8]),
        (COMPRESSION, &[1]),
        (PHOTOMETRIC, &[3]),
        (SAMPLES, &[1]),
        (COLOR_MAP, &[0; 768]),
    ];
    let error = open(&tiff(tags, &[&[3, 255]])).err().unwrap();
    assert!(matches!(error, Cause::Unsupported(_)), "{error}");
}

#[test]
fn planes_are_interleaved() {
    let tags: &[(u16, &[u16])] = &[
        (WIDTH, &[2]),
        (HEIGHT, &[1]),
        (BITS, &[8, 8, 8]),
        (COMPRESSION, &[1]),
        (PHOTOMETRIC, &[2]),
        (SAMPLES, &[3]),
        (PLANAR, &[2]),
    ];
    check(&tiff(tags, &[&[1, 2], &[3, 4], &[5, 6]]), &[1, 2, 3], &[1, 3, 5, 2, 4, 6]);
}

#[test]
fn rows_come_from_their_strips_only() {
    let tags: &[(u16, &[u16])] = &[
        (WIDTH, &[2]),
        (HEIGHT, &[5]),
        (BITS, &[8]),
        (COMPRESSION, &[1]),
        (PHOTOMETRIC, &[1]),
        (SAMPLES, &[1]),
        (ROWS_PER_STRIP, &[2]),
    ];
    let mut bytes = tiff(tags, &[&[0, 1, 2, 3], &[4, 5, 6, 7], &[8, 9]]);
    check(&bytes, &[5, 2], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let picture = open(&bytes).unwrap();
    for (rows, expected) in [(0..1, vec![0, 1]), (1..3, vec![2, 3, 4, 5]), (3..5, vec![6, 7, 8, 9])] {
        let mut out = vec![0; expected.len()];
        picture.decode(&bytes, rows, &mut out).unwrap();
        assert_eq!(out, expected);
    }
    // The last strip is missing: whoever wants others does not notice.
    bytes.truncate(bytes.len() - 2);
    let mut out = [0; 4];
    picture.decode(&bytes, 2..4, &mut out).unwrap();
    assert_eq!(out, [4, 5, 6, 7]);
    assert!(picture.decode(&bytes, 3..5, &mut out).is_err());
}

#[test]
fn gray_with_alpha_as_jpeg_is_refused() {
    let with = |compression: u16| {
        let tags: &[(u16, &[u16])] = &[
            (WIDTH, &[1]),
            (HEIGHT, &[1]),
            (BITS, &[8, 8]),
            (COMPRESSION, &[compression]),
            (PHOTOMETRIC, &[1]),
            (SAMPLES, &[2]),
        ];
        tiff(tags, &[&[1, 2]])
    };
    check(&with(1), &[1, 1, 2], &[1, 2]);
    assert!(matches!(open(&with(JPEG)), Err(Cause::Unsupported(_))));
}
