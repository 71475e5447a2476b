//! What can be asked of a dataset's history.

use std::time::Duration;

use clap::{Args, ValueEnum};
use lacus::history::Choice;

use super::{Url, key_value};

pub(super) const COMMIT_EXAMPLES: &str = "\
Examples:
  lacus commit ./data -m 'Labels of March'
  lacus commit ./data -m 'Train' --meta run=12 --meta 'score=0.93'
  lacus commit ./data -m 'Embed' --program embed.py --input HEAD:photos --param model=vit-b --output vectors

A commit names the newest version and makes it safe against power loss. `lacus
lineage` shows what --program, --function, --input and --param record.";

#[derive(Debug, Args)]
pub(crate) struct CommitArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// What was done
    #[arg(long, short, value_name = "TEXT")]
    pub message: String,
    /// Who did it [default: LACUS_AUTHOR, or the user]
    #[arg(long, value_name = "NAME")]
    pub author: Option<String>,
    /// Metadata to store with it; the value is JSON or plain text (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub meta: Vec<(String, String)>,
    /// Commit even if the draft is empty
    #[arg(long)]
    pub allow_empty: bool,
    #[command(flatten)]
    pub lineage: MadeArgs,
}

/// How tensors were made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where the tensors came from")]
pub(crate) struct MadeArgs {
    /// The program that made them
    #[arg(long, value_name = "FILE")]
    pub program: Option<String>,
    /// The function that made them
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// What they were made from: a commit, and a tensor of it (repeatable)
    #[arg(long = "input", value_name = "REV[:TENSOR]")]
    pub inputs: Vec<String>,
    /// A parameter; the value is JSON or plain text (repeatable)
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = key_value)]
    pub params: Vec<(String, String)>,
    /// A tensor that was made this way [default: all that the draft changed] (repeatable)
    #[arg(long = "output", value_name = "NAME")]
    pub outputs: Vec<String>,
}

pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  lacus status ./data
  lacus status ./data --json";

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub dataset: Url,
}

pub(super) const LOG_EXAMPLES: &str = "\
Examples:
  lacus log ./data
  lacus log ./data --oneline --graph --all
  lacus log ./data v1.0 -n 5";

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Where to begin [default: the current state]
    #[arg(value_name = "REV")]
    pub revisions: Vec<String>,
    /// Draw the graph of commits
    #[arg(long)]
    pub graph: bool,
    /// One line per commit
    #[arg(long)]
    pub oneline: bool,
    /// Begin at all branches and tags
    #[arg(long)]
    pub all: bool,
    /// At most N commits
    #[arg(long, short = 'n', value_name = "N")]
    pub limit: Option<usize>,
}

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  lacus show ./data
  lacus show ./data v1.0 --values";

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// A commit, tag or branch [default: the newest commit of the current branch]
    #[arg(value_name = "REV")]
    pub revision: Option<String>,
    #[command(flatten)]
    pub values: ValuesArgs,
}

/// Whether old and new values are shown.
#[derive(Debug, Args)]
pub(crate) struct ValuesArgs {
    /// Also show old and new values of at most N samples or regions of each tensor [default: 10]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10")]
    pub values: Option<usize>,
}

pub(super) const BRANCH_EXAMPLES: &str = "\
Examples:
  lacus branch ./data                  all branches; * is the one that is checked out
  lacus branch ./data try              a new one, from the current state
  lacus branch ./data fix v1.0         a new one, from any commit
  lacus branch ./data -m try tried     rename it
  lacus branch ./data -d tried         delete it

A branch costs metadata only. -d refuses to delete commits that no other branch or tag
has; -D does not.";

#[derive(Debug, Args)]
pub(crate) struct BranchArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The branch to create, and from what; or the branches to delete; or the old and the new name
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Delete
    #[arg(long, short, requires = "names")]
    pub delete: bool,
    /// Delete, even if commits or a draft are lost with it
    #[arg(short = 'D', requires = "names", conflicts_with = "delete")]
    pub force_delete: bool,
    /// Rename; with one name, the branch that is checked out
    #[arg(long = "move", short = 'm', requires = "names", conflicts_with_all = ["delete", "force_delete"])]
    pub rename: bool,
}

pub(super) const TAG_EXAMPLES: &str = "\
Examples:
  lacus tag ./data                     all tags
  lacus tag ./data v1.0 -m 'What the first model was trained on'
  lacus tag ./data old main~3
  lacus tag ./data -d old";

