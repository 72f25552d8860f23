"""What a Python script or a notebook calls; `tomserve` itself offers all of it by name, imported on first use."""
