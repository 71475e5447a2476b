//! Functions of the caller's among those of DataFusion.
//!
//! ```text
//! arrays ─rows with all arguments→ ─files decoded, cut by bytes→ pieces ─Callee::call→ Results ─checked→ array
//! ```
//!
//! A call may have the place of its row as one more argument, which the function does not see and errors name.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt32Array, new_empty_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result, internal_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use lacus_tensor::{Shape, TensorRef};

use crate::error::QueryError;
use crate::question::{CallError, Callee, Results, Returned};
use crate::tensors::{Dims, Kind, TensorArray, TensorBuilder, TensorType, shape_text};

/// Bytes of decoded files that a function is given at once, about. A batch is cut by the bytes of its files, and a picture may be
/// many times its file.
const PIECE_BYTES: u64 = 32 << 20;

/// A function as DataFusion takes it.
pub(crate) fn udf(callee: &Arc<dyn Callee>) -> ScalarUDF {
    let volatility = match callee.is_deterministic() {
        true => Volatility::Immutable,
        false => Volatility::Volatile,
    };
    Called::new(Arc::clone(callee), false, volatility).into()
}

/// Whether an expression calls a function of the caller's.
pub(crate) fn has_call(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| Ok(called(expr).is_some()))
}

/// Whether a function of the caller's returns numbers or texts.
pub(crate) fn is_plain(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<Called>().is_some_and(|called| called.callee.is_plain())
}

/// Calls that know the place of their row: `row` is the expression that has it. Those that know it already stay.
pub(crate) fn with_row(expr: Expr, row: &Expr) -> Result<Expr> {
    let replaced = expr.transform_up(|expr| {
        let Some(found) = called(&expr).filter(|found| !found.has_row) else {
            return Ok(Transformed::no(expr));
        };
        // Calls stay where they are from here on, however alike they are.
        let func = Arc::new(Called::new(Arc::clone(&found.callee), true, Volatility::Volatile).into());
        let Expr::ScalarFunction(ScalarFunction { mut args, .. }) = expr else {
            return internal_err!("only functions are called");
        };
        args.push(row.clone());
        Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
    })?;
    Ok(replaced.data)
}

fn called(expr: &Expr) -> Option<&Called> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, .. }) => func.inner().downcast_ref::<Called>(),
        _ => None,
    }
}

/// A function of the caller's.
#[derive(Debug)]
struct Called {
    callee: Arc<dyn Callee>,
    /// As DataFusion looks names up that are not quoted.
    name: String,
    /// As it was given, if that is another.
    aliases: Vec<String>,
    signature: Signature,
    /// Whether the last argument is the place of the row.
    has_row: bool,
}

impl PartialEq for Called {
    fn eq(&self, other: &Called) -> bool {
        Arc::ptr_eq(&self.callee, &other.callee) && self.has_row == other.has_row
    }
}

impl Eq for Called {}

impl Hash for Called {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, self.has_row).hash(state);
    }
}

impl ScalarUDFImpl for Called {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{}: the type follows from fields", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let count = args.arg_fields.len() - usize::from(self.has_row);
        let fields = args.arg_fields[..count].iter().map(seen).collect::<Result<Vec<_>>>()?;
        let returned = self.returned(&fields)?;
        Ok(Arc::new(returned.field(&self.name)?))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let mut fields = args.arg_fields;
        let mut arrays =
            args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let places = match self.has_row {
            true => {
                fields.pop();
                arrays.pop()
            }
            false => None,
        };
        let made = self.run(&arrays, &fields, rows).map_err(|fault| match fault {
            Fault::Engine(error) => error,
            Fault::Call(CallError { row, why, cause }) => {
                let place = |row: usize| {
                    let places = places.as_ref()?.as_primitive_opt::<UInt64Type>()?;
                    (row < places.len() && places.is_valid(row)).then(|| places.value(row))
                };
                let (name, row) = (self.callee.name().to_owned(), row.and_then(place));
                DataFusionError::External(Box::new(QueryError::Function { name, row, why, cause }))
            }
        })?;
        Ok(ColumnarValue::Array(made))
    }
}

/// Why there is no result.
enum Fault {
    Call(CallError),
    Engine(DataFusionError),
}

impl From<DataFusionError> for Fault {
    fn from(error: DataFusionError) -> Fault {
        Fault::Engine(error)
    }
}

impl From<arrow::error::ArrowError> for Fault {
    fn from(error: arrow::error::ArrowError) -> Fault {
        Fault::Engine(error.into())
    }
}

