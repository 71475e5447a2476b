//! Pixels of videos need the `ffmpeg` program. Without it these tests say loudly that they did not run.

use lacus_media::{Format, Limits, decode, decode_region, ffmpeg, probe};
use lacus_tensor::ErrorKind;

use crate::samples::videos;

/// Ten frames of ffmpeg's test picture, a key frame every five.
#[test]
fn containers_are_read_without_ffmpeg() {
    for (format, bytes) in videos() {
        let facts = probe(bytes).unwrap();
        assert_eq!((facts.format, facts.shape.as_slice()), (format, &[10, 32, 48, 3][..]));
        let codec = if format == Format::Mp4 { "avc1" } else { "V_VP8" };
        assert_eq!(facts.details["codec"], codec);
        assert_eq!(facts.details["key_frames"], serde_json::json!([0, 5]));
        let number = |name: &str| facts.details[name].as_f64().unwrap();
        assert!((number("duration_secs") - 1.0).abs() < 0.05, "{format}: {}", number("duration_secs"));
        assert!((number("fps") - 10.0).abs() < 0.5, "{format}: {}", number("fps"));
    }
}

#[test]
fn frames_alone_are_those_of_the_whole() {
    if is_missing() {
        return;
    }
    for (format, bytes) in videos() {
        let whole = decode(bytes, &Limits::default()).unwrap();
        assert_eq!(whole.shape().dims(), [10, 32, 48, 3]);
        // The test picture moves, so no two frames are the same.
        let frame_bytes = 32 * 48 * 3;
        let frames: Vec<&[u8]> = whole.bytes().chunks_exact(frame_bytes).collect();
        assert!(frames.windows(2).all(|pair| pair[0] != pair[1]), "{format}");
        for range in [0..1, 3..4, 4..7, 5..6, 9..10, 0..10, 2..2] {
            let part = decode_region(bytes, std::slice::from_ref(&range), &Limits::default()).unwrap();
            let expected = frames[range.start as usize..range.end as usize].concat();
            assert!(part.bytes() == expected, "{format} {range:?}");
        }
        let corner = decode_region(bytes, &[6..8, 0..2, 1..3], &Limits::default()).unwrap();
        assert_eq!(corner.shape().dims(), [2, 2, 2, 3]);
        assert_eq!(corner.bytes()[..6], frames[6][3..9]);
    }
}

#[test]
fn a_video_that_ffmpeg_cannot_decode_is_an_error_about_the_video() {
    if is_missing() {
        return;
    }
    // The pictures are overwritten, and the tables that list them are not.
    let mut broken = videos()[0].1.to_vec();
    let pictures = broken.windows(4).position(|name| name == b"mdat").unwrap() + 4;
    let tables = broken.windows(4).position(|name| name == b"moov").unwrap() - 4;
    broken[pictures..tables].fill(0);
    assert_eq!(probe(&broken).unwrap().shape, [10, 32, 48, 3]);
    let error = decode(&broken, &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("frames 0 to 10 of 48 × 32 pixels take 46080 bytes"), "{error}");
}

#[test]
fn without_ffmpeg_the_error_says_what_to_install() {
    if ffmpeg().is_some() {
        return;
    }
    let error = decode(videos()[0].1, &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("install"), "{error}");
}

#[expect(clippy::print_stderr, reason = "a test that did not run must be heard")]
fn is_missing() -> bool {
    let is_missing = ffmpeg().is_none();
    if is_missing {
        eprintln!(
            "SKIPPED: decoding video is NOT TESTED, because there is no ffmpeg on PATH or in LACUS_FFMPEG"
        );
    }
    is_missing
}
