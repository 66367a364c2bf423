"""The error for input that cannot be used."""


class InputError(ValueError):
    """Input that cannot be used: the text says which rule it breaks, what was found, and what to do."""
