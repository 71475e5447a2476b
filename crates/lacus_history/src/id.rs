//! The id of a commit: the SHA-256 of its bytes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// Hexadecimal digits of an id.
pub(crate) const DIGITS: usize = 64;

/// Digits people are shown: among a million commits, two begin with the same ten once in two datasets, and then more
/// are shown.
pub(crate) const SHORT: usize = 10;

/// The least digits that may stand for a commit: fewer are a typing error more often than a commit.
pub(crate) const LEAST: usize = 4;

/// Which commit: a SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitId([u8; 32]);

impl CommitId {
    /// The id of what is stored as `bytes`.
    pub fn of(bytes: &[u8]) -> CommitId {
        CommitId(Sha256::digest(bytes).into())
    }

    /// The id written as 64 hexadecimal digits, of either case; `None` for anything else.
    pub fn parse(text: &str) -> Option<CommitId> {
        let digits = text.as_bytes();
        if digits.len() != DIGITS {
            return None;
        }
        let value = |digit: u8| char::from(digit).to_digit(16);
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
        }
        Some(CommitId(bytes))
    }

    /// The first ten digits.
    pub fn short(&self) -> String {
        self.digits(SHORT)
    }

    /// The first `count` digits.
    pub fn digits(&self, count: usize) -> String {
        let mut text = self.to_string();
        text.truncate(count);
        text
    }

    /// Whether the id begins with these digits, of either case.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.to_string().starts_with(&prefix.to_ascii_lowercase())
    }
}

/// Whether the text may be the beginning of an id, or a whole one.
pub(crate) fn is_prefix(text: &str) -> bool {
    (LEAST..=DIGITS).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl Serialize for CommitId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CommitId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CommitId, D::Error> {
        let text = String::deserialize(deserializer)?;
        CommitId::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no commit id")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_sha256_in_hexadecimal() {
        let id = CommitId::of(b"abc");
        assert_eq!(id.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(id.short(), "ba7816bf8f");
        assert_eq!(CommitId::parse(&id.to_string()), Some(id));
        assert_eq!(CommitId::parse(&id.to_string().to_uppercase()), Some(id));
        assert!(
            id.has_prefix("ba78") && id.has_prefix("BA78") && id.has_prefix("") && !id.has_prefix("ba79")
        );
    }

    #[test]
    fn other_texts_are_no_ids() {
        for text in ["", "ba78", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &"é".repeat(32)] {
            assert_eq!(CommitId::parse(text), None, "{text}");
        }
        for (text, expected) in [("abc", false), ("abcd", true), ("ABCD12", true), ("abcg", false)] {
            assert_eq!(is_prefix(text), expected, "{text}");
        }
    }
}
