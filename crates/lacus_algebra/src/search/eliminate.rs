//! Dynamic programming over a graph: the choice for every variable that makes the sum of all factors least, by
//! eliminating one variable after another. On a tree of operators that is the usual programme from the leaves to the
//! root; where values are shared it goes over sets of neighbours.

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

/// The order of elimination, and the entries of the largest table it needs.
pub(crate) fn order(domains: &[usize], scopes: &[Vec<usize>]) -> (Vec<usize>, u128) {
    let mut scopes: Vec<Vec<usize>> = scopes.to_vec();
    let mut left: Vec<usize> = (0..domains.len()).collect();
    let (mut order, mut largest) = (Vec::new(), 1);
    while !left.is_empty() {
        let neighbours = |variable: usize| {
            let mut all: Vec<usize> =
                scopes.iter().filter(|scope| scope.contains(&variable)).flatten().copied().collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let size =
            |all: &[usize]| all.iter().fold(1u128, |size, &at| size.saturating_mul(domains[at] as u128));
        let (at, all) = left
            .iter()
            .enumerate()
            .map(|(at, &variable)| (at, neighbours(variable)))
            .min_by_key(|(at, all)| (size(all), *at))
            .unwrap_or_default();
        let variable = left.remove(at);
        largest = largest.max(size(&all));
        scopes.retain(|scope| !scope.contains(&variable));
        scopes.push(all.into_iter().filter(|&other| other != variable).collect());
        order.push(variable);
    }
    (order, largest)
}

/// The best choice of all variables.
pub(crate) fn minimise(domains: &[usize], mut factors: Vec<Factor>) -> Vec<usize> {
    let scopes: Vec<Vec<usize>> = factors.iter().map(|factor| factor.variables.clone()).collect();
    let (order, _) = order(domains, &scopes);
    // For each variable: its neighbours when it was eliminated, and its best choice for each of theirs.
    let mut choices: Vec<(usize, Vec<usize>, Vec<u32>)> = Vec::new();
    for variable in order {
        let (own, rest): (Vec<Factor>, Vec<Factor>) =
            factors.into_iter().partition(|factor| factor.variables.contains(&variable));
        factors = rest;
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
        factors.push(Factor { variables: others, costs });
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
}
