//! What comes next: the order of an epoch, as a pure function of the rows, a seed, an epoch and how to shuffle.
//!
//! ```text
//! OrderSpec + (seed, epoch) ─epoch→ EpochOrder ─at(position)→ Placed: which view, which place in it
//!                                        └─Cut (ranks)→ positions of this rank's batches
//! ```
//!
//! Neither ranks nor workers nor machines are part of it. Positions are computed when they are asked for: a shuffle of any number of
//! rows takes no memory (full), or that of one block (blocks); draws with replacement take 12 bytes a row, draws without replacement 8.

mod chance;
mod blocks;
mod weights;
mod mix;
mod buckets;
mod quality;
mod ranks;

pub use buckets::{BucketSizes, Lengths};
pub(crate) use chance::mixed;
pub use quality::{entropy, quality};
pub use ranks::{Cut, Ranks, Tail};

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::LoaderError;
use blocks::Blocks;
use buckets::Buckets;
use chance::Permutation;
use mix::Mix;
use quality::LOOKED_AT;
use weights::{Alias, checked_sum, without_replacement};

/// How rows are shuffled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Shuffle {
    /// Not at all.
    #[default]
    None,
    /// Runs of rows are permuted, then the rows of a block of several runs.
    Blocks {
        /// Rows that stay together when they are read.
        run: u64,
        /// Rows of a block.
        block: u64,
    },
    /// All rows together: each read goes somewhere else.
    Full,
}

/// Which rows come how often.
#[derive(Clone, Debug, Default)]
pub enum Draws {
    /// Every row once.
    #[default]
    All,
    /// So many rows, by weight; each at most once, unless `replace`.
    Weighted {
        /// One for each row.
        weights: Arc<[f64]>,
        /// How many rows an epoch has.
        count: u64,
        /// Whether a row may come more than once.
        replace: bool,
    },
    /// Several views by proportion: `count` samples make an epoch.
    Mixed {
        /// One for each view.
        shares: Vec<f64>,
        /// How many samples an epoch has.
        count: u64,
    },
}

/// What decides the order of every epoch.
#[derive(Clone, Debug)]
pub struct OrderSpec {
    /// How many rows each view has.
    rows: Vec<u64>,
    /// How each is shuffled.
    shuffles: Vec<Shuffle>,
    draws: Draws,
    alias: Option<Arc<Alias>>,
    buckets: Option<(BucketSizes, Lengths)>,
}

/// A sample of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which view it is of.
    pub source: u32,
    /// Its place there.
    pub place: u64,
}

impl OrderSpec {
    /// The order of one view, or of several that are mixed; one way to shuffle for each. Fails for weights and shares that are none.
    pub fn new(rows: Vec<u64>, shuffles: Vec<Shuffle>, draws: Draws) -> Result<OrderSpec, LoaderError> {
        let mut alias = None;
        match &draws {
            Draws::All => {}
            Draws::Weighted { weights, count, replace } => {
                let all: u64 = rows.iter().sum();
                if weights.len() as u64 != all {
                    return Err(LoaderError::refused(format!("{} weights for {all} rows", weights.len())));
                }
                if *replace {
                    alias = Some(Arc::new(Alias::new(weights)?));
                } else {
                    checked_sum(weights)?;
                    let some = weights.iter().filter(|weight| **weight > 0.0).count() as u64;
                    if *count > some {
                        let why = format!(
                            "{count} samples of {some} rows with a weight above 0; replace=True draws rows more than once"
                        );
                        return Err(LoaderError::refused(why));
                    }
                }
            }
            Draws::Mixed { shares, .. } => {
                if shares.len() != rows.len() {
                    let why = format!("{} proportions for {} views", shares.len(), rows.len());
                    return Err(LoaderError::refused(why));
                }
                if let Some(share) = shares.iter().find(|share| !(share.is_finite() && **share > 0.0)) {
                    return Err(LoaderError::refused(format!("invalid proportion {share}: must be above 0")));
                }
                if let Some(at) = rows.iter().position(|rows| *rows == 0) {
                    return Err(LoaderError::refused(format!("view {at} of the mix has no rows")));
                }
            }
        }
        Ok(OrderSpec { rows, shuffles, draws, alias, buckets: None })
    }

    /// How many samples an epoch has.
    pub fn len(&self) -> u64 {
        match &self.draws {
            Draws::All => self.rows.iter().sum(),
            Draws::Weighted { count, .. } | Draws::Mixed { count, .. } => *count,
        }
    }

    /// Whether an epoch has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How each view is shuffled.
    pub fn shuffles(&self) -> &[Shuffle] {
        &self.shuffles
    }

    /// The same rows, shuffled in other ways.
    pub fn shuffled(&self, shuffles: Vec<Shuffle>) -> OrderSpec {
        OrderSpec { shuffles, ..self.clone() }
    }

    /// The same order, sorted into buckets by the lengths of samples.
    pub fn bucketed(&self, sizes: BucketSizes, lengths: Lengths) -> OrderSpec {
        OrderSpec { buckets: Some((sizes, lengths)), ..self.clone() }
    }

    /// How samples are sorted into buckets, if they are.
    pub fn buckets(&self) -> Option<BucketSizes> {
        self.buckets.as_ref().map(|(sizes, _)| *sizes)
    }

    /// The same order with buckets of other sizes, if it has any.
    pub fn with_buckets(&self, sizes: Option<BucketSizes>) -> OrderSpec {
        let buckets = self.buckets.clone().zip(sizes).map(|((_, lengths), sizes)| (sizes, lengths));
        OrderSpec { buckets, ..self.clone() }
    }

