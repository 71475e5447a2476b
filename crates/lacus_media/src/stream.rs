//! Sound in packets: MP3, Ogg and FLAC, taken apart and decoded by symphonia.
//!
//! The number of frames is what the packets say when they are walked without being decoded, less the
//! silence that encoders note they added at both ends (gapless playback). Decoding goes over the same
//! packets, so both agree. Frames in the middle are decoded from the start and dropped up to the first
//! wanted one, because packets build on those before them; only FLAC's do not, and are stepped over.

use std::ops::Range;

use lacus_tensor::DType;
use symphonia::core::audio::{Audio, GenericAudioBufferRef};
use symphonia::core::codecs::audio::well_known::{
    CODEC_ID_FLAC, CODEC_ID_MP1, CODEC_ID_MP2, CODEC_ID_MP3, CODEC_ID_OPUS, CODEC_ID_VORBIS,
};
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::{FormatOptions, FormatReader};
use symphonia::core::io::{MediaSourceStream, ReadOnlySource};
use symphonia::core::packet::Packet;
use symphonia::default::formats::{FlacReader, MpaReader, OggReader};

use crate::error::Cause;
use crate::format::Format;
use crate::medium::{Details, Layout, Medium, note};
use crate::sniff::skip_id3;
use crate::wav::duration_secs;

/// What the headers say, and the packets when walked.
pub(crate) struct Stream {
    pub(crate) format: Format,
    pub(crate) codec: &'static str,
    pub(crate) bits: Option<u32>,
    pub(crate) channels: u64,
    pub(crate) rate: u32,
    pub(crate) frames: u64,
}

/// Reads the headers and walks the packets.
pub(crate) fn open(bytes: &[u8], format: Format) -> Result<Stream, Cause> {
    let mut reader = reader(bytes, format)?;
    let (track, parameters) = sound_of(reader.as_ref())?;
    let codec = match parameters.codec {
        CODEC_ID_MP3 => "mp3",
        CODEC_ID_VORBIS => "vorbis",
        CODEC_ID_FLAC => "flac",
        CODEC_ID_OPUS => return Err(Cause::unsupported("sound coded as Opus; read are Vorbis and FLAC")),
        CODEC_ID_MP1 | CODEC_ID_MP2 => {
            return Err(Cause::unsupported("MPEG audio layer I or II; only layer III is read"));
        }
        other => return Err(Cause::unsupported(format!("sound coded as {other}"))),
    };
    let (Some(channels), Some(rate)) = (parameters.channels.as_ref(), parameters.sample_rate) else {
        return Err(Cause::unsupported("sound of unknown channels or rate"));
    };
    let (channels, bits) = (channels.count() as u64, parameters.bits_per_sample);
    if channels == 0 {
        return Err(Cause::malformed("no channels"));
    }
    if bits.is_some_and(|bits| bits > 24) {
        return Err(Cause::unsupported("FLAC with more than 24 bits"));
    }
    let mut frames = 0u64;
    while let Some(packet) = reader.next_packet().map_err(fault)? {
        if packet.track_id == track {
            frames = frames.saturating_add(frames_of(&packet, codec));
        }
    }
    Ok(Stream { format, codec, bits, channels, rate, frames })
}

/// The frames that a packet decodes to. For MP3 they are counted here: symphonia 0.6.1 knows what is to be
/// trimmed from a packet, but does not take it off the duration (`PacketBuilder::trimmed_dur`).
fn frames_of(packet: &Packet, codec: &str) -> u64 {
    if codec != "mp3" {
        return packet.dur.get();
    }
    let is_mpeg_1 = packet.data.get(1).is_some_and(|byte| byte >> 3 & 3 == 3);
    let whole: u64 = if is_mpeg_1 { 1152 } else { 576 };
    whole.saturating_sub(packet.trim_end.get()).saturating_sub(packet.trim_start.get())
}

/// The first sound in the stream.
fn sound_of<'a>(reader: &'a (dyn FormatReader + '_)) -> Result<(u32, &'a AudioCodecParameters), Cause> {
    let mut tracks = reader.tracks().iter();
    tracks
        .find_map(|track| Some((track.id, track.codec_params.as_ref()?.audio()?)))
        .ok_or_else(|| Cause::unsupported("there is no sound in it that could be read"))
}

