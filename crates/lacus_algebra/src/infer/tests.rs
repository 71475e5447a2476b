use super::*;
use crate::function::Function;
use crate::syntax::parser::parse;

fn inputs() -> Inputs {
    Inputs::new()
        .with("A", DType::F64, Shape::new([7, 3]).unwrap())
        .with("B", DType::F64, Shape::new([4, 2]).unwrap())
        .with("v", DType::F64, Shape::new([7]).unwrap())
        .with("z", DType::C64, Shape::new([7]).unwrap())
}

/// Checks the first line of the message, and that it has the place.
fn fails(text: &str, expected: &str, place: &str) {
    let header = "A = load(\"A\"); B = load(\"B\"); v = load(\"v\")\n";
    let functions = Functions::new().with(Function::new("f2", 2, |x| x[0] - x[1]));
    let program = parse(&format!("{header}{text}")).unwrap();
    let error = check(&program, &inputs(), &functions).map(|_| ()).unwrap_err().to_string();
    let mut lines = error.lines();
    assert_eq!(lines.next(), Some(expected), "{text}\n{error}");
    assert_eq!(lines.next(), Some(format!(" --> {place}").as_str()), "{text}\n{error}");
}

#[test]
fn what_does_not_fit_is_an_error_with_place_and_shapes() {
    fails("C = A @ B", "`@`: lhs [7, 3] and rhs [4, 2] disagree on the inner axis", "line 2, column 5");
    fails("x = 1\ny = x + nope", "'nope' is not defined", "line 3, column 9");
    fails(
        "C[i,j] = A[i,k] * B[k,j]",
        "index 'k' has extent 3 in A [7, 3] and 4 in B [4, 2]",
        "line 2, column 19",
    );
    fails(
        "C[i,q] = A[i,k]",
        "output index 'q' does not index a tensor on the right: tell how far it runs, as in `[q in 0..n]`",
        "line 2, column 1",
    );
    fails(
        "C[i in 0..9] = v[i]",
        "index i of v runs from 0 to 8, outside of axis 0 of shape [7]",
        "line 2, column 16",
    );
    fails(
        "C[i in 0..9] = where(i <= 7, v[i], 0)",
        "index i of v runs from 0 to 8, outside of axis 0 of shape [7]",
        "line 2, column 30",
    );
    fails(
        "C[i in 0..9] = v[i + j]",
        "index i + j of v runs from 0 to 8, outside of axis 0 of shape [7]",
        "line 2, column 16",
    );
    fails("C[i in 0..2-3] = i", "an extent takes a number from 0, found -1", "line 2, column 11");
    fails(
        "C[i in 0..v[0]] = i",
        "an extent must be a whole number known before running",
        "line 2, column 11",
    );
    fails(
        "v[v in 0..2] = 1",
        "'v' is a variable, so it cannot be an index of the result",
        "line 2, column 1",
    );
    fails(
        "C[i,i] = A[i,k]",
        "index 'i' appears twice on the left: write `if` with two indices instead",
        "line 2, column 1",
    );
    fails("C[i] = A[i]", "A has shape [7, 3], but 1 indices were given", "line 2, column 8");
    fails(
        "C[i] = v[i] * A",
        "A has shape [7, 3]: in a statement with indices, index it",
        "line 2, column 15",
    );
    fails(
        "C[i] = v[i] + v[i + 1]",
        "index i + 1 of v runs from 1 to 7, outside of axis 0 of shape [7]",
        "line 2, column 15",
    );
    fails(
        "C[i] = v[i - 1] * v[i] if i >= 0",
        "index i - 1 of v runs from -1 to 5, outside of axis 0 of shape [7]",
        "line 2, column 8",
    );
    fails(
        "C[i] = v[i + j]",
        "the extent of index 'i' does not follow from the right side",
        "line 2, column 1",
    );
    fails(
        "C[i] = v[i * i]",
        "an index must be a sum of indices times whole numbers known before running: two indices are multiplied",
        "line 2, column 10",
    );
    fails("x = A + B", "`+`: shapes [7, 3] and [4, 2] do not broadcast", "line 2, column 5");
    fails("x = sum(A, 2)", "`sum`: axis 2 does not fit shape [7, 3]", "line 2, column 12");
    fails("x = A[7]", "index 7 of A runs from 7 to 7, outside of axis 0 of shape [7, 3]", "line 2, column 7");
    fails(
        "x = A[i, 0]",
        "'i' is not defined (to use it as an index, give the left side indices: `x[…] = `)",
        "line 2, column 7",
    );
    fails("C[i] -= A[i,j]", "cannot reduce by `-`: it is not associative", "line 2, column 1");
    fails(
        "C[i] += A[i,j]",
        "cannot reduce by `+`: `=` already sums, each term on its own",
        "line 2, column 1",
    );
    fails(
        "C[i] f2= A[i,j]",
        "cannot reduce by `f2`: it was not registered as an associative function of two arguments",
        "line 2, column 1",
    );
    fails(
        "C[i] max= v[i]",
        "`max=` has nothing to reduce: every index of the right side is on the left, write `=`",
        "line 2, column 1",
    );
    fails("x or= v[i]", "`or=` takes bools, found float64", "line 2, column 1");
    fails("x = v and true", "`and` takes bools, found float64 of shape [7]", "line 2, column 5");
    fails(
        "x = zeros([5000000000, 5000000000])",
        "shape [5000000000, 5000000000] has more elements than a 64-bit integer counts",
        "line 2, column 5",
    );
    fails("x = zeros([0 - 1])", "an extent takes a number from 0, found -1", "line 2, column 12");
    fails(
        "x = zeros([sum(v)])",
        "an extent must be a whole number known before running",
        "line 2, column 12",
    );
    fails("x = load(\"nope\")", "there is no tensor 'nope' to load", "line 2, column 10");
    fails("x = frob(v)", "there is no function 'frob'", "line 2, column 5");
    fails("x = f2(v)", "f2 takes 2 arguments, found 1", "line 2, column 5");
    fails(
        "x = einsum(\"ij,jk->ik\", A, B)",
        "index 'j' has extent 3 in A [7, 3] and 4 in B [4, 2]",
        "line 2, column 28",
    );
    fails("x = einsum(\"ij->ik\", A)", "einsum \"ij->ik\": 'k' is in no operand", "line 2, column 12");
    fails(
        "C[i] = A[i,j] + v[i] if j < 2",
        "the condition uses index 'j', which a term of the right side does not sum over",
        "line 2, column 1",
    );
    fails(
        "k = 1\nC[k] = v[k]",
        "'k' is a variable, so it cannot be an index of the result",
        "line 3, column 1",
    );
    fails(
        "x = v if v > 1",
        "a condition after `if` needs a left side with indices: use `where` for whole arrays",
        "line 2, column 10",
    );
}

