"""Problems for the backends: `cases` and `problems` draw them, `looks` compares every number, `interpreter` runs Triton on a CPU."""
