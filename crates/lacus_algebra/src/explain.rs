//! Plans as text, JSON and Graphviz: what is done where, what it moves, what else was considered.

use crate::contraction::Label;
use crate::cost::{CostModel, moved_floats};
use crate::error::AlgebraError;
use crate::grid::{Grid, Product};
use crate::physical::Plan;
use crate::plan::{ContractionPlan, PlannedProduct};
use crate::rules::Context;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A grid that was not chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// What it is known as.
    pub name: &'static str,
    /// What it costs.
    pub grid: Grid,
    /// Why it lost.
    pub reason: String,
}

/// The known ways to do a product on so many sites, each compared with the grid that was chosen. Ways that need more
/// tiles along a label than there are, are left out.
pub fn alternatives(planned: &PlannedProduct, sites: u64) -> Vec<Alternative> {
    let product = &planned.product;
    let only = |labels: &[Label], not: &[Label]| {
        labels.iter().find(|label| product.output.contains(label) && !not.contains(label)).copied()
    };
    let row = only(&product.left, &product.right);
    let column = only(&product.right, &product.left);
    let contracted = product.left.iter().find(|label| !product.output.contains(label)).copied();
    let root = sites.isqrt().max(1);
    let ways = [
        ("broadcast right (BMM)", vec![(row, sites)]),
        ("broadcast left (BMM)", vec![(column, sites)]),
        ("cross product (CPMM)", vec![(contracted, sites)]),
        ("√p grid", vec![(row, root), (column, sites / root)]),
    ];
    ways.into_iter().filter_map(|(name, way)| alternative(name, &way, planned)).collect()
}

fn alternative(
    name: &'static str,
    way: &[(Option<Label>, u64)],
    planned: &PlannedProduct,
) -> Option<Alternative> {
    let product: &Product = &planned.product;
    let mut sites: BTreeMap<Label, u64> = product.extents.keys().map(|label| (*label, 1)).collect();
    for (label, n) in way {
        if product.tiles((*label)?) < *n {
            return None;
        }
        sites.insert((*label)?, *n);
    }
    let grid = product.on(sites);
    let chosen = &planned.grid;
    let reason = if grid.sites == chosen.sites {
        "it is the one chosen".to_owned()
    } else if grid.moved_floats > chosen.moved_floats {
        format!("moves {} more", grid.moved_floats - chosen.moved_floats)
    } else if grid.memory_floats > chosen.memory_floats {
        format!("needs room for {} more on a site", grid.memory_floats - chosen.memory_floats)
    } else {
        "no better together with the products around it".to_owned()
    };
    Some(Alternative { name, grid, reason })
}

fn grid_text(grid: &Grid) -> String {
    let axes: Vec<String> = grid.sites.iter().map(|(label, n)| format!("x{}:{n}", label.0)).collect();
    axes.join(" × ")
}

fn labels_text(labels: &[Label]) -> String {
    labels.iter().map(|label| format!("x{}", label.0)).collect::<Vec<_>>().join(",")
}

/// A plan of a contraction as text.
pub fn explain_contraction(plan: &ContractionPlan, sites: u64) -> String {
    let mut text =
        format!("{} products on {sites} sites, {} floats moved\n", plan.products.len(), plan.moved_floats);
    for (at, planned) in plan.products.iter().enumerate() {
        let PlannedProduct { step, product, grid, moved_floats } = planned;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{at}: [{}] = {}[{}] · {}[{}]\n   grid {}: {moved_floats} moved, {} multiplications and {} floats on the fullest site",
            labels_text(&product.output),
            step.left,
            labels_text(&product.left),
            step.right,
            labels_text(&product.right),
            grid_text(grid),
            grid.multiplications,
            grid.memory_floats,
        );
        for other in alternatives(planned, sites) {
            let (name, moved) = (other.name, other.grid.moved_floats);
            let _ =
                writeln!(text, "   not {name}, {}: {moved} moved, {}", grid_text(&other.grid), other.reason);
        }
    }
    text
}

/// A plan of a contraction as JSON, with its total as `moved_floats`.
pub fn contraction_json(plan: &ContractionPlan, sites: u64) -> Value {
    // JSON's numbers are doubles to many readers, and ours fit 64 bits unless something is very large.
    let number = |n: u128| u64::try_from(n).map_or_else(|_| json!(n as f64), |n| json!(n));
    let grid = |grid: &Grid| {
        let along: BTreeMap<String, u64> =
            grid.sites.iter().map(|(label, n)| (format!("x{}", label.0), *n)).collect();
        json!({
            "sites": along,
            "moved_floats": number(grid.moved_floats),
            "multiplications_per_site": number(grid.multiplications),
            "memory_floats_per_site": number(grid.memory_floats),
        })
    };
    let products: Vec<Value> = plan
        .products
        .iter()
        .map(|planned| {
            let others = alternatives(planned, sites);
            let others: Vec<Value> = others
                .iter()
                .map(|other| json!({"name": other.name, "grid": grid(&other.grid), "reason": other.reason}))
                .collect();
            json!({
                "left": planned.step.left,
                "right": planned.step.right,
                "multiplications": number(planned.step.multiplications),
                "grid": grid(&planned.grid),
                "moved_floats": number(planned.moved_floats),
                "alternatives": others,
            })
        })
        .collect();
    json!({"sites": sites, "moved_floats": number(plan.moved_floats), "products": products})
}

