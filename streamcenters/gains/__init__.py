"""Pure functions: statistics -> gain per feature -> ranking -> model."""
