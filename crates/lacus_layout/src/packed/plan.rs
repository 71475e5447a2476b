//! Which way suits the arrays of a tensor: tried on a sample.

use std::borrow::Cow;

use lacus_tensor::DType;
use pco::{DeltaSpec, ModeSpec};

use crate::error::LayoutError;
use crate::packed::arrays::are_counts;
use crate::packed::frame::{Effort, Packer, Plan, Repeats, TRY_ALL_BELOW, classic};

/// Numbers that are packed for a decision: enough for a distribution and for repetitions.
const SAMPLE: usize = 4 << 10;

/// They are taken from this many places, since what comes first is seldom like the rest: the hours of a day
/// begin at night. Where only size counts, from one: a cut hides how well they repeat.
fn places(effort: Effort) -> usize {
    match effort {
        Effort::Quick => 4,
        Effort::Small => 1,
    }
}

impl Plan {
    /// Packs some of the integers both ways.
    pub(crate) fn for_ints(ints: &[u64], effort: Effort, packer: &mut Packer) -> Result<Plan, LayoutError> {
        Ok(Plan::best_for_ints(&sample(ints, 1, effort), effort, packer)?.0)
    }

    /// The better way for these integers, and the bytes they take by it.
    fn best_for_ints(
        ints: &[u64],
        effort: Effort,
        packer: &mut Packer,
    ) -> Result<(Plan, usize), LayoutError> {
        // The quickest way first: a later one has to be clearly better.
        // Any plan tries every way on a few, which leaves open what suits more of them.
        let few = ints.len() < TRY_ALL_BELOW;
        let plans = match effort {
            Effort::Quick if few => vec![Plan::Varints(Repeats::Sought)],
            Effort::Small if few => vec![Plan::plain(effort)],
            Effort::Quick => vec![
                Plan::Varints(Repeats::Ignored),
                Plan::Varints(Repeats::Sought),
                Plan::Zstd(Repeats::Sought),
                Plan::plain(effort),
            ],
            Effort::Small => {
                vec![Plan::plain(effort), Plan::Zstd(Repeats::Sought), Plan::Varints(Repeats::Sought)]
            }
        };
        Plan::best(plans, effort, |plan, out| packer.write_ints(ints, plan, out))
    }

    /// About how many bytes integers take, packed the better way.
    pub(crate) fn bytes_of_ints(
        ints: &[u64],
        effort: Effort,
        packer: &mut Packer,
    ) -> Result<usize, LayoutError> {
        // What a part of them takes stands for all.
        let sample = sample(ints, 1, effort);
        let (_, bytes) = Plan::best_for_ints(&sample, effort, packer)?;
        Ok((bytes as u128 * ints.len() as u128 / sample.len().max(1) as u128) as usize)
    }

    /// Packs some of the elements every way that may suit them.
    pub(crate) fn for_values(
        dtype: DType,
        values: &[u8],
        effort: Effort,
        packer: &mut Packer,
    ) -> Result<Plan, LayoutError> {
        Ok(Plan::best_for_values(dtype, &sample(values, dtype.size_bytes(), effort), effort, packer)?.0)
    }

    /// About how many bytes elements take, packed the best way.
    pub(crate) fn bytes_of_values(
        dtype: DType,
        values: &[u8],
        effort: Effort,
        packer: &mut Packer,
    ) -> Result<f64, LayoutError> {
        let sample = sample(values, dtype.size_bytes(), effort);
        let (_, bytes) = Plan::best_for_values(dtype, &sample, effort, packer)?;
        Ok(bytes as f64 * values.len() as f64 / sample.len().max(1) as f64)
    }

    fn best_for_values(
        dtype: DType,
        values: &[u8],
        effort: Effort,
        packer: &mut Packer,
    ) -> Result<(Plan, usize), LayoutError> {
        let plain = || classic(effort);
        let are_counts = are_counts(dtype, values);
        // zstd is the quickest on values, most of which are often the same.
        let mut plans = vec![Plan::Zstd(Repeats::Sought), Plan::plain(effort)];
        if effort == Effort::Quick && values.len() >= TRY_ALL_BELOW * dtype.size_bytes() {
            plans.insert(0, Plan::Zstd(Repeats::Ignored));
        }
        if !are_counts && matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128) {
            // Multiples of a decimal fraction, rounded numbers, counts kept as floats.
            plans.push(Plan::Pco(plain().with_mode_spec(ModeSpec::Auto)));
            plans.push(Plan::Pco(plain().with_mode_spec(ModeSpec::TryFloatMult(1.0))));
        }
        if !are_counts {
            // Values that follow each other smoothly.
            plans.push(Plan::Pco(plain().with_delta_spec(DeltaSpec::TryConsecutive(1))));
        }
        Plan::best(plans, effort, |plan, out| packer.write_values(dtype, values, plan, out))
    }

    fn best(
        plans: impl IntoIterator<Item = Plan>,
        effort: Effort,
        mut pack: impl FnMut(&Plan, &mut Vec<u8>) -> Result<(), LayoutError>,
    ) -> Result<(Plan, usize), LayoutError> {
        let mut best = (Plan::Zstd(Repeats::Sought), usize::MAX);
        let margin = match effort {
            Effort::Quick => 5,
            Effort::Small => 64,
        };
        let mut out = Vec::new();
        for plan in plans {
            out.clear();
            pack(&plan, &mut out)?;
            // A later plan has to be clearly better: it costs more time, or suits the sample by chance.
            if out.len() < best.1 - best.1 / margin {
                best = (plan, out.len());
            }
        }
        Ok(best)
    }
}

/// Some of the numbers, which are `width` items each.
fn sample<T: Copy>(numbers: &[T], width: usize, effort: Effort) -> Cow<'_, [T]> {
    let count = numbers.len() / width;
    if count <= SAMPLE {
        return Cow::Borrowed(numbers);
    }
    let places = places(effort);
    let piece = SAMPLE / places;
    let starts = (0..places).map(|k| (count - piece) * k / (places - 1).max(1));
    Cow::Owned(starts.flat_map(|at| &numbers[at * width..(at + piece) * width]).copied().collect())
}
