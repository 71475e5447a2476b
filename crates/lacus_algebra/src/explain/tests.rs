use super::*;

fn options(shapes: &str, sites: u64, block: Option<u64>) -> ExplainOptions {
    let shapes = parse_shapes(shapes).unwrap();
    ExplainOptions { shapes, sites, block, objective: Objective::Moved, ..ExplainOptions::default() }
}

const PRODUCT: &str = "A = load(\"A\")\nB = load(\"B\")\nC[i,j] = A[i,k] * B[k,j]\nsave(C, \"C\")\n";

#[test]
fn a_product_is_explained_in_every_form() {
    let options = options("A=40000x40000,B=40000x40000", 10, Some(4000));
    let explanation = explain_program(PRODUCT, &options).unwrap();
    let text = explanation.to_text();
    for line in [
        "for the least movement on 10 sites, tiles of 4000: 6400000000 floats (51200000000 bytes) moved",
        "no combination of spreads is better",
        "  A float64 [40000, 40000], load \"A\": 100 tiles, 3200000000 floats moved",
        "  line 3, contract: C[i,j] = sum[k] A[i,k] * B[k,j]",
        "    i:3 × j:3 × k:1 on 9 sites: 0 floats of contributions moved",
        "    not broadcast right (BMM), i:10 × j:1 × k:1: 14400000000 floats moved in all, moves 8000000000 more",
        "  300: 200 load, 0 apply, 100 accumulate (1000 steps), 0 reduce, 0 carry",
        "bytes spilled",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json = explanation.to_json();
    assert_eq!(json["moved_floats"], 6_400_000_000u64);
    assert_eq!(json["schedule"]["moved_floats"], json["moved_floats"]);
    assert_eq!(json["operators"][0]["spread"]["grid"]["i"], 3);
    assert_eq!(json["operators"][0]["alternatives"].as_array().map(Vec::len), Some(5));
    assert_eq!(json["tasks"]["steps"], 1000);
    for (way, moved) in json["all_contractions_by"].as_object().unwrap() {
        assert!(moved.as_u64() >= json["moved_floats"].as_u64(), "{way}");
    }
    let dot = explanation.to_dot();
    assert!(dot.starts_with("digraph program {") && dot.contains("moves 3200000000"), "{dot}");
    assert_eq!(explain_program(PRODUCT, &options).unwrap().to_text(), text, "the same again");
}

#[test]
fn loops_and_memory_are_explained() {
    let text = "G = load(\"G\")\nn = dim(G, 0)\nr = full([n], 1/n)\nrepeat {\n  s[i] = 0.85 * G[i,j] * r[j] + 0.15/n\n  \
                d = sum(abs(s - r))\n  r = s\n} until d < 1e-8\nsave(r, \"rank\")\n";
    let mut options = options("G=1000x1000", 4, Some(250));
    options.memory_bytes = Some(2_000_000);
    let explanation = explain_program(text, &options).unwrap();
    let shown = explanation.to_text();
    for line in
        ["line 4, loop, 10 rounds assumed: carries r", "r.1[i] = sum[j] G[i,j] * r[j] * 0.85", ", 10 times: "]
    {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    let json = explanation.to_json();
    assert_eq!(json["loops"][0]["carries"][0], "r");
    // A site has a quarter of G, which does not fit: it is read again in every round, and never written.
    assert!(json["schedule"]["sites"][0]["reread_bytes"].as_u64() > Some(0), "{shown}");
    assert_eq!(json["schedule"]["spilled_bytes"], 0);
    assert!(explanation.to_dot().contains("next round"));
    options.memory_bytes = Some(100_000);
    let error = explain_program(text, &options).unwrap_err().to_string();
    assert!(error.contains("more than the 100000 bytes of a site"), "{error}");
    assert!(error.contains("--> line 5"), "{error}");
}

#[test]
fn programs_without_save_and_with_few_tasks_are_drawn_whole() {
    let explanation = explain_program("x = ones([4]) * 2\ny = x + 1", &options("", 2, Some(2))).unwrap();
    let dot = explanation.to_dot();
    assert!(dot.contains("apply y[0]") && dot.contains("save y"), "{dot}");
    assert!(explanation.ways.is_empty());
}

#[test]
fn too_many_tasks_are_not_written_out() {
    let explanation =
        explain_program(PRODUCT, &options("A=280000x280000,B=280000x280000", 10, Some(1000))).unwrap();
    assert!(explanation.tasks.is_none());
    assert_eq!(explanation.to_json()["tasks"], serde_json::Value::Null);
    assert!(explanation.to_text().contains("too many to write them out"));
}
