//! Functions that the caller adds to the language, with what is promised of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

type Body = dyn Fn(&[f64]) -> f64 + Send + Sync;

/// A registered function of doubles. It must give the same result for the same arguments.
///
/// In f32 programs its arguments are widened and its result is rounded.
#[derive(Clone)]
pub struct Function {
    name: String,
    arity: usize,
    body: Arc<Body>,
    identity: Option<f64>,
}

impl Function {
    /// A function of `arity` arguments, of which nothing else is promised.
    pub fn new(name: &str, arity: usize, body: impl Fn(&[f64]) -> f64 + Send + Sync + 'static) -> Function {
        Function { name: name.to_owned(), arity, body: Arc::new(body), identity: None }
    }

    /// Promises that the function of two arguments is associative and commutative and that `identity` changes
    /// nothing, so that `x name= …` can reduce by it.
    pub fn associative(mut self, identity: f64) -> Function {
        self.identity = Some(identity);
        self
    }

    /// Its name in programs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Arguments it takes.
    pub fn arity(&self) -> usize {
        self.arity
    }

    /// The identity, when it was promised to be associative.
    pub fn identity(&self) -> Option<f64> {
        self.identity
    }

    /// Its result.
    pub fn call(&self, arguments: &[f64]) -> f64 {
        (self.body)(arguments)
    }
}

/// By name, arity and promises: two bodies cannot be compared.
impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        (&self.name, self.arity, self.identity) == (&other.name, other.arity, other.identity)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({}/{})", self.name, self.arity)
    }
}

/// Registered functions by name. A later one of the same name replaces an earlier one; those that are built in
/// cannot be replaced, so a function with such a name is never called.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    by_name: BTreeMap<String, Function>,
}

impl Functions {
    /// None.
    pub fn new() -> Functions {
        Functions::default()
    }

    /// These and one more.
    pub fn with(mut self, function: Function) -> Functions {
        self.by_name.insert(function.name.clone(), function);
        self
    }

    /// The function of this name.
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.by_name.get(name)
    }
}
