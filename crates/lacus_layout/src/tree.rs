//! The packed chunk: sorted index tuples as a tree of levels, then the values.
//!
//! CSR, CSC, CSF and BSGS differ in what a level means and where chunks are cut; inside a chunk they are
//! the same thing. A level is one or several axes folded into one number, and equal leading numbers are
//! stored once:
//!
//! ```text
//! tuples  (0,2) (0,5) (0,6) (3,1)      level 0:  ids 0 3             level 1:  ids 2 5 6 | 1
//!                                                                   children    3      | 1
//! ```
//!
//! The bytes, all integers being [packed arrays](crate::packed):
//!
//! ```text
//! byte 0      high half: 1, the form's version; low half: levels - 1
//! varint      nonzeros
//! varint ×    nodes on level 0, …, levels - 2 (the last level has a node per nonzero)
//! per level   counts   children of each node of the level above, minus 1      (not on level 0)
//!             firsts   the first id below each node of the level above        (one on level 0)
//!             gaps     every other id minus its left sibling's, minus 1
//! values      one array; for complex types real parts, then imaginary parts
//! ```

use lacus_tensor::DType;

use crate::error::LayoutError;
use crate::packed::{Effort, Packer, Plan, Reader, write_varint};

const VERSION: u8 = 1;

/// The integer arrays of one level.
#[derive(Debug, Default, Clone)]
struct LevelArrays {
    counts: Vec<u64>,
    firsts: Vec<u64>,
    gaps: Vec<u64>,
}

/// How each array of a tree is packed.
#[derive(Debug, Clone)]
pub(crate) struct TreePlan {
    levels: Vec<[Plan; 3]>,
    values: Plan,
}

impl TreePlan {
    /// Decides on one sampled run of tuples and its values.
    pub(crate) fn new(
        levels: &[Vec<u64>],
        dtype: DType,
        values: &[u8],
        effort: Effort,
        packer: &mut Packer,
    ) -> Result<TreePlan, LayoutError> {
        let values = Plan::for_values(dtype, values, effort, packer)?;
        let mut plan = TreePlan { levels: Vec::new(), values };
        for arrays in split(levels) {
            plan.levels.push([
                Plan::for_ints(&arrays.counts, effort, packer)?,
                Plan::for_ints(&arrays.firsts, effort, packer)?,
                Plan::for_ints(&arrays.gaps, effort, packer)?,
            ]);
        }
        Ok(plan)
    }

    /// Everything as it is, for a tree of which there is no sample.
    pub(crate) fn plain(effort: Effort) -> TreePlan {
        TreePlan { levels: Vec::new(), values: Plan::plain(effort) }
    }
}

/// Appends the packed form of tuples (one column per level, at least one tuple, ascending, all different)
/// and of their values. The tuples are used up.
pub(crate) fn write(
    levels: &mut [Vec<u64>],
    dtype: DType,
    values: &[u8],
    plan: &TreePlan,
    packer: &mut Packer,
    out: &mut Vec<u8>,
) -> Result<(), LayoutError> {
    out.push(VERSION << 4 | (levels.len() - 1) as u8);
    write_varint(levels.first().map_or(0, Vec::len) as u64, out);
    let plain = Plan::plain(Effort::Quick);
    if let [ids] = levels {
        // The same as below, in the memory that is at hand.
        for i in (1..ids.len()).rev() {
            ids[i] -= ids[i - 1] + 1;
        }
        let [_, firsts, gaps] = plan.levels.first().map_or([&plain; 3], |plans| plans.each_ref());
        packer.write_ints(&ids[..1], firsts, out)?;
        packer.write_ints(&ids[1..], gaps, out)?;
        return packer.write_values(dtype, values, &plan.values, out);
    }
    let arrays = split(levels);
    for level in &arrays[..arrays.len() - 1] {
        write_varint((level.firsts.len() + level.gaps.len()) as u64, out);
    }
    for (l, level) in arrays.iter().enumerate() {
        for (k, array) in [&level.counts, &level.firsts, &level.gaps].into_iter().enumerate() {
            packer.write_ints(array, plan.levels.get(l).map_or(&plain, |plans| &plans[k]), out)?;
        }
    }
    packer.write_values(dtype, values, &plan.values, out)
}

