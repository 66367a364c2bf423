# Sourced by the other scripts: `source ci/venv.sh EXTRAS` puts a Python on PATH that has this checkout with those extras.
# Inside a virtual environment it uses that one, otherwise .venv in the checkout, made on first use.
# A stamp in the environment saves the next install while pyproject.toml is unchanged.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

if [[ -z "${VIRTUAL_ENV:-}" ]]; then
    [[ -x .venv/bin/python ]] || "${PYTHON:-python3}" -m venv .venv
    VIRTUAL_ENV="$PWD/.venv"
    export VIRTUAL_ENV
    export PATH="$VIRTUAL_ENV/bin:$PATH"
fi

stamp="$VIRTUAL_ENV/.gradlib-$1"
if [[ "$(cat "$stamp" 2>/dev/null)" != "$PWD" || pyproject.toml -nt "$stamp" ]]; then
    python -m pip install -qq --editable ".[$1]"
    echo "$PWD" >"$stamp"
fi
