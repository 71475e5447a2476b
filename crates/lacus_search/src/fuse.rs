//! Rankings joined into one: reciprocal rank fusion.

use std::collections::HashMap;

/// The constant of the paper (Cormack, Clarke, Büttcher 2009), which everybody uses: the first rank counts 1/61.
pub const RANK_CONSTANT: f64 = 60.0;

/// Joins rankings of rows, each with the best first: a row gets `1 / (60 + rank)` of each ranking that has it. Returns the best first;
/// of equal ones, the row that an earlier ranking has at a better rank.
pub fn fused(rankings: &[Vec<u64>]) -> Vec<(u64, f64)> {
    // By row: its score, and when it was seen first.
    let mut rows: HashMap<u64, (f64, usize)> = HashMap::new();
    let mut seen = 0;
    let longest = rankings.iter().map(Vec::len).max().unwrap_or(0);
    for rank in 0..longest {
        for row in rankings.iter().filter_map(|ranking| ranking.get(rank)) {
            let (score, _) = rows.entry(*row).or_insert((0.0, seen));
            *score += 1.0 / (RANK_CONSTANT + rank as f64 + 1.0);
            seen += 1;
        }
    }
    let mut found: Vec<(u64, f64, usize)> =
        rows.into_iter().map(|(row, (score, at))| (row, score, at)).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.2.cmp(&b.2)));
    found.into_iter().map(|(row, score, _)| (row, score)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_several_rankings_win() {
        let found = fused(&[vec![1, 2, 3], vec![3, 4]]);
        let rows: Vec<u64> = found.iter().map(|(row, _)| *row).collect();
        assert_eq!(rows, [3, 1, 4, 2]);
        assert_eq!(found[0].1, 1.0 / 63.0 + 1.0 / 61.0);
        assert_eq!(found[1].1, 1.0 / 61.0);
        // Equal ranks: the earlier ranking first.
        let rows: Vec<u64> = fused(&[vec![9, 8], vec![7, 6]]).iter().map(|(row, _)| *row).collect();
        assert_eq!(rows, [9, 7, 8, 6]);
        assert_eq!(fused(&[]), []);
        assert_eq!(fused(&[vec![], vec![5]]), [(5, 1.0 / 61.0)]);
    }
}
