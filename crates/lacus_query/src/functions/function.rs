//! What every function has in common: a name, a page of reference, a type for its result, and a loop over rows.
//!
//! ```text
//! fields, constants ─Body::plan→ Field          arrays ─Body::run→ array
//! ```
//!
//! A null among the arguments makes a null. Some names belong to DataFusion as well (`abs`, `round`, `concat`): for arguments that
//! are no tensors and no files they are DataFusion's function in every respect.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use lacus_tensor::{DType, Tensor, TensorError};

use super::NOT_A_TENSOR;
use crate::tensors::{Dims, Kind, TensorArray, TensorBuilder, TensorType};

/// What a function does.
pub(crate) trait Body: fmt::Debug + Send + Sync {
    /// The field of the result. Fails if the arguments are of types that do not fit.
    fn plan(&self, call: &Planned<'_>) -> Result<Field>;

    /// The result, one row per row of the arguments.
    fn run(&self, call: &Call) -> Result<ArrayRef>;
}

/// A function, with its page of reference.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    /// Names of the parameters, joined by commas. One that may be left out ends with `?`, one that may be repeated with `…`.
    pub(crate) parameters: &'static str,
    pub(crate) about: &'static str,
    pub(crate) example: &'static str,
    /// DataFusion's function of this name.
    pub(crate) plain: Option<fn() -> Arc<ScalarUDF>>,
    /// Whether it is ours for plain numbers all the same.
    pub(crate) takes_numbers: bool,
    pub(crate) body: Box<dyn Body>,
}

impl Function {
    /// A function without aliases, whose name is ours alone.
    pub(crate) fn new(
        name: &'static str,
        parameters: &'static str,
        about: &'static str,
        example: &'static str,
        body: impl Body + 'static,
    ) -> Function {
        Function {
            name,
            aliases: &[],
            parameters,
            about,
            example,
            plain: None,
            takes_numbers: false,
            body: Box::new(body),
        }
    }

    pub(crate) fn aliases(self, aliases: &'static [&'static str]) -> Function {
        Function { aliases, ..self }
    }

    pub(crate) fn plain(self, plain: fn() -> Arc<ScalarUDF>) -> Function {
        Function { plain: Some(plain), ..self }
    }

    /// Of plain numbers it is ours, too.
    pub(crate) fn of_numbers(self) -> Function {
        Function { takes_numbers: true, ..self }
    }

    fn arity(&self) -> (usize, usize) {
        let parameters: Vec<&str> = self.parameters.split(", ").filter(|name| !name.is_empty()).collect();
        let least = parameters.iter().filter(|name| !name.ends_with(['?', '…'])).count();
        let most = match self.parameters.ends_with('…') {
            true => usize::MAX,
            false => parameters.len(),
        };
        (least, most)
    }

    /// As DataFusion takes it, on a page of this title.
    pub(crate) fn into_udf(self, title: &'static str) -> ScalarUDF {
        let mut signature = Signature::user_defined(Volatility::Immutable);
        if self.plain.is_none() && !self.parameters.ends_with('…') {
            let names = self.parameters.split(", ").filter(|name| !name.is_empty());
            let names: Vec<&str> = names.map(|name| name.trim_end_matches('?')).collect();
            // Fails for a name that is there twice only, and then there are no names.
            signature = signature.clone().with_parameter_names(names).unwrap_or(signature);
        }
        let aliases = self.aliases.iter().map(|alias| (*alias).to_owned()).collect();
        let mut about = self.about.to_owned();
        if self.plain.is_some() {
            about.push_str(" For plain numbers and text it is the function of SQL.");
        }
        let section = DocSection { include: true, label: title, description: None };
        let syntax = format!("{}({})", self.name, shown_parameters(self.parameters));
        let documentation =
            Documentation::builder(section, about, syntax).with_sql_example(self.example).build();
        ScalarUDF::new_from_impl(Udf { function: Arc::new(self), signature, aliases, documentation })
    }
}

/// `x, axis?` as `x[, axis]`.
fn shown_parameters(parameters: &str) -> String {
    let mut shown = String::new();
    for (at, name) in parameters.split(", ").enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        match name.strip_suffix('?') {
            Some(name) => shown.push_str(&format!("[{comma}{name}]")),
            None => shown.push_str(&format!("{comma}{name}")),
        }
    }
    shown
}

