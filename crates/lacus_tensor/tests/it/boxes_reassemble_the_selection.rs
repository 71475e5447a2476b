//! A tensor cut into boxes, each scattered on its own, gives what selecting from the whole gives; gathering
//! writes back exactly what scattering reads.

use crate::arbitrary::{dtypes, indexed_shapes, numbered};
use crate::selections_match_a_naive_reference::{reference, unravel};
use lacus_tensor::{BoxCopy, Buffer, DType, Selection, Shape, Target, TensorError, parse_indices};
use proptest::prelude::*;

/// Origins and extents of a grid of boxes, trimmed at the edge.
fn grid(dims: &[u64], chunk: &[u64]) -> Vec<(Vec<u64>, Vec<u64>)> {
    let counts: Vec<u64> = dims.iter().zip(chunk).map(|(&size, &chunk)| size.div_ceil(chunk)).collect();
    let boxes = (0..counts.iter().product()).map(|place| {
        let at = unravel(place, &counts);
        let origin: Vec<u64> = at.iter().zip(chunk).map(|(&at, &chunk)| at * chunk).collect();
        let extent = (0..dims.len()).map(|axis| chunk[axis].min(dims[axis] - origin[axis])).collect();
        (origin, extent)
    });
    boxes.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_selection_of_any_grid(
        (dims, indices) in indexed_shapes(),
        chunk in prop::collection::vec(1..5u64, 4),
        dtype in dtypes(),
        seed: u64,
    ) {
        let shape = Shape::new(dims.clone()).unwrap();
        let Ok(selection) = Selection::resolve(&shape, &indices) else { return Ok(()) };
        let tensor = numbered(dtype, &dims, seed);
        let width = dtype.size_bytes();
        let expected = tensor.as_ref().select(&selection).unwrap();
        let (_, places) = reference(&dims, &indices).unwrap();

        let mut result = Buffer::zeroed(expected.bytes().len());
        result.fill(0xa5);
        // What numpy's `tensor[indices] = values` gives: later values win.
        let values = numbered(dtype, expected.shape().dims(), seed ^ 1);
        let mut written = tensor.clone();
        for (from, &to) in places.iter().enumerate() {
            written.bytes_mut()[to as usize * width..][..width]
                .copy_from_slice(&values.bytes()[from * width..][..width]);
        }
        for (origin, extent) in grid(&dims, &chunk[..dims.len()]) {
            let inside = |place: u64| {
                let at = unravel(place, &dims);
                (0..at.len()).all(|axis| at[axis].wrapping_sub(origin[axis]) < extent[axis])
            };
            let mut named: Vec<u64> = places.iter().copied().filter(|&place| inside(place)).collect();
            let plan = BoxCopy::plan(&selection, &origin, &extent, width);
            prop_assert_eq!(plan.is_none(), named.is_empty());
            let Some(plan) = plan else { continue };
            named.sort_unstable();
            named.dedup();
            prop_assert_eq!(plan.covers_box(), named.len() as u64 == extent.iter().product::<u64>());

            let chunk = tensor.as_ref().region(&origin, &extent).to_tensor();
            if let Some(run) = plan.whole_run() {
                prop_assert_eq!(&expected.bytes()[run], chunk.bytes());
                prop_assert!(plan.covers_box());
            }
            plan.scatter(chunk.bytes(), &Target::new(&mut result)).unwrap();

            let mut box_bytes = chunk.into_buffer();
            plan.gather(values.bytes(), &mut box_bytes);
            let expected = written.as_ref().region(&origin, &extent).to_tensor();
            prop_assert_eq!(&box_bytes, expected.buffer());
        }
        prop_assert_eq!(&result, expected.buffer());
    }
}

