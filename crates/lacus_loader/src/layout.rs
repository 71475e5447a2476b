//! How the samples of a column become one value of a batch: decided before anything is decoded.

use std::borrow::Cow;

use lacus_tensor::{DType, ErrorKind};

use crate::batch::BatchRow;
use crate::error::LoaderError;
use crate::settings::{Collate, ColumnPlan, Missing};

/// What is known of a sample before it is decoded.
#[derive(Clone, Debug)]
pub(crate) enum Fact<'a> {
    Missing,
    /// A tensor.
    Tensor {
        dtype: DType,
        shape: Cow<'a, [u64]>,
    },
    /// Something else, or a tensor of which only decoding tells more.
    Other,
    /// It cannot be decoded.
    Failed {
        kind: ErrorKind,
        why: String,
    },
}

/// Where samples go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All have this dtype and shape.
    Stack { dtype: DType, shape: Vec<u64> },
    /// All have this dtype and at most this shape; masks are of so many leading axes.
    Pad { dtype: DType, shape: Vec<u64>, mask_rank: usize },
    /// All have this dtype and this shape behind the first axis.
    Nested { dtype: DType, rest: Vec<u64> },
    /// One by one.
    List,
}

/// The layout of a column of a batch. `fixed` is the shape that samples have when nothing else tells, `declared` the sizes that all
/// samples of the column share.
pub(crate) fn layout(
    plan: &ColumnPlan,
    rows: &[BatchRow],
    facts: &[Fact<'_>],
    fixed: Option<(DType, Vec<u64>)>,
    declared: Option<&[Option<u64>]>,
) -> Result<Layout, LoaderError> {
    let collated = |why: String| LoaderError::Collate { column: plan.name.clone(), why };
    let says = match plan.collate {
        Collate::List => return Ok(Layout::List),
        Collate::Auto => None,
        Collate::Stack => Some("stack"),
        Collate::Pad => Some("pad"),
        Collate::Nested => Some("nested"),
    };
    let mut first: Option<(usize, DType, &[u64])> = None;
    let mut tensors: Vec<(usize, DType, &[u64])> = Vec::with_capacity(facts.len());
    for (i, fact) in facts.iter().enumerate() {
        match fact {
            Fact::Tensor { dtype, shape } => {
                tensors.push((i, *dtype, shape));
                first.get_or_insert((i, *dtype, shape));
            }
            Fact::Other => match says {
                None => return Ok(Layout::List),
                Some(says) => {
                    let why =
                        format!("its samples are not tensors, which collate={says:?} needs; use \"list\"");
                    return Err(collated(why));
                }
            },
            Fact::Missing if plan.missing == Missing::Keep && plan.collate != Collate::Pad => match says {
                None => return Ok(Layout::List),
                Some(says) => {
                    let why = format!(
                        "row {} of the view (id {}) has no sample, which collate={says:?} needs; say missing=\"skip\", or give a value",
                        rows[i].place, rows[i].id
                    );
                    return Err(collated(why));
                }
            },
            Fact::Missing | Fact::Failed { .. } => {}
        }
    }
    let Some((at, dtype, shape)) = first else {
        // Nothing is known of any sample: what the column declares, or nothing at all.
        return match (fixed, plan.collate) {
            (Some((dtype, shape)), Collate::Auto | Collate::Stack) => Ok(Layout::Stack { dtype, shape }),
            (Some((dtype, shape)), Collate::Pad) => {
                Ok(Layout::Pad { dtype, mask_rank: shape.len().min(1), shape })
            }
            _ => Ok(Layout::List),
        };
    };
    let name = |i: usize| format!("row {} of the view (id {})", rows[i].place, rows[i].id);
    let told = |i: usize, dtype: DType, shape: &[u64]| {
        format!("{} has {dtype} of shape {}", name(i), shape_text(shape))
    };
    let other = |i: usize, d: DType, s: &[u64], says: &str, help: &str| {
        collated(format!("{}, but {}: they cannot be {says}; {help}", told(at, dtype, shape), told(i, d, s)))
    };
    match plan.collate {
        Collate::Auto | Collate::Stack | Collate::List => {
            match tensors.iter().find(|(_, d, s)| (*d, *s) != (dtype, shape)) {
                None => Ok(Layout::Stack { dtype, shape: shape.to_vec() }),
                Some(_) if plan.collate == Collate::Auto => Ok(Layout::List),
                Some((i, d, s)) => {
                    Err(other(*i, *d, s, "stacked", "use collate=\"pad\", \"nested\" or \"list\""))
                }
            }
        }
        Collate::Pad => {
            let mut largest = shape.to_vec();
            for (i, d, s) in &tensors {
                if *d != dtype || s.len() != shape.len() {
                    return Err(other(*i, *d, s, "padded", "padding needs one dtype and one number of axes"));
                }
                largest.iter_mut().zip(*s).for_each(|(large, size)| *large = (*large).max(*size));
            }
            let free =
                declared.filter(|d| d.len() == shape.len()).and_then(|d| d.iter().rposition(Option::is_none));
            let mask_rank = match (declared, free) {
                (Some(declared), None) if declared.len() == shape.len() => shape.len().min(1),
                (_, Some(free)) => free + 1,
                (_, None) => shape.len(),
            };
            Ok(Layout::Pad { dtype, shape: largest, mask_rank })
        }
        Collate::Nested => {
            let wrong = tensors
                .iter()
                .find(|(_, d, s)| *d != dtype || s.is_empty() || s[1..] != shape[1.min(shape.len())..]);
            if let Some((i, d, s)) = wrong {
                return Err(other(*i, *d, s, "nested", "all axes but the first must be equal"));
            }
            Ok(Layout::Nested { dtype, rest: shape[1..].to_vec() })
        }
    }
}

fn shape_text(shape: &[u64]) -> String {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    match sizes.as_slice() {
        [one] => format!("({one},)"),
        all => format!("({})", all.join(", ")),
    }
}

/// An element of a dtype with a value, as far as it can have that.
pub(crate) fn element(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::Bool => vec![u8::from(value != 0.0)],
        DType::U8 => (value as u8).to_le_bytes().to_vec(),
        DType::I8 => (value as i8).to_le_bytes().to_vec(),
        DType::U16 => (value as u16).to_le_bytes().to_vec(),
        DType::I16 => (value as i16).to_le_bytes().to_vec(),
        DType::U32 => (value as u32).to_le_bytes().to_vec(),
        DType::I32 => (value as i32).to_le_bytes().to_vec(),
        DType::U64 => (value as u64).to_le_bytes().to_vec(),
        DType::I64 => (value as i64).to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::C64 => [(value as f32).to_le_bytes(), [0; 4]].concat(),
        DType::C128 => [value.to_le_bytes(), [0; 8]].concat(),
    }
}

