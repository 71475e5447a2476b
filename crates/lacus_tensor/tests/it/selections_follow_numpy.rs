//! Cases whose results were printed by numpy 2.4: `np.arange(size).reshape(shape)[indices]`, or its error.

use lacus_tensor::{Buffer, DType, Selection, Shape, Tensor, TensorError, parse_indices};

/// Shape, indices, and what numpy printed.
#[rustfmt::skip]
const CASES: &[(&[u64], &str, &str)] = &[
    (&[5], "2", "(): 2"),
    (&[5], "-1", "(): 4"),
    (&[5], "1:4", "(3,): 1 2 3"),
    (&[5], "::-1", "(5,): 4 3 2 1 0"),
    (&[5], "-2::-2", "(2,): 3 1"),
    (&[5], "10:0:-3", "(2,): 4 1"),
    (&[5], "-99:99:4", "(2,): 0 4"),
    (&[5], "3:1", "(0,):"),
    (&[5], "...", "(5,): 0 1 2 3 4"),
    (&[5], "", "(5,): 0 1 2 3 4"),
    (&[5], "None", "(1, 5): 0 1 2 3 4"),
    (&[5], "[4,0,0,-1]", "(4,): 4 0 0 4"),
    (&[5], "[]", "(0,):"),
    (&[5], "[[0,1],[2,3]]", "(2, 2): 0 1 2 3"),
    (&[5], "[True,False,True,False,True]", "(3,): 0 2 4"),
    (&[], "", "(): 0"),
    (&[], "...", "(): 0"),
    (&[], "None", "(1,): 0"),
    (&[], "None,...,None", "(1, 1): 0"),
    (&[], "True", "(1,): 0"),
    (&[], "False", "(0,):"),
    (&[], "0", "IndexError: too many indices for array: array is 0-dimensional, but 1 were indexed"),
    (&[0, 3], ":", "(0, 3):"),
    (&[0, 3], ":,1", "(0,):"),
    (&[0, 3], "[],1", "(0,):"),
    (&[0, 3], "0", "IndexError: index 0 is out of bounds for axis 0 with size 0"),
    (&[0, 3], "[],[5]", "(0,):"),
    (&[0, 3], ":,[2,0]", "(0, 2):"),
    (&[3, 4], "1", "(4,): 4 5 6 7"),
    (&[3, 4], "...,1", "(3,): 1 5 9"),
    (&[3, 4], "1,...,2", "(): 6"),
    (&[3, 4], "::2,::-3", "(2, 2): 3 0 11 8"),
    (&[3, 4], "None,1,None,:,None", "(1, 1, 4, 1): 4 5 6 7"),
    (&[3, 4], "[0,2]", "(2, 4): 0 1 2 3 8 9 10 11"),
    (&[3, 4], ":,[3,0]", "(3, 2): 3 0 7 4 11 8"),
    (&[3, 4], "[0,2],[1,3]", "(2,): 1 11"),
    (&[3, 4], "[[0],[2]],[1,3]", "(2, 2): 1 3 9 11"),
    (&[3, 4], "[0,2],1", "(2,): 1 9"),
    (&[3, 4], "1,[0,0,3]", "(3,): 4 4 7"),
    (&[3, 4], "[2,1,0],::-1", "(3, 4): 11 10 9 8 7 6 5 4 3 2 1 0"),
    (&[3, 4], "[True,False,True]", "(2, 4): 0 1 2 3 8 9 10 11"),
    (&[3, 4], "[True,False,True],[3,0]", "(2,): 3 8"),
    (&[3, 4], "[True,False,True],1", "(2,): 1 9"),
    (&[3, 4], ":,[False,True,True,False]", "(3, 2): 1 2 5 6 9 10"),
    (&[3, 4], "[[True,False,False,True],[False,False,False,False],[False,True,True,False]]", "(4,): 0 3 9 10"),
    (&[3, 4], "[[False,False,False,False],[False,False,False,False],[False,False,False,False]]", "(0,):"),
    (&[3, 4], "True", "(1, 3, 4): 0 1 2 3 4 5 6 7 8 9 10 11"),
    (&[3, 4], "False", "(0, 3, 4):"),
    (&[3, 4], ":,True", "(3, 1, 4): 0 1 2 3 4 5 6 7 8 9 10 11"),
    (&[3, 4], "...,True", "(3, 4, 1): 0 1 2 3 4 5 6 7 8 9 10 11"),
    (&[3, 4], "True,[0,1]", "(2, 4): 0 1 2 3 4 5 6 7"),
    (&[3, 4], "0,True", "(1, 4): 0 1 2 3"),
    (&[3, 4], "True,None,True", "(1, 1, 3, 4): 0 1 2 3 4 5 6 7 8 9 10 11"),
    (&[2, 3, 4], "0,:,[1,2]", "(2, 3): 1 5 9 2 6 10"),
    (&[2, 3, 4], ":,0,[1,2]", "(2, 2): 1 2 13 14"),
    (&[2, 3, 4], "[0,1],:,0", "(2, 3): 0 4 8 12 16 20"),
    (&[2, 3, 4], "[0,1],:,[3,2]", "(2, 3): 3 7 11 14 18 22"),
    (&[2, 3, 4], ":,[0,2],[3,2]", "(2, 2): 3 10 15 22"),
    (&[2, 3, 4], ":,[0,2],...,[3,2]", "(2, 2): 3 15 10 22"),
    (&[2, 3, 4], "0,None,[1,2]", "(2, 1, 4): 4 5 6 7 8 9 10 11"),
    (&[2, 3, 4], "None,0,[1,2],None", "(1, 2, 1, 4): 4 5 6 7 8 9 10 11"),
    (&[2, 3, 4], "None,[0,1],None,[1,2],0", "(2, 1, 1): 4 20"),
    (&[2, 3, 4], ":,[[0,1]],[[2],[3]]", "(2, 2, 2): 2 6 3 7 14 18 15 19"),
    (&[2, 3, 4], "[[0,1]],:,[[2],[3]]", "(2, 2, 3): 2 6 10 14 18 22 3 7 11 15 19 23"),
    (&[2, 3, 4], ":1,[[True,False,False,True],[False,False,False,False],[False,True,True,False]]", "(1, 4): 0 3 9 10"),
    (&[2, 3, 4], "[[True,False,True],[False,True,False]],[3,2,0]", "(3,): 3 10 16"),
    (&[2, 3, 4], "[[True,False,True],[False,True,False]],-1:", "(3, 1): 3 11 19"),
    (&[2, 3, 4], "1,[True,False,True],::-2", "(2, 2): 15 13 23 21"),
    (&[2, 3, 4], ":,:0,[1,1]", "(2, 0, 2):"),
    (&[2, 3, 4], "[],9:,0", "(0, 0):"),
    (&[2, 3, 4], "[5],[]", "(0, 4):"),
    (&[2, 3, 4], "2", "IndexError: index 2 is out of bounds for axis 0 with size 2"),
    (&[2, 3, 4], "-3", "IndexError: index -3 is out of bounds for axis 0 with size 2"),
    (&[2, 3, 4], "0,[0,3]", "IndexError: index 3 is out of bounds for axis 1 with size 3"),
    (&[2, 3, 4], "0,0,0,0", "IndexError: too many indices for array: array is 3-dimensional, but 4 were indexed"),
    (&[2, 3, 4], "...,0,0,0,0", "IndexError: too many indices for array: array is 3-dimensional, but 4 were indexed"),
    (&[2, 3, 4], "[[[[True]]]],0", "IndexError: too many indices for array: array is 3-dimensional, but 5 were indexed"),
    (&[2, 3, 4], "...,...", "IndexError: an index can only have a single ellipsis ('...')"),
    (&[2, 3, 4], "::0", "ValueError: slice step cannot be zero"),
    (&[2, 3, 4], "0,::0,9", "ValueError: slice step cannot be zero"),
    (&[2, 3, 4], "9,::0", "IndexError: index 9 is out of bounds for axis 0 with size 2"),
    (&[2, 3, 4], "[0,1],[0,1,2]", "IndexError: shape mismatch: indexing arrays could not be broadcast together with shapes (2,) (3,)"),
    (&[2, 3, 4], "[0,1],0,[0,1,2]", "IndexError: shape mismatch: indexing arrays could not be broadcast together with shapes (2,) (3,)"),
    (&[2, 3, 4], "[[0,1]],[[0,1],[1,0],[2,2]],[1,2,3]", "IndexError: shape mismatch: indexing arrays could not be broadcast together with shapes (1,2) (3,2) (3,)"),
    (&[2, 3, 4], "[0,1],[[True,False,True,True],[True,False,True,True],[True,False,True,True]]", "IndexError: shape mismatch: indexing arrays could not be broadcast together with shapes (2,) (9,) (9,)"),
    (&[2, 3, 4], "[True,False,True]", "IndexError: boolean index did not match indexed array along axis 0; size of axis is 2 but size of corresponding boolean axis is 3"),
    (&[2, 3, 4], "[[True,True],[True,True]]", "IndexError: boolean index did not match indexed array along axis 1; size of axis is 3 but size of corresponding boolean axis is 2"),
    (&[2, 3, 4], ":,[[True],[True],[True]]", "IndexError: boolean index did not match indexed array along axis 2; size of axis is 4 but size of corresponding boolean axis is 1"),
    (&[2, 3, 4], "...,[True,True,True]", "IndexError: boolean index did not match indexed array along axis 2; size of axis is 4 but size of corresponding boolean axis is 3"),
    (&[2, 3, 4], "9,[True,True]", "IndexError: boolean index did not match indexed array along axis 1; size of axis is 3 but size of corresponding boolean axis is 2"),
    (&[2, 3, 4], "False,[0,1]", "IndexError: shape mismatch: indexing arrays could not be broadcast together with shapes (0,) (2,)"),
    (&[2, 3, 4], "[],5", "IndexError: index 5 is out of bounds for axis 1 with size 3"),
];

