//! Which values can stay sparse: those of which everybody who reads them only looks at the nonzeros.

pub(crate) use crate::form::Densities;
use crate::form::{Manner, manner};
use lacus_algebra::expr::Slot;
use lacus_algebra::{Made, Network, Operator};
use lacus_tensor::DType;
use lacus_tensor::kernels::csr::estimate_density;

/// Products of sparse matrices that are expected to be denser than this are made dense.
const SPARSE_PRODUCT: f64 = 0.05;

/// The values that can stay sparse, and how dense they are expected to be. `loads` says it of loaded ones, and `expected` of
/// products of which more is known than the densities of their factors.
pub(crate) fn densities(
    network: &Network,
    loads: &Densities,
    expected: &dyn Fn(&Operator) -> Option<f64>,
) -> Densities {
    let mut refused: Vec<Slot> = Vec::new();
    // What a loop carries may be sparse in one round and not in the next.
    for node in &network.loops {
        for carried in &node.carried {
            refused.extend([carried.inside, carried.enter, carried.next]);
        }
    }
    loop {
        let mut found: Densities = loads
            .iter()
            .filter(|(slot, _)| !refused.contains(slot))
            .map(|(slot, density)| (*slot, *density))
            .collect();
        let mut is_settled = true;
        for at in network.running() {
            let operator = &network.operators[at];
            let is_sparse = |slot: Slot| found.contains_key(&slot);
            let sparse: Vec<Slot> =
                operator.reads.iter().map(|read| read.value).filter(|&slot| is_sparse(slot)).collect();
            if sparse.is_empty() {
                continue;
            }
            let Some(manner) = manner(network, operator, &is_sparse) else {
                refused.extend(sparse);
                is_settled = false;
                break;
            };
            let own = density(network, operator, manner, &found);
            let own = own.map(|own| match manner {
                // Whether it stays sparse does not depend on where nonzeros are.
                Manner::Product => expected(operator).map_or(own, |known| known.max(own)),
                _ => own,
            });
            if let Some(own) = own.filter(|_| !refused.contains(&operator.output)) {
                found.insert(operator.output, own);
            }
        }
        if is_settled {
            return found;
        }
    }
}

/// How dense a result is expected to be; `None` if it is dense.
fn density(network: &Network, operator: &Operator, manner: Manner, found: &Densities) -> Option<f64> {
    let of = |slot: Slot| found.get(&slot).copied();
    let all = || operator.reads.iter().filter_map(|read| of(read.value));
    match manner {
        Manner::Nonzeros | Manner::Sampled | Manner::Moved => Some(all().sum::<f64>().min(1.0)),
        Manner::Folded => None,
        Manner::Product => {
            let [a, b] = &operator.reads[..] else { return None };
            let k = operator.fold.as_ref()?.axes.first()?.extent;
            let both = estimate_density(of(a.value)?, of(b.value)?, k as usize);
            (operator.axes.len() == 2
                && both < SPARSE_PRODUCT
                && network.value(operator.output).dtype != DType::Bool)
                .then_some(both)
        }
    }
}

/// Bytes that a sparse value takes, roughly: elements, their columns, and where rows start.
pub(crate) fn sparse_bytes(network: &Network, slot: Slot, density: f64) -> f64 {
    let value = network.value(slot);
    let all: f64 = value.dims.iter().map(|&n| n as f64).product();
    let starts = 8.0 * value.dims.first().copied().unwrap_or(0) as f64;
    all * density * (value.dtype.size_bytes() as f64 + 8.0) + starts
}

/// The loads of a network that are sparse matrices of numbers.
pub(crate) fn sparse_loads(
    network: &Network,
    nonzeros: &dyn Fn(&str) -> Option<u64>,
    below: f64,
) -> Densities {
    let mut all = Densities::new();
    for (at, value) in network.values.iter().enumerate() {
        let Made::Load(name) = &value.made else { continue };
        let elements: f64 = value.dims.iter().map(|&n| n as f64).product();
        if let Some(nnz) = nonzeros(name)
            && value.dims.len() == 2
            && value.dtype != DType::Bool
            && (nnz as f64) < elements * below
        {
            all.insert(Slot(at), nnz as f64 / elements.max(1.0));
        }
    }
    all
}
