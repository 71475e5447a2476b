//! Plans of the physical algebra as text and for Graphviz: where everything is, and what each operator moves.

use crate::cost::{CostModel, moved_floats};
use crate::error::AlgebraError;
use crate::physical::Plan;
use crate::rules::Context;
use std::fmt::Write;

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
    use crate::physical::RelationType;
    use crate::placement::{Placement, SiteMap};
    use crate::rules::broadcast_multiply;
    use lacus_tensor::DType;
    use std::collections::BTreeMap;

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
