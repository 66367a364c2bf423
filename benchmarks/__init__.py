"""The project's own results, and the table of them in the README."""
