"""Imported first: one thread a process, since simulated tables are small and threads that wait for one another are not
free. Whoever sets these variables decides."""

import os

for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
