# Sourced by the other scripts: `source ci/venv.sh` puts a Python on PATH that has this checkout with all that the checks need.
# Inside a virtual environment it uses that one, otherwise .venv in the checkout, made on first use.
# A stamp in the environment saves the next install while pyproject.toml is unchanged.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || return 1
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONDONTWRITEBYTECODE # the checks start some hundred interpreters: what they import is compiled by the first

if [[ -z "${VIRTUAL_ENV:-}" ]]; then
    [[ -x .venv/bin/python ]] || "${PYTHON:-python3}" -m venv .venv || return 1
    VIRTUAL_ENV="$PWD/.venv"
    export VIRTUAL_ENV
    export PATH="$VIRTUAL_ENV/bin:$PATH"
fi

stamp="$VIRTUAL_ENV/.gradlib"
if [[ "$(cat "$stamp" 2>/dev/null)" != "$PWD" || pyproject.toml -nt "$stamp" ]]; then
    python -m pip install -qq --no-compile --editable ".[dev]" || return 1
    echo "$PWD" >"$stamp"
fi
