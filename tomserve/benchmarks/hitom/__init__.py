"""Hi-ToM: stories as events, nested beliefs of any order, the official file, and its audit (arXiv 2310.16755).

What lies where:

    events.py         what happens in a story: eight kinds of sentence, read and written exactly
    questions.py      "Where does A think B thinks the x is?", read and written exactly
    tracker.py        which sentences show or say where an object is, and to whom, under two named semantics; the engine
                      (tomserve.beliefs) makes reality and nested beliefs after every sentence of them
    rules.py          rules that nest nothing, for score tables and audit: reality, first order, joint witness
    baselines.py      joint witness once more, apart from the tracker, and the containers mentioned
    question_item.py  a question as an Item, with its design factors
    reader.py         the official JSON file, every sentence of it
    explain.py        the containers that each provable explanation of a wrong answer points to
    knowledge.py      who knows what after every sentence, for the report
    retelling.py      variants of a question, for stability: the story changed, told again and tracked again
    renaming.py       variants with other things, or other people; other_words.py has the words
    condensing.py     variants in 30 to 40% fewer words
    reordering.py     variants in another order of sentences
    wordings.py       other wordings of sentences and questions, read and written exactly
    audit.py          every label of that file against the tracker
    auditing.py       that audit as lines and tables
    words.py          what generated stories are made of: our own names, rooms, objects, containers
    plan.py           what to generate, and what cannot be had
    dice.py           chance that is the same everywhere
    plot.py           a story drawn by seeded dice, with its twins
    minds.py          what its agents believe at its end, quickly, for stories that may be thrown away
    sentences.py      the words of every kind of sentence
    tongues.py        a drawn story told, as sentences or as events
    asking.py         whom to ask about and where the answer stands, in balance
    generator.py      all of it: items with gold chains, as JSONL or in the official form
    tally.py          the balance of any set of items
    balance.py        that balance as tables, beside the official file's
    generating.py     the options of `tomserve generate hitom`
"""

from tomserve.benchmarks.hitom.benchmark import BENCHMARK, BUILT_IN, GOLDS, load

__all__ = ["BENCHMARK", "BUILT_IN", "GOLDS", "load"]