/// A function of ours among those of DataFusion.
#[derive(Clone, Debug)]
struct Udf {
    function: Arc<Function>,
    signature: Signature,
    aliases: Vec<String>,
    documentation: Documentation,
}

impl PartialEq for Udf {
    fn eq(&self, other: &Udf) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for Udf {}

impl Hash for Udf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl Udf {
    /// DataFusion's function, if that is the one to call.
    fn plain(&self, fields: &[FieldRef]) -> Option<Arc<ScalarUDF>> {
        let plain = self.function.plain?;
        let is_ours =
            |field: &FieldRef| matches!(Kind::of(field), Kind::Tensor(_) | Kind::Media { .. } | Kind::List);
        let are_numbers = self.function.takes_numbers
            && fields.iter().all(|field| matches!(Kind::of(field), Kind::Number(_)));
        (!are_numbers && !fields.iter().any(is_ours)).then(plain)
    }
}

impl ScalarUDFImpl for Udf {
    fn name(&self) -> &str {
        self.function.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{}: the type follows from fields", self.function.name)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let (name, (least, most)) = (self.function.name, self.function.arity());
        let is_nested = |data_type: &DataType| data_type.is_nested();
        let are_numbers = self.function.takes_numbers && arg_types.iter().all(DataType::is_numeric);
        if let Some(plain) = self.function.plain
            && !arg_types.iter().any(is_nested)
            && !are_numbers
        {
            let fields: Vec<FieldRef> =
                arg_types.iter().map(|of| Arc::new(Field::new("f", of.clone(), true))).collect();
            let coerced = fields_with_udf(&fields, plain().as_ref());
            // Binary values may be files, which are not coerced.
            let may_be_files = arg_types.iter().any(DataType::is_binary);
            return match coerced {
                Ok(fields) => {
                    let coerced: Vec<DataType> =
                        fields.iter().map(|field| field.data_type().clone()).collect();
                    Ok(if may_be_files { arg_types.to_vec() } else { coerced })
                }
                Err(_) if may_be_files => Ok(arg_types.to_vec()),
                Err(error) => Err(error),
            };
        }
        if arg_types.len() < least || arg_types.len() > most {
            let expected = match (least, most) {
                (least, usize::MAX) => format!("at least {least}"),
                (least, most) if least == most => least.to_string(),
                (least, most) => format!("{least} to {most}"),
            };
            return plan_err!("{name}: expected {expected} arguments, found {}", arg_types.len());
        }
        Ok(arg_types.to_vec())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(plain) = self.plain(args.arg_fields) {
            return plain.return_field_from_args(args);
        }
        let name = self.function.name;
        let call = Planned { name, fields: args.arg_fields, constants: args.scalar_arguments };
        self.function.body.plan(&call).map(Arc::new)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(plain) = self.plain(&args.arg_fields) {
            return plain.invoke_with_args(args);
        }
        let all_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let mut arrays = Vec::with_capacity(args.args.len());
        let mut constants = Vec::with_capacity(args.args.len());
        for arg in args.args {
            match arg {
                ColumnarValue::Array(array) => {
                    arrays.push(array);
                    constants.push(None);
                }
                ColumnarValue::Scalar(scalar) => {
                    arrays.push(scalar.to_array()?);
                    constants.push(Some(scalar));
                }
            }
        }
        let call = Call {
            name: self.function.name,
            arrays,
            constants,
            fields: args.arg_fields,
            rows: if all_constant { 1 } else { args.number_rows },
            output: args.return_field,
        };
        let result = self.function.body.run(&call)?;
        match all_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}

/// An argument as a tensor, as far as it is known without values.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) dtype: DType,
    pub(crate) dims: Dims,
    /// A literal of SQL, which takes the dtype of what it meets, as Python's numbers do.
    pub(crate) is_weak: bool,
}

/// A call, before there are values.
pub(crate) struct Planned<'a> {
    pub(crate) name: &'static str,
    pub(crate) fields: &'a [FieldRef],
    constants: &'a [Option<&'a ScalarValue>],
}

