//! Class names that two people added, as one list.
//!
//! ```
//! use lacus_sample::{joined_class_names, moved_classes};
//!
//! let list = |names: &str| names.split(' ').map(str::to_owned).collect::<Vec<_>>();
//! let (base, ours, theirs) = (list("cat dog"), list("cat dog fox"), list("cat dog owl fox"));
//! let joined = joined_class_names(&base, &ours, &theirs).unwrap();
//! assert_eq!(joined, list("cat dog fox owl"));
//! assert_eq!(moved_classes(&theirs, &joined), Some(vec![0, 1, 3, 2]));
//! assert_eq!(moved_classes(&ours, &joined), None);
//! ```

/// The names of both sides, if both only added names behind those of the base: theirs come after ours, and names that both
/// added are the same. `None` if a side renamed, removed or moved one, since its number then means something else.
pub fn joined_class_names(base: &[String], ours: &[String], theirs: &[String]) -> Option<Vec<String>> {
    if !(ours.starts_with(base) && theirs.starts_with(base)) {
        return None;
    }
    let mut joined = ours.to_vec();
    joined.extend(theirs.iter().filter(|name| !ours.contains(name)).cloned());
    Some(joined)
}

/// The numbers that classes have in a longer list; `None` if all stay what they are.
pub fn moved_classes(names: &[String], joined: &[String]) -> Option<Vec<usize>> {
    if joined.starts_with(names) {
        return None;
    }
    let place = |(at, name): (usize, &String)| joined.iter().position(|other| other == name).unwrap_or(at);
    Some(names.iter().enumerate().map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_added_names_are_joined() {
        let check = |base: &str, ours: &str, theirs: &str, expected: Option<&str>| {
            let list = |names: &str| names.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let joined = joined_class_names(&list(base), &list(ours), &list(theirs));
            assert_eq!(joined, expected.map(list), "{base} | {ours} | {theirs}");
        };
        check("a b", "a b", "a b", Some("a b"));
        check("a b", "a b c", "a b", Some("a b c"));
        check("a b", "a b", "a b c", Some("a b c"));
        check("a b", "a b c", "a b d", Some("a b c d"));
        check("a b", "a b c d", "a b d e", Some("a b c d e"));
        check("", "a", "b", Some("a b"));
        check("a b", "a x", "a b c", None);
        check("a b", "a b c", "a", None);
        check("a b", "b a", "a b", None);
    }
}
