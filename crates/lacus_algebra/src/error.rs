//! What can go wrong with a program, a relation or a plan, and what the caller should do about it.
//!
//! A [`Problem`] in a program's text comes with its [`Place`], and is shown as compilers do:
//!
//! ```text
//! `@`: lhs [7, 3] and rhs [4, 2] disagree on the inner axis
//!  --> line 2, column 5
//!   2 | C = A @ B
//!     |     ^^^^^
//! ```

use lacus_tensor::ErrorKind;
use std::fmt;

/// Why a program was refused, or a plan over tensor relations.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AlgebraError {
    /// A program cannot be read, or does not fit its inputs.
    #[error("{problem}{place}")]
    Program {
        /// What is wrong.
        problem: Box<Problem>,
        /// Where in the text.
        place: Box<Place>,
    },

    /// A key function or a predicate does not fit the keys it is given.
    #[error("{what} takes keys of {expected} parts, found {found}")]
    KeyArity {
        /// What was tried.
        what: &'static str,
        /// Parts the operation takes.
        expected: usize,
        /// Parts there are.
        found: usize,
    },

    /// Two tiles would have one key.
    #[error("{what}: the key {key:?} appears more than once")]
    DuplicateKey {
        /// What was tried.
        what: &'static str,
        /// The key.
        key: Vec<i64>,
    },

    /// A tile does not have the shape an operation needs.
    #[error("{what}: tiles of shape {} do not fit", shape_list(.shapes))]
    TileShapes {
        /// What was tried.
        what: String,
        /// The shapes in question.
        shapes: Vec<Vec<usize>>,
    },

    /// A key has no partner, and no tile can stand for the missing one.
    #[error(
        "{what}: the key {key:?} has no partner, and the kernel gives a missing tile a meaning of its own"
    )]
    NoPartner {
        /// What was tried.
        what: String,
        /// The key.
        key: Vec<i64>,
    },

    /// An operation was asked of a relation whose placement does not allow it.
    #[error("{what}: {reason} (placement {placement})")]
    Placement {
        /// What was tried.
        what: &'static str,
        /// Why not.
        reason: String,
        /// The placement or placements found.
        placement: String,
    },

    /// A plan names an input that was not given.
    #[error("a plan reads input '{name}', which was not given")]
    MissingInput {
        /// Its name.
        name: String,
    },

    /// A number is outside of what an operation takes.
    #[error("{what}: {found} is not {expected}")]
    Argument {
        /// What was tried.
        what: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What was given.
        found: String,
    },

    /// A tensor value was refused by `lacus_tensor`.
    #[error(transparent)]
    Tensor(#[from] lacus_tensor::TensorError),
}

