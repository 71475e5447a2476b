//! Which rows have these words, and how well do they match?

use std::sync::Arc;

use lacus_dataset::{Dataset, DatasetError};
use lacus_io::{blocking, boxed};
use lacus_table::Whereabouts;

use crate::text::bm25::{Part, scores};
use crate::text::cover::{Covered, cover};
use crate::text::look::{Looked, look};
use crate::text::store::{Stored, count, open, segments_of};
use crate::text::texts::{Texts, Windows, check_column};
use crate::text::wanted::Wanted;
use crate::text::words::{DEFAULT_TOKENIZER, Tokenizer};

/// Below so many rows, a second thread costs more than it brings.
const ROWS_PER_THREAD: usize = 4 << 10;

/// The rows of a dataset that match, and how well.
#[derive(Debug, Default)]
pub struct TextScores {
    /// Ids of rows, ascending.
    ids: Vec<u64>,
    /// The score of each, above zero.
    scores: Vec<f32>,
    /// How many rows have a text.
    pub rows: u64,
    /// How many of these were found by an index; the others were read.
    pub covered: u64,
    /// The tokenizer that cut texts and question into words.
    pub tokenizer: String,
    /// What is wrong with the index, if something is.
    pub problem: Option<String>,
}

impl TextScores {
    /// The ids of the rows that match, ascending.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// Their scores.
    pub fn scores(&self) -> &[f32] {
        &self.scores
    }

    /// The score of each row; 0 for those that do not match. Quick for ids that ascend.
    pub fn of(&self, ids: impl Iterator<Item = u64>) -> Vec<f32> {
        let (mut at, mut before) = (0, 0);
        let score = |id: u64| {
            if id < before {
                at = 0;
            }
            before = id;
            // Mostly it is the next one, or near.
            let mut step = 1;
            while at + step < self.ids.len() && self.ids[at + step] <= id {
                at += step;
                step *= 2;
            }
            let end = (at + step + 1).min(self.ids.len());
            at += self.ids[at.min(end)..end].partition_point(|known| *known < id);
            match self.ids.get(at) {
                Some(known) if *known == id => self.scores[at],
                _ => 0.0,
            }
        };
        ids.map(score).collect()
    }

    fn memory_bytes(&self) -> u64 {
        self.ids.len() as u64 * 12 + 256
    }
}

/// The scores of all rows of a dataset for some words in a column of texts. What an index covers is looked up there; all else, and
/// everything if `is_exact`, is read. The scores are the same either way.
#[boxed]
pub async fn text_scores(
    dataset: &Dataset,
    column: &str,
    words: &str,
    is_exact: bool,
) -> Result<Arc<TextScores>, DatasetError> {
    check_column(dataset, column, "text search")?;
    let table = dataset.table();
    let names = segments_of(table, column);
    let newest = names.last().map_or("", String::as_str);
    let state = table.content_key(column)?;
    let key = format!("text scores {state} {} {newest} {is_exact} {words}", names.len());
    if let Some(known) = table.store().place().get::<TextScores>(&key) {
        return Ok(known);
    }
    let Index { segments, tokenizer, rest, mut problem } = index_of(dataset, column).await?;
    let mut tokenizer = known_tokenizer(&tokenizer)?;
    let wanted = Wanted::read(words, &mut tokenizer);
    let mut found = Found { parts: Vec::new(), ids: Vec::new(), covered: 0 };
    let mut rest = rest;
    for (stored, covered) in segments {
        let live: Vec<_> = covered.documents.iter().map(|(range, _)| range.clone()).collect();
        let counted = match is_exact {
            true => None,
            false => match count(&stored, table, &wanted, &live).await {
                Ok(part) => Some(part),
                Err(error) if is_damage(&error) => {
                    problem.get_or_insert_with(|| report(column, &error));
                    None
                }
                Err(error) => return Err(error),
            },
        };
        match counted {
            Some(part) => found.add_segment(part, covered),
            None => rest.extend(whereabouts_of(&covered)),
        }
    }
    rest.sort_unstable_by_key(|sample| sample.id);
    let mut windows = Windows::new(dataset, column, &rest);
    while let Some(texts) = windows.next().await? {
        let pool = table.world().pool();
        let parts = blocking(|| look_at(pool, &texts, &wanted, &tokenizer));
        parts.into_iter().for_each(|looked| found.add_looked(looked));
    }
    let tokenizer = tokenizer.name().to_owned();
    let scores = Arc::new(blocking(|| found.scored(&wanted, tokenizer, problem)));
    table.store().place().put(key, Arc::clone(&scores), scores.memory_bytes());
    Ok(scores)
}

/// What there is of an index.
pub(crate) struct Index {
    pub segments: Vec<(Arc<Stored>, Covered)>,
    pub tokenizer: String,
    /// Samples that no segment covers.
    pub rest: Vec<Whereabouts>,
    pub problem: Option<String>,
}

