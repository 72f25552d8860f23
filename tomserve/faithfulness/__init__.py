"""Is the written reasoning the reasoning? Chains are changed, the model is asked again, and the answer is watched.

Correlating good chains with right answers cannot tell whether an answer follows from its chain. So the chain of a
finished run is edited (see edits), shown to the model as its own (see showing), and only the answer is asked for. Two
probes look at it from outside: a hint in the prompt, and a second model that predicts the answer from the chain.
"""
