"""The search for where a model breaks: questions are generated round by round where it seems weakest, and what is found
is confirmed on fresh questions that the search never saw."""
