//! Paths that climb: a store below another reaches what is above it, but not further.

use crate::error::{IoError, IoErrorKind};

/// How many directories a path has, which is how far one can climb from its end.
pub(crate) fn climbs(directory: &str) -> usize {
    directory.split('/').filter(|part| !part.is_empty()).count()
}

/// The steps up with which `path` begins, at most `most`, and the rest of it, which has none.
pub(crate) fn climb(path: &str, most: usize) -> Result<(usize, &str), IoError> {
    let mut rest = path;
    let mut up = 0;
    while let Some(after) = rest.strip_prefix("../") {
        rest = after;
        up += 1;
    }
    if up > most || rest.split('/').any(|part| part == "..") {
        let message = "the path leads out of the dataset";
        return Err(IoError::new(IoErrorKind::Invalid, "path", path, message));
    }
    Ok((up, rest))
}
