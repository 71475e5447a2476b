//! A track of pictures, as containers describe it: when each is shown, and which can be decoded alone.

use serde_json::Value;

use crate::error::Cause;
use crate::medium::{Details, note};

/// Key frames listed at most. An hour of video with one every second has 3600; a list longer than this is
/// noise in a table, and the count besides tells the rest.
const MOST_KEY_FRAMES: usize = 1000;

/// One picture of a track, in the order of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    /// When it is shown, in ticks.
    pub(crate) at: i64,
    /// When it is decoded: earlier, if others are shown before it that need it.
    pub(crate) decoded_at: i64,
    /// Whether it can be decoded without others.
    pub(crate) is_key: bool,
}

/// A track of pictures.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) codec: String,
    pub(crate) width: u64,
    pub(crate) height: u64,
    ticks_per_sec: f64,
    duration_ticks: f64,
    /// When each picture is shown, in ticks, in that order.
    times: Vec<i64>,
    /// Which pictures can be decoded alone, counted in the order of showing, and when they are decoded.
    keys: Vec<(u64, i64)>,
}

/// How to get at one picture without decoding all before it.
#[derive(Debug, PartialEq)]
pub(crate) struct Entry {
    /// Where to begin reading: when the key frame before is decoded. `None` for the beginning.
    pub(crate) read_secs: Option<f64>,
    /// What to drop: all that is shown before this moment, halfway between the picture before and itself.
    pub(crate) show_secs: f64,
}

impl Track {
    /// A track of these pictures. `duration_ticks` is what the container says, or zero if it does not.
    pub(crate) fn new(
        codec: String,
        (width, height): (u64, u64),
        ticks_per_sec: f64,
        duration_ticks: f64,
        mut shown: Vec<Shown>,
    ) -> Result<Track, Cause> {
        if width == 0 || height == 0 {
            return Err(Cause::malformed(format!("a video of {width} × {height} pixels")));
        }
        if shown.is_empty() {
            return Err(Cause::malformed("a video without pictures"));
        }
        // Where pictures would be shown before they are decoded, players decode all of them so much earlier.
        let late =
            shown.iter().map(|picture| picture.decoded_at.saturating_sub(picture.at)).max().unwrap_or(0);
        // Stable, so that pictures of the same time stay in the order of decoding.
        shown.sort_by_key(|picture| picture.at);
        let keys = (0..).zip(&shown).filter(|(_, picture)| picture.is_key);
        let keys =
            keys.map(|(index, picture)| (index, picture.decoded_at.saturating_sub(late.max(0)))).collect();
        let times: Vec<i64> = shown.iter().map(|picture| picture.at).collect();
        let duration_ticks = if duration_ticks > 0.0 {
            duration_ticks
        } else {
            // The last picture is shown as long as the others are on average.
            let span = (times[times.len() - 1] as f64) - (times[0] as f64);
            span * times.len() as f64 / (times.len() - 1).max(1) as f64
        };
        Ok(Track { codec, width, height, ticks_per_sec, duration_ticks, times, keys })
    }

    pub(crate) fn frames(&self) -> u64 {
        self.times.len() as u64
    }

    /// How to get at picture `index`, which is not the first.
    pub(crate) fn entry(&self, index: u64) -> Entry {
        let secs = |ticks: f64| ticks / self.ticks_per_sec;
        let before = self.keys.partition_point(|&(key, _)| key <= index);
        let key = before.checked_sub(1).map(|place| self.keys[place]).filter(|&(key, _)| key > 0);
        let (before, at) = (self.times[index as usize - 1] as f64, self.times[index as usize] as f64);
        Entry { read_secs: key.map(|(_, ticks)| secs(ticks as f64)), show_secs: secs((before + at) / 2.0) }
    }

    pub(crate) fn details(&self, details: &mut Details) {
        let secs = self.duration_ticks / self.ticks_per_sec;
        note(details, "codec", self.codec.as_str());
        note(details, "duration_secs", secs);
        if secs > 0.0 {
            note(details, "fps", self.frames() as f64 / secs);
        }
        let listed: Vec<Value> = self.keys.iter().take(MOST_KEY_FRAMES).map(|&(key, _)| key.into()).collect();
        note(details, "key_frames", listed);
        note(details, "key_frame_count", self.keys.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_counted_as_they_are_shown() {
        // Decoded as I P B B I, shown as I B B P I, two ticks later.
        let shown = [(20, true), (50, false), (30, false), (40, false), (60, true)];
        let shown = (0..).zip(shown).map(|(at, (shown_at, is_key))| Shown {
            at: shown_at,
            decoded_at: 10 * at,
            is_key,
        });
        let track = Track::new("x".into(), (4, 2), 1000.0, 0.0, shown.collect()).unwrap();
        assert_eq!((track.frames(), track.keys.as_slice()), (5, &[(0, 0), (4, 40)][..]));
        assert_eq!(track.entry(3), Entry { read_secs: None, show_secs: 0.045 });
        assert_eq!(track.entry(4), Entry { read_secs: Some(0.04), show_secs: 0.055 });
        let mut details = Details::new();
        track.details(&mut details);
        assert_eq!((details["duration_secs"].as_f64(), details["fps"].as_f64()), (Some(0.05), Some(100.0)));
    }

    #[test]
    fn delays_below_zero_move_decoding_forward() {
        let shown = [(0, 0, true), (10, 10, false), (0, 20, true)];
        let shown = shown.map(|(at, decoded_at, is_key)| Shown { at, decoded_at, is_key }).to_vec();
        let track = Track::new("x".into(), (4, 2), 1000.0, 0.0, shown).unwrap();
        assert_eq!(track.keys, [(0, -20), (1, 0)]);
    }

    #[test]
    fn the_list_of_key_frames_is_bounded_and_their_number_told() {
        let shown = (0..5000).map(|at| Shown { at, decoded_at: at, is_key: true }).collect();
        let track = Track::new("x".into(), (4, 2), 10.0, 5000.0, shown).unwrap();
        let mut details = Details::new();
        track.details(&mut details);
        assert_eq!(details["key_frames"].as_array().unwrap().len(), MOST_KEY_FRAMES);
        assert_eq!(details["key_frame_count"], 5000);
    }
}