#[test]
fn loops_must_be_able_to_end_and_keep_their_types() {
    fails(
        "x = 1.0\nwhile x > 0 { y = 1 }",
        "this loop can never end: its condition depends on 'x', which its body does not assign",
        "line 3, column 7",
    );
    fails(
        "repeat { y = 1 } until false",
        "this loop can never end: its condition depends on nothing, which its body does not assign",
        "line 2, column 24",
    );
    fails(
        "x = 1\nwhile x { x = x - 1 }",
        "the condition of a loop takes a single bool, found a single int64",
        "line 3, column 7",
    );
    fails(
        "x = v\nfor t in 0..3 { x = x[1:] }",
        "'x' is float64 of shape [7] before the loop and float64 of shape [6] after a round",
        "line 3, column 17",
    );
    fails(
        "x = 0\nfor t in 0..3 { x = x + 0.5 }",
        "'x' is a single int64 before the loop and a single float64 after a round",
        "line 3, column 17",
    );
    fails("x = 1\nwhile x < 3 { x = x + 1\n y = x }\nz = y", "'y' is not defined", "line 5, column 5");
    fails(
        "for t in 0..3 { t = 1 }",
        "'t' counts this loop, so its body cannot assign it",
        "line 2, column 1",
    );
    fails(
        "for t in 0..8 { x = v[t] }",
        "index t of v runs from 0 to 7, outside of axis 0 of shape [7]",
        "line 2, column 23",
    );
    fails(
        "for t in 0..3 { x = v[2*t : 2*t + 4] }",
        "index 2 * t:2 * t + 4 of v runs from 0 to 7, outside of axis 0 of shape [7]",
        "line 2, column 21",
    );
    fails(
        "for t in 0..3 { x = v[t : 2*t + 4] }",
        "the number of positions in a range must be a whole number known before running",
        "line 2, column 27",
    );
    fails(
        "for t in 0..3 { x = v[t : t + 4 : 0] }",
        "the step of a range takes a number except 0, found 0",
        "line 2, column 27",
    );
    fails(
        "m = 1\nfor t in 0..2 { x = v[m]\n m = m + 1 }",
        "an index must be a sum of indices times whole numbers known before running: 'm' is a single int64",
        "line 3, column 23",
    );
}

