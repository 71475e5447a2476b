//! Which rows an index covers at some state: those whose vectors are still the ones it was made from.
//!
//! ```text
//! where vectors lay ─same file, same row→ covered │ moved: same checksum→ covered │ others: rows that are searched exactly
//! ```

use std::sync::Arc;

use lacus_dataset::DatasetError;
use lacus_table::SamplePiece;

use super::blocks::Vectors;
use super::placed::extend;
use super::stored::{Origin, Stored};

/// Rows whose checksums are looked up at once.
const AT_ONCE: usize = 64 << 10;

/// Ids of rows that an index covers, ascending runs of first id and count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cover {
    pub runs: Vec<(u64, u64)>,
    pub rows: u64,
}

/// Runs of first id and count.
type Runs = Vec<(u64, u64)>;

/// What an index covers of a column.
pub(crate) async fn cover(vectors: &Vectors, stored: &Stored) -> Result<Arc<Cover>, DatasetError> {
    let table = vectors.dataset().table();
    let key = format!("cover {} {}", stored.prefix, table.content_key(vectors.name())?);
    if let Some(cover) = table.store().place().get::<Cover>(&key) {
        return Ok(cover);
    }
    let pieces = table.sample_pieces(vectors.name()).await?;
    let (mut runs, moved) = compared(&stored.origin, &pieces);
    if !moved.is_empty() {
        // Somebody moved vectors to other files, or wrote new ones: checksums tell which.
        let stamps = stored.stamps(table).await?;
        let mut known: Vec<(u64, u32)> = stored.lists.rows.iter().copied().zip(stamps).collect();
        known.sort_unstable();
        let ids: Vec<u64> = moved.iter().flat_map(|(first, count)| *first..first + count).collect();
        for ids in ids.chunks(AT_ONCE) {
            let samples = table.locate(vectors.name(), ids).await?;
            for (at, id) in ids.iter().enumerate() {
                let tiles = samples.tiles(at);
                let Ok(place) = known.binary_search_by_key(id, |(id, _)| *id) else { continue };
                if tiles.len() == 1 && samples.crc(tiles.start) == known[place].1 {
                    runs.push((*id, 1));
                }
            }
        }
        runs.sort_unstable();
        let mut joined = Vec::with_capacity(runs.len());
        runs.into_iter().for_each(|(first, count)| extend(&mut joined, first, count));
        runs = joined;
    }
    let rows = runs.iter().map(|(_, count)| count).sum();
    let cover = Arc::new(Cover { runs, rows });
    table.store().place().put(key, Arc::clone(&cover), 16 * cover.runs.len() as u64 + 64);
    Ok(cover)
}

/// Rows that lie where they lay, and rows that were there and lie elsewhere now. Both ascend.
fn compared(origin: &Origin, pieces: &[SamplePiece]) -> (Runs, Runs) {
    let (mut same, mut moved) = (Vec::new(), Vec::new());
    let mut at = 0;
    for piece in pieces {
        let (first, end) = (piece.first_id, piece.first_id + piece.count);
        while origin.pieces.get(at).is_some_and(|[_, _, id, count]| id + count <= first) {
            at += 1;
        }
        for [file, row, id, count] in origin.pieces[at..].iter().take_while(|[_, _, id, _]| *id < end) {
            let (low, high) = ((*id).max(first), (id + count).min(end));
            let is_same_file = origin.files.get(*file as usize).is_some_and(|file| **file == *piece.file);
            // The row of a file that each of them says id `low` has.
            let is_same = is_same_file && row + (low - id) == piece.first_row + (low - first);
            extend(if is_same { &mut same } else { &mut moved }, low, high - low);
        }
    }
    (same, moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_lie_where_they_lay_are_the_same() {
        let origin = Origin {
            files: vec!["a".to_owned(), "b".to_owned()],
            pieces: vec![[0, 0, 10, 100], [1, 5, 200, 50]],
        };
        let piece = |file: &str, first_row, first_id, count| SamplePiece {
            first_id,
            count,
            file: file.into(),
            first_row,
        };
        let check = |pieces: &[SamplePiece], same: &[(u64, u64)], moved: &[(u64, u64)]| {
            assert_eq!(compared(&origin, pieces), (same.to_vec(), moved.to_vec()), "{pieces:?}");
        };
        check(&[piece("a", 0, 10, 100), piece("b", 5, 200, 50)], &[(10, 100), (200, 50)], &[]);
        // Rows 20 to 29 deleted, 40 updated, others appended, b joined with c.
        let now = [
            piece("a", 0, 10, 10),
            piece("a", 20, 30, 10),
            piece("u", 0, 40, 1),
            piece("a", 31, 41, 69),
            piece("c", 0, 200, 50),
            piece("c", 50, 900, 10),
        ];
        check(&now, &[(10, 10), (30, 10), (41, 69)], &[(40, 1), (200, 50)]);
        check(&[], &[], &[]);
        // The same file, but shifted rows.
        check(&[piece("a", 1, 10, 100)], &[], &[(10, 100)]);
    }
}