impl AlgebraError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            AlgebraError::Program { problem, .. } => problem.kind(),
            AlgebraError::MissingInput { .. } => ErrorKind::NotFound,
            AlgebraError::Tensor(error) => error.kind(),
            _ => ErrorKind::Invalid,
        }
    }
}

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The text does not follow the grammar.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What could stand here.
        expected: String,
        /// What stands here.
        found: String,
    },
    /// Expressions or blocks within each other, or one chain of operators, beyond what the parser follows.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The most levels.
        limit: usize,
    },
    /// Functions called by functions make a program of too many expressions.
    #[error("functions expand to more than {limit} expressions")]
    TooLong {
        /// The most expressions.
        limit: usize,
    },
    /// A name that nothing was assigned to.
    #[error("'{name}' is not defined{hint}")]
    Undefined {
        /// The name.
        name: String,
        /// What may have been meant, or nothing.
        hint: String,
    },
    /// A function that is neither built in, nor defined, nor registered.
    #[error("there is no function '{name}'")]
    UndefinedFunction {
        /// The name.
        name: String,
    },
    /// `load` of a tensor that was not described.
    #[error("there is no tensor '{name}' to load")]
    UnknownTensor {
        /// The name.
        name: String,
    },
    /// A stored element type that is not computed with.
    #[error(
        "tensor '{name}' is {dtype}, which cannot be computed with: convert it to a float or an integer of at most 64 bits, signed"
    )]
    UnusableType {
        /// The tensor.
        name: String,
        /// Its element type.
        dtype: &'static str,
    },
    /// One index runs over two axes of different length.
    #[error("index '{index}' has extent {first} in {first_of} and {second} in {second_of}")]
    TwoExtents {
        /// The index.
        index: String,
        /// One extent.
        first: u64,
        /// The tensor that gives it, with its shape.
        first_of: String,
        /// The other extent.
        second: u64,
        /// The tensor that gives that one.
        second_of: String,
    },
    /// An index of the result that nothing on the right gives an extent to.
    #[error(
        "output index '{index}' does not index a tensor on the right: tell how far it runs, as in `[{index} in 0..n]`"
    )]
    OutputIndex {
        /// The index.
        index: String,
    },
    /// An index whose extent follows from nothing.
    #[error("the extent of index '{index}' does not follow from the right side")]
    UnboundedIndex {
        /// The index.
        index: String,
    },
    /// The same index twice on the left.
    #[error("index '{index}' appears twice on the left: write `if` with two indices instead")]
    RepeatedIndex {
        /// The index.
        index: String,
    },
    /// A variable stands where an index must.
    #[error("'{name}' is a variable, so it cannot be an index of the result")]
    VariableAsIndex {
        /// The name.
        name: String,
    },
    /// A tensor is indexed with too many or too few indices.
    #[error("{tensor} has shape {}, but {found} indices were given", shape_text(.shape))]
    WrongRank {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<u64>,
        /// Indices given.
        found: usize,
    },
    /// A whole tensor where one element is needed.
    #[error("{tensor} has shape {}: in a statement with indices, index it", shape_text(.shape))]
    NeedsIndices {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<u64>,
    },
    /// An index reaches outside of its axis.
    #[error("index {index} of {tensor} runs from {from} to {to}, outside of axis {axis} of shape {}", shape_text(.shape))]
    OutOfBounds {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<u64>,
        /// The axis.
        axis: usize,
        /// The index as written.
        index: String,
        /// Its least value.
        from: i64,
        /// Its greatest value.
        to: i64,
    },
    /// An index that is not a sum of multiples of indices.
    #[error("an index must be a sum of indices times whole numbers known before running: {reason}")]
    NotAffine {
        /// What stands in the way.
        reason: String,
    },
    /// Shapes that do not broadcast.
    #[error("{what}: shapes {} and {} do not broadcast", shape_text(.left), shape_text(.right))]
    Broadcast {
        /// What was tried.
        what: String,
        /// The shape of the left side.
        left: Vec<u64>,
        /// The shape of the right side.
        right: Vec<u64>,
    },
    /// Shapes that do not multiply.
    #[error("`@`: lhs {} and rhs {} disagree on the inner axis", shape_text(.left), shape_text(.right))]
    MatMul {
        /// The shape of the left side.
        left: Vec<u64>,
        /// The shape of the right side.
        right: Vec<u64>,
    },
    /// An axis that the tensor does not have, or has been given twice.
    #[error("{what}: axis {axis} does not fit shape {}", shape_text(.shape))]
    Axis {
        /// What was tried.
        what: String,
        /// The axis as given.
        axis: i64,
        /// The shape.
        shape: Vec<u64>,
    },
    /// A value of the wrong type.
    #[error("{what} takes {expected}, found {found}")]
    Type {
        /// What was tried.
        what: String,
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A function with too many or too few arguments, or one of an unknown name.
    #[error("{function} takes {expected}, found {found}")]
    Arguments {
        /// The function.
        function: String,
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A specification of `einsum` that cannot be followed.
    #[error("einsum \"{spec}\": {reason}")]
    Einsum {
        /// The specification.
        spec: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Reducing by an operation whose result would depend on the grouping.
    #[error("cannot reduce by `{op}`: {reason}")]
    NotReducible {
        /// The operation.
        op: String,
        /// Why not.
        reason: String,
    },
    /// A reducing assignment in which every index of the right is on the left.
    #[error("`{op}=` has nothing to reduce: every index of the right side is on the left, write `=`")]
    NothingToReduce {
        /// The operation.
        op: String,
    },
    /// A guard on an index that a term does not sum over.
    #[error("the condition uses index '{index}', which a term of the right side does not sum over")]
    GuardIndex {
        /// The index.
        index: String,
    },
    /// A loop whose condition cannot change.
    #[error("this loop can never end: its condition depends on {depends}, which its body does not assign")]
    EndlessLoop {
        /// What the condition depends on.
        depends: String,
    },
    /// A variable that would change its type or shape from one round of a loop to the next.
    #[error("'{name}' is {before} before the loop and {after} after a round")]
    LoopChanges {
        /// The variable.
        name: String,
        /// Type and shape before.
        before: String,
        /// Type and shape after.
        after: String,
    },
    /// More elements than can be counted.
    #[error("shape {} has more elements than a 64-bit integer counts", shape_text(.shape))]
    TooLarge {
        /// The shape.
        shape: Vec<u64>,
    },
    /// A number that must be known before running, such as an extent, is not.
    #[error("{what} must be a whole number known before running")]
    NotKnown {
        /// What it is for.
        what: String,
    },
    /// A function that calls itself.
    #[error("function '{name}' calls itself")]
    Recursion {
        /// The function.
        name: String,
    },
    /// Something that stands where it cannot.
    #[error("{what}")]
    Misplaced {
        /// What, and why not.
        what: String,
    },
    /// A task that does not fit the memory of a site.
    #[error(
        "the largest task of `{what}` needs {needed} bytes, more than the {budget} bytes of a site: tiles are {block} long, make them shorter"
    )]
    MemoryBudget {
        /// The operator.
        what: String,
        /// Bytes the task needs.
        needed: u64,
        /// Bytes there are.
        budget: u64,
        /// The extent of a tile.
        block: u64,
    },
    /// An operator of more steps over tiles than are planned.
    #[error(
        "`{what}` has {steps} steps over tiles, more than {most}: tiles are {block} long, make them longer"
    )]
    TooManySteps {
        /// The operator.
        what: String,
        /// Its steps.
        steps: u64,
        /// The most steps.
        most: u64,
        /// The extent of a tile.
        block: u64,
    },
    /// The reference interpreter was asked for more than it does.
    #[error("the reference interpreter stops here: {reason}")]
    InterpreterLimit {
        /// Which limit, with the numbers.
        reason: String,
    },
}