/// The bytes that the integer arrays of these tuples take, each packed the better way.
pub(crate) fn index_bytes(
    levels: &[Vec<u64>],
    effort: Effort,
    packer: &mut Packer,
) -> Result<usize, LayoutError> {
    let mut bytes = 0;
    for level in split(levels) {
        for array in [&level.counts, &level.firsts, &level.gaps] {
            bytes += Plan::bytes_of_ints(array, effort, packer)?;
        }
    }
    Ok(bytes)
}

/// Sorts the tuples out into the arrays of the levels.
fn split(levels: &[Vec<u64>]) -> Vec<LevelArrays> {
    let mut arrays = vec![LevelArrays::default(); levels.len()];
    let Some(n) = levels.first().map(Vec::len).filter(|n| *n > 0) else { return arrays };
    if let [ids] = levels {
        arrays[0].firsts.push(ids[0]);
        arrays[0].gaps.extend(ids.windows(2).map(|pair| pair[1] - pair[0] - 1));
        return arrays;
    }
    for (l, level) in arrays.iter_mut().enumerate() {
        level.firsts.push(levels[l][0]);
        if l > 0 {
            level.counts.push(0);
        }
    }
    for i in 1..n {
        let Some(changed) = levels.iter().position(|ids| ids[i] != ids[i - 1]) else { continue };
        arrays[changed].gaps.push(levels[changed][i] - levels[changed][i - 1] - 1);
        if let Some(count) = arrays[changed].counts.last_mut() {
            *count += 1;
        }
        for (ids, level) in levels.iter().zip(&mut arrays).skip(changed + 1) {
            level.firsts.push(ids[i]);
            level.counts.push(0);
        }
    }
    arrays
}

/// One decoded level.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    /// The id of each node.
    pub(crate) ids: Vec<u64>,
    /// How many nonzeros lie below each node. Empty on the last level: one each.
    pub(crate) leaves: Vec<u64>,
}

/// How many nonzeros a packed chunk holds, and how many levels it has.
pub(crate) fn read_head(reader: &mut Reader<'_>) -> Result<(u64, usize), LayoutError> {
    let head = reader.byte()?;
    if head >> 4 != VERSION {
        return Err(bad(format!("starts with {head:#04x}, not with a known version")));
    }
    let nnz = reader.varint()?;
    if nnz == 0 {
        return Err(bad("holds no nonzero".into()));
    }
    Ok((nnz, (head & 0xf) as usize + 1))
}

