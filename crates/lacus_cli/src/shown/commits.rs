//! A commit as git would show it.

use std::collections::BTreeMap;

use lacus::Place;
use lacus::history::{Commit, CommitId, HistoryError, Timeline, branches, tags};
use lacus::table::HistoryEntry;
use serde_json::{Value as Json, json};

use crate::output::time;

/// Names of commits: branches and tags.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_commit: BTreeMap<CommitId, Vec<String>>,
}

impl Names {
    /// All there are; what is checked out comes first.
    pub(crate) async fn of(timeline: &Timeline, place: &Place) -> Result<Names, HistoryError> {
        let mut names = Names::default();
        let on = |name: &str| place.pinned.is_none() && name == place.branch;
        let heads = branches::list(timeline.home()).await?;
        if let Some(id) = place.commit() {
            names.add(id, "HEAD".to_owned());
        }
        let (current, others): (Vec<_>, Vec<_>) = heads.into_iter().partition(|held| on(held.name()));
        for held in current {
            if let Some(id) = timeline.tip(held.name()).await?.head {
                names.add(id, format!("HEAD -> {}", held.name()));
            }
        }
        for tag in tags::list(timeline.home()).await? {
            names.add(tag.commit, format!("tag: {}", tag.name));
        }
        for held in others {
            if let Some(id) = held.branch().head {
                names.add(id, held.name().to_owned());
            }
        }
        Ok(names)
    }

    fn add(&mut self, id: CommitId, name: String) {
        self.by_commit.entry(id).or_default().push(name);
    }

    /// The commits that have a name.
    pub(crate) fn commits(&self) -> Vec<CommitId> {
        self.by_commit.keys().copied().collect()
    }

    /// Those of one commit.
    pub(crate) fn get(&self, id: &CommitId) -> &[String] {
        self.by_commit.get(id).map_or(&[], Vec::as_slice)
    }

    /// ` (HEAD -> main, tag: v1)`, or nothing.
    pub(crate) fn in_brackets(&self, id: &CommitId) -> String {
        match self.get(id) {
            [] => String::new(),
            names => format!(" ({})", names.join(", ")),
        }
    }
}

/// The lines that tell a commit, the message indented.
pub(crate) fn header(id: &CommitId, commit: &Commit, names: &Names) -> Vec<String> {
    let mut lines = vec![format!("commit {}{}", id.short(), names.in_brackets(id))];
    if commit.parents.len() > 1 {
        let parents: Vec<String> = commit.parents.iter().map(CommitId::short).collect();
        lines.push(format!("Merge:  {}", parents.join(" ")));
    }
    lines.push(format!("Author: {}", commit.author));
    lines.push(format!("Date:   {}", date(commit.time_millis)));
    for (key, value) in &commit.metadata {
        lines.push(format!("Meta:   {key}={}", plain(value)));
    }
    lines.push(String::new());
    lines.extend(commit.message.trim().lines().map(|line| format!("    {line}").trim_end().to_owned()));
    lines
}

/// A text as it is, anything else as JSON.
fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `Sat Jan 31 12:34:56 2026 +0000`.
pub(crate) fn date(millis: i64) -> String {
    match chrono::DateTime::from_timestamp_millis(millis) {
        Some(time) => time.format("%a %b %-d %H:%M:%S %Y +0000").to_string(),
        None => format!("{millis} ms"),
    }
}

/// All of a commit.
pub(crate) fn to_json(id: &CommitId, commit: &Commit) -> Json {
    json!({
        "id": id, "parents": commit.parents, "author": commit.author, "time": time(commit.time_millis),
        "message": commit.message, "metadata": commit.metadata, "lineage": commit.lineage,
        "changed": commit.changed, "directory": commit.directory, "version": commit.version,
    })
}

/// A table version.
pub(crate) fn entry_json(entry: &HistoryEntry) -> Json {
    json!({
        "version": entry.version, "time": time(entry.time_millis), "author": entry.author,
        "operation": entry.operation, "detail": entry.detail, "durable": entry.durable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_gits() {
        assert_eq!(date(1_700_000_000_123), "Tue Nov 14 22:13:20 2023 +0000");
        assert_eq!(date(0), "Thu Jan 1 00:00:00 1970 +0000");
    }
}
