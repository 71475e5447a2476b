//! The language: text into trees and back.
//!
//! ```text
//! statement   C[i, j] = A[i, k] * B[k, j] if i < j       indices only on the right are summed within their term
//!             D[i, j] min= D[i, k] + D[k, j]             the whole right side is reduced: min= max= *= or= and=
//!             x = A @ B + sum(C, axis=0)                 whole arrays, broadcast as numpy does
//!             for t in 0..10 { … }   while c { … }   repeat { … } until c
//!             def f(x, y) = x * y    def f(x) { … return y }    save(x, "name")
//! expression  + - * / % ** @   == != < <= > >=   and or not   where(c, a, b)
//!             exp log sqrt abs sign tanh sigmoid relu pow min max, and functions that were registered
//!             A[i + 1, 2 * j]   A[3, 0:10]   sum prod min max any all (x, axis)   transpose(x)
//!             einsum("ik,kj->ij", A, B)   load("name")   dim(A, 0)   zeros ones full random ([n, m], …)
//! ```

pub(crate) mod ast;
mod lexer;
pub(crate) mod parser;
mod print;

pub use ast::{Argument, Expr, ExprNode, Program, Span, Statement, StatementNode, Subscript, Target};
