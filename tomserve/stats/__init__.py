"""Estimators: functions that take numbers or arrays and return numbers; they read no files and print nothing.

Every estimator says what it estimates, for which population, what it assumes and where it was published. The unit that
counts as independent is stated each time: questions about one story share its wording, stories written in one stage
share its setting, so questions are hardly ever independent of each other.
"""
