"""Model servers: presets, the vLLM command line, start, health, stop, and what a server says of itself."""
