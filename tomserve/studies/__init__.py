"""Studies turn the scores of runs into tables, figures and verdicts.

This package finds, checks and computes the studies of the folder analysis/, and holds what they share: comparisons of
two conditions, of two runs, and the planning of a study.

from tomserve.runs.scores import load_scores
from tomserve.studies import analyze

tables = analyze(load_scores("example"), "accuracy")
"""

from tomserve.studies.analysis import Analysis, analyze, compute, relabel
from tomserve.studies.presentation import (
    BAD,
    GOOD,
    OPEN,
    Card,
    Chance,
    Context,
    Excerpt,
    Exhibit,
    Figure,
    ItemOutline,
    Layout,
    Panel,
    Section,
    Verdict,
    Versions,
)
from tomserve.studies.study import Study, default_study, load_study, overall_accuracy, study_names, study_of_manifests

__all__ = [
    "BAD",
    "GOOD",
    "OPEN",
    "Analysis",
    "Card",
    "Chance",
    "Context",
    "Excerpt",
    "Exhibit",
    "Figure",
    "ItemOutline",
    "Layout",
    "Panel",
    "Section",
    "Study",
    "Verdict",
    "Versions",
    "analyze",
    "compute",
    "default_study",
    "load_study",
    "overall_accuracy",
    "relabel",
    "study_names",
    "study_of_manifests",
]
