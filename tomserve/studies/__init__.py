"""Studies: loading a study of the analysis room and the contrasts, comparisons and plans that studies share."""
