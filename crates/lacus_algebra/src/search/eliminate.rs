//! Dynamic programming over a graph: the choice for every variable that makes the sum of all factors least, by
//! eliminating one variable after another. On a tree of operators that is the usual programme from the leaves to the
//! root; where values are shared it goes over sets of neighbours.

use crate::steps;
use std::collections::BTreeSet;

/// A cost: first the one, and among equals the other. Sums keep the order.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub(crate) struct Cost(pub(crate) f64, pub(crate) f64);

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost(self.0 + other.0, self.1 + other.1)
    }
}

/// Costs of all choices of some variables, the last one fastest.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    pub(crate) variables: Vec<usize>,
    pub(crate) costs: Vec<Cost>,
}

/// The order of elimination: always the variable whose table is the smallest, and of equal ones the first. Variables with
/// one choice are left out, as nothing depends on them. `None` if a table would have more than `most` entries.
///
/// Each variable knows its neighbours, and a queue knows the smallest table, so that the work grows with the number of
/// variables and the size of tables, however many variables there are.
pub(crate) fn order<S: AsRef<[usize]>>(domains: &[usize], scopes: &[S], most: u128) -> Option<Vec<usize>> {
    let mut neighbours: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); domains.len()];
    for scope in scopes {
        let open: Vec<usize> = scope.as_ref().iter().copied().filter(|&at| domains[at] > 1).collect();
        // Larger than a table may be: there is no use in looking at all pairs.
        if entries(domains, open.iter().copied(), most) > most {
            return None;
        }
        connect(&mut neighbours, &open);
    }
    let size = |variable: usize, others: &BTreeSet<usize>| {
        entries(domains, others.iter().copied().chain([variable]), u128::MAX - 1)
    };
    let mut sizes: Vec<u128> =
        neighbours.iter().enumerate().map(|(variable, others)| size(variable, others)).collect();
    let mut queue: BTreeSet<(u128, usize)> =
        (0..domains.len()).filter(|&at| domains[at] > 1).map(|at| (sizes[at], at)).collect();
    let mut order = Vec::with_capacity(queue.len());
    while let Some((least, variable)) = queue.pop_first() {
        if least > most {
            return None;
        }
        let others: Vec<usize> = std::mem::take(&mut neighbours[variable]).into_iter().collect();
        for &other in &others {
            neighbours[other].remove(&variable);
        }
        connect(&mut neighbours, &others);
        for &other in &others {
            let new = size(other, &neighbours[other]);
            queue.remove(&(sizes[other], other));
            queue.insert((new, other));
            sizes[other] = new;
        }
        order.push(variable);
    }
    Some(order)
}

/// Makes variables neighbours of each other.
fn connect(neighbours: &mut [BTreeSet<usize>], all: &[usize]) {
    for &one in all {
        steps::count(all.len());
        neighbours[one].extend(all.iter().filter(|&&other| other != one));
    }
}

/// Entries of a table over variables; some number above `most` if there are more.
pub(crate) fn entries(domains: &[usize], variables: impl Iterator<Item = usize>, most: u128) -> u128 {
    let mut all = 1u128;
    for variable in variables {
        steps::count(1);
        all = all.saturating_mul(domains[variable] as u128);
        if all > most {
            break;
        }
    }
    all
}