#[test]
fn whole_boxes_land_in_one_run() {
    let shape = Shape::new([10, 3, 8, 8]).unwrap();
    let check = |indices: &str, origin: [u64; 4], extent: [u64; 4], expected| {
        let selection = Selection::resolve(&shape, &parse_indices(indices).unwrap()).unwrap();
        let plan = BoxCopy::plan(&selection, &origin, &extent, 2).unwrap();
        assert_eq!(plan.whole_run(), expected, "{indices}");
    };
    let item = 2 * 3 * 8 * 8;
    check("", [4, 0, 0, 0], [2, 3, 8, 8], Some(4 * item..6 * item));
    check("3:9", [4, 0, 0, 0], [2, 3, 8, 8], Some(item..3 * item));
    check("3:5", [4, 0, 0, 0], [2, 3, 8, 8], None);
    check("::2", [4, 0, 0, 0], [1, 3, 8, 8], Some(2 * item..3 * item));
    check("::-1", [4, 0, 0, 0], [1, 3, 8, 8], Some(5 * item..6 * item));
    check("::-1", [4, 0, 0, 0], [2, 3, 8, 8], None);
    check("4", [4, 0, 0, 0], [1, 3, 8, 8], Some(0..item));
    check("[7, 4, 2]", [4, 0, 0, 0], [1, 3, 8, 8], Some(item..2 * item));
    check("[7, 4, 5, 2]", [4, 0, 0, 0], [2, 3, 8, 8], Some(item..3 * item));
    check("[7, 5, 4, 2]", [4, 0, 0, 0], [2, 3, 8, 8], None);
    check("None, ..., None", [4, 0, 0, 0], [2, 3, 8, 8], Some(4 * item..6 * item));
    check("", [4, 0, 0, 0], [2, 3, 4, 8], None);
    check("", [4, 0, 4, 0], [1, 1, 4, 8], Some(4 * item + 64..4 * item + 128));
    check(":, :, :, 2:", [4, 0, 0, 0], [2, 3, 8, 8], None);
}

#[test]
fn threads_fill_one_target() {
    let shape = Shape::new([40, 60]).unwrap();
    let tensor = numbered(DType::F32, &[40, 60], 5);
    let selection = Selection::resolve(&shape, &parse_indices("::-1, 3:50:2").unwrap()).unwrap();
    let expected = tensor.as_ref().select(&selection).unwrap();
    let mut result = Buffer::for_overwrite(expected.bytes().len());
    let target = Target::new(&mut result);
    std::thread::scope(|scope| {
        for half in [0, 20] {
            let (target, tensor, selection) = (&target, &tensor, &selection);
            scope.spawn(move || {
                for column in [0, 25, 50] {
                    let (origin, extent) = ([half, column], [20, 25.min(60 - column)]);
                    let chunk = tensor.as_ref().region(&origin, &extent).to_tensor();
                    if let Some(plan) = BoxCopy::plan(selection, &origin, &extent, 4) {
                        plan.scatter(chunk.bytes(), target).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(&result, expected.buffer());
}

#[test]
fn wrong_lengths_are_refused() {
    let shape = Shape::new([4, 4]).unwrap();
    let plan = BoxCopy::plan(&Selection::all(&shape), &[0, 0], &[2, 4], 1).unwrap();
    let mut out = [0; 16];
    let error = plan.scatter(&[0; 7], &Target::new(&mut out)).unwrap_err();
    assert_eq!(error, TensorError::WrongLength { what: "the chunk", expected: 8, found: 7 });
    let error = plan.scatter(&[0; 8], &Target::new(&mut out[1..])).unwrap_err();
    assert_eq!(error, TensorError::WrongLength { what: "the output", expected: 16, found: 15 });
    // Sizes beyond any memory plan, and then fit no buffer.
    let endless = Shape::new([1 << 62, 1 << 62]).unwrap();
    let plan = BoxCopy::plan(&Selection::all(&endless), &[1, 1], &[1 << 61, 1 << 61], 8).unwrap();
    assert!(plan.scatter(&[0; 8], &Target::new(&mut out)).is_err());
    assert_eq!(plan.whole_run(), None);
}
