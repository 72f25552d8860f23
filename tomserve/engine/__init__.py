"""The engine: sends requests to model servers, retries what failed, and turns every reply into a row.

The runner (`runner`) takes a request (`request`), chooses an endpoint (`endpoints`), sends the request (`transport`),
decides whether to send it again (`retry`), and hands the reply over as a row (`records`). How many requests are in
flight is found out while running (`concurrency`). The engine knows nothing of run folders, benchmarks and scores.
"""
