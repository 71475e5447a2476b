//! Looks for words in texts themselves: what is done where no index is.

use std::collections::HashMap;
use std::sync::Arc;

use crate::text::bm25::Part;
use crate::text::wanted::{Wanted, phrase_count};
use crate::text::words::Tokenizer;

/// What was found in texts.
#[derive(Debug)]
pub(crate) struct Looked {
    pub part: Part,
    /// The row of each slot.
    pub ids: Vec<u64>,
}

/// Counts in texts, which come with the ids of their rows, ascending; missing ones are passed over.
pub(crate) fn look<'t>(
    texts: impl Iterator<Item = (u64, Option<&'t str>)>,
    wanted: &Wanted,
    tokenizer: &mut Tokenizer,
) -> Looked {
    let known: HashMap<&str, usize> =
        wanted.words.iter().enumerate().map(|(at, word)| (word.as_str(), at)).collect();
    let mut looked = Looked { part: Part::empty(wanted), ids: Vec::new() };
    let mut lengths = Vec::new();
    let mut places: Vec<Vec<u32>> = vec![Vec::new(); wanted.words.len()];
    for (id, text) in texts {
        let Some(text) = text else { continue };
        let (mut length, mut is_found) = (0u32, false);
        tokenizer.each(text, |word, place| {
            length = length.saturating_add(1);
            if let Some(word) = known.get(word) {
                places[*word].push(place);
                is_found = true;
            }
        });
        let part = &mut looked.part;
        part.rows += 1;
        part.words += u64::from(length);
        if !is_found {
            continue;
        }
        let slot = lengths.len() as u32;
        lengths.push(length);
        looked.ids.push(id);
        for (at, (clause, _)) in wanted.clauses.iter().enumerate() {
            let count = match &clause.words[..] {
                [(word, _)] => places[*word].len() as u32,
                words => {
                    let each: Vec<(&[u32], u32)> =
                        words.iter().map(|(word, offset)| (&places[*word][..], *offset)).collect();
                    phrase_count(&each)
                }
            };
            if count > 0 {
                part.hits[at].push((slot, count));
            }
        }
        for (word, places) in places.iter_mut().enumerate() {
            part.rows_with[word] += u64::from(!places.is_empty());
            places.clear();
        }
    }
    looked.part.lengths = Arc::new(lengths);
    looked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_phrases_are_counted() {
        let mut tokenizer = Tokenizer::named("simple").unwrap();
        let wanted = Wanted::read("cat \"black cat\"", &mut tokenizer);
        let texts = [(3, Some("a black cat, a CAT")), (4, None), (7, Some("cat black")), (9, Some(""))];
        let Looked { part, ids } = look(texts.into_iter(), &wanted, &mut tokenizer);
        assert_eq!((part.rows, part.words, ids), (3, 7, vec![3, 7]));
        assert_eq!(*part.lengths, [5, 2]);
        assert_eq!(part.hits, [vec![(0, 2), (1, 1)], vec![(0, 1)]]);
        assert_eq!(part.rows_with, [2, 2]);
    }
}
