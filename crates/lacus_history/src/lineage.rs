//! Where a tensor came from: walks the lineage that commits carry.

use lacus_io::boxed;
use std::collections::HashSet;
use std::sync::Arc;

use crate::commits::{Commit, Lineage};
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::timeline::Timeline;
use crate::walk::log;

/// One step of a tensor's past.
#[derive(Clone, Debug)]
pub struct Step {
    /// How many steps of making it is away from the tensor asked for.
    pub depth: usize,
    /// The tensor.
    pub tensor: String,
    /// The commit that changed it.
    pub id: CommitId,
    /// What that commit says.
    pub commit: Arc<Commit>,
    /// How it was made, where the commit says so.
    pub lineage: Option<Lineage>,
}

/// Commits looked through for one tensor.
const MOST: usize = 100_000;

impl Timeline {
    /// The commits that changed a tensor, newest first; where one says how the tensor was made, those of its inputs follow,
    /// one step deeper. Inputs of other datasets are named in the lineage and not followed.
    #[boxed]
    pub async fn lineage(&self, from: CommitId, tensor: &str) -> Result<Vec<Step>, HistoryError> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        // The next to look at is the last: inputs come right behind what was made from them.
        let mut waiting = vec![(0, from, tensor.to_owned())];
        while let Some((depth, from, tensor)) = waiting.pop() {
            if !seen.insert((from, tensor.clone())) {
                continue;
            }
            for (id, commit) in log(self.commits(), &[from], MOST).await? {
                if !commit.changed.contains(&tensor) {
                    continue;
                }
                let lineage = commit.lineage.iter().find(|l| l.outputs.contains(&tensor)).cloned();
                let inputs = lineage.iter().flat_map(|l| &l.inputs).filter(|input| input.url.is_none());
                let mut deeper = Vec::new();
                for input in inputs {
                    let at = input.commit.or_else(|| commit.parents.first().copied());
                    deeper.extend(
                        at.iter().flat_map(|at| {
                            input.tensors.iter().map(|tensor| (depth + 1, *at, tensor.clone()))
                        }),
                    );
                }
                let made = lineage.is_some();
                found.push(Step { depth, tensor: tensor.clone(), id, commit, lineage });
                waiting.extend(deeper.into_iter().rev());
                if made {
                    // It was made anew here: what it was before does not matter.
                    break;
                }
            }
        }
        Ok(found)
    }
}
