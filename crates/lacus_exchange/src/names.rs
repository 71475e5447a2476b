//! Names that somebody else chose, as columns and files can have them.

use std::collections::{BTreeSet, HashSet};

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

/// The longest name of a file that common file systems take, in bytes.
const LONGEST_NAME: usize = 255;

/// A name that a file can have in any directory, and that leads nowhere else: as it is, if it is one.
pub(crate) fn file_name(name: &str) -> String {
    // What else Windows refuses is left alone where it is no danger.
    let refused = |c: char| match c {
        '/' | '\0' => true,
        '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => cfg!(windows),
        c => cfg!(windows) && c.is_control(),
    };
    let mut safe: String = name.chars().map(|c| if refused(c) { '_' } else { c }).collect();
    // A leading dot hides a file, and `..` leads out.
    if safe.is_empty() || safe.starts_with('.') {
        safe.insert(0, '_');
    }
    match safe.len() > LONGEST_NAME {
        true => with_suffix(&safe, ""),
        false => safe,
    }
}

/// A name below a directory: parts between slashes, none of which leads out of it.
pub(crate) fn relative_path(name: &str) -> String {
    let parts: Vec<String> =
        name.split('/').filter(|part| !part.is_empty() && *part != ".").map(file_name).collect();
    match parts.is_empty() {
        true => "_".to_owned(),
        false => parts.join("/"),
    }
}

/// The last part of a path with something before its extension, cut to what file systems take.
fn with_suffix(path: &str, suffix: &str) -> String {
    let (directory, name) = path.rsplit_once('/').map_or(("", path), |(directory, name)| (directory, name));
    let (stem, extension) = match name.rfind('.').filter(|dot| *dot > 0 && name.len() - dot <= 20) {
        Some(dot) => name.split_at(dot),
        None => (name, ""),
    };
    let room = LONGEST_NAME - suffix.len() - extension.len();
    let mut end = stem.len().min(room);
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    let slash = if directory.is_empty() { "" } else { "/" };
    format!("{directory}{slash}{}{suffix}{extension}", &stem[..end])
}

/// Names of files that were given out below a directory. The same names in the same order give the same names.
#[derive(Default)]
pub(crate) struct FileNames {
    files: HashSet<String>,
    directories: HashSet<String>,
}

impl FileNames {
    /// A name for a file that wants `path`: that one, or with the first free number from 2 on behind it, `a_2.jpg`.
    /// A file that is there already and is the `same` is taken again: the name is not new then.
    pub(crate) fn take(&mut self, path: &str, same: impl Fn(&str) -> bool) -> (String, bool) {
        let mut candidate = self.below_directories(path);
        let wanted = candidate.clone();
        let mut number = 2;
        while self.files.contains(&candidate) || self.directories.contains(&candidate) {
            if self.files.contains(&candidate) && same(&candidate) {
                return (candidate, false);
            }
            candidate = with_suffix(&wanted, &format!("_{number}"));
            number += 1;
        }
        for (end, _) in candidate.match_indices('/') {
            self.directories.insert(candidate[..end].to_owned());
        }
        self.files.insert(candidate.clone());
        (candidate, true)
    }

    /// The path with other names for directories that are files already.
    fn below_directories(&self, path: &str) -> String {
        let mut found = String::new();
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let above = if found.is_empty() { String::new() } else { format!("{found}/") };
            let wanted = format!("{above}{part}");
            found = wanted.clone();
            let mut number = 2;
            while parts.peek().is_some() && self.files.contains(&found) {
                found = with_suffix(&wanted, &format!("_{number}"));
                number += 1;
            }
        }
        found
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
        assert_eq!(file_name("tabby cat: 1?.jpg"), "tabby cat: 1?.jpg");
        assert_eq!(relative_path("/../a/./b.jpg"), "_../a/b.jpg");
        assert_eq!(relative_path("a/b.jpg"), "a/b.jpg");
        assert_eq!(relative_path("/etc/passwd"), "etc/passwd");
        assert_eq!(relative_path("a\0b"), "a_b");
        assert_eq!(relative_path("./"), "_");
        let long = file_name(&format!("{}.jpg", "é".repeat(200)));
        assert!(long.len() <= 255 && long.ends_with("é.jpg"), "{long}");
    }

    #[test]
    fn files_of_one_name_get_numbers() {
        let mut names = FileNames::default();
        let mut take = |path: &str| names.take(path, |_| false).0;
        assert_eq!(take("a/x.jpg"), "a/x.jpg");
        assert_eq!(take("b/x.jpg"), "b/x.jpg");
        assert_eq!(take("a/x.jpg"), "a/x_2.jpg");
        assert_eq!(take("a/x_2.jpg"), "a/x_2_2.jpg");
        assert_eq!(take("a/x.jpg"), "a/x_3.jpg");
        // A file where a directory is, and a directory where a file is.
        assert_eq!(take("a"), "a_2");
        assert_eq!(take("a/x.jpg/y"), "a/x_4.jpg/y");
        let long = format!("{}.jpg", "x".repeat(251));
        assert_eq!(take(&long), long);
        let second = take(&long);
        assert!(second.len() == 255 && second.ends_with("x_2.jpg"), "{second}");
        assert_eq!(names.take("a/x.jpg", |_| true), ("a/x.jpg".to_owned(), false));
    }
}
