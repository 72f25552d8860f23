"""Files of other people's tools: what they hold is read into runs, and runs are written so that they can read them."""
