use super::*;
use crate::medium::Details;
use crate::track::Entry;

fn packed(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes()[..], name, content].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A table: version and flags, count, entries.
fn table(name: &[u8; 4], entries: &[&[u32]]) -> Vec<u8> {
    packed(name, &[words(&[0, entries.len() as u32]), words(&entries.concat())].concat())
}

fn trak(handler: &[u8; 4], id: u32, duration: u32, tables: &[u8]) -> Vec<u8> {
    let mut entry = vec![0; 78];
    entry[24..26].copy_from_slice(&48u16.to_be_bytes());
    entry[26..28].copy_from_slice(&32u16.to_be_bytes());
    let stsd = packed(b"stsd", &[words(&[0, 1]), packed(b"avc1", &entry)].concat());
    let stbl = packed(b"stbl", &[&stsd, tables].concat());
    let mdhd = packed(b"mdhd", &words(&[0, 0, 0, 1000, duration, 0]));
    let hdlr = packed(b"hdlr", &[&words(&[0, 0]), &handler[..], &[0; 12]].concat());
    let mdia = packed(b"mdia", &[mdhd, hdlr, packed(b"minf", &stbl)].concat());
    packed(b"trak", &[packed(b"tkhd", &words(&[0, 0, 0, id, 0])), mdia].concat())
}

/// A file with padding enough for the pictures it lists.
fn file(moov: &[Vec<u8>], more: &[u8]) -> Vec<u8> {
    let ftyp = packed(b"ftyp", b"isom\0\0\0\0");
    [ftyp, packed(b"mdat", &[0; 64]), packed(b"moov", &moov.concat()), more.to_vec()].concat()
}

fn details(bytes: &[u8]) -> (u64, Details) {
    let track = read(bytes).unwrap();
    assert_eq!((track.codec.as_str(), track.width, track.height), ("avc1", 48, 32));
    let mut details = Details::new();
    track.details(&mut details);
    (track.frames(), details)
}

#[test]
fn pictures_durations_and_key_frames_are_read_from_the_tables() {
    let stts = table(b"stts", &[&[4, 100], &[1, 200]]);
    let stss = packed(b"stss", &words(&[0, 2, 1, 4]));
    let sound = trak(b"soun", 1, 9, &table(b"stts", &[&[9, 1]]));
    let video = trak(b"vide", 2, 600, &[stts, stss].concat());
    let (frames, details) = details(&file(&[sound, video], &[]));
    assert_eq!(frames, 5);
    assert_eq!(details["duration_secs"], 0.6);
    assert_eq!(details["key_frames"], serde_json::json!([0, 3]));
    assert!((details["fps"].as_f64().unwrap() - 5.0 / 0.6).abs() < 1e-9);
}

#[test]
fn delays_put_pictures_into_the_order_of_showing() {
    let stts = table(b"stts", &[&[4, 100]]);
    // Decoded as I P B I, shown at 100, 300, 200, 400.
    let ctts = table(b"ctts", &[&[1, 100], &[1, 200], &[1, 0], &[1, 100]]);
    let stss = packed(b"stss", &words(&[0, 2, 1, 4]));
    let bytes = file(&[trak(b"vide", 1, 400, &[stts, ctts, stss].concat())], &[]);
    let track = read(&bytes).unwrap();
    assert_eq!(details(&bytes).1["key_frames"], serde_json::json!([0, 3]));
    // The last picture is the fourth to be decoded, and shown behind the one at 300.
    assert_eq!(track.entry(3), Entry { read_secs: Some(0.3), show_secs: 0.35 });
}

#[test]
fn fragments_add_their_pictures() {
    let trex = packed(b"trex", &words(&[0, 1, 1, 40, 0, NEEDS_OTHERS]));
    let moov = [trak(b"vide", 1, 0, &table(b"stts", &[])), packed(b"mvex", &trex)];
    let fragment = |track: u32, start: u32, run: &[u32]| {
        let tfhd = packed(b"tfhd", &words(&[0x02_0000, track]));
        let tfdt = packed(b"tfdt", &words(&[0, start]));
        packed(b"moof", &packed(b"traf", &[tfhd, tfdt, packed(b"trun", &words(run))].concat()))
    };
    // Three pictures of the default duration, the first a key frame; then two with durations of their own.
    let first = fragment(1, 0, &[0x04, 3, 0]);
    let other = fragment(2, 0, &[0x04, 3, 0]);
    let second = fragment(1, 120, &[0x104, 2, 0, 60, 60]);
    let (frames, details) = details(&file(&moov, &[first, other, second].concat()));
    assert_eq!(frames, 5);
    assert_eq!(details["key_frames"], serde_json::json!([0, 3]));
}

#[test]
fn tables_that_claim_more_than_the_file_can_hold_are_refused() {
    let video = trak(b"vide", 1, 1, &table(b"stts", &[&[u32::MAX, 1]]));
    let error = read(&file(&[video], &[])).unwrap_err();
    assert!(error.to_string().contains("more pictures than"), "{error}");
    let moof = packed(b"tfhd", &words(&[0, 1]));
    let moof = [moof, packed(b"trun", &words(&[0, u32::MAX]))].concat();
    let moof = packed(b"moof", &packed(b"traf", &moof));
    let error = read(&file(&[trak(b"vide", 1, 1, &[])], &moof)).unwrap_err();
    assert!(error.to_string().contains("more pictures than"), "{error}");
}

#[test]
fn sound_alone_is_no_video() {
    let error = read(&file(&[trak(b"soun", 1, 1, &[])], &[])).unwrap_err();
    assert!(error.to_string().contains("no video track"), "{error}");
    let error = read(&packed(b"ftyp", b"isom\0\0\0\0")).unwrap_err();
    assert!(error.to_string().contains("cut off"), "{error}");
}