fn reader<'a>(bytes: &'a [u8], format: Format) -> Result<Box<dyn FormatReader + 'a>, Cause> {
    let bytes = skip_id3(bytes);
    let options = FormatOptions::default();
    // Not seekable: else symphonia estimates the length of an MP3 without a Xing header from the first
    // frames, and cuts the sound off there. Ogg alone needs to look at its end first.
    let ahead = || MediaSourceStream::new(Box::new(ReadOnlySource::new(bytes)), Default::default());
    Ok(match format {
        Format::Ogg => {
            let anywhere = MediaSourceStream::new(Box::new(std::io::Cursor::new(bytes)), Default::default());
            Box::new(OggReader::try_new(anywhere, options).map_err(fault)?)
        }
        Format::Flac => Box::new(FlacReader::try_new(ahead(), options).map_err(fault)?),
        _ => {
            // The tag that players put at the end has 128 bytes, and no frame in them.
            let tagless = bytes.len().checked_sub(128).filter(|&at| bytes[at..].starts_with(b"TAG"));
            let bytes = &bytes[..tagless.unwrap_or(bytes.len())];
            let ahead = MediaSourceStream::new(Box::new(ReadOnlySource::new(bytes)), Default::default());
            Box::new(MpaReader::try_new(ahead, options).map_err(fault)?)
        }
    })
}

impl Stream {
    fn dtype(&self) -> DType {
        match self.bits {
            None => DType::F32,
            Some(0..=16) => DType::I16,
            Some(_) => DType::I32,
        }
    }

    /// Puts frames `from` of a decoded packet into their places.
    fn place(
        &self,
        packet: GenericAudioBufferRef<'_>,
        from: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), Cause> {
        match (packet, self.dtype()) {
            (GenericAudioBufferRef::F32(packet), DType::F32) => {
                interleave(packet, from, out, f32::to_le_bytes)
            }
            // FLAC's decoder gives 32 bits, filled from above.
            (GenericAudioBufferRef::S32(packet), DType::I32) => {
                interleave(packet, from, out, i32::to_le_bytes)
            }
            (GenericAudioBufferRef::S32(packet), DType::I16) => {
                interleave(packet, from, out, |sample| ((sample >> 16) as i16).to_le_bytes())
            }
            _ => Err(Cause::malformed("samples of another type than the header says")),
        }
    }
}

impl Medium for Stream {
    fn layout(&self) -> Layout {
        Layout::audio(self.dtype(), self.frames, self.channels)
    }

    fn details(&self, details: &mut Details) {
        note(details, "sample_rate", self.rate);
        note(details, "channels", self.channels);
        note(details, "duration_secs", duration_secs(self.frames, self.rate));
        if let Some(bits) = self.bits {
            note(details, "bits_per_sample", bits);
        }
        note(details, "codec", self.codec);
    }

    fn takes_rows(&self) -> bool {
        true
    }

    fn decode(&self, bytes: &[u8], rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        let mut reader = reader(bytes, self.format)?;
        let (track, parameters) = sound_of(reader.as_ref())?;
        let mut decoder = symphonia::default::get_codecs()
            .make_audio_decoder(parameters, &AudioDecoderOptions::default())
            .map_err(fault)?;
        let frame_bytes = self.channels as usize * self.dtype().size_bytes();
        let mut at = 0;
        while at < rows.end {
            let packet = reader.next_packet().map_err(fault)?.ok_or_else(|| {
                Cause::malformed(format!("cut off: {} frames are promised, {at} are there", self.frames))
            })?;
            if packet.track_id != track {
                continue;
            }
            let frames = frames_of(&packet, self.codec);
            let next = at + frames;
            if self.codec == "flac" && next <= rows.start {
                at = next;
                continue;
            }
            let decoded = decoder.decode(&packet).map_err(fault)?;
            if decoded.frames() as u64 != frames || decoded.num_planes() as u64 != self.channels {
                return Err(Cause::malformed(format!(
                    "a packet of {frames} frames decodes to {}",
                    decoded.frames()
                )));
            }
            let (first, last) = (at.max(rows.start), next.min(rows.end));
            if first < last {
                let place =
                    (first - rows.start) as usize * frame_bytes..(last - rows.start) as usize * frame_bytes;
                self.place(decoded, (first - at) as usize..(last - at) as usize, &mut out[place])?;
            }
            at = next;
        }
        Ok(())
    }
}

