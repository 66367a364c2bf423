"""The only place where times are judged. One thread for everyone, set before any library that counts cores is imported."""

import os

for _name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB"):
    os.environ[f"{_name}_NUM_THREADS" if _name != "VECLIB" else "VECLIB_MAXIMUM_THREADS"] = "1"