    /// Whether a row may come more than once in an epoch.
    pub fn repeats(&self) -> bool {
        matches!(self.draws, Draws::Weighted { replace: true, .. } | Draws::Mixed { .. })
    }

    /// What the order depends on beside rows and ways to shuffle, as text.
    pub(crate) fn draws_text(&self) -> Vec<u8> {
        match &self.draws {
            Draws::All => b"all".to_vec(),
            Draws::Weighted { weights, count, replace } => {
                let mut text = format!("weights {count} {replace} ").into_bytes();
                weights.iter().for_each(|weight| text.extend(weight.to_le_bytes()));
                text
            }
            Draws::Mixed { shares, count } => format!("mix {count} {shares:?}").into_bytes(),
        }
    }

    /// The order of an epoch.
    pub fn epoch(&self, seed: u64, epoch: u64) -> Result<EpochOrder, LoaderError> {
        let own = mixed(&[seed, epoch]);
        let kind = match &self.draws {
            Draws::All => Kind::Rows(
                self.rows.iter().zip(&self.shuffles).map(|(rows, s)| Rows::new(*rows, *s, own)).collect(),
            ),
            Draws::Weighted { weights, count, replace } => match (&self.alias, replace) {
                (Some(alias), true) => Kind::Alias(Arc::clone(alias), own),
                _ => Kind::List(without_replacement(weights, *count, own)?),
            },
            Draws::Mixed { shares, .. } => Kind::Mix {
                mix: Mix::new(shares, own),
                rows: self.rows.clone(),
                shuffles: self.shuffles.clone(),
                own,
                orders: vec![None; self.rows.len()],
            },
        };
        let buckets = self.buckets.clone().map(|(sizes, lengths)| Buckets::new(sizes, lengths, own));
        Ok(EpochOrder { len: self.len(), kind, buckets })
    }

    /// How well epochs are shuffled, from 0 to 1 for a full shuffle, by the first positions of one.
    pub fn quality(&self, seed: u64) -> Result<f64, LoaderError> {
        let mut order = self.epoch(seed, 0)?;
        let bases: Vec<u64> = self
            .rows
            .iter()
            .scan(0, |sum, rows| {
                let base = *sum;
                *sum += rows;
                Some(base)
            })
            .collect();
        let places = order.range(0..self.len().min(LOOKED_AT));
        let looked: Vec<u64> =
            places.iter().map(|placed| bases[placed.source as usize] + placed.place).collect();
        Ok(quality(&looked, self.rows.iter().sum()))
    }
}

/// The order of one epoch.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    len: u64,
    kind: Kind,
    buckets: Option<Buckets>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Views one after the other: a loader of one view has one.
    Rows(Vec<Rows>),
    Alias(Arc<Alias>, u64),
    List(Vec<u64>),
    Mix {
        mix: Mix,
        rows: Vec<u64>,
        shuffles: Vec<Shuffle>,
        own: u64,
        /// How often each source was begun, and its order.
        orders: Vec<Option<(u64, Rows)>>,
    },
}

/// The rows of one view in an order.
#[derive(Clone, Debug)]
struct Rows {
    count: u64,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    Plain,
    Full(Permutation),
    Blocks(Box<Blocks>),
}

impl Rows {
    fn new(count: u64, shuffle: Shuffle, seed: u64) -> Rows {
        let how = match shuffle {
            Shuffle::None => How::Plain,
            Shuffle::Full => How::Full(Permutation::new(count, seed)),
            Shuffle::Blocks { run, block } => How::Blocks(Box::new(Blocks::new(count, run, block, seed))),
        };
        Rows { count, how }
    }

    fn at(&mut self, position: u64) -> u64 {
        match &mut self.how {
            How::Plain => position,
            How::Full(permutation) => permutation.at(position),
            How::Blocks(blocks) => blocks.at(position),
        }
    }
}

impl EpochOrder {
    /// How many samples there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The sample at a position, which must be below [`EpochOrder::len`].
    pub fn at(&mut self, position: u64) -> Placed {
        match &mut self.buckets {
            Some(buckets) => buckets.at(position, self.len, |position| self.kind.at(position)),
            None => self.kind.at(position),
        }
    }

    /// The samples at some positions.
    pub fn range(&mut self, positions: Range<u64>) -> Vec<Placed> {
        positions.map(|position| self.at(position)).collect()
    }

    /// Where the block that a position is in ends: samples up to there are read together. `None` if there are no blocks.
    pub fn block_end(&self, position: u64) -> Option<u64> {
        match &self.kind {
            Kind::Rows(views) if views.len() == 1 && self.buckets.is_none() => match &views[0].how {
                How::Blocks(blocks) => Some(blocks.block_of(position).1.end),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Kind {
    fn at(&mut self, position: u64) -> Placed {
        match self {
            Kind::Rows(views) => {
                let (mut source, mut position) = (0, position);
                while position >= views[source].count && source + 1 < views.len() {
                    position -= views[source].count;
                    source += 1;
                }
                Placed { source: source as u32, place: views[source].at(position) }
            }
            Kind::Alias(alias, own) => Placed { source: 0, place: alias.at(*own, position) },
            Kind::List(places) => Placed { source: 0, place: places[position as usize] },
            Kind::Mix { mix, rows, shuffles, own, orders } => {
                let (source, nth) = mix.at(position);
                let at = source as usize;
                let (round, place) = (nth / rows[at], nth % rows[at]);
                let order = match &mut orders[at] {
                    Some((known, order)) if *known == round => order,
                    slot => {
                        let seed = mixed(&[*own, u64::from(source), round]);
                        &mut slot.insert((round, Rows::new(rows[at], shuffles[at], seed))).1
                    }
                };
                Placed { source, place: order.at(place) }
            }
        }
    }
}
