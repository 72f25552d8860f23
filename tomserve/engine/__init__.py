"""The engine: sends requests to model servers, retries what failed, and turns every reply into a row.

It knows nothing of run folders, benchmarks and scores; `runner` is where it all meets.
"""