fn select(dims: &[u64], indices: &str) -> Result<String, TensorError> {
    let shape = Shape::new(dims)?;
    let values: Vec<i64> = (0..shape.elements().unwrap() as i64).collect();
    let tensor = Tensor::new(DType::I64, shape.clone(), Buffer::from_elements(&values))?;
    let selection = Selection::resolve(&shape, &parse_indices(indices)?)?;
    let result = tensor.as_ref().select(&selection)?;
    assert_eq!(result.shape(), selection.output_shape());
    let values: String = result.buffer().cast::<i64>().iter().map(|value| format!(" {value}")).collect();
    Ok(format!("{}:{values}", result.shape()))
}

#[test]
fn results_and_errors_are_numpys() {
    for &(dims, indices, expected) in CASES {
        let found = select(dims, indices).unwrap_or_else(|error| {
            let class = if error.is_out_of_bounds() { "IndexError" } else { "ValueError" };
            format!("{class}: {error}")
        });
        assert_eq!(found, expected, "{dims:?} [{indices}]");
    }
}

#[test]
fn results_of_too_many_axes_are_refused() {
    let found = select(&[2, 3], &"None, ".repeat(15)).unwrap_err();
    let expected = "number of dimensions must be within [0, 16], indexing result would have 17";
    assert_eq!((found.to_string().as_str(), found.is_out_of_bounds()), (expected, true));
    assert!(select(&[2, 3], &"None, ".repeat(14)).is_ok());
}

#[test]
fn huge_axes_resolve_without_overflow() {
    let longest = i64::MAX as u64;
    let shape = Shape::new([longest, longest, longest]).unwrap();
    let check = |indices: &str, output: &str, bounds: [(u64, u64); 3]| {
        let selection = Selection::resolve(&shape, &parse_indices(indices).unwrap()).unwrap();
        assert_eq!(selection.output_shape().to_string(), output);
        assert_eq!(selection.bounding_box().unwrap(), bounds);
        assert_eq!(selection.output_elements(), selection.output_shape().elements_saturating());
    };
    let (smallest, largest) = (i64::MIN, i64::MAX);
    let last = longest - 1;
    check(&format!("-{largest}, {last}, -1"), "()", [(0, 1), (last, longest), (last, longest)]);
    check(
        &format!("{smallest}:{largest}:{largest}, {largest}:{smallest}:{smallest}, ::-1"),
        &format!("(1, 1, {longest})"),
        [(0, 1), (last, longest), (0, longest)],
    );
    check(
        "::4611686018427387904, ::-4611686018427387904, [0, -1]",
        "(2, 2, 2)",
        [(0, (1 << 62) + 1), (last - (1 << 62), longest), (0, longest)],
    );
}
