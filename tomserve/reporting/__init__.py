"""Shows people what tomserve does and finds: the progress of a run, tables in the terminal and in files, reports."""
