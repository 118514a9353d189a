#!/usr/bin/env bash
# httpx-sse 0.4.1 against 0.4.3, with httpx 0.28.1.
#
# An event whose JSON has the character U+2028 is cut at that character by httpx-sse up to 0.4.1: what follows is read as a
# field without a name and dropped, so the client gets half a JSON document, without an error of the reader. JSON allows
# the character in a string, and servers that do not escape beyond ASCII send it (a model that quotes a web page writes
# it). A good guess is wrong, because the format of events ends lines at CR and LF alone; but the reader took its lines
# from `Response.iter_lines()` of httpx, which ends them where `str.splitlines` does: also at U+2028, U+2029, U+0085, and
# the separators U+001C to U+001E. Its own decoder replaced that in 0.4.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
read_with() {
    python3 -m venv "$folder/$1"
    "$folder/$1/bin/pip" --quiet --disable-pip-version-check install "httpx-sse==$1" httpx==0.28.1
    "$folder/$1/bin/python" - "$1" <<'PYTHON'
import json
import sys

import httpx
import httpx_sse

said = "one\u2028two"
event = f"data: {json.dumps({'text': said}, ensure_ascii=False)}\n\n".encode()
answer = lambda request: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=event)
with httpx.Client(transport=httpx.MockTransport(answer)) as client:
    with httpx_sse.connect_sse(client, "GET", "http://peer.example/") as source:
        data = [one.data for one in source.iter_sse()]
whole = [json.dumps({"text": said}, ensure_ascii=False)]
print(f"httpx-sse {sys.argv[1]}: {data!r}, {'whole' if data == whole else 'cut'}")
PYTHON
}
old=$(read_with 0.4.1)
new=$(read_with 0.4.3)
printf '%s\n%s\n' "$old" "$new"
[[ $old == *", cut" && $new == *", whole" ]]
