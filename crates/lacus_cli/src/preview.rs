//! A look at a tensor that fits on a screen, and costs only the elements it shows.
//!
//! ```text
//! [[ 0  1  2 ...  9]         the edges of each axis, "..." for what lies between
//!  ...
//!  [90 91 92 ... 99]]
//! ```

use lacus::layout::Header;
use lacus::table::{Read, Table};
use lacus::tensor::{DType, Index, Selection, Shape, SparseTensor, Tensor};

use crate::failure::Failure;
use crate::numbers;
use crate::output::{Side, columns, number};
use crate::stream::{Steps, steps};

/// A tensor of at most so many elements is shown whole, unless its rows are long.
const WHOLE: u64 = 200;

/// Elements of the last axis that make a line which is not too long.
const LINE: u64 = 12;

/// Nonzeros shown.
const NONZEROS: usize = 10;

/// A selection with lists is read whole before it is shown; more than this is refused.
const MOST_GATHERED_BYTES: u64 = 64 << 20;

/// A selection of a dense tensor.
pub(crate) async fn dense(
    table: &Table,
    name: &str,
    header: &Header,
    selection: &Selection,
    indices: &[Index],
) -> Result<String, Failure> {
    let shape = selection.output_shape();
    if shape.elements_saturating() == 0 {
        return Ok(EMPTY.to_owned());
    }
    let edges = Edges::of(shape);
    if let Some(ranges) = steps(selection) {
        let shown = read(table, name, &mesh(&ranges, &edges)).await?;
        return Ok(rendered(header.dtype, shown.bytes(), &edges));
    }
    if shape.byte_len(header.dtype)? as u64 > MOST_GATHERED_BYTES {
        return Err(
            Failure::invalid("the selection is too large for a preview").hint("-o writes it to a file")
        );
    }
    Ok(in_memory(&read(table, name, indices).await?))
}

/// A dense tensor that is in memory.
pub(crate) fn in_memory(tensor: &Tensor) -> String {
    if tensor.shape().elements_saturating() == 0 {
        return EMPTY.to_owned();
    }
    let edges = Edges::of(tensor.shape());
    rendered(tensor.dtype(), &picked(tensor, &edges), &edges)
}

const EMPTY: &str = "[]\n";

/// The first nonzeros of a sparse tensor that has `nnz` in all.
pub(crate) fn sparse(tensor: &SparseTensor, nnz: u64) -> String {
    let item_bytes = tensor.dtype().size_bytes();
    let rank = tensor.shape().rank();
    let rows: Vec<Vec<String>> = tensor
        .values()
        .chunks_exact(item_bytes)
        .take(NONZEROS)
        .enumerate()
        .map(|(row, item)| {
            let mut cells: Vec<String> = (0..rank).map(|axis| tensor.axis(axis)[row].to_string()).collect();
            cells.push(numbers::text(tensor.dtype(), item));
            cells
        })
        .collect();
    let shown = rows.len() as u64;
    let mut text = columns(&vec![Side::Right; rank + 1], &rows);
    if nnz > shown {
        text.push_str(&format!("... and {} more nonzeros\n", number(nnz - shown)));
    } else if nnz == 0 {
        text.push_str("no nonzeros\n");
    }
    text
}

/// Reads the first nonzeros of a sparse tensor, and not many more.
pub(crate) async fn first_nonzeros(
    table: &Table,
    name: &str,
    header: &Header,
) -> Result<SparseTensor, Failure> {
    let rows = header.shape.dims()[0];
    let enough = header.nnz.unwrap_or(0).min(NONZEROS as u64);
    let mut wanted = 1;
    loop {
        let stop = i64::try_from(wanted).unwrap_or(i64::MAX);
        let indices = [Index::Slice { start: None, stop: Some(stop), step: None }];
        let Read::Sparse(found) = table.read(name, &indices).await? else {
            return Err(Failure::new(lacus::table::ErrorKind::Internal, "a sparse layout was read as dense"));
        };
        if found.nnz() as u64 >= enough || wanted >= rows {
            return Ok(found);
        }
        wanted = wanted.saturating_mul(8);
    }
}

async fn read(table: &Table, name: &str, indices: &[Index]) -> Result<Tensor, Failure> {
    match table.read(name, indices).await? {
        Read::Dense(tensor) => Ok(tensor),
        Read::Sparse(tensor) => Ok(tensor.to_dense()?),
    }
}

/// What of an axis is shown: some at its beginning, some at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edges {
    head: u64,
    tail: u64,
    len: u64,
}

impl Edges {
    /// For each axis of a shape: rows and columns widely, outer axes first and last, axes outside of
    /// those only first.
    fn of(shape: &Shape) -> Vec<Edges> {
        let rank = shape.rank();
        let of_axis = |(axis, &len): (usize, &u64)| {
            let (head, tail) = match rank - axis {
                1 | 2 => (3, 3),
                3 | 4 => (1, 1),
                _ => (1, 0),
            };
            let is_long_line = axis + 1 == rank && len > LINE;
            match head + tail < len && (shape.elements_saturating() > WHOLE || is_long_line) {
                true => Edges { head, tail, len },
                false => Edges { head: len, tail: 0, len },
            }
        };
        shape.dims().iter().enumerate().map(of_axis).collect()
    }

    fn shown(&self) -> usize {
        (self.head + self.tail) as usize
    }

    /// The steps that are shown.
    fn steps(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.head).chain(self.len - self.tail..self.len)
    }

    fn has_gap(&self) -> bool {
        self.head + self.tail < self.len
    }
}

