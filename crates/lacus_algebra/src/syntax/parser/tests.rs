use super::*;
use proptest::prelude::*;

#[test]
fn text_is_read_and_printed() {
    let check = |text: &str, expected: &str| {
        let program = parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let printed = program.to_string();
        assert_eq!(printed.trim_end(), expected, "{text}");
        assert_eq!(parse(&printed).unwrap(), program, "{text}");
    };
    check("C[i,j]=A[i,k]*B[k,j]", "C[i, j] = A[i, k] * B[k, j]");
    check("D[i,j] min= D[i,k]+D[k,j]", "D[i, j] min= D[i, k] + D[k, j]");
    check("p[] *= x[i]", "p[] *= x[i]");
    check("o or= x[i] > 0 and not y[i]", "o or= x[i] > 0 and not y[i]");
    check("x = a - (b - c) - d", "x = a - (b - c) - d");
    check("x = (a + b) * c ** -d ** e", "x = (a + b) * c ** -d ** e");
    check("x = (-a) ** 2 + -a ** 2", "x = (-a) ** 2 + -a ** 2");
    check("x = not (a == b) == c", "x = not (a == b) == c");
    check("x = A[3, 0:10, :, ::2, i+1, 2*j]", "x = A[3, 0:10, :, ::2, i + 1, 2 * j]");
    check("x = sum(A, axis=0)[i] @ B", "x = sum(A, axis=0)[i] @ B");
    check("x = zeros([n, m]) if i == j", "x = zeros([n, m]) if i == j");
    check("x = a +\n  b\ny = (a\n + b)", "x = a + b\ny = a + b");
    check("x = inf + 1e300 + 0.5 + 2.0", "x = inf + 1e300 + 0.5 + 2.0");
    check("for t in 0..n-1 { x = x + t; y = x }", "for t in 0..n - 1 {\n    x = x + t\n    y = x\n}");
    check("while d > 1 {\nd = d / 2\n}", "while d > 1 {\n    d = d / 2\n}");
    check("repeat { a = b   c = d }\nuntil c < 1", "repeat {\n    a = b\n    c = d\n} until c < 1");
    check("def f(x, y) = x * y", "def f(x, y) = x * y");
    check("def f() {\na = 1\nreturn a\n}", "def f() {\n    a = 1\n    return a\n}");
    check("save(r, \"rank\")", "save(r, \"rank\")");
    check("C[i in 0..n+1,j] = A[i//2,j]", "C[i in 0..n + 1, j] = A[i // 2, j]");
}

#[test]
fn what_does_not_fit_is_named_with_its_place() {
    let check = |text: &str, expected: &str| {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}\n{error}");
    };
    check("C[i in 1..3] = 1", "expected 0, from which an index counts, found `1`\n --> line 1, column 8");
    check("C[i in 0] = 1", "expected `..`, found `]`\n --> line 1, column 9");
    check("save(x, \"a\\n\")", "expected `\\\\` or `\\\"` in a text, found `\\n`\n --> line 1, column 11");
    check("C[i j] = 1", "expected `]`, found `j`\n --> line 1, column 5");
    check("a = 1\nb = ", "expected an expression, found the end of the program\n --> line 2, column 5");
    check(
        "x = a < b < c",
        "expected `and`, since comparisons do not chain, found `<`\n --> line 1, column 11",
    );
    check("x + 1", "expected `=`, `min=`, `max=`, `*=` or `or=`, found `+`\n --> line 1, column 3");
    check("x = a b", "expected `=`, `min=`, `max=`, `*=` or `or=`, found the end of the program");
    check("for t in 0..3 { a = 1", "expected `}`, found the end of the program");
    check("repeat { a = 1 } while", "expected `until`, found `while`");
    check("def f(x) { a = x }", "expected `return` at the end of a function, found `}`");
    check("def f(x, x) = x", "parameter 'x' appears twice");
    check("return 1", "expected the end of the program, found `return`");
    check("}", "expected a statement, found `}`");
    check("if = 1", "expected a statement, found `if`");
    check(&format!("x = {}", "(".repeat(10_000)), "nested deeper than 200 levels");
    check(&format!("x = 1{}", " ** 1".repeat(10_000)), "nested deeper than 200 levels");
    check(&format!("x = {}1", "- ".repeat(10_000)), "nested deeper than 200 levels");
    check(&format!("x = a{}", "[0]".repeat(10_000)), "nested deeper than 200 levels");
    check(&"repeat {".repeat(10_000), "nested deeper than 200 levels");
}

