"""The tests, which share the machine among several processes: each computes with one thread.

By default every process takes a thread for each core, and threads that wait for one another then take the core from
those that they wait for, which made arithmetic ten times slower. Whoever sets the variable is obeyed.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch, and by the library that numpy and scipy compute with
