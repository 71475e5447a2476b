//! Which state is meant: where somebody stands in a dataset, and what they ask for from there.

use lacus_history::{CommitId, MAIN};
use serde::{Deserialize, Serialize};

/// Where somebody stands in a dataset: on a branch, with which they move, or at a state, where they stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The branch, or the one that a state was looked up from.
    pub branch: String,
    /// The state they stay at, if it is one.
    #[serde(flatten)]
    pub pinned: Option<Pinned>,
}

/// A state that somebody stays at, and which is only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pinned {
    /// A commit.
    Commit(CommitId),
    /// A table version of the branch.
    Version(u64),
}

/// A state that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// Where one stands.
    #[default]
    Here,
    /// What a text means: a branch, a tag, a commit's id or the beginning of it, steps back from these (`main~2`), a version
    /// (`@17`), a time.
    Text(String),
    /// What a text means; if it is the name of nothing, this time in milliseconds since 1970.
    TextOrTime(String, i64),
    /// A version of the branch.
    Version(u64),
    /// The newest version of the branch that was made at or before this time, in milliseconds since 1970.
    Time(i64),
}

impl Default for Place {
    fn default() -> Place {
        Place::main()
    }
}

impl Place {
    /// On a branch.
    pub fn on(branch: impl Into<String>) -> Place {
        Place { branch: branch.into(), pinned: None }
    }

    /// On the branch that every dataset has.
    pub fn main() -> Place {
        Place::on(MAIN)
    }

    /// The same branch, at a state of it.
    pub fn at(&self, pinned: Pinned) -> Place {
        Place { branch: self.branch.clone(), pinned: Some(pinned) }
    }

    /// The commit one stays at.
    pub fn commit(&self) -> Option<CommitId> {
        match self.pinned {
            Some(Pinned::Commit(id)) => Some(id),
            _ => None,
        }
    }

    /// The revision that a text means here: `HEAD` is where one stands.
    pub fn revision(&self, text: &str) -> String {
        let Some(pinned) = self.pinned else { return text.to_owned() };
        let rest = |word: &str| {
            text.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with(['~', '^']))
        };
        match rest("HEAD").or_else(|| rest("@")) {
            Some(rest) => format!("{}{rest}", pinned.in_full()),
            None => text.to_owned(),
        }
    }
}

impl Pinned {
    /// The revision that means it.
    pub fn in_full(&self) -> String {
        match self {
            Pinned::Commit(id) => id.to_string(),
            Pinned::Version(version) => format!("@{version}"),
        }
    }
}

impl std::fmt::Display for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pinned::Commit(id) => f.write_str(&id.short()),
            Pinned::Version(version) => write!(f, "version {version}"),
        }
    }
}

impl From<&str> for At {
    fn from(text: &str) -> At {
        At::Text(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_where_one_stands() {
        let id = CommitId::of(b"x");
        let check = |place: &Place, text: &str, expected: &str| assert_eq!(place.revision(text), expected);
        check(&Place::main(), "HEAD~1", "HEAD~1");
        let commit = Place::main().at(Pinned::Commit(id));
        check(&commit, "HEAD", &id.to_string());
        check(&commit, "HEAD~2", &format!("{id}~2"));
        check(&commit, "@^2", &format!("{id}^2"));
        check(&commit, "HEADLESS", "HEADLESS");
        check(&Place::main().at(Pinned::Version(3)), "@", "@3");
        check(&Place::main().at(Pinned::Version(3)), "@7", "@7");
    }

    #[test]
    fn places_are_stored_in_few_words() {
        let text = |place: &Place| serde_json::to_string(place).unwrap();
        assert_eq!(text(&Place::main()), r#"{"branch":"main"}"#);
        let version = Place::on("dev").at(Pinned::Version(3));
        assert_eq!(text(&version), r#"{"branch":"dev","version":3}"#);
        assert_eq!(serde_json::from_str::<Place>(&text(&version)).unwrap(), version);
    }
}
