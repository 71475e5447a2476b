//! Where a loader is: a few numbers from which any number of ranks can go on.

use lacus_dataset::View;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::LoaderError;
use crate::order::{BucketSizes, OrderSpec, Shuffle};

/// The form of states that this version writes, and the highest that it reads.
pub const STATE_FORMAT: u32 = 1;

/// Where a loader is. Nothing about ranks, workers, paths or machines is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderState {
    /// [`STATE_FORMAT`] when it was made.
    pub format: u32,
    /// What the views are: a digest of their states, rows and weights.
    pub view: String,
    /// The seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// How many samples of the epoch all ranks together have consumed.
    pub consumed: u64,
    /// How each view is shuffled.
    pub shuffle: Vec<Shuffle>,
    /// How samples are sorted into buckets by length, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<BucketSizes>,
}

/// Says which views, and which weights, a state belongs to: the same wherever the dataset lies and whichever columns are read.
pub(crate) fn digest(sources: &[View], order: &OrderSpec) -> String {
    let mut hash = Sha256::new();
    for view in sources {
        let state = view.state();
        hash.update(format!("{:?} {:?} {} ", state.dataset, state.directory, state.version));
        hash.update(view.rows().to_bytes());
    }
    hash.update(order.draws_text());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

impl LoaderState {
    /// Fails with what is wrong, if a loader of the views with this digest and order cannot go on from here.
    pub(crate) fn check(&self, digest: &str, order: &OrderSpec) -> Result<(), LoaderError> {
        let refused = |why: String| Err(LoaderError::State { why });
        let (samples, views) = (order.len(), order.shuffles().len());
        if self.format > STATE_FORMAT {
            return refused(format!(
                "it has form {}, and this version of lacus knows forms up to {STATE_FORMAT}; use a newer one",
                self.format
            ));
        }
        if self.view != digest {
            return refused(format!(
                "it belongs to another view (digest {}), this loader's is {digest}: load it with the same rows of the same version, \
                 the same weights and proportions",
                self.view
            ));
        }
        if self.consumed > samples {
            return refused(format!("{} samples are consumed of {samples}", self.consumed));
        }
        if self.shuffle.len() != views {
            return refused(format!(
                "it tells how to shuffle {} views, of which there are {views}",
                self.shuffle.len()
            ));
        }
        if self.buckets.is_some() != order.buckets().is_some() {
            return refused("it and this loader disagree on bucket_by=".to_owned());
        }
        Ok(())
    }
}
