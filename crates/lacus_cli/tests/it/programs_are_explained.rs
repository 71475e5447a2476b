//! `lacus explain` plans a program without any data.

use crate::harness::Sandbox;

const PRODUCT: &str = "A = load(\"A\")\nB = load(\"B\")\nsave(A @ B, \"C\")\n";
const SHAPES: &str = "A=40000x40000,B=40000x40000";

#[test]
fn a_product_is_planned_for_ten_sites() {
    let sandbox = Sandbox::empty();
    std::fs::write(sandbox.path("product.lac"), PRODUCT).unwrap();
    let words = ["explain", "product.lac", "--sites", "10", "--shapes", SHAPES, "--block", "4000"];
    let text = sandbox.lacus(words).ok();
    assert!(text.contains("moved"), "{text}");
    let json = sandbox.lacus(words.into_iter().chain(["--json", "--objective", "moved"])).json();
    // The paper's best for this size is 6.4e9; none of the known ways moves less.
    let moved = json["moved_floats"].as_f64().unwrap();
    assert!(moved > 0.0 && moved <= 6.4e9 * 1.001, "{moved}");
    assert!(sandbox.lacus(words.into_iter().chain(["--dot"])).ok().starts_with("digraph"));
}

#[test]
fn what_is_wrong_is_shown_with_its_place() {
    let sandbox = Sandbox::empty();
    std::fs::write(sandbox.path("wrong.lac"), "A = load(\"A\")\nsave(A @ B, \"C\")\n").unwrap();
    let wrong = sandbox.lacus(["explain", "wrong.lac", "--shapes", "A=10x10"]);
    assert!(wrong.fails(3).contains('B'));
    std::fs::write(sandbox.path("product.lac"), PRODUCT).unwrap();
    let wrong = sandbox.lacus(["explain", "product.lac", "--shapes", "A=10x20,B=30x10"]);
    let message = wrong.fails(2);
    assert!(message.contains("20") && message.contains("30"), "{message}");
    assert!(sandbox.lacus(["explain", "product.lac", "--shapes", "A=10xten"]).fails(2).contains("ten"));
    sandbox.lacus(["explain", "none.lac"]).fails(3);
}
