"""What a person sees: progress, tables, files."""
