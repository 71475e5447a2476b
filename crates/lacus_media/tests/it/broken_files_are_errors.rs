//! Cut, flipped and overwritten files: an error of kind `Invalid`, or pixels; never a panic, and never the
//! pixels of a whole file made up where some are missing.

use lacus_media::{Format, Limits, decode, decode_region, probe, verify};
use lacus_tensor::ErrorKind;

use crate::memory::largest_allocation;
use crate::samples::{files, noise, videos};

/// Flipped sizes are refused beyond this, or else these tests would spend their time on empty pixels.
const LIMITS: Limits = Limits { pixels: 1 << 17, bytes: 1 << 19 };
/// Memory that a decoder may ask for at once, whatever a small file says: some times what is allowed to come
/// out, for decoders that hold coefficients.
const MOST_MEMORY: usize = 16 << 20;
/// Places tried in a file, besides its first bytes.
const PLACES: usize = 60;

/// Tries everything on `bytes`: errors are about the input, and facts agree with pixels.
fn try_all(format: Format, bytes: &[u8], what: &str) {
    let mut results = None;
    let taken = largest_allocation(|| {
        let part = decode_region(bytes, &[0..1], &LIMITS);
        results = Some((probe(bytes), decode(bytes, &LIMITS), part));
    });
    assert!(taken < MOST_MEMORY, "{format}, {what}: {taken} bytes at once");
    let (facts, decoded, part) = results.expect("the work was done");
    for error in [facts.as_ref().err(), decoded.as_ref().err(), part.as_ref().err()].into_iter().flatten() {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{format}, {what}: {error}");
        assert!(!error.to_string().is_empty());
    }
    if let Ok(decoded) = decoded {
        let facts = facts.unwrap_or_else(|error| panic!("{format}, {what}: decoded, but {error}"));
        assert_eq!(
            (facts.dtype, facts.shape.as_slice()),
            (decoded.dtype(), decoded.shape().dims()),
            "{format}, {what}"
        );
    }
}

#[test]
fn cut_files_are_errors_or_whole() {
    for (format, bytes) in files() {
        let whole = decode(&bytes, &LIMITS).unwrap();
        // Every place near both ends, and some between.
        let step = (bytes.len() / PLACES).max(1);
        let ends = (0..bytes.len().min(32)).chain(bytes.len().saturating_sub(32)..bytes.len());
        for length in ends.chain((0..bytes.len()).step_by(step)) {
            let cut = &bytes[..length];
            try_all(format, cut, &format!("cut to {length} of {}", bytes.len()));
            // Streams of packets are whole wherever a packet ends, and say so by their shape.
            if let Ok(found) = decode(cut, &LIMITS) {
                if format == Format::Mp3 {
                    assert!(found.shape().dims()[0] <= whole.shape().dims()[0]);
                } else {
                    assert!(found == whole, "{format}: cut to {length} of {} and other pixels", bytes.len());
                }
            }
        }
    }
}

#[test]
fn flipped_bytes_do_no_harm() {
    for (format, bytes) in files() {
        // Every byte of the headers, and some behind.
        let step = (bytes.len() / PLACES).max(1);
        for at in (0..bytes.len().min(80)).chain((0..bytes.len()).step_by(step)) {
            for change in [0x01, 0xff] {
                let mut flipped = bytes.clone();
                flipped[at] ^= change;
                try_all(format, &flipped, &format!("byte {at} changed by {change:#x}"));
            }
        }
    }
}

/// What a dataset does with a file that it keeps.
fn is_accepted(bytes: &[u8]) -> bool {
    probe(bytes).is_ok_and(|facts| verify(bytes, facts.format).is_ok())
}

#[test]
fn a_cut_file_that_is_accepted_can_be_decoded() {
    for (format, bytes) in files() {
        assert!(is_accepted(&bytes), "{format}");
        // Other programs append notes, a preview, a video.
        if !matches!(format, Format::Flac | Format::Mp3 | Format::Ogg | Format::Dicom) {
            let longer = [&bytes[..], &[0x2a; 100_000]].concat();
            assert_eq!(
                is_accepted(&longer),
                decode(&longer, &LIMITS).is_ok(),
                "{format} with notes behind it"
            );
        }
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            if is_accepted(cut) {
                let decoded = decode(cut, &LIMITS);
                assert!(decoded.is_ok(), "{format} cut to {length} of {}: {decoded:?}", bytes.len());
            }
        }
    }
    for (format, bytes) in videos() {
        assert!(is_accepted(bytes), "{format}");
        for length in (0..bytes.len()).filter(|_| format == Format::Mp4) {
            assert!(!is_accepted(&bytes[..length]), "{format} cut to {length} of {}", bytes.len());
        }
    }
}

#[test]
fn where_there_are_checksums_what_is_accepted_can_be_decoded() {
    for (format, bytes) in files().into_iter().filter(|(f, _)| matches!(f, Format::Png | Format::Flac)) {
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            if is_accepted(&flipped) {
                let decoded = decode(&flipped, &LIMITS);
                assert!(decoded.is_ok(), "{format} with another byte {at}: {decoded:?}");
            }
        }
    }
}

#[test]
fn noise_behind_a_header_does_no_harm() {
    for (format, bytes) in files() {
        for seed in 0..16 {
            let kept = (seed as usize * 13).min(bytes.len());
            let mut noisy = bytes[..kept].to_vec();
            noisy.extend(noise(bytes.len() - kept, seed));
            try_all(format, &noisy, &format!("noise {seed} from byte {kept} on"));
        }
    }
}

#[test]
fn broken_containers_of_videos_do_no_harm() {
    for (format, bytes) in videos() {
        for length in (0..bytes.len()).step_by(7) {
            if let Err(error) = probe(&bytes[..length]) {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{format}: {error}");
            }
        }
        for at in 0..bytes.len() {
            for change in [0x01, 0xff] {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= change;
                match probe(&flipped) {
                    Ok(facts) => assert!(facts.shape[0] <= bytes.len() as u64, "{format}: {:?}", facts.shape),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{format}: {error}"),
                }
            }
        }
    }
}

#[test]
fn bytes_of_no_format_are_refused() {
    for bytes in [&b""[..], b"x", b"%PDF-1.7 and so on", &[0; 1000]] {
        for error in [probe(bytes).unwrap_err(), decode(bytes, &LIMITS).unwrap_err()] {
            assert_eq!((error.kind(), error.format()), (ErrorKind::Invalid, None), "{error}");
        }
    }
}
