//! Search by text: BM25 over tantivy's segments.
