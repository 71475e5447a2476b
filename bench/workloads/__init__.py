"""The workloads: what is stored, and what is then done with it."""