/// The best choice of all variables.
pub(crate) fn minimise(domains: &[usize], factors: Vec<Factor>) -> Vec<usize> {
    let mut factors: Vec<Option<Factor>> = factors
        .into_iter()
        .map(|mut factor| {
            // Where there is one choice, it makes no difference to where an entry is.
            factor.variables.retain(|&variable| domains[variable] > 1);
            Some(factor)
        })
        .collect();
    let scopes: Vec<&[usize]> = factors.iter().flatten().map(|factor| &factor.variables[..]).collect();
    let order = order(domains, &scopes, u128::MAX).unwrap_or_default();
    // The factors of each variable, first ones first. Those that are gone stay listed.
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); domains.len()];
    for (at, factor) in factors.iter().enumerate() {
        factor.iter().flat_map(|factor| &factor.variables).for_each(|&variable| of[variable].push(at));
    }
    // For each variable: its neighbours when it was eliminated, and its best choice for each of theirs.
    let mut choices: Vec<(usize, Vec<usize>, Vec<u32>)> = Vec::new();
    for variable in order {
        let own: Vec<Factor> = std::mem::take(&mut of[variable])
            .into_iter()
            .filter_map(|at| {
                steps::count(1);
                factors[at].take()
            })
            .collect();
        let mut others: Vec<usize> = own.iter().flat_map(|factor| factor.variables.clone()).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|&other| other != variable);
        let entries: usize = others.iter().map(|&other| domains[other]).product();
        let (mut costs, mut best) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
        // How far each factor's entry moves when a neighbour's or the variable's choice grows by one.
        let stride = |factor: &Factor, of: usize| {
            let mut step = 1;
            for &each in factor.variables.iter().rev() {
                if each == of {
                    return step;
                }
                step *= domains[each];
            }
            0
        };
        let steps: Vec<Vec<usize>> =
            own.iter().map(|factor| others.iter().map(|&other| stride(factor, other)).collect()).collect();
        let inner: Vec<usize> = own.iter().map(|factor| stride(factor, variable)).collect();
        let mut at = vec![0usize; others.len()];
        let mut places = vec![0usize; own.len()];
        steps::count(entries * domains[variable] * own.len());
        for _ in 0..entries {
            let (mut least, mut choice) = (Cost(f64::INFINITY, f64::INFINITY), 0);
            for each in 0..domains[variable] {
                let mut cost = Cost::default();
                for (factor, (place, inner)) in own.iter().zip(places.iter().zip(&inner)) {
                    cost = cost + factor.costs[place + each * inner];
                }
                if cost < least {
                    (least, choice) = (cost, each);
                }
            }
            costs.push(least);
            best.push(choice as u32);
            for axis in (0..others.len()).rev() {
                at[axis] += 1;
                places.iter_mut().zip(&steps).for_each(|(place, steps)| *place += steps[axis]);
                if at[axis] < domains[others[axis]] {
                    break;
                }
                at[axis] = 0;
                let back = domains[others[axis]];
                places.iter_mut().zip(&steps).for_each(|(place, steps)| *place -= steps[axis] * back);
            }
        }
        choices.push((variable, others.clone(), best));
        others.iter().for_each(|&other| of[other].push(factors.len()));
        factors.push(Some(Factor { variables: others, costs }));
    }
    let mut chosen = vec![0; domains.len()];
    for (variable, others, best) in choices.iter().rev() {
        let place = others.iter().fold(0, |place, &other| place * domains[other] + chosen[other]);
        chosen[*variable] = best[place] as usize;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn total(factors: &[Factor], domains: &[usize], chosen: &[usize]) -> Cost {
        let cost = |factor: &Factor| {
            let place = factor.variables.iter().fold(0, |place, &at| place * domains[at] + chosen[at]);
            factor.costs[place]
        };
        factors.iter().map(cost).fold(Cost::default(), |a, b| a + b)
    }

    proptest! {
        #[test]
        fn elimination_finds_the_least_of_all(
            domains in prop::collection::vec(1..4usize, 1..6),
            scopes in prop::collection::vec(prop::collection::btree_set(0..6usize, 1..4), 1..7),
            numbers in prop::collection::vec(0..50u8, 300),
        ) {
            let mut next = numbers.iter().cycle();
            let factors: Vec<Factor> = scopes
                .iter()
                .map(|scope| {
                    let variables: Vec<usize> = scope.iter().copied().filter(|&at| at < domains.len()).collect();
                    let entries: usize = variables.iter().map(|&at| domains[at]).product();
                    let costs = (0..entries).map(|_| Cost(f64::from(*next.next().unwrap()), 0.0)).collect();
                    Factor { variables, costs }
                })
                .collect();
            let found = total(&factors, &domains, &minimise(&domains, factors.clone()));
            let all = crate::array::positions(&domains).map(|chosen| total(&factors, &domains, &chosen).0);
            prop_assert_eq!(found.0, all.fold(f64::INFINITY, f64::min));
        }
    }

    /// The order as it is defined: all neighbours of all variables, again and again.
    fn slow_order(domains: &[usize], scopes: &[Vec<usize>]) -> (Vec<usize>, u128) {
        let mut scopes: Vec<Vec<usize>> = scopes.to_vec();
        scopes.iter_mut().for_each(|scope| scope.retain(|&at| domains[at] > 1));
        let mut left: Vec<usize> = (0..domains.len()).filter(|&at| domains[at] > 1).collect();
        let (mut order, mut largest) = (Vec::new(), 1);
        while !left.is_empty() {
            let table = |variable: usize| -> BTreeSet<usize> {
                let own = scopes.iter().filter(|scope| scope.contains(&variable));
                own.flatten().copied().chain([variable]).collect()
            };
            let size = |all: &BTreeSet<usize>| all.iter().map(|&at| domains[at] as u128).product::<u128>();
            let best = left.iter().map(|&variable| (size(&table(variable)), variable)).min();
            let (entries, variable) = best.unwrap();
            let all = table(variable);
            left.retain(|&other| other != variable);
            largest = largest.max(entries);
            scopes.retain(|scope| !scope.contains(&variable));
            scopes.push(all.into_iter().filter(|&other| other != variable).collect());
            order.push(variable);
        }
        (order, largest)
    }

    proptest! {
        #[test]
        fn the_order_is_the_one_that_is_meant(
            domains in prop::collection::vec(1..5usize, 1..9),
            scopes in prop::collection::vec(prop::collection::btree_set(0..9usize, 1..4), 1..9),
        ) {
            let scopes: Vec<Vec<usize>> = scopes
                .iter()
                .map(|scope| scope.iter().copied().filter(|&at| at < domains.len()).collect())
                .collect();
            let (expected, largest) = slow_order(&domains, &scopes);
            prop_assert_eq!(order(&domains, &scopes, largest), Some(expected));
            if largest > 1 {
                prop_assert_eq!(order(&domains, &scopes, largest - 1), None);
            }
        }
    }

    #[test]
    fn work_grows_with_the_number_of_variables() {
        // A chain, a star whose middle is everybody's neighbour, and one choice for what all of them share.
        let scopes = |shape: usize, count: usize| -> Vec<Vec<usize>> {
            match shape {
                0 => (1..count).map(|at| vec![at - 1, at]).collect(),
                1 => (1..count).map(|at| vec![0, at]).collect(),
                _ => (2..count)
                    .map(|at| vec![0, at - 1, at])
                    .chain([(0..count).step_by(100).collect()])
                    .collect(),
            }
        };
        for shape in 0..3 {
            let steps = |count: usize| {
                let domains: Vec<usize> =
                    (0..count).map(|at| if shape == 2 && at % 100 == 0 { 1 } else { 3 }).collect();
                let scopes = scopes(shape, count);
                steps::taken(|| {
                    let costs = |scope: &Vec<usize>| {
                        let entries: usize = scope.iter().map(|&at| domains[at]).product();
                        (0..entries).map(|at| Cost((at * 7 % 5) as f64, 0.0)).collect()
                    };
                    let factors =
                        scopes.iter().map(|scope| Factor { variables: scope.clone(), costs: costs(scope) });
                    minimise(&domains, factors.collect())
                })
                .1
            };
            let (few, many) = (steps(2_000), steps(4_000));
            assert!(many < 3 * few, "{shape}: {few} steps, then {many}");
        }
    }
}
