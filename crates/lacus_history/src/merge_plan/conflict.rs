//! What both sides of a merge changed differently, and what can be done about it.

use std::fmt;

use lacus_table::Coords;
use serde::{Serialize, Serializer};

/// One of two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The state that is merged into.
    Ours,
    /// The state that is merged.
    Theirs,
}

/// What both sides changed differently. Sorted, what concerns more comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "conflict", rename_all = "snake_case")]
pub enum Conflict {
    /// Metadata.
    Metadata {
        /// Of this tensor; of the dataset, if none.
        tensor: Option<String>,
    },
    /// A tensor as a whole.
    Tensor {
        /// Its name.
        name: String,
        /// What became of it.
        #[serde(flatten)]
        kind: TensorConflict,
    },
    /// The name of a tensor.
    Name {
        /// The name that is wanted twice, or that ours gave a tensor that theirs calls otherwise.
        name: String,
        /// What happened.
        #[serde(flatten)]
        kind: NameConflict,
    },
    /// A row that one side changed and the other deleted.
    Row {
        /// Its id.
        id: u64,
        /// Who changed it.
        changed_in: Side,
        /// The columns in which it was changed.
        columns: Vec<String>,
    },
    /// A sample.
    Sample {
        /// Its column.
        column: String,
        /// The id of its row.
        id: u64,
    },
    /// A chunk.
    Chunk {
        /// Its array.
        array: String,
        /// Where it is in the array's grid.
        #[serde(serialize_with = "numbers")]
        coords: Coords,
    },
}

/// What became of a tensor that is in conflict as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TensorConflict {
    /// Both sides added one of this name.
    BothAdded {
        /// Whether both are columns of the same type without a sample in the same row, so that there is a union.
        joins: bool,
    },
    /// Both changed its type, shape or parameters.
    BothRetyped {
        /// What of it, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        what: Option<&'static str>,
    },
    /// Both changed its content, which cannot be compared piece by piece.
    BothChanged,
    /// One side dropped it, the other changed it.
    DroppedAndChanged {
        /// Who dropped it.
        dropped_by: Side,
    },
    /// One side dropped it, the other gave it another name and changed nothing else.
    DroppedAndRenamed {
        /// Who dropped it.
        dropped_by: Side,
    },
    /// One side changed its type, shape or parameters, the other its content.
    RetypedAndChanged {
        /// Who changed the type.
        retyped_by: Side,
    },
}

/// Why a name is in conflict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NameConflict {
    /// Both sides gave a tensor another name.
    BothRenamed {
        /// What it was called.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// What theirs calls it.
        theirs: String,
    },
    /// Two tensors would have it.
    Taken {
        /// What ours calls the tensor that has this name in theirs, if ours has it.
        #[serde(skip_serializing_if = "Option::is_none")]
        in_ours: Option<String>,
        /// What theirs calls the tensor that has this name in ours, if theirs has it.
        #[serde(skip_serializing_if = "Option::is_none")]
        in_theirs: Option<String>,
    },
}

/// What to do about a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It stays as we have it.
    Ours,
    /// It becomes what they have.
    Theirs,
    /// Both changes, where that has a meaning: see [`Conflict::has_union`].
    Union,
    /// Nothing is merged.
    Stop,
}

impl Conflict {
    /// Whether [`Choice::Union`] has a meaning: a row or tensor that one side dropped stays, with the other's changes; a
    /// column that both added gets the samples of both; metadata is merged by the caller.
    pub fn has_union(&self) -> bool {
        match self {
            Conflict::Metadata { .. } | Conflict::Row { .. } => true,
            Conflict::Tensor { kind, .. } => match kind {
                TensorConflict::BothAdded { joins } => *joins,
                TensorConflict::DroppedAndChanged { .. } | TensorConflict::DroppedAndRenamed { .. } => true,
                TensorConflict::BothRetyped { .. }
                | TensorConflict::BothChanged
                | TensorConflict::RetypedAndChanged { .. } => false,
            },
            Conflict::Name { .. } | Conflict::Sample { .. } | Conflict::Chunk { .. } => false,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Ours => "ours",
            Side::Theirs => "theirs",
        })
    }
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Ours => Side::Theirs,
            Side::Theirs => Side::Ours,
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conflict::Metadata { tensor: None } => {
                write!(f, "metadata of the dataset: changed on both sides")
            }
            Conflict::Metadata { tensor: Some(name) } => {
                write!(f, "metadata of {name:?}: changed on both sides")
            }
            Conflict::Tensor { name, kind } => write!(f, "{name:?}: {kind}"),
            Conflict::Name { name, kind: NameConflict::BothRenamed { from: Some(from), theirs } } => {
                write!(f, "{from:?}: renamed to {name:?} in ours and to {theirs:?} in theirs")
            }
            Conflict::Name { name, kind: NameConflict::BothRenamed { from: None, theirs } } => {
                write!(f, "{name:?}: called {theirs:?} in theirs")
            }
            Conflict::Name { name, kind: NameConflict::Taken { in_ours, in_theirs } } => {
                let has = |side: Side, from: &Option<String>| match from {
                    Some(from) => format!("{side} renamed {from:?} to it"),
                    None => format!("{side} has another tensor of this name"),
                };
                let (ours, theirs) = (has(Side::Ours, in_theirs), has(Side::Theirs, in_ours));
                write!(f, "{name:?}: a name for two tensors: {ours}, {theirs}")
            }
            Conflict::Row { id, changed_in, columns } => {
                let names: Vec<String> = columns.iter().map(|name| format!("{name:?}")).collect();
                let (columns, by) = (names.join(", "), changed_in.other());
                write!(f, "row with id {id}: changed in {changed_in} ({columns}), deleted in {by}")
            }
            Conflict::Sample { column, id } => {
                write!(f, "{column:?}, row with id {id}: changed on both sides")
            }
            Conflict::Chunk { array, coords } => {
                write!(f, "{array:?}, chunk {:?}: changed on both sides", &coords[..])
            }
        }
    }
}

impl fmt::Display for TensorConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorConflict::BothAdded { .. } => write!(f, "added on both sides, differently"),
            TensorConflict::BothRetyped { what } => {
                write!(f, "{} changed on both sides, differently", what.unwrap_or("type or shape"))
            }
            TensorConflict::BothChanged => write!(f, "content changed on both sides"),
            TensorConflict::DroppedAndChanged { dropped_by } => {
                write!(f, "changed in {}, dropped in {dropped_by}", dropped_by.other())
            }
            TensorConflict::DroppedAndRenamed { dropped_by } => {
                write!(f, "renamed in {}, dropped in {dropped_by}", dropped_by.other())
            }
            TensorConflict::RetypedAndChanged { retyped_by } => {
                write!(f, "content changed in {}, type or shape changed in {retyped_by}", retyped_by.other())
            }
        }
    }
}

fn numbers<S: Serializer>(coords: &Coords, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(coords.iter())
}
