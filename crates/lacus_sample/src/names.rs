//! Names that look like another: for errors that suggest what was meant.

/// Up to three of `names` that look like `name`, the closest first.
pub(crate) fn close_to<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    // Longer names are no typing errors, and comparing costs the product of the lengths.
    const LONGEST: usize = 64;
    let name = name.to_lowercase();
    if name.is_empty() || name.len() > LONGEST {
        return Vec::new();
    }
    let mut close: Vec<(usize, &str)> = Vec::new();
    for candidate in names.into_iter().filter(|candidate| candidate.len() <= LONGEST) {
        let lower = candidate.to_lowercase();
        let distance = match lower.starts_with(&name) || name.starts_with(&lower) {
            true => 1,
            false => edits(&name, &lower),
        };
        // One slip per three letters, one at least.
        if distance <= (name.chars().count() / 3).max(1) {
            close.push((distance, candidate));
        }
    }
    close.sort_by_key(|(distance, _)| *distance);
    close.into_iter().take(3).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// Letters to insert, drop, replace or swap with their neighbour to get from one to the other (the distance of
/// Damerau and Levenshtein, each letter touched once).
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        let names = ["image", "image.gray", "bbox", "video", "dog"];
        let check = |name: &str, expected: &[&str]| assert_eq!(close_to(name, names), expected, "{name}");
        check("imgae", &["image"]);
        check("Image", &["image", "image.gray"]);
        check("images", &["image"]);
        check("bbxo", &["bbox"]);
        check("xxo", &[]);
        check("bbo", &["bbox"]);
        check("cat", &[]);
        check("", &[]);
        check(&"x".repeat(1000), &[]);
    }

    #[test]
    fn edits_are_counted() {
        for (from, to, count) in [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 1)] {
            assert_eq!(edits(from, to), count, "{from} {to}");
        }
    }
}
