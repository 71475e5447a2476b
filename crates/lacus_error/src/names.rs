//! Names that look like another: for errors that suggest what was meant.

/// Longer names are no typing errors, and comparing costs the product of the lengths.
const LONGEST_BYTES: usize = 200;

/// How many names are suggested at most.
const MOST: usize = 3;

/// Up to three of `names` that look like `name`, the closest first. A name that differs in its case only is what was meant.
pub fn close_to<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = name.to_lowercase();
    if wanted.is_empty() || wanted.len() > LONGEST_BYTES {
        return Vec::new();
    }
    // One slip in short names, two in longer ones, or one per three letters.
    let most = match wanted.chars().count() {
        0..=3 => 1,
        letters => (letters / 3).max(2),
    };
    let mut close: Vec<(usize, &str)> = Vec::new();
    for candidate in names.into_iter().filter(|candidate| candidate.len() <= LONGEST_BYTES) {
        let lower = candidate.to_lowercase();
        let is_part = lower.starts_with(&wanted) || lower.ends_with(&wanted) || wanted.starts_with(&lower);
        let distance = match (lower == wanted, is_part) {
            (true, _) => 0,
            (_, true) => 1,
            _ => edit_distance(&wanted, &lower),
        };
        if distance <= most {
            close.push((distance, candidate));
        }
    }
    close.sort_unstable();
    close.dedup();
    let only_case = close.first().is_some_and(|(distance, _)| *distance == 0);
    let kept = close.into_iter().take_while(|(distance, _)| !only_case || *distance == 0).take(MOST);
    kept.map(|(_, candidate)| candidate.to_owned()).collect()
}

/// What an error says at its end: `; did you mean a or b?`, and nothing if no name is close.
pub fn did_you_mean(close: &[String]) -> String {
    match close {
        [] => String::new(),
        _ => format!("; did you mean {}?", close.join(" or ")),
    }
}

/// Letters to insert, drop, replace or swap with their neighbour to get from one text to the other (the distance of
/// Damerau and Levenshtein, each letter touched once).
pub fn edit_distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=to.len()).collect());
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = last[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        let names = ["image", "image.gray", "bbox", "video", "dog", "feature/photos", "main", "main"];
        let check = |name: &str, expected: &[&str]| assert_eq!(close_to(name, names), expected, "{name}");
        check("imgae", &["image"]);
        check("Image", &["image"]);
        check("images", &["image"]);
        check("imag", &["image", "image.gray"]);
        check("bbxo", &["bbox"]);
        check("bbo", &["bbox"]);
        check("mian", &["main"]);
        check("photos", &["feature/photos"]);
        check("cat", &[]);
        check("xxo", &[]);
        check("", &[]);
        check(&"x".repeat(1000), &[]);
    }

    #[test]
    fn edits_are_counted() {
        for (from, to, count) in [
            ("", "", 0),
            ("", "ab", 2),
            ("ab", "", 2),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("é", "e", 1),
        ] {
            assert_eq!(edit_distance(from, to), count, "{from} {to}");
        }
    }

    #[test]
    fn suggestions_are_said_in_one_way() {
        assert_eq!(did_you_mean(&[]), "");
        assert_eq!(did_you_mean(&["a".to_owned(), "b".to_owned()]), "; did you mean a or b?");
    }
}
