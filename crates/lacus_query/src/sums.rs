//! `sum` of whole numbers that does not wrap around: a sum that does not fit is an error.
//!
//! Everything else about it is DataFusion's.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{DataType, FieldRef, Int64Type, UInt64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};

/// The aggregate.
pub(crate) fn exact_sum() -> Arc<AggregateUDF> {
    Arc::new(ExactSum { inner: Sum::new() }.into())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactSum {
    inner: Sum,
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match (args.is_distinct, args.return_field.data_type()) {
            (false, DataType::Int64) => Ok(Box::new(OfAll::<Int64Type>::default())),
            (false, DataType::UInt64) => Ok(Box::new(OfAll::<UInt64Type>::default())),
            _ => self.inner.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match (args.is_distinct, args.return_field.data_type()) {
            (false, DataType::Int64) => Ok(Box::new(OfAll::<Int64Type>::default())),
            (false, DataType::UInt64) => Ok(Box::new(OfAll::<UInt64Type>::default())),
            _ => self.inner.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Int64 => Ok(Box::new(OfGroups::<Int64Type>::default())),
            DataType::UInt64 => Ok(Box::new(OfGroups::<UInt64Type>::default())),
            _ => self.inner.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Whole numbers of 64 bits.
trait Whole: ArrowPrimitiveType<Native: Into<i128> + TryFrom<i128>> {}

impl<T: ArrowPrimitiveType<Native: Into<i128> + TryFrom<i128>>> Whole for T {}

fn fitting<T: Whole>(sum: i128) -> Result<T::Native> {
    T::Native::try_from(sum).map_err(|_| {
        DataFusionError::Execution(format!(
            "sum: {sum} does not fit into {}; sum doubles, as in sum(x::double), or decimals, as in sum(x::decimal(38, 0))",
            T::DATA_TYPE
        ))
    })
}

/// The sum of all values, or of those in a window.
struct OfAll<T> {
    sum: i128,
    /// How many values it has.
    count: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Default for OfAll<T> {
    fn default() -> OfAll<T> {
        OfAll { sum: 0, count: 0, of: PhantomData }
    }
}

impl<T> fmt::Debug for OfAll<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sum {} of {}", self.sum, self.count)
    }
}

/// The sum of an array, and how many values it has.
fn summed<T: Whole>(array: &ArrayRef) -> (i128, u64) {
    let values = array.as_primitive::<T>();
    let count = values.len() - values.null_count();
    let sum = match values.null_count() {
        0 => values.values().iter().map(|value| (*value).into()).sum(),
        _ => values.iter().flatten().map(Into::into).sum(),
    };
    (sum, count as u64)
}

impl<T: Whole> Accumulator for OfAll<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = summed::<T>(&values[0]);
        self.sum += sum;
        self.count += count;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = summed::<T>(&values[0]);
        self.sum -= sum;
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = (self.count > 0).then(|| fitting::<T>(self.sum)).transpose()?;
        ScalarValue::new_primitive::<T>(sum, &T::DATA_TYPE)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sums of groups.
struct OfGroups<T> {
    sums: Vec<i128>,
    /// Whether a group has values.
    has_values: Vec<bool>,
    of: PhantomData<fn() -> T>,
}

impl<T> Default for OfGroups<T> {
    fn default() -> OfGroups<T> {
        OfGroups { sums: Vec::new(), has_values: Vec::new(), of: PhantomData }
    }
}

impl<T: Whole> GroupsAccumulator for OfGroups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, 0);
        self.has_values.resize(total, false);
        let values = values[0].as_primitive::<T>();
        if values.null_count() == 0 && filter.is_none() {
            for (group, value) in groups.iter().zip(values.values()) {
                self.sums[*group] += (*value).into();
                self.has_values[*group] = true;
            }
            return Ok(());
        }
        for (row, group) in groups.iter().enumerate() {
            let is_wanted = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if is_wanted && values.is_valid(row) {
                self.sums[*group] += values.value(row).into();
                self.has_values[*group] = true;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let sums = emit.take_needed(&mut self.sums);
        let has_values = emit.take_needed(&mut self.has_values);
        let sums = sums.into_iter().zip(has_values);
        let sums = sums.map(|(sum, has_values)| has_values.then(|| fitting::<T>(sum)).transpose());
        Ok(Arc::new(sums.collect::<Result<PrimitiveArray<T>>>()?))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let Some(filter) = filter else { return Ok(vec![Arc::new(values.clone())]) };
        let kept =
            values.iter().zip(filter).map(|(value, is_wanted)| value.filter(|_| is_wanted == Some(true)));
        Ok(vec![Arc::new(kept.collect::<PrimitiveArray<T>>())])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.has_values.capacity()
    }
}