#[derive(Debug, Args)]
pub(crate) struct TagArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The tag to create, and of what; or the tags to delete
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// What it is for
    #[arg(long, short, value_name = "TEXT", requires = "names", conflicts_with = "delete")]
    pub message: Option<String>,
    /// Delete
    #[arg(long, short, requires = "names")]
    pub delete: bool,
}

pub(super) const CHECKPOINTS_EXAMPLES: &str = "\
Examples:
  lacus checkpoints ./run              steps that lacus.save saved: when, how much, what was written
  lacus checkpoints ./run --json
  lacus ls ./run --at step-2000        the tensors of one of them";

#[derive(Debug, Args)]
pub(crate) struct CheckpointsArgs {
    #[command(flatten)]
    pub dataset: Url,
}

pub(super) const CHECKOUT_EXAMPLES: &str = "\
Examples:
  lacus checkout ./data try            to a branch: commands read and write it from now on
  lacus checkout ./data -b try         to a new one, from the current state
  lacus checkout ./data -b fix v1.0    to a new one, from any commit
  lacus checkout ./data v1.0           look at an older state, read-only

The checkout is remembered per user and does not affect others. --branch and
LACUS_BRANCH override it.";

#[derive(Debug, Args)]
pub(crate) struct CheckoutArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// A branch; or a tag, commit, version or time to look at. With -b, where the new branch starts
    #[arg(value_name = "REV", required_unless_present = "create")]
    pub revision: Option<String>,
    /// Create a branch and switch to it
    #[arg(short = 'b', value_name = "NAME")]
    pub create: Option<String>,
    /// Switch even if the current branch has a draft (it stays there)
    #[arg(long, short)]
    pub force: bool,
}

pub(super) const DIFF_EXAMPLES: &str = "\
Examples:
  lacus diff ./data                    what the draft changed since the newest commit
  lacus diff ./data v1.0               what changed since then
  lacus diff ./data main try           from one state to another; also main..try
  lacus diff ./data v1.0 --values 3    with old and new values";

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The state before [default: the newest commit]
    #[arg(value_name = "A")]
    pub before: Option<String>,
    /// The state after [default: the newest version]
    #[arg(value_name = "B")]
    pub after: Option<String>,
    /// Only a summary (the default)
    #[arg(long, conflicts_with = "values")]
    pub stat: bool,
    #[command(flatten)]
    pub values: ValuesArgs,
}

/// What settles conflicts.
#[derive(Debug, Args)]
#[command(next_help_heading = "When both sides changed the same thing")]
pub(crate) struct Settle {
    /// Which side wins [default: stop and change nothing]
    #[arg(
        short = 'X',
        long = "strategy-option",
        value_name = "ours|theirs|union",
        value_enum,
        hide_possible_values = true
    )]
    pub strategy: Option<Strategy>,
    /// Same as -X ours
    #[arg(long, conflicts_with_all = ["strategy", "theirs", "union"])]
    pub ours: bool,
    /// Same as -X theirs
    #[arg(long, conflicts_with_all = ["strategy", "union"])]
    pub theirs: bool,
    /// Same as -X union: keep both, where that is possible
    #[arg(long, conflicts_with = "strategy")]
    pub union: bool,
}

/// Whose change counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    Ours,
    Theirs,
    Union,
}

impl Settle {
    /// The same in the library's words.
    pub(crate) fn choice(&self) -> Choice {
        match (self.strategy, self.ours, self.theirs, self.union) {
            (Some(Strategy::Ours), ..) | (_, true, ..) => Choice::Ours,
            (Some(Strategy::Theirs), ..) | (_, _, true, _) => Choice::Theirs,
            (Some(Strategy::Union), ..) | (.., true) => Choice::Union,
            _ => Choice::Stop,
        }
    }
}

pub(super) const MERGE_EXAMPLES: &str = "\
Examples:
  lacus merge ./data try
  lacus merge ./data try --no-ff -m 'What was tried'
  lacus merge ./data try -X theirs

If both sides changed the same thing, the conflicts are listed, nothing is changed, and
the exit code is 4.";

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// A branch, tag or commit
    #[arg(value_name = "REV")]
    pub revision: String,
    /// Message of the merge commit
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
    /// Create a merge commit even if the branch could fast-forward
    #[arg(long, conflicts_with = "ff_only")]
    pub no_ff: bool,
    /// Fast-forward, or do nothing
    #[arg(long)]
    pub ff_only: bool,
    #[command(flatten)]
    pub settle: Settle,
}

pub(super) const CHERRY_PICK_EXAMPLES: &str = "\
Examples:
  lacus cherry-pick ./data 3f2a91
  lacus cherry-pick ./data try~1 -m 'Only the labels'";