/// The segments of a column that cover rows. Damaged ones are passed over, and so are those that another tokenizer made than the newest.
#[boxed]
pub(crate) async fn index_of(dataset: &Dataset, column: &str) -> Result<Index, DatasetError> {
    let table = dataset.table();
    let mut index = Index {
        segments: Vec::new(),
        tokenizer: String::new(),
        rest: table.whereabouts(column).await?,
        problem: None,
    };
    for name in segments_of(table, column).iter().rev() {
        let stored = match open(table, name).await.map_err(DatasetError::from) {
            Ok(stored) => stored,
            Err(error) if is_damage(&error) => {
                index.problem.get_or_insert_with(|| report(column, &error));
                continue;
            }
            Err(error) => return Err(error),
        };
        if index.tokenizer.is_empty() {
            index.tokenizer = stored.header.tokenizer.clone();
        }
        if index.tokenizer != stored.header.tokenizer {
            continue;
        }
        let mut covered = blocking(|| cover(&stored.header, &index.rest));
        index.rest = std::mem::take(&mut covered.rest);
        index.segments.push((stored, covered));
    }
    if index.tokenizer.is_empty() {
        index.tokenizer = DEFAULT_TOKENIZER.to_owned();
    }
    Ok(index)
}

/// The tokenizer of a name that an index has.
pub(crate) fn known_tokenizer(name: &str) -> Result<Tokenizer, DatasetError> {
    Tokenizer::named(name).ok_or_else(|| DatasetError::Refused {
        op: "text search",
        why: format!("the index was made with tokenizer {name:?}, which this version of lacus does not have"),
    })
}

fn is_damage(error: &DatasetError) -> bool {
    error.kind() == lacus_dataset::ErrorKind::Corrupt
}

/// Says once what is wrong with an index. Its segments stay in the cache of the process as they are, so it is not found again and again.
fn report(column: &str, error: &DatasetError) -> String {
    tracing::warn!(column, %error, "a text index is damaged; its rows are read instead");
    format!("the text index of {column:?} is damaged, and rows are read instead: {error}; create it again")
}

/// Rows that a segment covers, as if it did not.
fn whereabouts_of(covered: &Covered) -> impl Iterator<Item = Whereabouts> {
    covered.documents.iter().map(|(range, id)| Whereabouts {
        file: String::new(),
        row: 0,
        id: *id,
        count: u64::from(range.end - range.start),
    })
}

/// Looks at texts, on all threads.
fn look_at(pool: &lacus_io::Pool, texts: &Texts, wanted: &Wanted, tokenizer: &Tokenizer) -> Vec<Looked> {
    let all: Vec<(u64, Option<&str>)> = texts.iter().collect();
    let team = pool.team(all.len().div_ceil(ROWS_PER_THREAD));
    let pieces: Vec<&[(u64, Option<&str>)]> = all.chunks(ROWS_PER_THREAD).collect();
    team.map_with(
        pieces,
        || tokenizer.clone(),
        |piece, tokenizer| look(piece.iter().copied(), wanted, tokenizer),
    )
}

/// What was counted so far.
struct Found {
    parts: Vec<Part>,
    ids: Vec<Ids>,
    covered: u64,
}

/// The rows of slots.
enum Ids {
    /// Ranges of documents, with the id of the first.
    Segment(Covered),
    Each(Vec<u64>),
}

impl Found {
    fn add_segment(&mut self, part: Part, covered: Covered) {
        self.covered += covered.rows();
        self.parts.push(part);
        self.ids.push(Ids::Segment(covered));
    }

    fn add_looked(&mut self, looked: Looked) {
        self.parts.push(looked.part);
        self.ids.push(Ids::Each(looked.ids));
    }

    fn scored(self, wanted: &Wanted, tokenizer: String, problem: Option<String>) -> TextScores {
        let mut rows: Vec<(u64, f32)> = Vec::new();
        for (found, ids) in scores(wanted, &self.parts).into_iter().zip(&self.ids) {
            match ids {
                Ids::Each(ids) => {
                    rows.extend(found.into_iter().map(|(slot, score)| (ids[slot as usize], score)));
                }
                Ids::Segment(covered) => {
                    let mut ranges = covered.documents.iter().peekable();
                    for (document, score) in found {
                        while ranges.next_if(|(range, _)| range.end <= document).is_some() {}
                        if let Some((range, id)) = ranges.peek() {
                            rows.push((id + u64::from(document - range.start), score));
                        }
                    }
                }
            }
        }
        rows.sort_unstable_by_key(|(id, _)| *id);
        let (ids, scores) = rows.into_iter().unzip();
        let rows = self.parts.iter().map(|part| part.rows).sum();
        TextScores { ids, scores, rows, covered: self.covered, tokenizer, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_found_by_id() {
        let ids: Vec<u64> = vec![2, 3, 7, 20, 21, 22, 90];
        let scores: Vec<f32> = ids.iter().map(|id| *id as f32).collect();
        let found = TextScores { ids: ids.clone(), scores, ..TextScores::default() };
        let expected = |id: u64| if ids.contains(&id) { id as f32 } else { 0.0 };
        let check = |asked: Vec<u64>| {
            let wanted: Vec<f32> = asked.iter().map(|id| expected(*id)).collect();
            assert_eq!(found.of(asked.iter().copied()), wanted, "{asked:?}");
        };
        check((0..100).collect());
        check((0..100).rev().collect());
        check(vec![90, 2, 22, 22, 1, 3, 100, 0]);
        check(vec![91, 92]);
        assert_eq!(TextScores::default().of([1, 2].into_iter()), [0.0, 0.0]);
    }
}
