//! Selections as text, for the command line: what stands between the brackets in numpy.
//!
//! ```text
//! 0:100, :, ::2, ..., [1, 5, 7], -1, None        [[0, 1], [2, 3]]        [True, False, True]
//! ```

use super::Index;
use crate::error::TensorError;

/// Reads the indices of a selection written as in numpy: integers, slices, `...`, `None`, lists of
/// integers or booleans (nested ones are arrays of more dimensions), `True`, `False`. An empty text
/// selects everything. Fails on anything else, and says where.
pub fn parse_indices(text: &str) -> Result<Vec<Index>, TensorError> {
    let mut reader = Reader { text, at: 0 };
    let mut indices = Vec::new();
    while !reader.at_end() {
        indices.push(reader.index()?);
        if !reader.at_end() && !reader.take(",") {
            return Err(reader.unexpected("',' or the end"));
        }
    }
    Ok(indices)
}

struct Reader<'a> {
    text: &'a str,
    /// Byte position.
    at: usize,
}

/// A nested list, flattened while it is read.
#[derive(Default)]
struct Array {
    dims: Vec<u64>,
    integers: Vec<i64>,
    bits: Vec<bool>,
}

/// Deeper than any index array can be; also keeps hostile text from exhausting the stack.
const MAX_DEPTH: usize = crate::shape::MAX_RANK;

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn at_end(&mut self) -> bool {
        self.skip_blanks();
        self.rest().is_empty()
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn error(&self, reason: String) -> TensorError {
        let at = self.text[..self.at].chars().count();
        TensorError::SelectionText { text: self.text.to_owned(), at, reason }
    }

    fn unexpected(&mut self, expected: &str) -> TensorError {
        self.skip_blanks();
        let found = self.rest().chars().next().map_or("the end".to_owned(), |found| format!("'{found}'"));
        self.error(format!("expected {expected}, found {found}"))
    }

    fn index(&mut self) -> Result<Index, TensorError> {
        self.skip_blanks();
        let rest = self.rest();
        if self.take("...") {
            return Ok(Index::Ellipsis);
        }
        if rest.starts_with('[') {
            return self.list();
        }
        if rest.starts_with(char::is_alphabetic) {
            let word = self.word();
            let index = match word {
                "None" | "newaxis" => Index::NewAxis,
                "True" | "False" => Index::Mask { dims: vec![], bits: vec![word == "True"] },
                _ => return Err(self.error(format!("'{word}' is not an index"))),
            };
            self.at += word.len();
            return Ok(index);
        }
        let start = self.integer()?;
        if !self.take(":") {
            return start.map(Index::At).ok_or_else(|| self.unexpected("an index"));
        }
        let stop = self.integer()?;
        let step = if self.take(":") { self.integer()? } else { None };
        Ok(Index::Slice { start, stop, step })
    }

    /// The letters and digits that come next. Does not move on, so that errors point at them.
    fn word(&self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_');
        &rest[..end.unwrap_or(rest.len())]
    }

    /// An integer if there is one.
    fn integer(&mut self) -> Result<Option<i64>, TensorError> {
        self.skip_blanks();
        let rest = self.rest();
        let sign = usize::from(rest.starts_with(['-', '+']));
        let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return if sign == 0 { Ok(None) } else { Err(self.unexpected("an integer")) };
        }
        let number = &rest[..sign + digits];
        let value = number.parse().map_err(|_| self.error(format!("{number} does not fit 64 bits")))?;
        self.at += sign + digits;
        Ok(Some(value))
    }

    fn list(&mut self) -> Result<Index, TensorError> {
        let begin = self.at;
        let mut array = Array::default();
        self.items(&mut array, 0)?;
        let Array { dims, integers, bits } = array;
        let outcome = match (integers.is_empty(), bits.is_empty()) {
            (false, false) => Err("integers and booleans in one list"),
            (true, false) => Ok(Index::Mask { dims, bits }),
            (_, true) => Ok(Index::List { dims, values: integers }),
        };
        outcome.map_err(|reason| {
            self.at = begin;
            self.error(reason.to_owned())
        })
    }

    /// One list between brackets, at `depth` lists inside of the outermost.
    fn items(&mut self, array: &mut Array, depth: usize) -> Result<(), TensorError> {
        let begin = self.at;
        if depth == MAX_DEPTH {
            return Err(self.error(format!("lists nested deeper than {MAX_DEPTH}")));
        }
        let first_visit = array.dims.len() == depth;
        if first_visit {
            array.dims.push(u64::MAX);
        }
        self.take("[");
        let mut count = 0;
        while !self.take("]") {
            if count > 0 && !self.take(",") {
                return Err(self.unexpected("',' or ']'"));
            }
            if count > 0 && self.take("]") {
                break;
            }
            self.item(array, depth)?;
            count += 1;
        }
        if array.dims[depth] == u64::MAX {
            array.dims[depth] = count;
        } else if array.dims[depth] != count {
            self.at = begin;
            return Err(self.error("lists of different lengths side by side".to_owned()));
        }
        Ok(())
    }

    fn item(&mut self, array: &mut Array, depth: usize) -> Result<(), TensorError> {
        self.skip_blanks();
        let nested = self.rest().starts_with('[');
        // The first item decides whether lists or numbers stand at this depth.
        let numbers_here = array.integers.len() + array.bits.len() > 0 && array.dims.len() == depth + 1;
        if nested && !numbers_here {
            return self.items(array, depth + 1);
        }
        if nested || array.dims.len() > depth + 1 {
            return Err(self.error("lists and single values side by side".to_owned()));
        }
        match self.word() {
            word @ ("True" | "False") => {
                self.at += word.len();
                array.bits.push(word == "True");
            }
            _ => {
                let value = self.integer()?.ok_or_else(|| self.unexpected("an integer, True or False"))?;
                array.integers.push(value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(
        start: impl Into<Option<i64>>,
        stop: impl Into<Option<i64>>,
        step: impl Into<Option<i64>>,
    ) -> Index {
        Index::Slice { start: start.into(), stop: stop.into(), step: step.into() }
    }

    fn list(dims: &[u64], values: &[i64]) -> Index {
        Index::List { dims: dims.to_vec(), values: values.to_vec() }
    }

    fn mask(dims: &[u64], bits: &[bool]) -> Index {
        Index::Mask { dims: dims.to_vec(), bits: bits.to_vec() }
    }

    #[test]
    fn reads_what_numpy_reads() {
        let check =
            |text: &str, expected: &[Index]| assert_eq!(parse_indices(text).unwrap(), expected, "{text}");
        check("", &[]);
        check(" 7 ", &[Index::At(7)]);
        check("-1,", &[Index::At(-1)]);
        check(
            "0:100, :, ::2, ..., [1,5,7], -1, None",
            &[
                slice(0, 100, None),
                slice(None, None, None),
                slice(None, None, 2),
                Index::Ellipsis,
                list(&[3], &[1, 5, 7]),
                Index::At(-1),
                Index::NewAxis,
            ],
        );
        check(
            "5:,:-5,::-1,1:2:3,:: ",
            &[
                slice(5, None, None),
                slice(None, -5, None),
                slice(None, None, -1),
                slice(1, 2, 3),
                slice(None, None, None),
            ],
        );
        check("[]", &[list(&[0], &[])]);
        check("[[]]", &[list(&[1, 0], &[])]);
        check("[[1, 2], [3, 4], [5, 6],]", &[list(&[3, 2], &[1, 2, 3, 4, 5, 6])]);
        check("[[[-9223372036854775808]]]", &[list(&[1, 1, 1], &[i64::MIN])]);
        check("[True,False], True", &[mask(&[2], &[true, false]), mask(&[], &[true])]);
        check("[[True],[False]],newaxis", &[mask(&[2, 1], &[true, false]), Index::NewAxis]);
    }

    #[test]
    fn says_what_it_cannot_read() {
        let check = |text: &str, at_expected: usize, expected: &str| {
            let error = parse_indices(text).unwrap_err();
            let TensorError::SelectionText { at, reason, .. } = &error else { panic!("{error}") };
            assert_eq!((*at, reason.as_str()), (at_expected, expected), "{text}");
        };
        check("1, first, 2", 3, "'first' is not an index");
        check("1 2", 2, "expected ',' or the end, found '2'");
        check(",1", 0, "expected an index, found ','");
        check("1,,2", 2, "expected an index, found ','");
        check("1.5", 1, "expected ',' or the end, found '.'");
        check("0:x", 2, "expected ',' or the end, found 'x'");
        check("1:2:3:4", 5, "expected ',' or the end, found ':'");
        check("- 1", 0, "expected an integer, found '-'");
        check("[1", 2, "expected ',' or ']', found the end");
        check("[1 2]", 3, "expected ',' or ']', found '2'");
        check("[,]", 1, "expected an integer, True or False, found ','");
        check("[1, True]", 0, "integers and booleans in one list");
        check("[[1], [2, 3]]", 6, "lists of different lengths side by side");
        check("[[1], 2]", 6, "lists and single values side by side");
        check("[1, [2]]", 4, "lists and single values side by side");
        check("é", 0, "'é' is not an index");
        check("[é]", 1, "expected an integer, True or False, found 'é'");
        check("99999999999999999999", 0, "99999999999999999999 does not fit 64 bits");
        check(&"[".repeat(1000), 16, "lists nested deeper than 16");
    }
}
