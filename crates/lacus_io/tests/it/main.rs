//! Tests of stores through the crate's public face.

mod every_store_keeps_the_same_promises;