impl From<CallError> for Fault {
    fn from(error: CallError) -> Fault {
        Fault::Call(error)
    }
}

impl Called {
    fn new(callee: Arc<dyn Callee>, has_row: bool, volatility: Volatility) -> Called {
        let (given, name) = (callee.name().to_owned(), callee.name().to_lowercase());
        let aliases = if given == name { Vec::new() } else { vec![given] };
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        Called { callee, name, aliases, signature: Signature::one_of(any, volatility), has_row }
    }

    fn returned(&self, fields: &[FieldRef]) -> Result<Returned> {
        match self.callee.returns(fields) {
            Ok(returned) => Ok(returned),
            Err(why) => plan_err!("udf {}: {why}", self.callee.name()),
        }
    }

    /// The results of all rows.
    fn run(&self, arrays: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<ArrayRef, Fault> {
        if self.callee.takes_nulls() {
            return self.run_all(arrays, fields, rows);
        }
        let missing = arrays
            .iter()
            .map(|array| array.logical_nulls())
            .fold(None, |all, nulls| NullBuffer::union(all.as_ref(), nulls.as_ref()));
        let Some(missing) = missing.filter(|missing| missing.null_count() > 0) else {
            return self.run_all(arrays, fields, rows);
        };
        let kept: Vec<u32> = missing.valid_indices().map(|row| row as u32).collect();
        let wanted = UInt32Array::from(kept.clone());
        let some = arrays.iter().map(|array| take(array, &wanted, None)).collect::<Result<Vec<_>, _>>()?;
        let made = self.run_all(&some, fields, kept.len()).map_err(|fault| match fault {
            Fault::Call(CallError { row, why, cause }) => {
                let row = row.and_then(|row| kept.get(row)).map(|row| *row as usize);
                Fault::Call(CallError { row, why, cause })
            }
            engine => engine,
        })?;
        let mut next = 0;
        let spread = missing.iter().map(|is_present| {
            is_present.then(|| {
                next += 1;
                next - 1
            })
        });
        Ok(take(&made, &spread.collect::<UInt32Array>(), None)?)
    }

    /// The results of rows all of which are meant for the function.
    fn run_all(&self, arrays: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<ArrayRef, Fault> {
        let seen = fields.iter().map(seen).collect::<Result<Vec<_>>>()?;
        let returned = self.returned(&seen)?;
        let mut parts = Vec::new();
        for piece in pieces(arrays, fields, rows)? {
            let in_batch = |mut error: CallError| {
                error.row = error.row.map(|row| row + piece.start);
                error
            };
            let given = arrays
                .iter()
                .zip(fields)
                .map(|(array, field)| decoded(&array.slice(piece.start, piece.len()), field))
                .collect::<Result<Vec<_>, _>>()
                .map_err(in_batch)?;
            let results = self.callee.call(&given, &seen, piece.len()).map_err(in_batch)?;
            parts.push(built(results, &returned, piece.len()).map_err(in_batch)?);
        }
        match &parts[..] {
            [] => Ok(new_empty_array(returned.field(&self.name)?.data_type())),
            [one] => Ok(Arc::clone(one)),
            many => Ok(concat(&many.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?),
        }
    }
}

/// The field of an argument as the function sees it.
fn seen(field: &FieldRef) -> Result<FieldRef> {
    match (Kind::of(field), TensorArray::type_of(field)) {
        (Kind::Media { .. }, Some(tensors)) => Ok(Arc::new(tensors.field(field.name())?)),
        _ => Ok(Arc::clone(field)),
    }
}

/// An argument as the function sees it: files are decoded.
fn decoded(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef, CallError> {
    let Kind::Media { .. } = Kind::of(field) else { return Ok(Arc::clone(array)) };
    let wrong = |row: Option<usize>| move |error: DataFusionError| CallError::new(row, message(error));
    let files = TensorArray::new("decode", array, field).map_err(wrong(None))?;
    let mut builder = TensorBuilder::new("decode", files.tensor_type(), array.len()).map_err(wrong(None))?;
    for row in 0..array.len() {
        let tensor = files.get(row).map_err(wrong(Some(row)))?;
        builder.push_option(tensor.as_ref().map(|tensor| tensor.view())).map_err(wrong(Some(row)))?;
    }
    builder.finish().map_err(wrong(None))
}

fn message(error: DataFusionError) -> String {
    match error {
        DataFusionError::Execution(why) => why,
        other => other.strip_backtrace(),
    }
}

/// Rows that go to the function together: no more than a certain size when files are decoded.
fn pieces(arrays: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<Vec<Range<usize>>> {
    let mut files = Vec::new();
    for (array, field) in arrays.iter().zip(fields) {
        if let Kind::Media { .. } = Kind::of(field) {
            files.push(TensorArray::new("decode", array, field)?);
        }
    }
    let (mut pieces, mut start, mut bytes) = (Vec::new(), 0, 0u64);
    for row in 0..rows {
        for of in &files {
            // A file whose header cannot be read has its error when it is decoded.
            let shape = of.shape(row).ok().flatten().unwrap_or_default();
            let size = of.tensor_type().dtype.size_bytes() as u64;
            bytes = bytes.saturating_add(shape.iter().fold(size, |all, size| all.saturating_mul(*size)));
        }
        if bytes >= PIECE_BYTES {
            pieces.push(start..row + 1);
            (start, bytes) = (row + 1, 0);
        }
    }
    if start < rows {
        pieces.push(start..rows);
    }
    Ok(pieces)
}

impl Returned {
    fn tensor_type(&self) -> Option<TensorType> {
        match self {
            Returned::Text => None,
            Returned::Tensor { dtype, shape } => {
                Some(TensorType { dtype: *dtype, dims: Dims::of(shape.clone()) })
            }
        }
    }

    fn field(&self, name: &str) -> Result<Field> {
        match self.tensor_type() {
            Some(tensors) => tensors.field(name),
            None => Ok(Field::new(name, DataType::Utf8, true)),
        }
    }
}

/// Results as an array of what was promised.
fn built(results: Results, returned: &Returned, rows: usize) -> Result<ArrayRef, CallError> {
    let wrong = |error: DataFusionError| CallError::new(None, message(error));
    let counted = |found: usize| match found == rows {
        true => Ok(()),
        false => Err(CallError::new(None, format!("{found} results for {rows} rows"))),
    };
    let Some(wanted) = returned.tensor_type() else {
        let Results::Texts(texts) = results else {
            return Err(CallError::new(None, "expected text results"));
        };
        counted(texts.len())?;
        let bytes: usize = texts.iter().flatten().map(String::len).sum();
        if i32::try_from(bytes).is_err() {
            return Err(CallError::new(
                None,
                format!("{bytes} bytes of text for {rows} rows are too many at once"),
            ));
        }
        return Ok(Arc::new(StringArray::from(texts)));
    };
    let mut builder = TensorBuilder::new("udf", &wanted, rows).map_err(wrong)?;
    let mut push = |row: usize, tensor: Option<TensorRef<'_>>| {
        if let Some(tensor) = &tensor
            && (tensor.dtype() != wanted.dtype || !wanted.dims.holds(tensor.shape().dims()))
        {
            let found = format!("{} of shape {}", tensor.dtype(), shape_text(tensor.shape().dims()));
            return Err(CallError::new(Some(row), format!("found {found}, declared {wanted}")));
        }
        builder.push_option(tensor).map_err(|error| CallError::new(Some(row), message(error)))
    };
    match results {
        Results::Texts(_) => return Err(CallError::new(None, "the results are texts")),
        Results::Tensors(tensors) => {
            counted(tensors.len())?;
            for (row, tensor) in tensors.iter().enumerate() {
                push(row, tensor.as_ref().map(|tensor| tensor.as_ref()))?;
            }
        }
        Results::Stacked { tensor, present } => {
            let dims = tensor.shape().dims();
            let Some((count, inner)) = dims.split_first() else {
                return Err(CallError::new(None, "one result for all rows"));
            };
            counted(usize::try_from(*count).unwrap_or(usize::MAX))?;
            let shape =
                Shape::new(inner.to_vec()).map_err(|error| CallError::new(None, error.to_string()))?;
            let size = tensor.bytes().len().checked_div(rows).unwrap_or(0);
            for row in 0..rows {
                let is_present = present.as_ref().is_none_or(|present| present.get(row) == Some(&true));
                let bytes = &tensor.bytes()[row * size..(row + 1) * size];
                let one = TensorRef::contiguous(tensor.dtype(), &shape, bytes)
                    .map_err(|error| CallError::new(Some(row), error.to_string()))?;
                push(row, is_present.then_some(one))?;
            }
        }
    }
    builder.finish().map_err(wrong)
}
