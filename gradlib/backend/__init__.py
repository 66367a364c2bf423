"""The only package that tells NumPy from CuPy: devices, dtypes, promotion, arrays."""