#[derive(Debug, Args)]
pub(crate) struct CherryPickArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The commit
    #[arg(value_name = "REV")]
    pub revision: String,
    /// Message of the new commit [default: that of the picked one]
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
    #[command(flatten)]
    pub settle: Settle,
}

pub(super) const REVERT_EXAMPLES: &str = "\
Examples:
  lacus revert ./data 3f2a91
  lacus revert ./data HEAD -m 'Not these labels'
  lacus revert ./data HEAD --mainline 1       a merge: undo what it brought in";

#[derive(Debug, Args)]
pub(crate) struct RevertArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The commit
    #[arg(value_name = "REV")]
    pub revision: String,
    /// For a merge, the parent to go back to: 1 is the branch it was made on, 2 what was merged
    #[arg(long, value_name = "N")]
    pub mainline: Option<u64>,
    /// Message of the new commit
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
    #[command(flatten)]
    pub settle: Settle,
}

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  lacus restore ./data v1.0
  lacus restore ./data 2026-01-31

The new version is part of the draft: `lacus commit` keeps it, `lacus discard` removes it.";

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The state: a branch, tag, commit, version or time
    #[arg(value_name = "REV")]
    pub revision: String,
}

pub(super) const DISCARD_EXAMPLES: &str = "\
Examples:
  lacus discard ./data
  lacus discard ./data --force         even what others wrote";

#[derive(Debug, Args)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Discard versions that others wrote as well
    #[arg(long, short)]
    pub force: bool,
}

pub(super) const PUBLISH_EXAMPLES: &str = "\
Examples:
  lacus publish ./data try             prints where the table is

The main branch already is one.";

#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// The branch [default: the one that is checked out]
    #[arg(value_name = "BRANCH")]
    pub published: Option<String>,
}

pub(super) const LINEAGE_EXAMPLES: &str = "\
Examples:
  lacus lineage ./data vectors
  lacus lineage ./data vectors --at v1.0 --json";

#[derive(Debug, Args)]
pub(crate) struct LineageArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// A tensor or column
    #[arg(value_name = "NAME")]
    pub name: String,
    /// As of this commit, tag or branch [default: the current state]
    #[arg(long, value_name = "REV")]
    pub at: Option<String>,
}

pub(super) const GC_EXAMPLES: &str = "\
Examples:
  lacus gc ./data                      what could be removed, and what is kept and why
  lacus gc ./data --remove
  lacus gc ./data --keep 90d --remove  older commits lose their data, but tags and tips keep it

Files used by a branch, tag, saved view, commit or draft are kept. Durations look like
90s, 15m, 12h, 30d, 4w.";

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Remove the files instead of listing them
    #[arg(long)]
    pub remove: bool,
    /// Only list (the default)
    #[arg(long, conflicts_with = "remove")]
    pub dry_run: bool,
    /// Keep files younger than this: running writers may still need them
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = duration)]
    pub grace: Duration,
    /// Keep only commits younger than this, and all tags and newest commits [default: all commits]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub keep: Option<Duration>,
}

pub(super) const EXPIRE_EXAMPLES: &str = "\
Examples:
  lacus expire ./data --older-than 7d --dry-run
  lacus expire ./data --older-than 7d

Afterwards, versions that are in no commit and not the newest of a branch can no
longer be opened. The next `lacus gc` removes the files that only they used.";

#[derive(Debug, Args)]
pub(crate) struct ExpireArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Minimum age, such as 7d or 12h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Duration,
    /// Only list
    #[arg(long)]
    pub dry_run: bool,
}

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  lacus check ./data
  lacus check ./data --repair

Exits with 6 if something is damaged. --repair fixes what can be fixed without guessing.";

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub dataset: Url,
    /// Repair what can be repaired without guessing
    #[arg(long)]
    pub repair: bool,
}

/// `90s`, `15m`, `12h`, `30d`, `4w`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "it should be a number with s, m, h, d or w, such as 12h or 30d".to_owned();
    let (number, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_alphabetic()).len());
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        _ if text == "0" => 1,
        _ => return Err(wrong()),
    };
    let number = number.parse::<u64>().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(duration(text).ok().map(|d| d.as_secs()), expected, "{text}");
        };
        check("90s", Some(90));
        check("15m", Some(900));
        check("12h", Some(43_200));
        check("30d", Some(2_592_000));
        check("1w", Some(604_800));
        check("0", Some(0));
        for bad in ["", "7", "d", "-1d", "1.5h", "7y", "99999999999999999999d", "18446744073709551615w"] {
            check(bad, None);
        }
    }
}
