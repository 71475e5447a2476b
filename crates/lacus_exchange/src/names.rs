//! Names that somebody else chose, as columns and files can have them.

use std::collections::BTreeSet;

/// Names of columns, made usable and different from each other: `column_3` for an empty one, `name_2` for a second
/// one of the same name.
pub(crate) fn column_names(found: &[String]) -> Vec<String> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut names = Vec::with_capacity(found.len());
    for (place, found) in found.iter().enumerate() {
        let mut name = column_name(found);
        if name.is_empty() {
            name = format!("column_{}", place + 1);
        }
        let mut unique = name.clone();
        let mut number = 2;
        while !taken.insert(unique.clone()) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        names.push(unique);
    }
    names
}

/// A name that a column can have, as close to `found` as possible; empty if there is nothing to go by.
fn column_name(found: &str) -> String {
    let plain: String = found.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let parts: Vec<&str> = plain
        .split('/')
        .map(str::trim)
        .filter(|part| !part.is_empty() && *part != "." && *part != "..")
        .collect();
    let mut name = parts.join("/");
    while name.len() > 1000 {
        name.pop();
    }
    name
}

/// A name that a file can have in any directory, and that leads nowhere else.
pub(crate) fn file_name(name: &str) -> String {
    let plain =
        |c: char| !c.is_control() && !matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let mut safe: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if safe.is_empty() || safe.starts_with('.') {
        safe.insert(0, '_');
    }
    while safe.len() > 200 {
        safe.pop();
    }
    safe
}

/// A name below a directory: parts between slashes, none of which leads out of it.
pub(crate) fn relative_path(name: &str) -> String {
    let parts: Vec<String> = name.split('/').filter(|part| !part.is_empty()).map(file_name).collect();
    match parts.is_empty() {
        true => "_".to_owned(),
        false => parts.join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_headers_become_names() {
        let found = ["a", "", "a", " b\n", "x//y", "/", "a"].map(str::to_owned);
        assert_eq!(column_names(&found), ["a", "column_2", "a_2", "b", "x/y", "column_6", "a_3"]);
    }

    #[test]
    fn no_name_leads_out_of_its_directory() {
        assert_eq!(file_name("../etc"), "_.._etc");
        assert_eq!(file_name(""), "_");
        assert_eq!(file_name("tabby cat"), "tabby cat");
        assert_eq!(relative_path("/../a/./b.jpg"), "_../a/_./b.jpg");
        assert_eq!(relative_path("a/b.jpg"), "a/b.jpg");
    }
}
