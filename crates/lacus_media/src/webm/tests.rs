use super::*;
use crate::medium::Details;
use crate::track::Entry;

fn packed(id: u32, content: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let length = (content.len() as u32 | 0x1000_0000).to_be_bytes();
    [&id[id.iter().take_while(|&&byte| byte == 0).count()..], &length, content].concat()
}

/// Of unknown length, as live recordings have them.
fn open_ended(id: u32, content: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &[0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], content].concat()
}

fn track(number: u8, kind: u8, codec: &[u8]) -> Vec<u8> {
    let video = packed(VIDEO, &[packed(WIDTH, &[48]), packed(HEIGHT, &[0, 32])].concat());
    let fields = [packed(TRACK_NUMBER, &[number]), packed(TRACK_KIND, &[kind]), packed(CODEC, codec), video];
    packed(TRACK, &fields.concat())
}

fn simple(track: u8, at: i16, is_key: bool) -> Vec<u8> {
    let at = at.to_be_bytes();
    packed(SIMPLE_BLOCK, &[0x80 | track, at[0], at[1], if is_key { 0x80 } else { 0 }, 0x10])
}

fn file(segment: impl Fn(u32, &[u8]) -> Vec<u8>, codec: &[u8], clusters: &[u8]) -> Vec<u8> {
    let info = packed(INFO, &packed(TICK_NANOS, &1_000_000u32.to_be_bytes()));
    let tracks = packed(TRACKS, &[track(1, 2, b"A_OPUS"), track(2, 1, codec)].concat());
    let content = [info, tracks, clusters.to_vec()].concat();
    [packed(0x1a45_dfa3, &packed(0x4282, b"webm")), segment(SEGMENT, &content)].concat()
}

fn check(bytes: &[u8], frames: u64, keys: &[u64]) {
    let track = read(bytes).unwrap();
    assert_eq!((track.frames(), track.width, track.height), (frames, 48, 32));
    let mut details = Details::new();
    track.details(&mut details);
    assert_eq!(details["key_frames"], serde_json::json!(keys));
}

fn two_clusters(cluster: impl Fn(u32, &[u8]) -> Vec<u8>) -> Vec<u8> {
    let first = [packed(TIME, &[0]), simple(2, 0, true), simple(1, 5, true), simple(2, 40, false)].concat();
    let second = [packed(TIME, &[80]), simple(2, 0, true), simple(2, 40, false)].concat();
    [cluster(CLUSTER, &first), cluster(CLUSTER, &second)].concat()
}

#[test]
fn blocks_of_the_video_track_are_counted() {
    let bytes = file(packed, b"V_VP9", &two_clusters(packed));
    check(&bytes, 4, &[0, 2]);
    let track = read(&bytes).unwrap();
    assert_eq!(track.codec, "V_VP9");
    assert_eq!(track.entry(2), Entry { read_secs: Some(0.08), show_secs: 0.06 });
    assert_eq!(track.entry(1), Entry { read_secs: None, show_secs: 0.02 });
}

#[test]
fn live_recordings_have_no_lengths() {
    check(&file(open_ended, b"V_VP9", &two_clusters(open_ended)), 4, &[0, 2]);
}

#[test]
fn groups_say_behind_the_block_whether_it_needs_others() {
    let block = |at: u8| packed(BLOCK, &[0x82, 0, at, 0, 0x10]);
    let alone = packed(BLOCK_GROUP, &block(0));
    let needing = packed(BLOCK_GROUP, &[block(40), packed(REFERENCE, &[0xd8])].concat());
    let cluster = packed(CLUSTER, &[packed(TIME, &[0]), alone, needing].concat());
    check(&file(packed, b"V_VP9", &cluster), 2, &[0]);
}

#[test]
fn hidden_pictures_of_vp8_are_no_frames() {
    let hidden = packed(SIMPLE_BLOCK, &[0x82, 0, 20, 0, 0x00]);
    let cluster = packed(CLUSTER, &[packed(TIME, &[0]), simple(2, 0, true), hidden].concat());
    check(&file(packed, b"V_VP8", &cluster), 1, &[0]);
    check(&file(packed, b"V_VP9", &cluster), 2, &[0]);
}

#[test]
fn cut_off_elements_and_missing_tracks_are_errors() {
    let bytes = file(packed, b"V_VP9", &two_clusters(packed));
    for length in (40..bytes.len()).rev().take(8) {
        assert!(read(&bytes[..length]).is_err(), "{length}");
    }
    let error = read(&packed(0x1a45_dfa3, &[])).unwrap_err();
    assert!(error.to_string().contains("no video track"), "{error}");
}
