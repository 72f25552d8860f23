"""The pages of the workbench, one module each, each with a `router`."""