impl Problem {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Problem::Undefined { .. } | Problem::UndefinedFunction { .. } | Problem::UnknownTensor { .. } => {
                ErrorKind::NotFound
            }
            _ => ErrorKind::Invalid,
        }
    }

    /// This problem at a place.
    pub(crate) fn at(self, place: Place) -> AlgebraError {
        AlgebraError::Program { problem: Box::new(self), place: Box::new(place) }
    }
}

/// Characters of a line that are shown at most: what fits a terminal, roughly.
const MAX_SHOWN: usize = 160;

/// Where in a program's text a problem is. Programs built from Rust have no text, and their problems no line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Place {
    /// The line, from 1; 0 where there is no text.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Characters the problem covers on that line, at least 1.
    pub width: usize,
    /// The line; of a long one what is near the problem.
    pub text: String,
    /// Where in the text the problem starts, in characters from 0.
    pub indent: usize,
}

impl Place {
    /// The place of the bytes `start..end` of `source`.
    pub fn of(source: &str, start: usize, end: usize) -> Place {
        if source.is_empty() {
            return Place::default();
        }
        let floor = |mut at: usize| {
            at = at.min(source.len());
            while !source.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (floor(start), floor(end));
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |at| start + at);
        let width = source[start..end.clamp(start, line_end)].chars().count().max(1);
        let column = source[line_start..start].chars().count();
        let skipped = column.saturating_sub(MAX_SHOWN / 2);
        let shown = source[line_start..line_end].trim_end_matches('\r').chars().skip(skipped).take(MAX_SHOWN);
        Place {
            line: source[..start].matches('\n').count() + 1,
            column: column + 1,
            width: width.min(MAX_SHOWN / 2),
            text: shown.collect(),
            indent: column - skipped,
        }
    }
}

impl fmt::Display for Place {
    /// On lines of its own, after the message; nothing where there is no text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return Ok(());
        }
        let number = self.line.to_string();
        // Tabs are kept in the caret line, so that it lines up wherever tabs stop.
        let indent: String =
            self.text.chars().take(self.indent).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        write!(
            f,
            "\n --> line {}, column {}\n  {number} | {}\n  {} | {indent}{}",
            self.line,
            self.column,
            self.text,
            " ".repeat(number.len()),
            "^".repeat(self.width)
        )
    }
}

/// A shape as `[2, 3]`.
pub(crate) fn shape_text(dims: &[u64]) -> String {
    format!("{dims:?}")
}

fn shape_list(shapes: &[Vec<usize>]) -> String {
    shapes.iter().map(|dims| format!("{dims:?}")).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_its_line_and_a_caret_below_it() {
        let source = "A = 1\nC = A @ B\n";
        let error = Problem::MatMul { left: vec![7, 3], right: vec![4, 2] }.at(Place::of(source, 10, 15));
        assert_eq!(
            error.to_string(),
            "`@`: lhs [7, 3] and rhs [4, 2] disagree on the inner axis\n --> line 2, column 5\n  2 | C = A @ B\n    |     ^^^^^"
        );
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_place_counts_characters_and_survives_any_bytes() {
        let source = "é = ü\n";
        assert_eq!(Place::of(source, 5, 7).column, 5);
        for start in 0..20 {
            for end in 0..20 {
                let _ = Place::of(source, start, end).to_string();
            }
        }
        assert_eq!(Place::of("", 0, 0).to_string(), "");
    }
}