/// A physical plan as text: each operator with where its tiles are, how many elements they have, and how many it moves.
pub fn explain_plan(plan: &Plan, context: Context<'_>) -> Result<String, AlgebraError> {
    fn line(plan: &Plan, context: Context<'_>, depth: usize, text: &mut String) -> Result<(), AlgebraError> {
        let made = context.describe(plan)?;
        let own = own_moved(plan, context)?;
        let printed = plan.to_string();
        let head = printed.lines().next().unwrap_or_default();
        let (tiles, floats) = (made.tiles.len(), made.floats());
        let moved = if own > 0 { format!(", {own} moved") } else { String::new() };
        let _ = writeln!(
            text,
            "{}{head}  → {}, {tiles} tiles, {floats} floats{moved}",
            "  ".repeat(depth),
            made.placement
        );
        plan.parts().into_iter().try_for_each(|part| line(part, context, depth + 1, text))
    }
    let mut text = String::new();
    line(plan, context, 0, &mut text)?;
    Ok(text)
}

/// A physical plan for Graphviz: `dot -Tsvg`.
pub fn plan_graphviz(plan: &Plan, context: Context<'_>) -> Result<String, AlgebraError> {
    fn node(
        plan: &Plan,
        context: Context<'_>,
        next: &mut usize,
        text: &mut String,
    ) -> Result<usize, AlgebraError> {
        let id = *next;
        *next += 1;
        let printed = plan.to_string();
        let label = printed.lines().next().unwrap_or_default().replace('\\', "\\\\").replace('"', "\\\"");
        let placement = context.describe(plan)?.placement;
        let _ = writeln!(text, "  n{id} [label=\"{label}\\n{placement}\"];");
        for part in plan.parts() {
            let from = node(part, context, next, text)?;
            let moved = own_moved(plan, context)?;
            let label = if moved > 0 { format!(" [label=\"{moved}\"]") } else { String::new() };
            let _ = writeln!(text, "  n{from} -> n{id}{label};");
        }
        Ok(id)
    }
    let mut text = "digraph plan {\n  node [shape=box];\n".to_owned();
    node(plan, context, &mut 0, &mut text)?;
    text.push_str("}\n");
    Ok(text)
}

/// Elements that an operator moves itself.
fn own_moved(plan: &Plan, context: Context<'_>) -> Result<u64, AlgebraError> {
    let mut own = moved_floats(plan, context, CostModel::Moved)?;
    for part in plan.parts() {
        own -= moved_floats(part, context, CostModel::Moved)?;
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contraction::Contraction;
    use crate::expr::{Index, Slot};
    use crate::grid::Objective;
    use crate::physical::RelationType;
    use crate::placement::{Placement, SiteMap};
    use crate::plan::{PlanOptions, plan_contraction};
    use crate::rules::broadcast_multiply;
    use lacus_tensor::DType;

    fn matmul(sites: u64) -> ContractionPlan {
        let contraction = Contraction {
            factors: vec![(Slot(0), vec![Index(0), Index(2)]), (Slot(1), vec![Index(2), Index(1)])],
            output: vec![Index(0), Index(1)],
            extents: BTreeMap::from([(Index(0), 40_000), (Index(1), 40_000), (Index(2), 40_000)]),
        };
        let options = PlanOptions { sites, block: 4_000, objective: Objective::Moved, budget_floats: None };
        plan_contraction(&contraction, &options).unwrap()
    }

    #[test]
    fn a_contraction_says_what_it_does_and_what_lost() {
        let expected = "\
1 products on 10 sites, 6400000000 floats moved
0: [x0,x1] = 0[x0,x2] · 1[x2,x1]
   grid x0:3 × x1:3 × x2:1: 6400000000 moved, 10240000000000 multiplications and 1536000000 floats on the fullest site
   not broadcast right (BMM), x0:10 × x1:1 × x2:1: 14400000000 moved, moves 8000000000 more
   not broadcast left (BMM), x0:1 × x1:10 × x2:1: 14400000000 moved, moves 8000000000 more
   not cross product (CPMM), x0:1 × x1:1 × x2:10: 14400000000 moved, moves 8000000000 more
   not √p grid, x0:3 × x1:3 × x2:1: 6400000000 moved, it is the one chosen
";
        assert_eq!(explain_contraction(&matmul(10), 10), expected);
        let json = contraction_json(&matmul(10), 10);
        assert_eq!(json["moved_floats"], 6_400_000_000u64);
        assert_eq!(json["products"][0]["grid"]["sites"]["x0"], 3);
        assert_eq!(json["products"][0]["alternatives"].as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn a_plan_says_where_everything_is() {
        let placement = Placement::Part(SiteMap::over(&[0], 2));
        let matrix = RelationType::of_tensor(DType::F64, &[4, 4], &[2, 2], placement, 2).unwrap();
        let inputs = BTreeMap::from([("A".to_owned(), matrix.clone()), ("B".to_owned(), matrix)]);
        let context = Context { inputs: &inputs, sites: 2 };
        let plan = broadcast_multiply(Plan::input("A"), Plan::input("B"));
        let expected = "\
aggregate by [0, 2] (+)  → Part(k0 mod 2), 4 tiles, 16 floats
  join [1] = [0] matmul(*, +)  → Part(k0 mod 2), 8 tiles, 32 floats
    input A  → Part(k0 mod 2), 4 tiles, 16 floats
    broadcast  → All, 4 tiles, 16 floats, 16 moved
      input B  → Part(k0 mod 2), 4 tiles, 16 floats
";
        assert_eq!(explain_plan(&plan, context).unwrap(), expected);
        let dot = plan_graphviz(&plan, context).unwrap();
        assert!(dot.starts_with("digraph plan {") && dot.contains("n4 -> n3 [label=\"16\"];"), "{dot}");
        assert!(explain_plan(&Plan::input("nope"), context).is_err());
    }
}