#[test]
fn functions_are_put_in_place_within_bounds() {
    fails("def f(x) = f(x)\ny = f(1)", "function 'f' calls itself", "line 2, column 12");
    fails("def f(x) = x + q\nq = 1\ny = f(1)", "'q' is not defined", "line 2, column 16");
    fails("def sum(x) = x", "'sum' is built in", "line 2, column 1");
    fails(
        "def f(x) {\n y = x\n return y\n}\nC[i] = f(v[i])",
        "'f' has statements, so it takes whole arrays and not elements",
        "line 6, column 8",
    );
    let mut text = "def f0(x) = x + x\n".to_owned();
    for level in 1..40 {
        text += &format!("def f{level}(x) = f{}(x) + f{}(x)\n", level - 1, level - 1);
    }
    fails(
        &format!("{text}y = f39(1)"),
        "functions expand to more than 100000 expressions",
        "line 2, column 13",
    );
}

#[test]
fn deep_programs_are_refused_before_the_stack_ends() {
    let deep = |n: usize| format!("{}x{}", "-(".repeat(n), ")".repeat(n));
    let mut text = format!("def f0(x) = {}\n", deep(60));
    for level in 1..100 {
        text += &format!("def f{level}(x) = f{}({})\n", level - 1, deep(60));
    }
    let program = parse(&format!("{text}y = f99(1)\nv = load(\"v\")\nz[i] = f99(v[i])")).unwrap();
    let error = check(&program, &inputs(), &Functions::new()).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("nested deeper than"), "{error}");
    let doubling =
        format!("def f(x) = x + x\nv = load(\"v\")\nz[i] = {}v[i]{}", "f(".repeat(60), ")".repeat(60));
    let error =
        check(&parse(&doubling).unwrap(), &inputs(), &Functions::new()).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("functions expand to more than"), "{error}");
}

#[test]
fn stored_types_that_are_not_computed_with_are_refused() {
    let program = parse("x = load(\"z\")").unwrap();
    let error = check(&program, &inputs(), &Functions::new()).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().starts_with("tensor 'z' is complex64, which cannot be computed with"),
        "{error}"
    );
}

#[test]
fn all_forms_of_a_product_become_one_comprehension() {
    let body = |text: &str| {
        let program = parse(&format!("A = load(\"A\"); C = load(\"C\")\n{text}")).unwrap();
        let inputs = inputs().with("C", DType::F64, Shape::new([3, 2]).unwrap());
        let program = check(&program, &inputs, &Functions::new()).unwrap();
        let [Step { node: StepNode::Compute(_, value), .. }] = program.steps() else {
            panic!("{text}: one step")
        };
        let mut names = BTreeMap::new();
        let mut rename = |index: Index| {
            let next = names.len();
            format!("{}", *names.entry(index).or_insert(next))
        };
        let axes: Vec<String> = value.axes.iter().map(|axis| rename(axis.index)).collect();
        let ElementNode::Reduce(reduction) = &value.body.node else { panic!("{text}: a reduction") };
        let inner: Vec<String> = reduction.axes.iter().map(|axis| rename(axis.index)).collect();
        let ElementNode::Binary(op, a, b) = &reduction.body.node else { panic!("{text}: a product") };
        let reads: Vec<String> = [a, b]
            .into_iter()
            .flat_map(|side| side.positions())
            .map(|at| rename(at.as_index().unwrap()))
            .collect();
        format!("[{}] sum [{}] {op} {}", axes.join(","), inner.join(","), reads.join(""))
    };
    let expected = "[0,1] sum [2] * 0221";
    assert_eq!(body("x[i,j] = A[i,k] * C[k,j]"), expected);
    assert_eq!(body("x = A @ C"), expected);
    assert_eq!(body("x = einsum(\"ik,kj->ij\", A, C)"), expected);
}
