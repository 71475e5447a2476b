//! Text in, one line at a time, from a plain or compressed file of any size.
//!
//! Memory is bounded by the longest line, and the longest line by [`LONGEST_LINE_BYTES`], so that a
//! small compressed file that unpacks to one endless line is an error and not an allocation.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Cause, Fault, quoted};
use crate::format::Packing;

/// Far above any line of numbers (16 coordinates and a value take under 400 bytes), with room for comments.
const LONGEST_LINE_BYTES: usize = 1 << 20;

/// Lines of a text file, without their line ends, counted from 1.
pub(crate) struct Lines {
    source: Box<dyn Read>,
    packing: Packing,
    block: Vec<u8>,
    unread: std::ops::Range<usize>,
    ended: bool,
    number: u64,
}

impl Lines {
    pub(crate) fn open(path: &Path, packing: Packing) -> Result<Lines, Fault> {
        let file = File::open(path).map_err(Fault::io("open"))?;
        Lines::from_reader(file, packing)
    }

    pub(crate) fn from_reader(file: impl Read + 'static, packing: Packing) -> Result<Lines, Fault> {
        let source: Box<dyn Read> = match packing {
            Packing::Plain => Box::new(file),
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(
                std::io::BufReader::with_capacity(1 << 16, file),
            )),
            Packing::Zstd => Box::new(zstd::Decoder::new(file).map_err(Fault::io("read"))?),
        };
        Ok(Lines { source, packing, block: vec![0; 1 << 18], unread: 0..0, ended: false, number: 0 })
    }

    /// The number of the line that was handed out last.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Fault> {
        let mut searched = 0;
        let line = loop {
            let unread = &self.block[self.unread.clone()];
            if let Some(length) = unread[searched..].iter().position(|&byte| byte == b'\n') {
                let start = self.unread.start;
                let line = start..start + searched + length;
                self.unread.start = line.end + 1;
                break line;
            }
            if self.ended {
                if unread.is_empty() {
                    return Ok(None);
                }
                let line = self.unread.clone();
                self.unread.start = line.end;
                break line;
            }
            searched = unread.len();
            self.refill()?;
        };
        self.number += 1;
        let line = &self.block[line];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Moves what is unread to the front and reads more behind it.
    fn refill(&mut self) -> Result<(), Fault> {
        self.block.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.end == self.block.len() {
            if self.block.len() >= LONGEST_LINE_BYTES {
                let found =
                    format!("a line of more than {LONGEST_LINE_BYTES} bytes: {}", quoted(&self.block));
                return Err(Fault::malformed(found).on_line(self.number + 1));
            }
            self.block.resize(self.block.len() * 2, 0);
        }
        let room = &mut self.block[self.unread.end..];
        loop {
            match self.source.read(room) {
                Ok(0) => self.ended = true,
                Ok(count) => self.unread.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.read_fault(error)),
            }
            return Ok(());
        }
    }

    /// A decoder's complaint is about the content; only the operating system's is about reading.
    fn read_fault(&self, error: std::io::Error) -> Fault {
        let cause = match self.packing {
            Packing::Gzip if error.raw_os_error().is_none() => Cause::Malformed(format!("gzip: {error}")),
            Packing::Zstd if error.raw_os_error().is_none() => Cause::Malformed(format!("zstd: {error}")),
            _ => Cause::Io { doing: "read", source: error },
        };
        Fault { place: crate::error::Place::Line(self.number + 1), cause }
    }
}

/// The words of a line: runs of bytes between blanks.
pub(crate) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(crate) fn of(line: &'a [u8]) -> Words<'a> {
        Words { rest: line }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let blank = |byte: u8| byte == b' ' || byte == b'\t';
        let start = self.rest.iter().position(|&byte| !blank(byte))?;
        let rest = &self.rest[start..];
        let length = rest.iter().position(|&byte| blank(byte)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(length);
        self.rest = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn collect(bytes: Vec<u8>, packing: Packing) -> Result<Vec<Vec<u8>>, Fault> {
        let mut lines = Lines::from_reader(std::io::Cursor::new(bytes), packing)?;
        let mut found = Vec::new();
        while let Some(line) = lines.next()? {
            found.push(line.to_vec());
        }
        assert_eq!(lines.number(), found.len() as u64);
        Ok(found)
    }

    #[test]
    fn line_ends() {
        let check = |text: &str, expected: &[&str]| {
            let found = collect(text.as_bytes().to_vec(), Packing::Plain).unwrap();
            assert_eq!(found, expected.iter().map(|l| l.as_bytes().to_vec()).collect::<Vec<_>>(), "{text:?}");
        };
        check("", &[]);
        check("\n", &[""]);
        check("a", &["a"]);
        check("a\nb\r\n\nc", &["a", "b", "", "c"]);
    }

    #[test]
    fn long_and_many_lines_cross_blocks() {
        let long = "x".repeat(700_000);
        let text = format!("{long}\n{}", "1 2 3\n".repeat(200_000));
        for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
            let bytes = match packing {
                Packing::Plain => text.clone().into_bytes(),
                Packing::Zstd => zstd::encode_all(text.as_bytes(), 1).unwrap(),
                Packing::Gzip => {
                    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                    encoder.write_all(text.as_bytes()).unwrap();
                    encoder.finish().unwrap()
                }
            };
            let found = collect(bytes.clone(), packing).unwrap();
            assert_eq!(found.len(), 200_001);
            assert_eq!(found[0].len(), 700_000);
            assert!(found[1..].iter().all(|line| line == b"1 2 3"));
            if packing != Packing::Plain {
                let fault = collect(bytes[..bytes.len() / 2].to_vec(), packing).unwrap_err();
                assert!(matches!(fault.cause, Cause::Malformed(_)), "{fault:?}");
            }
        }
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let bomb = zstd::encode_all(&vec![b'1'; 64 << 20][..], 1).unwrap();
        let fault = collect(bomb, Packing::Zstd).unwrap_err();
        assert!(matches!(fault.cause, Cause::Malformed(_)), "{fault:?}");
    }

    #[test]
    fn words() {
        let check = |line: &str, expected: &[&str]| {
            let found: Vec<_> = Words::of(line.as_bytes()).map(|w| std::str::from_utf8(w).unwrap()).collect();
            assert_eq!(found, expected);
        };
        check("", &[]);
        check(" \t", &[]);
        check("1 22\t 333  ", &["1", "22", "333"]);
    }
}
