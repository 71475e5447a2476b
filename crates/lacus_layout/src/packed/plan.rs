//! Which way suits the arrays of a tensor: tried on a sample.

use lacus_tensor::DType;
use pco::{DeltaSpec, ModeSpec};

use crate::error::LayoutError;
use crate::packed::frame::{Effort, Packer, Plan, classic};

/// Numbers that are packed for a decision: enough for a distribution and for repetitions.
const SAMPLE: usize = 4 << 10;

impl Plan {
    /// Packs some of the integers both ways.
    pub(crate) fn for_ints(ints: &[u64], effort: Effort, packer: &mut Packer) -> Result<Plan, LayoutError> {
        let sample = &ints[..ints.len().min(SAMPLE)];
        // The quickest way first: a later one has to be clearly better.
        let plans = match effort {
            Effort::Quick => [Plan::Varints, Plan::Zstd, Plan::plain(effort)],
            Effort::Small => [Plan::plain(effort), Plan::Zstd, Plan::Varints],
        };
        Plan::best(plans, effort, |plan, out| packer.write_ints(sample, plan, out))
    }

    /// About how many bytes integers take, packed the better way.
    pub(crate) fn bytes_of_ints(
        ints: &[u64],
        effort: Effort,
        packer: &mut Packer,
    ) -> Result<usize, LayoutError> {
        let plan = Plan::for_ints(ints, effort, packer)?;
        // What a part of them takes stands for all.
        let sample = &ints[..ints.len().min(SAMPLE)];
        let mut packed = Vec::new();
        packer.write_ints(sample, &plan, &mut packed)?;
        Ok((packed.len() as u128 * ints.len() as u128 / sample.len().max(1) as u128) as usize)
    }

    /// Packs some of the elements every way that may suit them.
    pub(crate) fn for_values(
        dtype: DType,
        values: &[u8],
        effort: Effort,
        packer: &mut Packer,
    ) -> Result<Plan, LayoutError> {
        let sample = &values[..values.len().min(SAMPLE * dtype.size_bytes())];
        let plain = || classic(effort);
        // zstd is the quickest on values, most of which are often the same.
        let mut plans = vec![Plan::Zstd, Plan::plain(effort)];
        if matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128) {
            // Multiples of a decimal fraction, rounded numbers, counts kept as floats.
            plans.push(Plan::Pco(plain().with_mode_spec(ModeSpec::Auto)));
            plans.push(Plan::Pco(plain().with_mode_spec(ModeSpec::TryFloatMult(1.0))));
        }
        // Values that follow each other smoothly.
        plans.push(Plan::Pco(plain().with_delta_spec(DeltaSpec::TryConsecutive(1))));
        Plan::best(plans, effort, |plan, out| packer.write_values(dtype, sample, plan, out))
    }

    fn best(
        plans: impl IntoIterator<Item = Plan>,
        effort: Effort,
        mut pack: impl FnMut(&Plan, &mut Vec<u8>) -> Result<(), LayoutError>,
    ) -> Result<Plan, LayoutError> {
        let mut best = (Plan::Zstd, usize::MAX);
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
        Ok(best.0)
    }
}
