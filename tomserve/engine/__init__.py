"""The engine: sends requests to model servers, retries what failed, and turns every reply into a row.

A request (`request`) is given to the runner (`runner`), which chooses an endpoint (`fleet`), sends it (`transport`),
decides whether to send it again (`retry`), and hands the reply over as a row (`rows`). How many requests are in flight
is found out while running (`adaptive`). The engine knows nothing of run folders, benchmarks and scores.
"""