impl Planned<'_> {
    /// How many arguments there are.
    pub(crate) fn count(&self) -> usize {
        self.fields.len()
    }

    /// What an argument is.
    pub(crate) fn kind(&self, at: usize) -> Kind {
        Kind::of(&self.fields[at])
    }

    /// What an argument is called in messages.
    pub(crate) fn describe(&self, at: usize) -> String {
        self.kind(at).describe(&self.fields[at])
    }

    /// An argument as a tensor. Numbers, lists of numbers and files are taken, too.
    pub(crate) fn operand(&self, at: usize) -> Result<Operand> {
        let field = &self.fields[at];
        if field.data_type() == &DataType::Null {
            return Ok(Operand { dtype: DType::F64, dims: Dims::Fixed(Vec::new()), is_weak: true });
        }
        match TensorArray::type_of(field) {
            Some(TensorType { dtype, dims }) => {
                let is_weak =
                    self.constants[at].is_some_and(is_weak) && matches!(self.kind(at), Kind::Number(_));
                Ok(Operand { dtype, dims, is_weak })
            }
            None => plan_err!("{}: expected a tensor or numbers, found {}", self.name, self.describe(at)),
        }
    }

    /// Like [`Planned::operand`], for functions whose name means something else for plain numbers and text.
    pub(crate) fn tensor(&self, at: usize) -> Result<TensorType> {
        let is_constant_list = || self.constants[at].is_some() && matches!(self.kind(at), Kind::List);
        match self.kind(at) {
            Kind::Tensor(_) | Kind::Media { .. } => {}
            _ if is_constant_list() => {}
            kind => return plan_err!("{NOT_A_TENSOR}: {} of {}", self.name, kind.describe(&self.fields[at])),
        }
        self.operand(at).map(|Operand { dtype, dims, .. }| TensorType { dtype, dims })
    }

    /// A constant, if the argument is given and is one.
    pub(crate) fn constant(&self, at: usize) -> Option<&ScalarValue> {
        self.constants.get(at).copied().flatten()
    }

    /// A constant integer; `None` if the argument is left out or NULL.
    pub(crate) fn constant_int(&self, at: usize, what: &str) -> Result<Option<i64>> {
        if at >= self.count() || self.fields[at].data_type() == &DataType::Null {
            return Ok(None);
        }
        match self.constant(at).map(|scalar| scalar.cast_to(&DataType::Int64)) {
            Some(Ok(ScalarValue::Int64(value))) if self.fields[at].data_type().is_integer() => Ok(value),
            _ => plan_err!("{}: {what} must be a constant integer", self.name),
        }
    }

    /// A constant text; `None` if the argument is left out or NULL.
    pub(crate) fn constant_text(&self, at: usize, what: &str) -> Result<Option<String>> {
        if at >= self.count() || self.fields[at].data_type() == &DataType::Null {
            return Ok(None);
        }
        match self.constant(at).and_then(|scalar| scalar.try_as_str()) {
            Some(text) => Ok(text.map(str::to_owned)),
            None => plan_err!("{}: {what} must be a constant text", self.name),
        }
    }

    /// Fails unless an argument that is given is an integer.
    pub(crate) fn expect_integer(&self, at: usize, what: &str) -> Result<()> {
        match self.fields[at].data_type() {
            DataType::Null => Ok(()),
            other if other.is_integer() => Ok(()),
            _ => plan_err!("{}: {what} must be an integer, found {}", self.name, self.describe(at)),
        }
    }

    /// Fails unless an argument that is given is a plain number.
    pub(crate) fn expect_number(&self, at: usize, what: &str) -> Result<()> {
        match self.kind(at) {
            Kind::Null | Kind::Number(_) => Ok(()),
            _ => plan_err!("{}: {what} must be a number, found {}", self.name, self.describe(at)),
        }
    }

    /// A field of tensors, named after the function.
    pub(crate) fn field(&self, dtype: DType, dims: Dims) -> Result<Field> {
        TensorType { dtype, dims }.field(self.name)
    }

    /// A field of plain values, named after the function.
    pub(crate) fn plain_field(&self, data_type: DataType) -> Field {
        Field::new(self.name, data_type, true)
    }
}

fn is_weak(scalar: &ScalarValue) -> bool {
    matches!(scalar, ScalarValue::Int64(_) | ScalarValue::Float64(_))
}

/// A call with its values.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    arrays: Vec<ArrayRef>,
    constants: Vec<Option<ScalarValue>>,
    pub(crate) fields: Vec<FieldRef>,
    pub(crate) rows: usize,
    pub(crate) output: FieldRef,
}

