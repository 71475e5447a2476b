//! Walks over the graph of commits, from children to parents.
//!
//! All of them take the commit of the highest generation next. A commit's generation is above those of its parents, so that
//! everything that leads to a commit is known when its turn comes: no walk goes further than it must.

use lacus_io::boxed;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use futures::future::try_join_all;

use crate::commits::{Commit, Commits, commit_path};
use crate::error::HistoryError;
use crate::id::CommitId;

/// Commits read one after the other before what there is gets read at once. A walk that ends before is the rule, and
/// should not read a long history.
const PATIENCE: usize = 64;

/// A commit and its id.
pub type Found = (CommitId, Arc<Commit>);

/// The commits that `from` are or come from, children before parents, the highest generation first and then the newest;
/// at most `limit` of them.
#[boxed]
pub async fn log(commits: &Commits, from: &[CommitId], limit: usize) -> Result<Vec<Found>, HistoryError> {
    let mut walk = Walk::new(commits);
    walk.start(from, 0).await?;
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(next) = walk.pop() else { break };
        if found.len() + 1 < limit {
            walk.go_on(&next, 0).await?;
        }
        found.push((next.id, next.commit));
    }
    Ok(found)
}

/// All commits that `from` are or come from, in the order of [`log`].
#[boxed]
pub async fn ancestors(commits: &Commits, from: &[CommitId]) -> Result<Vec<Found>, HistoryError> {
    log(commits, from, usize::MAX).await
}

/// Whether `descendant` is `ancestor` or comes from it.
#[boxed]
pub async fn is_ancestor(
    commits: &Commits,
    ancestor: &CommitId,
    descendant: &CommitId,
) -> Result<bool, HistoryError> {
    if ancestor == descendant {
        return Ok(true);
    }
    let least = commits.read(ancestor).await?.generation;
    let mut walk = Walk::new(commits);
    walk.start(&[*descendant], 0).await?;
    while let Some(next) = walk.pop() {
        if next.id == *ancestor {
            return Ok(true);
        }
        // Others of its generation may wait before it; what they come from is below.
        match next.commit.generation.cmp(&least) {
            Ordering::Less => return Ok(false),
            Ordering::Equal => {}
            Ordering::Greater => walk.go_on(&next, 0).await?,
        }
    }
    Ok(false)
}

const OURS: u8 = 1;
const THEIRS: u8 = 2;
const BOTH: u8 = OURS | THEIRS;

/// The best common ancestor of two commits: the one of the highest generation, `None` if there is none.
///
/// When branches were merged into each other crosswise, several are equally good. Of those the highest generation
/// counts, then the newest, then the higher id: the same whoever asks, and in which order.
#[boxed]
pub async fn merge_base(
    commits: &Commits,
    ours: &CommitId,
    theirs: &CommitId,
) -> Result<Option<Found>, HistoryError> {
    let mut walk = Walk::new(commits);
    walk.start(&[*ours], OURS).await?;
    walk.start(&[*theirs], THEIRS).await?;
    while let Some(next) = walk.pop() {
        let sides = walk.sides(&next.id);
        if sides == BOTH {
            return Ok(Some((next.id, next.commit)));
        }
        walk.go_on(&next, sides).await?;
    }
    Ok(None)
}

/// Already below a common ancestor, and so not the best.
const BELOW: u8 = 4;

/// All best common ancestors of some commits and another: those that no other common ancestor comes from. One, as a
/// rule; several when branches were merged into each other crosswise. The lowest generation comes first.
#[boxed]
pub async fn merge_bases(
    commits: &Commits,
    ours: &[CommitId],
    theirs: &CommitId,
) -> Result<Vec<Found>, HistoryError> {
    let mut walk = Walk::new(commits);
    walk.start(ours, OURS).await?;
    walk.start(&[*theirs], THEIRS).await?;
    let mut bases = Vec::new();
    while walk.queue.iter().any(|waiting| walk.sides(&waiting.id) & BELOW == 0) {
        let Some(next) = walk.pop() else { break };
        let mut sides = walk.sides(&next.id);
        if sides & BOTH == BOTH {
            if sides & BELOW == 0 {
                bases.push((next.id, Arc::clone(&next.commit)));
            }
            sides |= BELOW;
            // What is below the last of them need not be read.
            if walk.queue.iter().all(|waiting| walk.sides(&waiting.id) & BELOW != 0) {
                break;
            }
        }
        walk.go_on(&next, sides).await?;
    }
    bases.reverse();
    Ok(bases)
}

