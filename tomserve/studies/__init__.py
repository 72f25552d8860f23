"""Studies: loading a study of the analysis room and the contrasts, comparisons and plans that studies share."""

from types import ModuleType as Study

from tomserve.studies.study import analyze, default_study, load_study

__all__ = ["Study", "analyze", "default_study", "load_study"]
