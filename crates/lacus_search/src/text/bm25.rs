//! BM25 as Lucene computes it, from counts alone.
//!
//! ```text
//! score(row) = Σ idf(word) · tf / (tf + k1 · (1 − b + b · length / mean length))        k1 = 1.2, b = 0.75
//! idf(word)  = ln(1 + (N − n + 0.5) / (n + 0.5))                  N rows with a text, n of them with the word
//! ```
//!
//! A phrase counts like a word whose idf is the sum of those of its words. Lengths are exact. Counts come in [`Part`]s, from
//! an index or from texts: which, makes no difference to a single bit of a score.

use std::sync::Arc;

use crate::text::wanted::{Need, Wanted};

/// How soon more of the same word stops to matter.
const K1: f64 = 1.2;

/// How much the length of a text matters.
const B: f64 = 0.75;

/// What was counted in some rows.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// How many rows have a text, whether it matches or not.
    pub rows: u64,
    /// How many words are in them.
    pub words: u64,
    /// By word: how many of these rows have it.
    pub rows_with: Vec<u64>,
    /// By slot: the number of words of a row. A slot stands for a row; those that match nothing may have none.
    pub lengths: Arc<Vec<u32>>,
    /// By clause: slots, ascending, and how often the clause is true of them.
    pub hits: Vec<Vec<(u32, u32)>>,
}

impl Part {
    /// A part without rows.
    pub(crate) fn empty(wanted: &Wanted) -> Part {
        Part {
            rows_with: vec![0; wanted.words.len()],
            hits: vec![Vec::new(); wanted.clauses.len()],
            ..Part::default()
        }
    }
}

/// The slots of each part that match, ascending, with their scores.
pub(crate) fn scores(wanted: &Wanted, parts: &[Part]) -> Vec<Vec<(u32, f32)>> {
    let rows: u64 = parts.iter().map(|part| part.rows).sum();
    let words: u64 = parts.iter().map(|part| part.words).sum();
    let mean = words as f64 / rows.max(1) as f64;
    let idf: Vec<f64> = (0..wanted.words.len())
        .map(|word| {
            let with = parts.iter().map(|part| part.rows_with[word]).sum::<u64>() as f64;
            (1.0 + (rows as f64 - with + 0.5) / (with + 0.5)).ln()
        })
        .collect();
    parts.iter().map(|part| part_scores(wanted, part, mean, &idf)).collect()
}

fn part_scores(wanted: &Wanted, part: &Part, mean: f64, idf: &[f64]) -> Vec<(u32, f32)> {
    let musts = wanted.clauses.iter().filter(|(clause, _)| clause.need == Need::Must).count() as u32;
    let mut sums = vec![0.0f64; part.lengths.len()];
    let mut met = vec![0u32; if musts > 0 { part.lengths.len() } else { 0 }];
    let mut refused = Vec::new();
    for ((clause, times), hits) in wanted.clauses.iter().zip(&part.hits) {
        if clause.need == Need::Not {
            refused.extend(hits.iter().map(|(slot, _)| *slot));
            continue;
        }
        let weight = f64::from(*times) * clause.words.iter().map(|(word, _)| idf[*word]).sum::<f64>();
        for &(slot, count) in hits {
            let (slot, count) = (slot as usize, f64::from(count));
            let length = f64::from(part.lengths[slot]) / mean;
            sums[slot] += weight * count / (count + K1 * (1.0 - B + B * length));
            if clause.need == Need::Must {
                met[slot] += 1;
            }
        }
    }
    refused.into_iter().for_each(|slot| sums[slot as usize] = 0.0);
    let slots = (0u32..).zip(&sums);
    let found = slots.filter(|(slot, sum)| **sum > 0.0 && (musts == 0 || met[*slot as usize] == musts));
    // A score is never 0 for a row that matches, however long its text.
    found.map(|(slot, sum)| (slot, (*sum as f32).max(f32::MIN_POSITIVE))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::words::Tokenizer;

    #[test]
    fn scores_are_those_of_the_formula() {
        // Two rows: "cat cat dog" and "dog".
        let wanted = Wanted::read("cat dog", &mut Tokenizer::named("simple").unwrap());
        let part = Part {
            rows: 2,
            words: 4,
            rows_with: vec![1, 2],
            lengths: Arc::new(vec![3, 1]),
            hits: vec![vec![(0, 2)], vec![(0, 1), (1, 1)]],
        };
        let found = scores(&wanted, &[part]);
        let (cat, dog) = ((1.0f64 + 1.5 / 1.5).ln(), (1.0f64 + 0.5 / 2.5).ln());
        let part_of = |count: f64, length: f64| count / (count + 1.2 * (0.25 + 0.75 * length / 2.0));
        let first = cat * part_of(2.0, 3.0) + dog * part_of(1.0, 3.0);
        let second = dog * part_of(1.0, 1.0);
        assert_eq!(found, [vec![(0, first as f32), (1, second as f32)]]);
    }

    #[test]
    fn needs_are_met() {
        let check = |text: &str, expected: &[u32]| {
            let mut tokenizer = Tokenizer::named("simple").unwrap();
            let wanted = Wanted::read(text, &mut tokenizer);
            let texts = ["cat", "dog", "cat dog", "bird"];
            let mut part =
                Part { rows: 4, words: 5, lengths: Arc::new(vec![1, 1, 2, 1]), ..Part::empty(&wanted) };
            for (slot, text) in (0..).zip(texts) {
                for (at, (clause, _)) in wanted.clauses.iter().enumerate() {
                    if text.split(' ').any(|word| word == wanted.words[clause.words[0].0]) {
                        part.hits[at].push((slot, 1));
                    }
                }
            }
            let found: Vec<u32> = scores(&wanted, &[part])[0].iter().map(|(slot, _)| *slot).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("cat dog", &[0, 1, 2]);
        check("+cat dog", &[0, 2]);
        check("+cat +dog", &[2]);
        check("cat -dog", &[0]);
        check("-dog", &[]);
        check("fish", &[]);
    }
}
