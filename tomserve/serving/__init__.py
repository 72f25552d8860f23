"""Model servers: the presets, the vLLM command line, starting and stopping, and what a server says of itself."""