/// Indices of exactly the elements that are shown: one list per input axis, which broadcast.
fn mesh(ranges: &[Steps], edges: &[Edges]) -> Vec<Index> {
    let one = Edges { head: 1, tail: 0, len: 1 };
    let list = |(axis, range): (usize, &Steps)| {
        let edges = range.out_axis.map_or(one, |out_axis| edges[out_axis]);
        let values: Vec<i64> =
            edges.steps().map(|step| i64::try_from(range.at(step)).unwrap_or(i64::MAX)).collect();
        let mut dims = vec![1; ranges.len()];
        dims[axis] = values.len() as u64;
        Index::List { dims, values }
    };
    ranges.iter().enumerate().map(list).collect()
}

/// The bytes of the elements that are shown, in C order.
fn picked(tensor: &Tensor, edges: &[Edges]) -> Vec<u8> {
    let item_bytes = tensor.dtype().size_bytes();
    let mut places = vec![0];
    for (edges, dim) in edges.iter().zip(tensor.shape().dims()) {
        let under = |place: &u64| {
            let first = place * dim;
            edges.steps().map(move |step| first + step)
        };
        places = places.iter().flat_map(under).collect();
    }
    let item = |place: u64| &tensor.bytes()[place as usize * item_bytes..][..item_bytes];
    places.into_iter().flat_map(item).copied().collect()
}

/// The shown elements in brackets, all equally wide.
fn rendered(dtype: DType, bytes: &[u8], edges: &[Edges]) -> String {
    let items: Vec<String> =
        bytes.chunks_exact(dtype.size_bytes()).map(|item| numbers::text(dtype, item)).collect();
    let width = items.iter().map(String::len).max().unwrap_or(0);
    let items: Vec<String> = items.iter().map(|item| format!("{item:>width$}")).collect();
    let mut text = String::new();
    bracketed(&mut text, &items, edges, 0);
    text.push('\n');
    text
}

fn bracketed(text: &mut String, items: &[String], edges: &[Edges], depth: usize) {
    let Some((axis, inner)) = edges.split_first() else {
        text.push_str(items.first().map_or("", String::as_str));
        return;
    };
    // numpy's way: items of a row side by side, rows below each other, an empty line more per axis.
    let between = match inner.len() {
        0 => " ".to_owned(),
        axes => format!("{}{}", "\n".repeat(axes), " ".repeat(depth + 1)),
    };
    let item_count: usize = inner.iter().map(Edges::shown).product();
    text.push('[');
    for (number, item) in items.chunks(item_count.max(1)).enumerate() {
        if number as u64 == axis.head && axis.has_gap() {
            text.push_str(&format!("{}...", if number == 0 { "" } else { &between }));
        }
        if number > 0 {
            text.push_str(&between);
        }
        bracketed(text, item, inner, depth + 1);
    }
    if axis.tail == 0 && axis.has_gap() {
        text.push_str(&format!("{between}..."));
    }
    text.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus::tensor::{Buffer, parse_indices};

    fn counting(dims: &[u64]) -> Tensor {
        let shape = Shape::new(dims).unwrap();
        let bytes: Vec<u8> = (0..shape.elements().unwrap())
            .flat_map(|v| u16::try_from(v % 60_000).unwrap().to_le_bytes())
            .collect();
        Tensor::new(DType::U16, shape, Buffer::from_slice(&bytes)).unwrap()
    }

    #[test]
    fn small_tensors_are_shown_whole() {
        let check = |dims: &[u64], expected: &str| assert_eq!(in_memory(&counting(dims)), expected);
        check(&[], "0\n");
        check(&[0, 3], "[]\n");
        check(&[3], "[0 1 2]\n");
        check(&[2, 3], "[[0 1 2]\n [3 4 5]]\n");
        check(&[2, 1, 6], "[[[ 0  1  2  3  4  5]]\n\n [[ 6  7  8  9 10 11]]]\n");
    }

    #[test]
    fn large_ones_by_their_edges() {
        let check = |dims: &[u64], expected: &str| assert_eq!(in_memory(&counting(dims)), expected);
        check(&[13], "[ 0  1  2 ... 10 11 12]\n");
        check(
            &[100, 3],
            "[[  0   1   2]\n [  3   4   5]\n [  6   7   8]\n ...\n [291 292 293]\n [294 295 296]\n [297 298 299]]\n",
        );
        check(&[300, 1, 1], "[[[  0]]\n\n ...\n\n [[299]]]\n");
        check(&[300, 1, 1, 1, 1], "[[[[[0]]]]\n\n\n\n ...]\n");
    }

    #[test]
    fn only_what_is_shown_is_asked_for() {
        let shape = Shape::new([1000, 50, 40]).unwrap();
        let indices = parse_indices("None, ::-1, 7, 2:").unwrap();
        let selection = Selection::resolve(&shape, &indices).unwrap();
        let ranges = steps(&selection).unwrap();
        let edges = Edges::of(selection.output_shape());
        let list =
            |dims: [u64; 3], values: &[i64]| Index::List { dims: dims.to_vec(), values: values.to_vec() };
        let expected = [
            list([6, 1, 1], &[999, 998, 997, 2, 1, 0]),
            list([1, 1, 1], &[7]),
            list([1, 1, 6], &[2, 3, 4, 37, 38, 39]),
        ];
        assert_eq!(mesh(&ranges, &edges), expected);
    }
}