/// Writes samples of one plane per channel as frames of one sample per channel.
fn interleave<T: symphonia::core::audio::sample::Sample, const N: usize>(
    packet: &symphonia::core::audio::AudioBuffer<T>,
    from: Range<usize>,
    out: &mut [u8],
    to_bytes: impl Fn(T) -> [u8; N],
) -> Result<(), Cause> {
    let channels = packet.num_planes();
    for channel in 0..channels {
        let plane = packet.plane(channel).and_then(|plane| plane.get(from.clone()));
        let plane = plane.ok_or_else(|| Cause::malformed("a packet without all of its channels"))?;
        let places = out.as_chunks_mut::<N>().0.iter_mut().skip(channel).step_by(channels);
        for (place, &sample) in places.zip(plane) {
            *place = to_bytes(sample);
        }
    }
    Ok(())
}

fn fault(error: Error) -> Cause {
    match error {
        Error::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Cause::cut_off("a packet")
        }
        Error::Unsupported(what) => Cause::unsupported(what),
        Error::ResetRequired => Cause::unsupported("several streams one after the other"),
        error => Cause::malformed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MP3: &[u8] = include_bytes!("../tests/data/tone.mp3");
    const MP3_WITHOUT_XING: &[u8] = include_bytes!("../tests/data/tone_without_xing.mp3");
    const OGG: &[u8] = include_bytes!("../tests/data/tone.ogg");

    fn decoded(bytes: &[u8], format: Format) -> (Stream, Vec<f32>) {
        let stream = open(bytes, format).unwrap();
        let layout = stream.layout();
        let mut out = vec![0; layout.bytes() as usize];
        stream.decode(bytes, 0..stream.frames, &mut out).unwrap();
        (stream, out.as_chunks().0.iter().map(|sample| f32::from_le_bytes(*sample)).collect())
    }

    /// How much of a sound is a tone of 440 Hz, from 0 to 1.
    fn share_of_tone(samples: &[f32], rate: u32) -> f32 {
        let (mut sine, mut cosine, mut power) = (0.0, 0.0, 0.0);
        for (at, sample) in samples.iter().enumerate() {
            let phase = at as f32 * 440.0 * std::f32::consts::TAU / rate as f32;
            sine += sample * phase.sin();
            cosine += sample * phase.cos();
            power += sample * sample;
        }
        2.0 * (sine * sine + cosine * cosine) / (power * samples.len() as f32)
    }

    #[test]
    fn a_tone_of_a_quarter_second_is_one_of_5513_frames() {
        // 5513 frames went in; the encoders' silence around them is noted and left out.
        for (bytes, format) in [(MP3, Format::Mp3), (OGG, Format::Ogg)] {
            let (stream, samples) = decoded(bytes, format);
            assert_eq!((stream.frames, stream.channels, stream.rate), (5513, 1, 22050), "{format}");
            let share = share_of_tone(&samples, stream.rate);
            assert!(share > 0.98, "{format}: {share}");
        }
    }

    #[test]
    fn without_a_xing_header_all_frames_count() {
        let (stream, samples) = decoded(MP3_WITHOUT_XING, Format::Mp3);
        assert_eq!((stream.frames % 576, stream.channels), (0, 2));
        assert!(stream.frames >= 5513, "{}", stream.frames);
        assert_eq!(samples.len() as u64, 2 * stream.frames);
    }

    #[test]
    fn tags_around_an_mp3_are_no_sound() {
        let mut tagged = b"ID3\x04\0\0\0\0\x01\0".to_vec();
        tagged.extend([0xff; 128]);
        tagged.extend(MP3);
        tagged.extend(b"TAG");
        tagged.extend([0xff; 125]);
        assert_eq!(decoded(&tagged, Format::Mp3).1, decoded(MP3, Format::Mp3).1);
    }

    #[test]
    fn opus_is_refused_by_name() {
        let mut page = b"OggS\0\x02\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01\x13".to_vec();
        page.extend(b"OpusHead\x01\x01\0\0\x80\xbb\0\0\0\0\0");
        let error = open(&page, Format::Ogg).err().unwrap();
        assert_eq!(
            crate::error::MediaError::new(Format::Ogg, error).kind(),
            lacus_tensor::ErrorKind::Invalid
        );
    }
}
