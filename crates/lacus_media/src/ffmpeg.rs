//! Video pixels, by way of the `ffmpeg` program: codecs are many, patented and large, and whoever has videos
//! has it. Containers are read here ([`crate::mp4`], [`crate::webm`]); only pixels need the program.
//!
//! ```text
//! bytes ─→ temporary file ─ffmpeg -ss (key frame) trim (first) -frames:v (count)→ pipe ─→ the tensor's memory
//! ```
//!
//! Of a range of frames only those are decoded, from the key frame before them. Times are those in the file
//! (`-copyts`, `-seek_timestamp`), and ffmpeg is told where to begin reading and where to begin showing apart:
//! left to itself it takes the one for the other, and loses frames that are decoded before and shown after a
//! key frame.

use std::ffi::OsStr;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lacus_tensor::DType;

use crate::error::Cause;
use crate::format::Format;
use crate::medium::{Details, Layout, Medium};
use crate::track::Track;
use crate::{mp4, webm};

/// The `ffmpeg` program: what `LACUS_FFMPEG` names, or else the first of that name on `PATH`. `None` means
/// that videos can be probed and not decoded.
pub fn ffmpeg() -> Option<PathBuf> {
    match std::env::var_os("LACUS_FFMPEG") {
        Some(named) if !named.is_empty() => Some(PathBuf::from(named)).filter(|path| path.is_file()),
        _ => on_path(&std::env::var_os("PATH")?),
    }
}

fn on_path(path: &OsStr) -> Option<PathBuf> {
    let name = if cfg!(windows) { "ffmpeg.exe" } else { "ffmpeg" };
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A video whose container has been read.
pub(crate) struct Video {
    format: Format,
    track: Track,
}

pub(crate) fn open(bytes: &[u8], format: Format) -> Result<Video, Cause> {
    let track = if format == Format::Mp4 { mp4::read(bytes) } else { webm::read(bytes) }?;
    Ok(Video { format, track })
}

impl Medium for Video {
    fn layout(&self) -> Layout {
        Layout::video(DType::U8, self.track.frames(), self.track.height, self.track.width, 3)
    }

    fn details(&self, details: &mut Details) {
        self.track.details(details);
    }

    fn takes_rows(&self) -> bool {
        true
    }

    fn decode(&self, bytes: &[u8], rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        if rows.is_empty() {
            return Ok(());
        }
        let program = ffmpeg().ok_or_else(|| {
            Cause::Missing(
                "decoding video needs the ffmpeg program; install it (for example apt install ffmpeg, or \
                 brew install ffmpeg), or name it in LACUS_FFMPEG"
                    .into(),
            )
        })?;
        // A pipe would not do for the input: an MP4 may say at its end where its pictures are.
        let mut input = tempfile::NamedTempFile::new().map_err(Cause::io("make a file for ffmpeg"))?;
        input.write_all(bytes).map_err(Cause::io("write a file for ffmpeg"))?;
        let mut outcome = self.run(&program, input.path(), &rows, ["-fps_mode", "passthrough"], out)?;
        if outcome.found == 0 && outcome.said.contains("fps_mode") {
            // The name that versions before 5.1 have for it.
            outcome = self.run(&program, input.path(), &rows, ["-vsync", "0"], out)?;
        }
        if outcome.found == out.len() && !outcome.has_more {
            return Ok(());
        }
        Err(Cause::malformed(format!(
            "frames {} to {} of {} × {} pixels take {} bytes, ffmpeg gave {}{}: {}",
            rows.start,
            rows.end,
            self.track.width,
            self.track.height,
            out.len(),
            if outcome.has_more { "more than " } else { "" },
            outcome.found,
            outcome.said.trim()
        )))
    }
}

/// What a run of ffmpeg gave.
struct Outcome {
    found: usize,
    has_more: bool,
    said: String,
}

impl Video {
    /// Has ffmpeg fill `out` with frames. `as_decoded` is its option for frames as they are, none repeated or
    /// dropped to keep a rate.
    fn run(
        &self,
        program: &Path,
        input: &Path,
        rows: &Range<u64>,
        as_decoded: [&str; 2],
        out: &mut [u8],
    ) -> Result<Outcome, Cause> {
        // A file and not a pipe, which could fill up while the pixels are read.
        let mut complaints = tempfile::tempfile().map_err(Cause::io("make a file for ffmpeg"))?;
        let errors = complaints.try_clone().map_err(Cause::io("make a file for ffmpeg"))?;
        let mut command = Command::new(program);
        command.args(["-v", "error", "-nostdin", "-protocol_whitelist", "file,pipe", "-noautorotate"]);
        match self.format {
            // All pictures in the file, whatever the edit list leaves out.
            Format::Mp4 => command.args(["-f", "mov", "-ignore_editlist", "1"]),
            _ => command.args(["-f", "matroska"]),
        };
        let entry = (rows.start > 0).then(|| self.track.entry(rows.start));
        if let Some(read_secs) = entry.as_ref().and_then(|entry| entry.read_secs) {
            command.args(["-noaccurate_seek", "-seek_timestamp", "1", "-ss", &format!("{read_secs:.6}")]);
        }
        command.args(["-copyts", "-i"]).arg(input);
        if let Some(entry) = entry {
            command.arg("-vf").arg(format!("trim=start={:.6}", entry.show_secs));
        }
        command.args(["-map", "0:V:0"]).args(as_decoded);
        command.arg("-frames:v").arg((rows.end - rows.start).to_string());
        command.args(["-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(Cause::io("start ffmpeg"))?;

        let mut pixels = child.stdout.take().expect("the output was asked for as a pipe");
        let result = fill(&mut pixels, out).map_err(Cause::io("read from ffmpeg"));
        // Closed first, so that an ffmpeg with more to say ends and can be waited for.
        drop(pixels);
        child.wait().map_err(Cause::io("wait for ffmpeg"))?;
        let (found, has_more) = result?;
        let mut said = Vec::new();
        complaints
            .seek(SeekFrom::Start(0))
            .and_then(|_| complaints.take(300).read_to_end(&mut said))
            .map_err(Cause::io("read what ffmpeg says"))?;
        Ok(Outcome { found, has_more, said: String::from_utf8_lossy(&said).into_owned() })
    }
}

/// Fills `out`: how many bytes there were for it, and whether there are more.
fn fill(from: &mut impl Read, out: &mut [u8]) -> std::io::Result<(usize, bool)> {
    let mut found = 0;
    while found < out.len() {
        match from.read(&mut out[found..]) {
            Ok(0) => return Ok((found, false)),
            Ok(length) => found += length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((found, from.read(&mut [0])? > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_looked_for_in_the_folders_of_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::join_paths([PathBuf::from("/nowhere"), folder.path().to_owned()]).unwrap();
        assert_eq!(on_path(&path), None);
        let name = if cfg!(windows) { "ffmpeg.exe" } else { "ffmpeg" };
        std::fs::write(folder.path().join(name), []).unwrap();
        assert_eq!(on_path(&path), Some(folder.path().join(name)));
    }

    #[test]
    fn pixels_are_counted_exactly() {
        let check = |length: usize, expected: (usize, bool)| {
            let mut out = [0; 4];
            assert_eq!(fill(&mut vec![7; length].as_slice(), &mut out).unwrap(), expected);
        };
        check(3, (3, false));
        check(4, (4, false));
        check(5, (4, true));
    }
}
