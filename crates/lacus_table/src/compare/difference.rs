//! What differs between two states of a dataset, in terms of tensors, rows and chunks. Plain data.

use lacus_layout::Coords;

use crate::schema::is_hidden;

/// What changed from one state to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The tensors that differ, sorted by name; of two with the same name, the one that was dropped comes last.
    pub tensors: Vec<TensorDifference>,
    /// Ids of rows that only the later state has, in its order.
    pub rows_added: Vec<u64>,
    /// Ids of rows that only the earlier state has, sorted.
    pub rows_deleted: Vec<u64>,
    /// Whether the dataset's own metadata differs.
    pub metadata: bool,
}

/// How one tensor differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorDifference {
    /// Its name in the later state, or in the earlier one if it was dropped.
    pub name: String,
    /// Its name in the earlier state, if it was renamed.
    pub renamed_from: Option<String>,
    /// Whether it is another tensor that took the name of one that was dropped.
    pub is_successor: bool,
    /// Whether it is a column, in the later state if it is in both.
    pub is_column: bool,
    /// What became of the tensor itself.
    pub fate: Fate,
    /// Whether its own metadata differs. Always false unless it is in both states.
    pub metadata: bool,
    /// What became of what it holds. Nothing, for a tensor that is in one state only.
    pub content: Content,
}

/// What became of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in both states and is the same kind of thing.
    Kept,
    /// Only the later state has it.
    Added,
    /// Only the earlier state has it.
    Dropped,
    /// Both have it, but its dtype, shape, layout, type or parameters differ.
    Retyped,
}

/// What became of a tensor's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// It is the same.
    Same,
    /// It may differ anywhere: what is stored cannot be compared piece by piece.
    Whole,
    /// Chunks of an array, sorted.
    Chunks {
        /// Those that differ, or that one state does not have.
        changed: Vec<Coords>,
    },
    /// Samples of a column, by the ids of their rows, each list sorted. Rows that one state does not have are left
    /// out of `cleared` and are in `added` when they have a sample.
    Samples {
        /// Those that only the later state has.
        added: Vec<u64>,
        /// Those that differ.
        updated: Vec<u64>,
        /// Those that only the earlier state has, though both have the row.
        cleared: Vec<u64>,
    },
}

impl TensorDifference {
    /// Its name in the earlier state, if it was there.
    pub fn before(&self) -> Option<&str> {
        match self.fate {
            Fate::Added => None,
            _ => Some(self.renamed_from.as_deref().unwrap_or(&self.name)),
        }
    }

    /// Its name in the later state, if it is there.
    pub fn after(&self) -> Option<&str> {
        (self.fate != Fate::Dropped).then_some(self.name.as_str())
    }
}

impl Difference {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Difference::default()
    }

    /// The same without the tensors of indexes, for people.
    pub fn shown(mut self) -> Difference {
        self.tensors.retain(|tensor| !is_hidden(&tensor.name));
        self
    }

    /// The difference of one tensor, if it differs: of that which has the name in the later state, if there is one.
    pub fn tensor(&self, name: &str) -> Option<&TensorDifference> {
        let at = self.tensors.partition_point(|tensor| tensor.name.as_str() < name);
        self.tensors.get(at).filter(|tensor| tensor.name == name)
    }
}

/// What to take over from another state of the dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graft {
    /// Tensors whose names differ: names here, and in the other state. All other fields say names here.
    pub names: Vec<(String, String)>,
    /// Tensors to drop.
    pub drop: Vec<String>,
    /// Tensors to take header and all, in place of any that is there.
    pub whole: Vec<String>,
    /// Tensors whose header row (type, shape, metadata) to take, keeping their content.
    pub headers: Vec<String>,
    /// Chunks of arrays to take; those that the other state does not have are removed here.
    pub chunks: Vec<(String, Vec<Coords>)>,
    /// Samples of columns to take, by row id, sorted; those that the other state does not have become missing here.
    pub samples: Vec<(String, Vec<u64>)>,
    /// Ids of rows to add, in order. Their samples must be listed as well.
    pub rows_added: Vec<u64>,
    /// Whether added rows go back to the places they had, and not to the end.
    pub rows_return: bool,
    /// Ids of rows to delete, sorted.
    pub rows_deleted: Vec<u64>,
    /// Whether to take the dataset's own metadata.
    pub metadata: bool,
}

impl Graft {
    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        *self == Graft { rows_return: self.rows_return, names: self.names.clone(), ..Graft::default() }
    }

    /// What a tensor is called in the other state.
    pub fn there<'a>(&'a self, here: &'a str) -> &'a str {
        self.names.iter().find(|(name, _)| name == here).map_or(here, |(_, there)| there)
    }
}
