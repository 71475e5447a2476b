//! Names of branches and tags: which there may be, how they become paths, which look like another.

use crate::error::HistoryError;
use crate::id::CommitId;

/// Bytes of a name as part of a path, at most. File systems allow 255.
const LONGEST: usize = 200;

/// Whether a branch or tag (`what` says which) may be called that. The rules are git's, so that a name can be used in
/// both; and a name is no commit's id.
pub fn check_name(what: &'static str, name: &str) -> Result<(), HistoryError> {
    match objection(name) {
        Some(why) => Err(HistoryError::BadName { what, name: name.to_owned(), why }),
        None => Ok(()),
    }
}

/// Whether a new branch or tag may be called that: also not as versions are written. Older ones may be called so.
pub(crate) fn check_new_name(what: &'static str, name: &str) -> Result<(), HistoryError> {
    let digits = name.strip_prefix('@').unwrap_or(name);
    if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) {
        let why = "it reads as a version; add a letter";
        return Err(HistoryError::BadName { what, name: name.to_owned(), why });
    }
    check_name(what, name)
}

fn objection(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if encode(name).len() > LONGEST {
        return Some(
            "it is longer than 200 bytes (all but letters, digits, '.', '_' and '-' count three times)",
        );
    }
    if name.chars().any(char::is_control) {
        return Some("it has a control character");
    }
    if name.contains([' ', '~', '^', ':', '?', '*', '[', '\\']) || name.contains("@{") {
        return Some("it has one of: space ~ ^ : ? * [ \\ @{");
    }
    if name.contains("..") {
        return Some("it has two dots in a row");
    }
    if name == "HEAD" || name == "@" {
        return Some("it stands for the commit one is on");
    }
    if CommitId::parse(name).is_some() {
        return Some("it looks like a commit's id");
    }
    for part in name.split('/') {
        if part.is_empty() {
            return Some("it begins or ends with a slash, or has two in a row");
        }
        if part.starts_with(['.', '-']) {
            return Some("it, or a part of it, begins with a dot or a dash");
        }
        if part.ends_with(".lock") || part.ends_with('.') {
            return Some("it, or a part of it, ends with a dot or with .lock");
        }
    }
    None
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// The name as one part of a path: all but letters, digits, `.`, `_` and `-` as `%` and two digits.
pub(crate) fn encode(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match is_plain(byte) {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The name that [`encode`] made this part of a path of; `None` if it did not.
pub(crate) fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    let name = String::from_utf8(bytes).ok()?;
    // One name, one path.
    (encode(&name) == part).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_gits_rules() {
        for name in
            ["main", "a", "feature/x", "v1.0", "12", "ünï-cødé", "a@b", "x.locked", "run-1/step_2", "{a}"]
        {
            assert!(check_name("branch", name).is_ok(), "{name}");
        }
        let long = "x".repeat(201);
        let wide = "é".repeat(40);
        let id = "0123456789abcdef".repeat(4);
        let bad = [
            "", "/", "a/", "/a", "a//b", "-a", ".a", "a/.b", "a/-b", "a..b", "a b", "a~b", "a^b", "a:b",
            "a?b", "a*b", "a[b", "a\\b", "a@{b", "a\nb", "a\u{7f}b", "a.lock", "a.lock/b", "a.", "HEAD", "@",
            &long, &wide, &id,
        ];
        for name in bad {
            let error = check_name("tag", name).unwrap_err();
            assert!(matches!(error, HistoryError::BadName { .. }), "{name}");
        }
    }

    #[test]
    fn names_come_back_from_paths() {
        for (name, path) in [("a/b", "a%2Fb"), ("50%", "50%25"), ("é", "%C3%A9"), ("a.b_c-D9", "a.b_c-D9")] {
            assert_eq!(encode(name), path);
            assert_eq!(decode(path).as_deref(), Some(name));
        }
        for path in ["%", "%2", "%zz", "a/b", "%2f", "%41", "é", "%C3", "a b", "%+1"] {
            assert_eq!(decode(path), None, "{path}");
        }
    }
}
