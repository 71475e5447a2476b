//! Which way suits the arrays of a tensor: tried on a sample.

use lacus_tensor::DType;
use pco::{ChunkConfig, DeltaSpec, ModeSpec};

use crate::error::LayoutError;
use crate::packed::frame::{Packer, Plan, classic};

impl Plan {
    /// Packs sampled integers both ways.
    pub(crate) fn for_ints(sample: &[u64], packer: &mut Packer) -> Result<Plan, LayoutError> {
        Ok(Plan::best([Plan::default(), Plan { pco: None }], |plan, out| {
            packer.write_ints(sample, plan, out)
        })?
        .0)
    }

    /// How many bytes integers take, packed the better way.
    pub(crate) fn bytes_of_ints(ints: &[u64], packer: &mut Packer) -> Result<usize, LayoutError> {
        Ok(Plan::best([Plan::default(), Plan { pco: None }], |plan, out| packer.write_ints(ints, plan, out))?
            .1)
    }

    /// Packs sampled elements every way that may suit them.
    pub(crate) fn for_values(dtype: DType, sample: &[u8], packer: &mut Packer) -> Result<Plan, LayoutError> {
        let mut plans = vec![Plan::default(), Plan { pco: None }];
        if matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128) {
            // Multiples of a decimal fraction, rounded numbers, counts kept as floats.
            let auto = ChunkConfig::default().with_delta_spec(DeltaSpec::NoOp);
            plans.push(Plan { pco: Some(auto) });
            plans.push(Plan { pco: Some(classic().with_mode_spec(ModeSpec::TryFloatMult(1.0))) });
        }
        // Values that follow each other smoothly.
        plans.push(Plan { pco: Some(classic().with_delta_spec(DeltaSpec::TryConsecutive(1))) });
        Ok(Plan::best(plans, |plan, out| packer.write_values(dtype, sample, plan, out))?.0)
    }

    fn best(
        plans: impl IntoIterator<Item = Plan>,
        mut pack: impl FnMut(&Plan, &mut Vec<u8>) -> Result<(), LayoutError>,
    ) -> Result<(Plan, usize), LayoutError> {
        let mut best = (Plan::default(), usize::MAX);
        let mut out = Vec::new();
        for plan in plans {
            out.clear();
            pack(&plan, &mut out)?;
            // A later plan has to be clearly better: it costs more time, or suits the sample by chance.
            if out.len() < best.1 - best.1 / 64 {
                best = (plan, out.len());
            }
        }
        Ok(best)
    }
}