const OPS: [BinaryOp; 12] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Mod,
    BinaryOp::FloorDiv,
    BinaryOp::Pow,
    BinaryOp::Lt,
    BinaryOp::Eq,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Max,
];

fn expressions() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        (0..100i64).prop_map(Expr::int),
        (0.0..1e3).prop_map(Expr::number),
        "[a-h]".prop_map(|name| Expr::name(&name)),
        any::<bool>().prop_map(|value| Expr::new(ExprNode::Bool(value))),
        r#"[a"\\ é]{0,4}"#.prop_map(|text| Expr::new(ExprNode::Text(text))),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        prop_oneof![
            (prop::sample::select(&OPS[..]), inner.clone(), inner.clone())
                .prop_map(|(op, a, b)| a.binary(op, b)),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.matmul(b)),
            inner.clone().prop_map(|a| -a),
            inner.clone().prop_map(|a| Expr::new(ExprNode::Unary(UnaryOp::Not, Box::new(a)))),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|all| Expr::call("f", all)),
            (inner.clone(), prop::option::of(inner.clone()), inner).prop_map(|(base, start, at)| {
                let subscripts = vec![Subscript::Range(start, None, None), Subscript::At(at)];
                Expr::new(ExprNode::Subscript(Box::new(base), subscripts))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_the_same_tree(
        value in expressions(),
        guard in prop::option::of(expressions()),
        extent in prop::option::of(expressions()),
        name in r#"[a"\\ é]{0,4}"#,
    ) {
        let target = Target::indexed("C", ["i", "j"]);
        let target = extent.into_iter().fold(target, |target, extent| target.with_extent("j", extent));
        let node = StatementNode::Assign { target, reduce: None, value, guard };
        let save = StatementNode::Save { value: Expr::name("C"), name };
        let program = Program::new().then(node).then(save);
        let text = program.to_string();
        prop_assert_eq!(parse(&text).unwrap(), program, "{}", text);
    }

    #[test]
    fn any_text_gives_a_program_or_an_error(text in "\\PC{0,60}") {
        let _ = parse(&text);
    }

    #[test]
    fn any_row_of_tokens_gives_a_program_or_an_error(
        words in prop::collection::vec(prop::sample::select(&[
            "for", "in", "while", "repeat", "until", "def", "return", "if", "and", "not", "true", "x", "A", "f",
            "(", ")", "[", "]", "{", "}", ",", ":", "..", "=", "min", "*=", "+", "-", "**", "@", "<", "1", "2.5",
            "\"t\"", "\n", ";", "save", "1e9", "#",
        ][..]), 0..60)
    ) {
        if let Err(error) = parse(&words.join(" ")) {
            prop_assert!(error.to_string().contains(" --> line "));
        }
    }
}

/// Rows of operators are as deep a tree as they are long, and nothing that is done with them needs as deep a stack.
#[test]
fn rows_of_operators_may_be_long() {
    for (row, first) in [(" + x", "x"), (" * x[i]", "x[i]"), (" @ x", "x"), (" - -x", "-x"), (" or x", "x")] {
        let text = format!("y = {first}{}\n", row.repeat(50_000));
        let program = parse(&text).unwrap();
        assert_eq!(program.to_string().len(), text.len());
        assert_eq!(program, program.clone());
        assert_ne!(program, parse(&text.replacen("= x", "= z", 1).replacen("-x", "-z", 1)).unwrap());
        assert!(program.loads().is_empty());
    }
}
