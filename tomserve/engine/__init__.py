"""The engine: request key, transport, retry policy, journal, run folder, runner. A datum passes them in that order."""