/// How many commits `ours` comes from that `theirs` does not, and the other way round.
#[boxed]
pub async fn ahead_behind(
    commits: &Commits,
    ours: &CommitId,
    theirs: &CommitId,
) -> Result<(u64, u64), HistoryError> {
    let mut walk = Walk::new(commits);
    walk.start(&[*ours], OURS).await?;
    walk.start(&[*theirs], THEIRS).await?;
    let (mut ahead, mut behind) = (0, 0);
    // What both come from is of no interest, nor what is before it.
    while walk.queue.iter().any(|waiting| walk.sides(&waiting.id) != BOTH) {
        let Some(next) = walk.pop() else { break };
        let sides = walk.sides(&next.id);
        match sides {
            OURS => ahead += 1,
            THEIRS => behind += 1,
            _ => {}
        }
        walk.go_on(&next, sides).await?;
    }
    Ok((ahead, behind))
}

/// A commit whose turn has yet to come.
struct Waiting {
    id: CommitId,
    commit: Arc<Commit>,
}

impl Waiting {
    fn rank(&self) -> (u64, i64, CommitId) {
        (self.commit.generation, self.commit.time_millis, self.id)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

struct Walk<'a> {
    commits: &'a Commits,
    queue: BinaryHeap<Waiting>,
    /// What was met, and from which sides.
    met: HashMap<CommitId, u8>,
    /// Commits that had to be waited for.
    waits: usize,
}

impl<'a> Walk<'a> {
    fn new(commits: &'a Commits) -> Walk<'a> {
        Walk { commits, queue: BinaryHeap::new(), met: HashMap::new(), waits: 0 }
    }

    async fn start(&mut self, from: &[CommitId], sides: u8) -> Result<(), HistoryError> {
        let read = try_join_all(from.iter().map(|id| self.commits.read(id))).await?;
        for (id, commit) in from.iter().zip(read) {
            self.meet(*id, commit, sides);
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<Waiting> {
        self.queue.pop()
    }

    fn sides(&self, id: &CommitId) -> u8 {
        self.met.get(id).copied().unwrap_or(0)
    }

    /// Queues the parents of a commit, read at the same time.
    async fn go_on(&mut self, child: &Waiting, sides: u8) -> Result<(), HistoryError> {
        let unknown = |id: &&CommitId| !self.met.contains_key(id) && self.commits.known(id).is_none();
        if child.commit.parents.iter().any(|id| unknown(&id)) {
            self.waits += 1;
            if self.waits == PATIENCE {
                self.commits.read_ahead().await;
            }
        }
        let referrer = || format!("commit {}", child.id.short());
        let reads = child.commit.parents.iter().map(|id| self.commits.read_for(id, referrer));
        let parents = try_join_all(reads).await?;
        for (id, parent) in child.commit.parents.iter().zip(parents) {
            if parent.generation >= child.commit.generation {
                let what = format!(
                    "damaged commit: its generation is {}, its parent {}'s is {}",
                    child.commit.generation,
                    id.short(),
                    parent.generation
                );
                return Err(HistoryError::corrupt(commit_path(&child.id), what));
            }
            self.meet(*id, parent, sides);
        }
        Ok(())
    }

    fn meet(&mut self, id: CommitId, commit: Arc<Commit>, sides: u8) {
        let known = self.met.get(&id).copied();
        self.met.insert(id, known.unwrap_or(0) | sides);
        if known.is_none() {
            self.queue.push(Waiting { id, commit });
        }
    }
}