/// Fills memory with one element.
pub(crate) fn fill(out: &mut [u8], element: &[u8]) {
    if element.iter().all(|byte| *byte == 0) {
        out.fill(0);
        return;
    }
    out.chunks_mut(element.len()).for_each(|one| one.copy_from_slice(&element[..one.len()]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: u64) -> Vec<BatchRow> {
        (0..count).map(|i| BatchRow { source: 0, place: i, id: 10 + i, position: i }).collect()
    }

    fn tensor(shape: &[u64]) -> Fact<'static> {
        Fact::Tensor { dtype: DType::F32, shape: shape.to_vec().into() }
    }

    #[test]
    fn shapes_decide() {
        let plan = |collate| ColumnPlan { collate, ..ColumnPlan::new("x") };
        let check = |collate, facts: &[Fact<'_>]| {
            layout(&plan(collate), &rows(facts.len() as u64), facts, None, None)
        };
        let stack = |shape: &[u64]| Layout::Stack { dtype: DType::F32, shape: shape.to_vec() };
        assert_eq!(check(Collate::Auto, &[tensor(&[2]), tensor(&[2])]).unwrap(), stack(&[2]));
        assert_eq!(check(Collate::Auto, &[tensor(&[2]), tensor(&[3])]).unwrap(), Layout::List);
        assert_eq!(check(Collate::Auto, &[tensor(&[2]), Fact::Missing]).unwrap(), Layout::List);
        let error = check(Collate::Stack, &[tensor(&[2]), tensor(&[3, 4])]).unwrap_err().to_string();
        assert_eq!(
            error,
            "column \"x\": row 0 of the view (id 10) has float32 of shape (2,), but row 1 of the view (id 11) has float32 of \
             shape (3, 4): they cannot be stacked; use collate=\"pad\", \"nested\" or \"list\""
        );
        let padded = check(Collate::Pad, &[tensor(&[2, 5]), tensor(&[3, 4]), Fact::Missing]).unwrap();
        assert_eq!(padded, Layout::Pad { dtype: DType::F32, shape: vec![3, 5], mask_rank: 2 });
        let nested = check(Collate::Nested, &[tensor(&[2, 5]), tensor(&[3, 5])]).unwrap();
        assert_eq!(nested, Layout::Nested { dtype: DType::F32, rest: vec![5] });
        assert!(check(Collate::Nested, &[tensor(&[]), tensor(&[])]).is_err());
        assert!(check(Collate::Stack, &[Fact::Other]).unwrap_err().to_string().contains("not tensors"));
    }

    #[test]
    fn masks_leave_out_what_is_declared() {
        let plan = ColumnPlan { collate: Collate::Pad, ..ColumnPlan::new("x") };
        let facts = [tensor(&[2, 5]), tensor(&[3, 5])];
        let rank = |declared: Option<&[Option<u64>]>| match layout(&plan, &rows(2), &facts, None, declared) {
            Ok(Layout::Pad { mask_rank, .. }) => mask_rank,
            other => panic!("{other:?}"),
        };
        assert_eq!(rank(None), 2);
        assert_eq!(rank(Some(&[None, Some(5)])), 1);
        assert_eq!(rank(Some(&[None, None])), 2);
    }

    #[test]
    fn elements_have_their_dtype() {
        assert_eq!(element(DType::I16, -1.0), [255, 255]);
        assert_eq!(element(DType::U8, 7.0), [7]);
        assert_eq!(element(DType::F32, -1.0), (-1f32).to_le_bytes());
        let mut out = [9u8; 4];
        fill(&mut out, &element(DType::I16, -1.0));
        assert_eq!(out, [255; 4]);
    }
}
