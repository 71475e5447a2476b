//! What is searched for: words, `"phrases"`, `+must` and `-not`.
//!
//! ```text
//! cat black           rows with any of the words; more of them, and rarer ones, score higher
//! "black cat"         the words one after the other
//! +cat black          rows with `cat`; those with `black`, too, score higher
//! cat -dog            rows with `cat` and without `dog`
//! ```
//!
//! Everything else is text: there is no question that cannot be read.

use std::collections::HashMap;

use crate::text::words::Tokenizer;

/// Whether a row needs a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    /// It adds to the score.
    May,
    /// Rows without it do not match.
    Must,
    /// Rows with it do not match.
    Not,
}

/// A word or a phrase.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clause {
    pub need: Need,
    /// Which words, and how far each is from the first.
    pub words: Vec<(usize, u32)>,
}

/// What is searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// All words, each once.
    pub words: Vec<String>,
    /// What is asked about them, each once, with how often it was asked.
    pub clauses: Vec<(Clause, u32)>,
}

impl Wanted {
    /// Reads a question.
    pub(crate) fn read(text: &str, tokenizer: &mut Tokenizer) -> Wanted {
        let mut wanted = Wanted::default();
        let mut known = (HashMap::new(), HashMap::new());
        for (need, is_phrase, piece) in pieces(text) {
            let words = tokenizer.words(piece);
            let words: Vec<(usize, u32)> =
                words.into_iter().map(|(word, place)| (wanted.word(word, &mut known.0), place)).collect();
            // `+well-known` is about both words together, `well-known` about each.
            if is_phrase || need != Need::May {
                wanted.clause(need, words, &mut known.1);
            } else {
                for (word, _) in words {
                    wanted.clause(need, vec![(word, 0)], &mut known.1);
                }
            }
        }
        wanted
    }

    fn word(&mut self, word: String, known: &mut HashMap<String, usize>) -> usize {
        *known.entry(word).or_insert_with_key(|word| {
            self.words.push(word.clone());
            self.words.len() - 1
        })
    }

    fn clause(&mut self, need: Need, mut words: Vec<(usize, u32)>, known: &mut HashMap<Clause, usize>) {
        let Some((_, first)) = words.first().copied() else { return };
        words.iter_mut().for_each(|(_, place)| *place -= first);
        let at = *known.entry(Clause { need, words }).or_insert_with_key(|clause| {
            self.clauses.push((clause.clone(), 0));
            self.clauses.len() - 1
        });
        self.clauses[at].1 += 1;
    }

    /// Whether places of words matter.
    pub(crate) fn has_phrases(&self) -> bool {
        self.clauses.iter().any(|(clause, _)| clause.words.len() > 1)
    }
}

/// The pieces of a question: what is needed of it, whether it stands in quotes, and its text.
fn pieces(text: &str) -> Vec<(Need, bool, &str)> {
    let mut pieces = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let need = match first {
            '+' => Need::Must,
            '-' => Need::Not,
            _ => Need::May,
        };
        let body = if need == Need::May { rest } else { &rest[1..] };
        let quoted = body.strip_prefix('"').and_then(|inner| inner.split_once('"'));
        let (is_phrase, piece, after) = match quoted {
            Some((inner, after)) => (true, inner, after),
            None => {
                let end = body.find(char::is_whitespace).unwrap_or(body.len());
                // A quote that begins inside of a piece, or never ends, is text.
                (false, &body[..end], &body[end..])
            }
        };
        pieces.push((need, is_phrase, piece));
        rest = after.trim_start();
    }
    pieces
}

/// How often a phrase occurs, given the places of each of its words in ascending order.
pub(crate) fn phrase_count(places: &[(&[u32], u32)]) -> u32 {
    let Some(((first, _), others)) = places.split_first() else { return 0 };
    let follows = |at: u32| {
        others.iter().all(|(places, offset)| {
            at.checked_add(*offset).is_some_and(|at| places.binary_search(&at).is_ok())
        })
    };
    first.iter().filter(|at| follows(**at)).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let wanted = Wanted::read(text, &mut Tokenizer::named("simple").unwrap());
        let clauses = wanted.clauses.iter().map(|(clause, times)| {
            let words: Vec<String> =
                clause.words.iter().map(|(word, at)| format!("{}@{at}", wanted.words[*word])).collect();
            let need = match clause.need {
                Need::May => "",
                Need::Must => "+",
                Need::Not => "-",
            };
            format!("{need}{}x{times}", words.join("."))
        });
        clauses.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn questions_are_read() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text), expected, "{text:?}");
        check("black Cat", "black@0x1 cat@0x1");
        check("cat cat dog", "cat@0x2 dog@0x1");
        check("\"black cat\" dog", "black@0.cat@1x1 dog@0x1");
        check("+cat -dog -\"wet dog\"", "+cat@0x1 -dog@0x1 -wet@0.dog@1x1");
        check("well-known", "well@0x1 known@0x1");
        check("+well-known", "+well@0.known@1x1");
        check("\"cat\"", "cat@0x1");
        check("\"black cat\"dog", "black@0.cat@1x1 dog@0x1");
    }

    #[test]
    fn everything_else_is_text() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text), expected, "{text:?}");
        check("", "");
        check("  + - \"\" \" ", "");
        check("\"never ends", "never@0x1 ends@0x1");
        check(
            "a AND (b OR c)^2 [d TO e] f:g* \\",
            "a@0x1 and@0x1 b@0x1 or@0x1 c@0x1 2@0x1 d@0x1 to@0x1 e@0x1 f@0x1 g@0x1",
        );
        check("++cat --dog", "+cat@0x1 -dog@0x1");
        check("é'\u{0}\u{1f600}x", "é@0x1 x@0x1");
    }

    #[test]
    fn phrases_are_counted() {
        assert_eq!(phrase_count(&[(&[0, 2, 7], 0), (&[1, 3, 9], 1)]), 2);
        assert_eq!(phrase_count(&[(&[0, 2], 0), (&[1, 3], 1), (&[4], 2)]), 1);
        assert_eq!(phrase_count(&[(&[u32::MAX], 0), (&[0], 1)]), 0);
        assert_eq!(phrase_count(&[]), 0);
        // "a a" in "a a a" begins at two places.
        assert_eq!(phrase_count(&[(&[0, 1, 2], 0), (&[0, 1, 2], 1)]), 2);
    }
}
