//! What text formats have no word for, noted in a comment.
//!
//! A `.tns` file says neither its shape nor its dtype, a `.mtx` file not its exact dtype. So that a tensor
//! comes back as it went, [`crate::write`] puts a comment first, which other programs skip:
//!
//! ```text
//! # lacus dtype=float32 shape=91,24,887,1410
//! ```

use lacus_tensor::{DType, Shape};

use crate::error::{Fault, quoted};
use crate::lines::Words;
use crate::numbers::unsigned;

const MARK: &[u8] = b"lacus";

/// What a comment says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Note {
    pub(crate) dtype: Option<DType>,
    pub(crate) shape: Option<Shape>,
}

impl Note {
    /// Takes over what a comment says (given without its comment sign), if it is one of ours.
    pub(crate) fn read(&mut self, comment: &[u8]) -> Result<(), Fault> {
        let mut words = Words::of(comment);
        if words.next() != Some(MARK) {
            return Ok(());
        }
        for word in words {
            let fault = || Fault::malformed(format!("a lacus comment says {}", quoted(word)));
            if let Some(name) = word.strip_prefix(b"dtype=") {
                let name = std::str::from_utf8(name).map_err(|_| fault())?;
                self.dtype = Some(name.parse().map_err(|_| fault())?);
            } else if let Some(dims) = word.strip_prefix(b"shape=") {
                let dims: Option<Vec<u64>> = match dims {
                    b"" => Some(Vec::new()),
                    dims => dims.split(|&byte| byte == b',').map(unsigned).collect(),
                };
                self.shape = Some(Shape::new(dims.ok_or_else(fault)?)?);
            }
        }
        Ok(())
    }

    /// The comment, with its sign and line end.
    pub(crate) fn line(sign: char, dtype: DType, shape: Option<&Shape>) -> Vec<u8> {
        let mut line = format!("{sign} lacus dtype={dtype}");
        if let Some(shape) = shape {
            let dims: Vec<String> = shape.dims().iter().map(u64::to_string).collect();
            line.push_str(" shape=");
            line.push_str(&dims.join(","));
        }
        line.push('\n');
        line.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        for dims in [vec![], vec![7], vec![91, 24, 887, 1410]] {
            let shape = Shape::new(dims).unwrap();
            let line = Note::line('#', DType::BF16, Some(&shape));
            let mut note = Note::default();
            note.read(&line[1..line.len() - 1]).unwrap();
            assert_eq!(note, Note { dtype: Some(DType::BF16), shape: Some(shape) });
        }
    }

    #[test]
    fn other_comments_say_nothing_and_bad_ones_are_errors() {
        let mut note = Note::default();
        for comment in ["", " dtype=int8", " lacustrine dtype=int8", " lacus unit=m"] {
            note.read(comment.as_bytes()).unwrap();
        }
        assert_eq!(note, Note::default());
        for comment in ["lacus dtype=float", "lacus shape=1,x", "lacus shape=1,,2", "lacus dtype=\u{fe}"] {
            assert!(note.read(comment.as_bytes()).is_err(), "{comment}");
        }
    }
}
