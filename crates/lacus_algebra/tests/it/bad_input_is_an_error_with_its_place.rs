//! What cannot be: an error with the place in the text and the numbers, through the one door that a command line uses.

use lacus_algebra::{ExplainOptions, explain_program, parse_shapes};

fn fails(text: &str, memory_bytes: Option<u64>, expected: &[&str]) {
    let shapes = parse_shapes("A=7x3,B=4x2,v=7,z=3:complex64").unwrap();
    let options =
        ExplainOptions { shapes, sites: 4, block: Some(2), memory_bytes, ..ExplainOptions::default() };
    let text = format!("A = load(\"A\"); B = load(\"B\"); v = load(\"v\")\n{text}");
    let error = explain_program(&text, &options).map(|_| ()).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "{text}\n{error}\nshould say: {part}");
    }
}

#[test]
fn undefined_names() {
    fails("x = v + nope", None, &["'nope' is not defined", "line 2, column 9"]);
    fails("x = load(\"nope\")", None, &["there is no tensor 'nope' to load", "line 2, column 10"]);
    fails("x = frob(v)", None, &["there is no function 'frob'", "line 2, column 5"]);
    fails(
        "x = z + 1",
        None,
        &["'z' is not defined (to use the tensor of that name, load it: `z = load(\"z\")`)"],
    );
    fails(
        "x = load(\"z\")",
        None,
        &["tensor 'z' is complex64, which cannot be computed with", "line 2, column 10"],
    );
}

#[test]
fn an_index_with_two_extents() {
    let expected = ["index 'k' has extent 3 in A [7, 3] and 4 in B [4, 2]", "line 2, column 19", "^^^^^^"];
    fails("C[i,j] = A[i,k] * B[k,j]", None, &expected);
}

#[test]
fn an_output_index_that_is_not_on_the_right() {
    let expected = ["output index 'q' does not index a tensor on the right", "line 2, column 1"];
    fails("C[i,q] = A[i,k]", None, &expected);
}

#[test]
fn a_reduction_that_is_not_associative() {
    fails("C[i] -= A[i,j]", None, &["cannot reduce by `-`: it is not associative", "line 2, column 1"]);
    fails("C[i] /= A[i,j]", None, &["cannot reduce by `/`: it is not associative", "line 2, column 1"]);
}

#[test]
fn a_loop_that_can_never_end() {
    let expected =
        ["this loop can never end: its condition depends on 'x', which its body does not assign", "line 3"];
    fails("x = 1.0\nwhile x > 0 { y = 1 }", None, &expected);
    fails("repeat { y = 1 } until false", None, &["this loop can never end", "line 2, column 24"]);
}

#[test]
fn shapes_that_are_too_large() {
    let expected =
        ["shape [5000000000, 5000000000] has more elements than a 64-bit integer counts", "line 2, column 5"];
    fails("x = zeros([5000000000, 5000000000])", None, &expected);
    // Only the result is too large.
    let text = "a = zeros([4000000000]); b = zeros([4000000000])\nC[i,j] = a[i] * b[j]";
    fails(text, None, &["shape [4000000000, 4000000000] has more elements", "line 3, column 1"]);
}

#[test]
fn a_memory_budget_below_the_largest_task() {
    let text = "C[i,j] = A[i,k] * A[j,k]";
    let expected = [
        "the largest task of `C[i,j] = sum[k] A[i,k] * A[j,k]` needs 96 bytes, more than the 95 bytes of a site",
    ];
    fails(text, Some(95), &expected);
    fails(text, Some(95), &["line 2, column 1", "tiles are 2 long"]);
}

#[test]
fn text_that_is_no_program() {
    fails("x = ", None, &["expected", "line 2, column 5"]);
    fails("x = (1 + 2", None, &["expected", "line 2"]);
    fails("for t in 0..3 { x = 1", None, &["expected", "line 2"]);
}
