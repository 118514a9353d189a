"""The meaning of a server's error, by its codes and its sentence: a status, or a prompt that is too long."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus

# The codes and the sentences of servers for a prompt that is too long; most say it in the text alone.
_SIZE = r"context[ _]?(?:length|window|size|limit)"
_BOUND = (
    rf"{_SIZE}|model (?:length|token limit)|(?:prompt|input) (?:token )?(?:length|limit)"
    r"|token limit|max(?:imum)? (?:(?:prompt |input )?length|(?:prompt|input|message|context) tokens)"
)
_OVERFLOW = re.compile(
    rf"{_SIZE}[ _]?(?:was |is |has been )?exceed|exceed_context|(?:request|prompt)_too_(?:large|long)"
    r"|(?:exceed(?:s|ed|ing)?|greater|longer|larger|beyond|too large)\b[^.\n]{0,60}\b"
    rf"(?:{_BOUND}|number of (?:input )?tokens)"
    r"|\btokens?\b[^.\n]{0,40}\bexceeds? the (?:limit|maximum) of \d|\bonly supports? up to \d[\d,]{5,}"
    r"|\b(?:prompt|input) token count\b[^.\n]{0,40}\bonly supports? up to \d"
    r"|\b(?:prompt|inputs?|request|messages|conversation) (?:is |are |was )?too long\b"
    rf"|(?:maximum (?:context|prompt|input|model) length|context (?:length|size|window)) (?:is|of) (?:only )?\d"
    r"|reduce the length of the (?:messages|prompt|input)|range of input length|context (?:the )?overflow"
    r"|too many (?:input |prompt )?tokens|token limit exceeded|`inputs`.{0,40} must (?:be <=|have less than) \d",
    re.IGNORECASE,
)
_LIMITED = re.compile(r"rate[ _-]?limit|too many requests|throttl|per[ -](?:min|hour|day)|please wait", re.IGNORECASE)
_NUMBER = r"(\d[\d,]{0,14}+)"
# The tokens of the context, and of a prompt that is too long for it.
CONTEXT = re.compile(
    rf"(?:{_BOUND})(?: is| of| should be|:)?(?: only)? (?:\(|\[1, )?{_NUMBER}(?!\)? ?\+|\)? exceed)"
    rf"|> {_NUMBER}|tokens allowed \({_NUMBER}|(?:up to|model with|<=|less than|limit (?:is|of)) {_NUMBER}",
    re.IGNORECASE,
)
PROMPT = re.compile(
    r"(?:(?:(?:resulted in|requested:?|contains|has|passed|given:|too long:|current length is|total of|first"
    r"|count (?:of|is)|context limit:|input length) (?:at least |about |a total of )?"
    rf"|(?:request|input|prompt|count|tokens) (?:length )?\((?:length )?){_NUMBER})(?! (?:output|completion) tokens)",
    re.IGNORECASE,
)

# Not in Python's list: the status of Anthropic and others for an overload.
OVERLOADED = 529
# The statuses of failures that another attempt may not meet, beside those of the server (500 and more).
PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY}
# The status that an error means, by words in its codes, in this order.
_CODES: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(words, re.IGNORECASE), status)
    for words, status in (
        (r"insufficient_?(?:quota|balance|credit|fund)|current_?quota|billing|payment|out_of_credit|^1113$", 402),
        (r"overload|over_?capacity|capacity_?exceeded|^(?:1305|529)$", OVERLOADED),
        (r"rate_?limit|too_?many_?requests|resource_?exhausted|throttl|^(?:130[23]|429)$", 429),
        (r"model_?not_?found|^not_?found", 404),
        (r"authentication|unauth|invalid_?(?:api_?)?key|api_?key_?invalid", 401),
        (r"permission|forbidden", 403),
        (r"time_?out|deadline", 408),
        (r"(?:api|server)_?error|internal|unavailable", 500),
        (r"invalid_?(?:request|argument|param)|bad_?request", 400),
    )
)
# The same by words in its sentence.
_SENTENCES: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(words, re.IGNORECASE), status)
    for words, status in (
        (r"insufficient (?:\w+ )?(?:balance|credit|fund|quota)|balance is too low|\u4f59\u989d\u4e0d\u8db3", 402),
        (r"(?:any|more|all|out of|available) credits", 402),
        (r"(?:invalid|incorrect|wrong) api[ _-]?key", 401),
        (r"api[ _-]?(?:key|token) (?:is |has )?(?:not valid|invalid|incorrect|expired)", 401),
        (r"overloaded|(?:at|over|exceed\w*) capacity", OVERLOADED),
        (r"(?:rate|request)[ _-]?limit|too many requests|\u901f\u7387\u9650\u5236", 429),
        (r"internal (?:server )?error|unavailable|timed? out|try again later|server is busy", 500),
    )
)
# Numbers that are codes in a body with status 200: statuses, and those of MiniMax.
_NUMBERED = {
    **{str(one): one for one in (400, 401, 402, 403, 404, 408, 409, 413, 422, 425, 429, *range(500, 600))},
    **dict.fromkeys(("1000", "1013", "1024", "1033"), 500),
    **dict.fromkeys(("1002", "1039", "1041", "2045", "2056"), 429),
    **dict.fromkeys(("1004", "2049"), 401),
    "1001": 408,
    "1008": 402,
    "2013": 400,
}
# The codes for a text that the model refuses, or that a filter does not let pass: of OpenAI, Azure, Qwen, Gemini,
# MiniMax, Zhipu, Anthropic and Bedrock.
FILTERED = re.compile(
    r"content_?(?:filter|policy)|flagged|responsible_?ai|data_?inspection|moderation|safety|sensitive|refus|prohibited|blocklist"
    r"|recitation|guardrail|^spii$|^(?:102[67]|1301)$",
    re.IGNORECASE,
)
# The same in a sentence, where a single word may be the user's: of Qwen, MiniMax, OpenAI, Azure and Anthropic.
FILTERED_SENTENCE = re.compile(
    r"data_?inspection_?failed|\b(?:in|out)put (?:new_)?sensitive|inappropriate content"
    r"|(?:blocked|filtered|flagged|rejected)\b[^.]{0,80}\b(?:safety|(?:usage|content [a-z ]{0,20}) ?polic(?:y|ies))",
    re.IGNORECASE,
)
# A call of the model that its provider cannot read, or does not know: Groq.
BROKEN_CALL = re.compile(
    r"tool_use_failed|malformed_function_call|unexpected_tool_call|failed to (?:call a function|parse tool call)"
    r"|requested tool does not exist",
    re.IGNORECASE,
)
# The template of a model refuses a conversation, which some servers report as a failure of their own.
_TEMPLATE = re.compile(r"\bjinja\b|chat template|system message must be|roles must alternate", re.IGNORECASE)
_WAIT = re.compile(
    r"(?:try again|retry) (?:in|after) (?:(\d{1,4}) ?h(?:ours?|rs?)?(?![a-z]),? ?(?:and )?)?"
    r"(?:(\d{1,4}) ?m(?:in(?:ute)?s?)?(?![a-z]),? ?(?:and )?)?"
    r"(?:(\d{1,6}(?:\.\d{1,9})?) ?(ms|milli|s)(?:ec(?:ond)?s?|seconds?)?(?![a-z]))?",
    re.IGNORECASE,
)


def find_status(status: int, codes: Sequence[str], message: str, *, waits: bool) -> int:
    """Return the status that an error means: that of its codes, of its sentence, or of the response.

    `waits` says whether the server names a time after which it will answer.
    """
    words = next((meant for pattern, meant in _CODES if any(map(pattern.search, codes))), 0)
    sentences = [meant for pattern, meant in _SENTENCES if pattern.search(message)]
    if status == HTTPStatus.OK:
        return next(filter(None, (*map(_NUMBERED.get, codes), words, *sentences)), status)
    if status < HTTPStatus.BAD_REQUEST:
        return status
    if _TEMPLATE.search(message):
        return HTTPStatus.BAD_REQUEST
    # Gemini's free quotas are those of a minute, for which it names the wait.
    spent = HTTPStatus.PAYMENT_REQUIRED
    if words == spent or (spent in sentences and not waits):
        return HTTPStatus.PAYMENT_REQUIRED
    if HTTPStatus.UNAUTHORIZED in sentences and status in {HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN}:
        return HTTPStatus.UNAUTHORIZED
    if words in {OVERLOADED, HTTPStatus.TOO_MANY_REQUESTS}:
        return words
    if "model_not_found" in codes:
        return HTTPStatus.NOT_FOUND
    overloaded = status >= HTTPStatus.INTERNAL_SERVER_ERROR and OVERLOADED in sentences
    return OVERLOADED if overloaded else status


def find_wait(message: str) -> float | None:
    """Return the seconds after which a sentence asks to try again."""
    found = _WAIT.search(message)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds = (float(one or 0) for one in found.groups()[:3])
    return 3600 * hours + 60 * minutes + seconds / (1000 if found[4] and found[4] not in "sS" else 1)


def is_overflow(text: str) -> bool:
    """Return whether the codes and the sentence of an error say that a prompt is too long."""
    return _OVERFLOW.search(text) is not None and not _LIMITED.search(text)


def find_tokens(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the number of tokens that a sentence has, by the pattern `PROMPT` or `CONTEXT`, if it has one."""
    found = pattern.search(text)
    return int(found[found.lastindex or 0].replace(",", "")) if found else None
