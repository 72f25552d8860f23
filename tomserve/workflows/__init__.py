"""The functions for Python scripts and notebooks. Use them as `tomserve.ask`, `tomserve.load` and so on.

    import tomserve
    run = tomserve.ask("perturbed", "vanilla", base_url="http://localhost:8000/v1")
    run.scores()

`import tomserve` alone loads none of them; each is imported when it is first used.
"""