impl Call {
    pub(crate) fn count(&self) -> usize {
        self.arrays.len()
    }

    /// Whether an argument is the same for all rows.
    pub(crate) fn is_constant(&self, at: usize) -> bool {
        self.constants[at].is_some()
    }

    /// Whether an argument is a literal that takes the dtype of what it meets.
    pub(crate) fn is_weak(&self, at: usize) -> bool {
        self.constants[at].as_ref().is_some_and(is_weak)
            && matches!(Kind::of(&self.fields[at]), Kind::Number(_))
    }

    /// The tensors of an argument.
    pub(crate) fn tensors(&self, at: usize) -> Result<TensorArray> {
        let tensors = TensorArray::new(self.name, &self.arrays[at], &self.fields[at])?;
        Ok(if self.is_constant(at) { tensors.repeated() } else { tensors })
    }

    /// The values of an argument as they are, one per row.
    pub(crate) fn array(&self, at: usize) -> Result<ArrayRef> {
        match &self.constants[at] {
            Some(scalar) => scalar.to_array_of_size(self.rows),
            None => Ok(Arc::clone(&self.arrays[at])),
        }
    }

    /// Integers, one per row.
    pub(crate) fn ints(&self, at: usize) -> Result<Int64Array> {
        Ok(cast(&self.array(at)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
    }

    /// Numbers, one per row.
    pub(crate) fn doubles(&self, at: usize) -> Result<arrow::array::Float64Array> {
        Ok(cast(&self.array(at)?, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
    }

    /// Texts, one per row.
    pub(crate) fn texts(&self, at: usize) -> Result<StringArray> {
        Ok(cast(&self.array(at)?, &DataType::Utf8)?.as_string::<i32>().clone())
    }

    /// A constant, if the argument is given and is one.
    pub(crate) fn constant(&self, at: usize) -> Option<&ScalarValue> {
        self.constants.get(at)?.as_ref()
    }

    /// A constant integer; `None` if the argument is left out or NULL.
    pub(crate) fn constant_int(&self, at: usize) -> Option<i64> {
        match self.constants.get(at)?.as_ref()?.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(value)) => value,
            _ => None,
        }
    }

    /// A constant text; `None` if the argument is left out or NULL.
    pub(crate) fn constant_text(&self, at: usize) -> Option<String> {
        self.constants.get(at)?.as_ref()?.try_as_str()?.map(str::to_owned)
    }

    /// The type of the result, if it is a tensor or a number.
    pub(crate) fn output_type(&self) -> Result<TensorType> {
        match TensorArray::type_of(&self.output) {
            Some(tensor_type) => Ok(tensor_type),
            None => internal_err!("{}: {} is no tensor", self.name, self.output.data_type()),
        }
    }

    /// The result from the tensor of each row.
    pub(crate) fn build(&self, mut make: impl FnMut(usize) -> Result<Option<Tensor>>) -> Result<ArrayRef> {
        let mut builder = TensorBuilder::new(self.name, &self.output_type()?, self.rows)?;
        for row in 0..self.rows {
            let made = make(row)?;
            builder.push_option(made.as_ref().map(|tensor| tensor.as_ref()))?;
        }
        builder.finish()
    }

    /// An error about a value.
    pub(crate) fn wrong(&self, error: TensorError) -> DataFusionError {
        DataFusionError::Execution(format!("{}: {error}", self.name))
    }

    /// An error about a value.
    pub(crate) fn fail<T>(&self, why: impl fmt::Display) -> Result<T> {
        exec_err!("{}: {why}", self.name)
    }

    /// Whether any of the arguments is null in a row.
    pub(crate) fn any_null(&self, row: usize) -> bool {
        self.arrays.iter().zip(&self.constants).any(|(array, constant)| match constant {
            Some(_) => array.is_null(0) || array.data_type() == &DataType::Null,
            None => array.is_null(row) || array.data_type() == &DataType::Null,
        })
    }
}

/// An axis as numpy takes it: negative ones count from the end.
pub(crate) fn axis_of(name: &str, axis: i64, rank: usize) -> Result<usize, String> {
    let found = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(found) {
        Ok(found) if found < rank => Ok(found),
        _ => Err(format!("{name}: axis {axis} is out of bounds for a tensor with {rank} axes")),
    }
}
