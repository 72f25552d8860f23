"""The report: one HTML file that answers a researcher's questions, works from disk and asks the network for nothing."""