/// Reads the index of a packed chunk; `reader` is then at the values.
///
/// `limits` has one number per level, above every id that may occur on it, and `most` is the most nonzeros
/// there can be. Everything that is returned has been checked against them: ids ascend among siblings and
/// stay below their limit, and the numbers of nodes agree from level to level.
pub(crate) fn read_index(
    reader: &mut Reader<'_>,
    limits: &[u64],
    most: u64,
    packer: &mut Packer,
) -> Result<Vec<Level>, LayoutError> {
    let (nnz, depth) = read_head(reader)?;
    if depth != limits.len() {
        return Err(bad(format!("has {depth} levels where {} belong", limits.len())));
    }
    if nnz > most {
        return Err(bad(format!("claims {nnz} nonzeros, at most {most} are possible")));
    }
    let mut nodes = Vec::with_capacity(depth);
    for _ in 1..depth {
        nodes.push(reader.varint()?);
    }
    nodes.push(nnz);
    if nodes.first() == Some(&0) || !nodes.is_sorted() {
        return Err(bad(format!("claims {nodes:?} nodes on its levels")));
    }
    let mut levels: Vec<Level> = Vec::with_capacity(depth);
    let (mut counts, mut firsts, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
    for (l, limit) in limits.iter().enumerate() {
        let here = nodes[l] as usize;
        let above = if l == 0 { 1 } else { nodes[l - 1] as usize };
        counts.clear();
        firsts.clear();
        gaps.clear();
        match l {
            0 => counts.push(nodes[0] - 1),
            _ => packer.read_ints(reader, above, &mut counts)?,
        }
        packer.read_ints(reader, above, &mut firsts)?;
        packer.read_ints(reader, here - above, &mut gaps)?;
        levels.push(Level { ids: ids(&counts, &firsts, &gaps, *limit)?, leaves: Vec::new() });
        // Until the level below is known, its children stand for the leaves of the level above.
        if l > 0 {
            levels[l - 1].leaves = counts.iter().map(|count| count + 1).collect();
        }
    }
    for l in (0..depth.saturating_sub(2)).rev() {
        let (upper, lower) = levels.split_at_mut(l + 1);
        let mut below = lower[0].leaves.iter();
        for leaves in &mut upper[l].leaves {
            *leaves = below.by_ref().take(*leaves as usize).sum();
        }
    }
    Ok(levels)
}

/// The ids of one level from its three arrays.
fn ids(counts: &[u64], firsts: &[u64], gaps: &[u64], limit: u64) -> Result<Vec<u64>, LayoutError> {
    let wrong = || bad("its ids do not fit their level".into());
    let mut ids = Vec::with_capacity(firsts.len() + gaps.len());
    let mut rest = gaps;
    for (count, first) in counts.iter().zip(firsts) {
        if *count > rest.len() as u64 {
            return Err(wrong());
        }
        let (mine, others) = rest.split_at(*count as usize);
        rest = others;
        let mut id = *first;
        ids.push(id);
        // Wrapping is found at the end of the siblings: a sum that wrapped in between has passed the limit,
        // which `overflow` remembers.
        let mut overflow = id >= limit;
        for gap in mine {
            let next = id.wrapping_add(*gap).wrapping_add(1);
            overflow |= next <= id;
            id = next;
            ids.push(id);
        }
        if overflow || id >= limit {
            return Err(wrong());
        }
    }
    match rest.is_empty() {
        true => Ok(ids),
        false => Err(wrong()),
    }
}

fn bad(detail: String) -> LayoutError {
    LayoutError::corrupt("packed chunk", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(tuples: &[&[u64]], limits: &[u64]) -> Vec<Vec<u64>> {
        let mut levels: Vec<Vec<u64>> =
            (0..limits.len()).map(|l| tuples.iter().map(|tuple| tuple[l]).collect()).collect();
        let values: Vec<u8> = (0..tuples.len()).map(|i| i as u8).collect();
        let mut packer = Packer::default();
        let plan = TreePlan::new(&levels, DType::U8, &values, Effort::Small, &mut packer).unwrap();
        let mut bytes = Vec::new();
        write(&mut levels, DType::U8, &values, &plan, &mut packer, &mut bytes).unwrap();
        let mut reader = Reader::new(&bytes);
        let decoded = read_index(&mut reader, limits, tuples.len() as u64, &mut packer).unwrap();
        let mut back = vec![0; values.len()];
        packer.read_values(&mut reader, DType::U8, &mut back).unwrap();
        reader.finish().unwrap();
        assert_eq!(back, values);
        decoded
            .iter()
            .map(|level| match level.leaves.is_empty() {
                true => level.ids.clone(),
                false => level
                    .ids
                    .iter()
                    .zip(&level.leaves)
                    .flat_map(|(id, leaves)| std::iter::repeat_n(*id, *leaves as usize))
                    .collect(),
            })
            .collect()
    }

    #[test]
    fn trees_survive() {
        let one: [&[u64]; 3] = [&[0], &[7], &[u64::MAX - 1]];
        assert_eq!(round_trip(&one, &[u64::MAX]), [[0, 7, u64::MAX - 1]]);
        let two: [&[u64]; 4] = [&[0, 2], &[0, 5], &[0, 6], &[3, 1]];
        assert_eq!(round_trip(&two, &[4, 7]), [[0, 0, 0, 3], [2, 5, 6, 1]]);
        let three: [&[u64]; 5] = [&[1, 0, 0], &[1, 0, 9], &[1, 2, 0], &[4, 2, 0], &[4, 3, 3]];
        assert_eq!(round_trip(&three, &[5, 4, 10]), [[1, 1, 1, 4, 4], [0, 0, 2, 2, 3], [0, 9, 0, 0, 3]]);
        assert_eq!(round_trip(&[&[5, 5, 5, 5]], &[6, 6, 6, 6]), [[5], [5], [5], [5]]);
    }

    #[test]
    fn ids_stay_below_their_limit() {
        assert!(ids(&[1], &[3], &[0], 5).is_ok());
        for (count, first, gap, limit) in
            [(1, 3, 0, 4), (1, 3, u64::MAX - 3, 9), (0, 9, 0, 9), (1, 3, u64::MAX, 9), (2, 0, 0, 9)]
        {
            assert!(ids(&[count], &[first], &[gap], limit).is_err(), "{count} {first} {gap} {limit}");
        }
    }
}
